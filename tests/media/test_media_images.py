"""Pictures: every depth, channel count and orientation, against NumPy."""

import av
import numpy as np
import pytest
import tifffile
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from skimage.transform import resize

from coordnet.media import MediaError, load, read_image, read_media, write_media

DEEPEST = {"uint8": 255, "uint16": 65535}


def pixels(shape, dtype="uint8", seed=0):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def integers(signal, dtype):
    return np.rint(signal.double().numpy() * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("depth", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(7, 5), (1, 1), (1, 9)])
def test_integer_image_returns_bit_for_bit(tmp_path, suffix, depth, channels, size):
    original = pixels((*size, channels), depth)
    signal = torch.from_numpy(original / DEEPEST[depth]).float()
    path = tmp_path / f"a{suffix}"
    write_media(signal, path, depth=depth)
    media = read_image(path)
    assert (media.kind, media.depth, media.name) == ("image", depth, "a")
    assert media.alpha == (channels in (2, 4))
    np.testing.assert_array_equal(integers(media.signal, depth), original)
    torch.testing.assert_close(media.signal, signal, rtol=0, atol=0)
    again = tmp_path / f"b{media.lossless_suffix}"
    write_media(media, again)
    torch.testing.assert_close(read_image(again).signal, media.signal, rtol=0, atol=0)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), depth=st.sampled_from(["uint8", "uint16"]), suffix=st.sampled_from([".png", ".tif"]))
def test_any_integer_image_round_trips(tmp_path, data, depth, suffix):
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)))
    original = data.draw(arrays(depth, shape))
    path = tmp_path / f"any{suffix}"
    path.unlink(missing_ok=True)
    write_media(torch.from_numpy(original / DEEPEST[depth]), path, depth=depth)
    np.testing.assert_array_equal(integers(read_image(path).signal, depth), original)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("depth", ["float32", "float64", "float16", "uint32", "int16"])
def test_tiff_holds_any_type_and_any_channels(tmp_path, channels, depth):
    original = pixels((6, 5, channels), depth)
    write_media(torch.zeros(6, 5, channels), tmp_path / "zero.tiff", depth=depth)
    assert read_image(tmp_path / "zero.tiff").depth == depth
    planar = None if channels == 1 else "contig"
    tifffile.imwrite(
        tmp_path / "a.tif",
        original.squeeze(-1) if planar is None else original,
        photometric="minisblack",
        planarconfig=planar,
    )
    media = read_image(tmp_path / "a.tif")
    peak = np.iinfo(depth).max if original.dtype.kind in "iu" else 1
    np.testing.assert_allclose(media.signal.numpy(), original / np.float64(peak), rtol=2e-7)
    write_media(media.signal, tmp_path / "b.tif", depth=depth)
    torch.testing.assert_close(read_image(tmp_path / "b.tif").signal, media.signal, rtol=0, atol=0)


def test_planar_and_white_is_zero_tiff(tmp_path):
    original = pixels((5, 6, 3), "uint16")
    tifffile.imwrite(tmp_path / "planar.tif", np.moveaxis(original, -1, 0), photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(integers(read_image(tmp_path / "planar.tif").signal, "uint16"), original)
    tifffile.imwrite(tmp_path / "white.tif", original[..., 0], photometric="miniswhite")
    found = integers(read_image(tmp_path / "white.tif").signal, "uint16")
    np.testing.assert_array_equal(found[..., 0], 65535 - original[..., 0])


def test_lzw_tiff_of_sixteen_bit_colour(tmp_path):
    original = pixels((8, 6, 3), "uint16")
    with av.open(str(tmp_path / "a.tiff"), "w", format="image2", options={"update": "1"}) as container:
        stream = container.add_stream("tiff", 1, {"compression_algo": "lzw"})
        stream.width, stream.height, stream.pix_fmt = 6, 8, "rgb48le"
        for packet in stream.encode(av.VideoFrame.from_ndarray(original, format="rgb48le")) + stream.encode(None):
            container.mux(packet)
    with tifffile.TiffFile(tmp_path / "a.tiff") as file:
        assert file.pages.first.compression == tifffile.COMPRESSION.LZW
    np.testing.assert_array_equal(integers(read_image(tmp_path / "a.tiff").signal, "uint16"), original)


def test_palette_and_one_bit_and_transparent_colour(tmp_path):
    rgb = pixels((8, 9, 3)) // 128 * 255
    paletted = Image.fromarray(rgb).quantize(8)
    paletted.save(tmp_path / "palette.png")
    np.testing.assert_array_equal(integers(read_image(tmp_path / "palette.png").signal, "uint8"), rgb)
    paletted.save(tmp_path / "clear.png", transparency=0)
    clear = integers(read_image(tmp_path / "clear.png").signal, "uint8")
    assert clear.shape[-1] == 4
    np.testing.assert_array_equal(clear[..., 3] == 0, np.asarray(paletted) == 0)
    bits = pixels((7, 11)) > 127
    Image.fromarray(bits).save(tmp_path / "bits.png")
    np.testing.assert_array_equal(integers(read_image(tmp_path / "bits.png").signal, "uint8")[..., 0], bits * 255)


def test_sixteen_bit_grey_of_pgm(tmp_path):
    original = pixels((5, 7), "uint16")
    (tmp_path / "a.pgm").write_bytes(b"P5 7 5 65535\n" + original.astype(">u2").tobytes())
    media = read_image(tmp_path / "a.pgm")
    assert media.depth == "uint16"
    np.testing.assert_array_equal(integers(media.signal, "uint16")[..., 0], original)


def test_sixteen_bit_colour_of_ppm(tmp_path):
    original = pixels((5, 7, 3), "uint16")
    (tmp_path / "a.ppm").write_bytes(b"P6 7 5 65535\n" + original.astype(">u2").tobytes())
    np.testing.assert_array_equal(integers(read_image(tmp_path / "a.ppm").signal, "uint16"), original)


def test_jpeg_is_close(tmp_path):
    rows, columns = np.mgrid[:33, :31]
    smooth = np.stack([rows / 33, columns / 31, (rows + columns) / 64], -1)
    Image.fromarray(np.rint(255 * smooth).astype(np.uint8)).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "a.jpg").signal.numpy() - smooth).mean() < 0.01


UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: np.rot90(a, 2),
    4: lambda a: a[::-1],
    5: lambda a: np.swapaxes(a, 0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.swapaxes(np.rot90(a, 2), 0, 1),
    8: lambda a: np.rot90(a, 1),
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(tmp_path, orientation):
    original = pixels((4, 6, 3))
    deep = pixels((4, 6, 3), "uint16")
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(original).save(tmp_path / "a.png", exif=exif)
    Image.fromarray(original).save(tmp_path / "a.tif", exif=exif)
    tag = (274, "H", 1, orientation, True)
    tifffile.imwrite(tmp_path / "b.tif", deep, photometric="rgb", extratags=[tag])
    for name, expected in [("a.png", original), ("a.tif", original), ("b.tif", deep)]:
        found = integers(read_image(tmp_path / name).signal, expected.dtype)
        np.testing.assert_array_equal(found, UPRIGHT[orientation](expected), err_msg=name)


def test_orientation_of_jpeg(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    tall = np.zeros((16, 32), np.uint8)
    tall[:, :16] = 255
    Image.fromarray(tall).save(tmp_path / "a.jpg", exif=exif)
    signal = read_image(tmp_path / "a.jpg").signal
    assert signal.shape == (32, 16, 1)
    assert signal[:8].min() > 0.95 > 0.05 > signal[24:].max()


def test_values_are_rounded_and_clipped(tmp_path):
    signal = torch.tensor([-1.0, 0.499 / 255, 0.501 / 255, 1.0, 7.0]).reshape(1, 5, 1)
    write_media(signal, tmp_path / "a.png")
    assert integers(read_image(tmp_path / "a.png").signal, "uint8").ravel().tolist() == [0, 0, 1, 255, 255]


def test_nan_stays_in_float_and_is_refused_by_integers(tmp_path):
    signal = torch.full((2, 3, 1), torch.nan)
    write_media(signal, tmp_path / "a.tiff", depth="float32")
    assert read_image(tmp_path / "a.tiff").signal.isnan().all()
    with pytest.raises(MediaError, match="NaN"):
        write_media(signal, tmp_path / "a.png")


@pytest.mark.parametrize(
    ("name", "channels", "depth", "message"),
    [
        ("a.jpg", 3, "uint8", r"the suffix \.png or \.tiff"),
        ("a.png", 5, "uint8", "1 to 4 channels"),
        ("a.png", 3, "float32", r"\.tiff holds them"),
        ("a.png", 3, "complex64", "of complex64"),
        ("a.xyz", 3, "uint8", "suffix"),
    ],
)
def test_what_a_format_cannot_hold(tmp_path, name, channels, depth, message):
    with pytest.raises(MediaError, match=message):
        write_media(torch.zeros(2, 2, channels), tmp_path / name, depth=depth)
    assert not list(tmp_path.iterdir())


def test_empty_image_is_refused(tmp_path):
    with pytest.raises(MediaError, match="at least one pixel"):
        write_media(torch.zeros(0, 2, 3), tmp_path / "a.png")


def test_large_pictures_pass_pillows_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5_000)
    Image.new("1", (100, 90)).save(tmp_path / "big.png")
    media = read_image(tmp_path / "big.png", crop="8x8")
    assert media.signal.shape == (8, 8, 1)


def test_size_is_anti_aliased_and_crop_follows(tmp_path):
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    signal = read_image(tmp_path / "a.png", size="16x21", crop="8x15").signal
    assert signal.shape == (8, 15, 1)
    assert (signal - 0.5).abs().max() < 0.2
    whole = read_image(tmp_path / "a.png")
    torch.testing.assert_close(read_image(tmp_path / "a.png", size="64x64").signal, whole.signal, rtol=0, atol=0)


def test_a_picture_that_shrinks_much_is_as_one_filter_would_make_it(tmp_path):
    rows, columns = np.mgrid[:600, :450]
    smooth = 127 + 30 * np.sin(rows / 90) + 30 * np.cos(columns / 70)
    rough = np.uint8(smooth + np.random.default_rng(0).uniform(-60, 60, smooth.shape))
    Image.fromarray(rough).save(tmp_path / "a.png")
    small = read_image(tmp_path / "a.png", size="24x20").signal[..., 0].numpy()
    direct = resize(rough / 255, (24, 20), order=1, anti_aliasing=True)
    assert np.abs(small - direct)[2:-2, 2:-2].max() < 0.02


@pytest.mark.parametrize(
    ("crop", "rows", "columns"),
    [
        ("4x6", slice(1, 5), slice(2, 8)),
        ("7x11", slice(0, 7), slice(0, 11)),
        ("2x3+5+8", slice(5, 7), slice(8, 11)),
        ("1x1+0+0", slice(0, 1), slice(0, 1)),
    ],
)
def test_crop_against_slices(tmp_path, crop, rows, columns):
    original = pixels((7, 11, 3))
    Image.fromarray(original).save(tmp_path / "a.png")
    found = integers(read_image(tmp_path / "a.png", crop=crop).signal, "uint8")
    np.testing.assert_array_equal(found, original[rows, columns])


@pytest.mark.parametrize(
    "option", [{"crop": "8x11"}, {"crop": "2x2+6+0"}, {"crop": "0x3"}, {"crop": "3"}, {"size": "0x4"}]
)
def test_crop_and_size_that_do_not_fit(tmp_path, option):
    Image.fromarray(pixels((7, 11))).save(tmp_path / "a.png")
    with pytest.raises(MediaError, match=next(iter(option))):
        read_image(tmp_path / "a.png", **option)


def test_row_and_column(tmp_path):
    original = pixels((7, 11, 3))
    path = tmp_path / "a.png"
    Image.fromarray(original).save(path)
    row, column = read_media(path, row=6), read_media(path, column=10)
    assert (row.kind, row.name, row.grid) == ("array", "a-row6", (11,))
    np.testing.assert_array_equal(integers(row.signal, "uint8"), original[6])
    np.testing.assert_array_equal(integers(column.signal, "uint8"), original[:, 10])
    for option in ({"row": 7}, {"row": -1}, {"column": 11}, {"row": 1, "column": 1}):
        with pytest.raises(MediaError, match="row|column"):
            read_media(path, **option)


def test_load_gives_the_signal_of_any_file(tmp_path):
    assert load("camera").shape == (512, 512, 1)
    np.save(tmp_path / "a.npy", np.zeros((4, 5)))
    assert load(tmp_path / "a.npy").shape == (4, 5, 1)


def test_tiff_gives_tiff(tmp_path):
    for depth, suffix in (("uint16", ".tiff"), ("uint8", ".tif")):
        write_media(torch.rand(4, 5, 3), tmp_path / f"a{suffix}", depth=depth)
        media = read_media(tmp_path / f"a{suffix}")
        assert media.lossless_suffix == suffix
        write_media(media, tmp_path / f"{depth}{suffix}")
        assert torch.equal(read_media(tmp_path / f"{depth}{suffix}").signal, media.signal)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "float32"])
def test_colors_times_opacity_are_divided_by_it(tmp_path, dtype):
    """The straight colors are planted; where opacity is zero, nothing is left of them."""
    peak = 1 if dtype == "float32" else np.iinfo(dtype).max
    straight, alpha = np.random.default_rng(0).random((2, 9, 8, 3))
    alpha = np.maximum(0.2, alpha[..., :1])
    alpha[0, 0] = 0
    stored = np.concatenate([straight * alpha, alpha], -1) * peak
    stored = (stored if peak == 1 else np.rint(stored)).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", extrasamples=["assocalpha"], metadata=None)
    media = read_image(tmp_path / "a.tif")
    assert media.alpha and media.depth == dtype
    straight[0, 0] = 0
    assert np.abs(media.signal[..., :3].numpy() - straight).max() < (0.02 if dtype == "uint8" else 1e-4)
    write_media(media, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.pages.first.extrasamples == (2,)
    assert np.array_equal(read_image(tmp_path / "b.tif").signal, media.signal)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("channels", [2, 4])
def test_a_channel_of_no_declared_kind_is_no_opacity(tmp_path, dtype, channels):
    original = pixels((7, 5, channels), dtype)
    options = {"photometric": "minisblack" if channels == 2 else "rgb", "planarconfig": "contig", "metadata": None}
    tifffile.imwrite(tmp_path / "a.tif", original, extrasamples=["unspecified"], **options)
    media = read_image(tmp_path / "a.tif")
    assert not media.alpha and media.signal.shape == (7, 5, channels)
    write_media(media, tmp_path / "b.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), original)


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".bmp", ".pbm"])
def test_one_bit_is_written_as_one_bit(suffix, tmp_path):
    pixels = np.random.default_rng(0).random((9, 14)) < 0.4
    Image.fromarray(pixels).save(tmp_path / f"in{suffix}")
    media = read_media(tmp_path / f"in{suffix}")
    assert media.depth == "bool"
    assert np.array_equal(media.signal[..., 0], pixels)
    made = tmp_path / f"out{media.lossless_suffix}"
    write_media(media, made)
    with Image.open(made) as image:
        assert image.mode == "1"
        assert np.array_equal(image, pixels)
