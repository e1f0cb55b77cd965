"""What files say beside their pixels, against Pillow, tifffile and rasterio."""

import io

import av
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from coordnet._checks import CoordnetWarning
from coordnet.media import read_media, write_media
from coordnet.media.tags import read_tags

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
PLACE = {33550: (12, (10.0, 20.0, 0.0)), 33922: (12, (2.0, 1.0, 0.0, 500.0, 900.0, 0.0)), 42113: (2, "-9999")}
PLACED = [(code, kind, None if kind == 2 else len(value), value, True) for code, (kind, value) in PLACE.items()]
PLACED += [(34735, 3, 8, (1, 1, 0, 1, 1024, 0, 1, 1), True)]


def shot(orientation=1):
    """EXIF of a camera that was held so, with its lengths in pixels."""
    exif = Image.Exif()
    exif[271], exif[274] = "Maker", orientation
    exif.get_ifd(34665).update({36867: "2020:01:01 00:00:00", 40962: 9, 40963: 6})
    return exif


@pytest.mark.parametrize(("source", "target"), [(".jpg", ".png"), (".png", ".png"), (".png", ".tiff")])
@pytest.mark.parametrize("orientation", [1, 6])
def test_profile_resolution_and_exif_stay_and_the_orientation_is_applied_once(tmp_path, source, target, orientation):
    original = tmp_path / f"a{source}"
    Image.fromarray(PIXELS).save(original, exif=shot(orientation), dpi=(300, 150), icc_profile=PROFILE)
    media = read_media(original)
    assert media.grid == ((9, 6) if orientation == 6 else (6, 9))
    if target == ".tiff":
        with pytest.warns(CoordnetWarning, match="^a: the .tiff file does not keep EXIF$"):
            write_media(media, tmp_path / f"b{target}")
    else:
        write_media(media, tmp_path / f"b{target}")
    with Image.open(tmp_path / f"b{target}") as made:
        assert made.size == media.grid[::-1]
        assert made.info["icc_profile"] == PROFILE
        assert np.allclose(made.info["dpi"], (300, 150), atol=0.02)
        if target == ".png":
            assert made.getexif().get(274, 1) == 1 and made.getexif()[271] == "Maker"
            assert dict(made.getexif().get_ifd(34665)) == {
                36867: "2020:01:01 00:00:00",
                **dict(zip((40962, 40963), media.grid[::-1], strict=True)),
            }
    assert read_media(tmp_path / f"b{target}").signal.equal(media.signal)


def test_sixteen_bits_keep_what_eight_do(tmp_path):
    signal = read_media(_saved(tmp_path / "a.png")).signal
    media = read_media(tmp_path / "a.png")
    write_media(media, tmp_path / "b.png", depth="uint16")
    assert read_media(tmp_path / "b.png").depth == "uint16"
    assert read_media(tmp_path / "b.png").signal.equal(signal)
    assert read_tags(tmp_path / "b.png").profile == PROFILE
    assert np.allclose(read_tags(tmp_path / "b.png").dpi, (72, 72), atol=0.02)


def _saved(path):
    Image.fromarray(PIXELS).save(path, dpi=(72, 72), icc_profile=PROFILE)
    return path


def test_a_profile_for_other_channels_is_left_out_and_said(tmp_path):
    profile = bytearray(PROFILE)
    profile[16:20] = b"CMYK"
    Image.fromarray(PIXELS).convert("CMYK").save(tmp_path / "a.jpg", icc_profile=bytes(profile))
    with pytest.warns(CoordnetWarning, match="a: the .png file does not keep the color profile, which is for CMYK"):
        write_media(read_media(tmp_path / "a.jpg"), tmp_path / "b.png")
    assert read_tags(tmp_path / "b.png").profile is None


@pytest.fixture
def elevation(tmp_path):
    """A map in a GeoTIFF, with a missing value."""
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    values[1, 2] = -9999
    tifffile.imwrite(tmp_path / "map.tif", values, extratags=PLACED, description="a map", metadata=None)
    return tmp_path / "map.tif"


def test_missing_values_are_unknown_and_places_stay(elevation, tmp_path):
    media = read_media(elevation)
    assert np.argwhere(media.signal[..., 0].isnan().numpy()).tolist() == [[1, 2]]
    rows = tmp_path / "map.tif"
    write_media(media.__class__(**{**vars(media), "signal": media.signal.nan_to_num()}), tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as made, tifffile.TiffFile(rows) as given:
        for code in (33550, 33922, 34735, 42113, 270):
            assert made.pages.first.tags.valueof(code) == given.pages.first.tags.valueof(code)
    with pytest.warns(CoordnetWarning, match="does not keep the georeference"):
        write_media(media, tmp_path / "b.npy")


@pytest.mark.parametrize("factors", [(2, 3), (1.5, 1.5)])
def test_an_enlarged_map_lies_on_the_same_ground(elevation, tmp_path, factors):
    rasterio = pytest.importorskip("rasterio")
    media = read_media(elevation)
    shape = [round(n * f) for n, f in zip(media.grid, factors, strict=True)]
    larger = vars(media) | {"signal": media.signal.new_zeros(*shape, 1), "tags": media.tags.enlarged(*factors)}
    write_media(media.__class__(**larger), tmp_path / "b.tif")
    with rasterio.open(elevation) as given, rasterio.open(tmp_path / "b.tif") as made:
        assert np.allclose(given.bounds, made.bounds)
        assert given.crs == made.crs and made.nodata == -9999


@pytest.mark.parametrize("turned", [False, True])
def test_an_enlarged_map_of_points_lies_on_the_same_ground(tmp_path, turned):
    rasterio = pytest.importorskip("rasterio")
    place = {34264: (30.0, 0.0, 0.0, 500.0, 0.0, -30.0, 0.0, 900.0, *[0.0] * 7, 1.0)} if turned else {}
    place = place or {33550: (30.0, 30.0, 0.0), 33922: (2.0, 1.0, 0.0, 500.0, 900.0, 0.0)}
    tags = [(code, 12, len(value), value, True) for code, value in place.items()]
    tags += [(34735, 3, 12, (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 2), True)]
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 6), np.float32), extratags=tags, metadata=None)
    media = read_media(tmp_path / "a.tif")
    larger = vars(media) | {"signal": media.signal.new_zeros(8, 18, 1), "tags": media.tags.enlarged(2, 3)}
    write_media(media.__class__(**larger), tmp_path / "b.tif")
    with rasterio.open(tmp_path / "a.tif") as given, rasterio.open(tmp_path / "b.tif") as made:
        assert np.allclose(given.bounds, made.bounds)


def test_nodata_of_integers_is_missing_where_all_channels_have_it(tmp_path):
    pixels = np.full((3, 4, 3), 9, np.uint8)
    pixels[0, 1] = pixels[1, :, 0] = 0
    tifffile.imwrite(tmp_path / "a.tif", pixels, extratags=[(42113, 2, None, "0", True)], metadata=None)
    assert np.argwhere(read_media(tmp_path / "a.tif").signal.isnan().any(-1).numpy()).tolist() == [[0, 1]]


def test_a_part_of_a_map_has_no_place(elevation, tmp_path):
    media = read_media(elevation, crop="2x2")
    with pytest.warns(CoordnetWarning, match="does not keep the georeference"):
        write_media(media, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as made:
        assert 33550 not in made.pages.first.tags


@pytest.mark.parametrize("suffix", [".png", ".gif"])
def test_a_palette_stays_where_the_known_pixels_do(tmp_path, suffix):
    picture = Image.fromarray((np.arange(48).reshape(6, 8) % 5).astype(np.uint8))
    picture.putpalette([9, 8, 7, 255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3])
    picture.save(tmp_path / f"a{suffix}")
    media = read_media(tmp_path / f"a{suffix}")
    known = media.signal > 0.02
    write_media(media.__class__(**{**vars(media), "known": known}), tmp_path / f"b{suffix}")
    with Image.open(tmp_path / f"b{suffix}") as made, Image.open(tmp_path / f"a{suffix}") as given:
        assert made.mode == "P" and made.getpalette()[:15] == given.getpalette()[:15]
        assert np.array_equal(np.asarray(made), np.asarray(given))


def test_damaged_tags_are_lost_and_said(tmp_path):
    exif = b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "JPEG", exif=exif, icc_profile=b"short")
    (tmp_path / "a.jpg").write_bytes(file.getvalue())
    media = read_media(tmp_path / "a.jpg")
    assert media.grid == (6, 9)
    assert media.tags.profile is None


def clip(path, codec, seconds=2):
    """A clip of 25 frames a second whose sound is a sine, in chunks of 1024 samples."""
    with av.open(str(path), "w") as file:
        video, audio = file.add_stream("libx264", rate=25), file.add_stream(codec, rate=8000)
        video.width, video.height, audio.layout = 16, 12, "mono"
        for k in range(25 * seconds):
            file.mux(video.encode(av.VideoFrame.from_ndarray(np.full((12, 16, 3), 4 * k, np.uint8), format="rgb24")))
        kind = audio.codec_context.format.name
        for start in range(0, 8000 * seconds, 1024):
            sine = np.sin((start + np.arange(1024)) / 9)[None]
            numbers = (
                sine.astype(np.float32)
                if kind.startswith("flt")
                else (99 * sine + 128).astype(np.uint8 if kind == "u8" else np.int16)
            )
            frame = av.AudioFrame.from_ndarray(numbers, format=kind, layout="mono")
            frame.sample_rate, frame.pts = 8000, start
            file.mux(audio.encode(frame))
        for stream in (video, audio):
            file.mux(stream.encode(None))


def packets(path):
    """The times and the bytes of the packets of sound."""
    with av.open(str(path)) as file:
        found = [p for p in file.demux(audio=0) if p.dts is not None] if file.streams.audio else []
        return [(float(p.pts * p.time_base), bytes(p)) for p in found]


@pytest.mark.parametrize("frames", [None, "25:40"])
def test_the_sound_of_a_clip_is_copied(tmp_path, frames):
    clip(tmp_path / "a.mp4", "aac")
    media = read_media(tmp_path / "a.mp4", frames=frames)
    write_media(media, tmp_path / "b.mp4")
    expected = packets(tmp_path / "a.mp4")
    if frames is not None:
        expected = [(time - 1, content) for time, content in expected if 1 <= time < 1.6]
    made = packets(tmp_path / "b.mp4")
    assert [content for _, content in made] == [content for _, content in expected]
    assert np.allclose([time for time, _ in made], [time for time, _ in expected], atol=1e-3)
    assert read_media(tmp_path / "b.mp4").grid == media.grid
    with pytest.warns(CoordnetWarning, match="the .gif file does not keep sound"):
        write_media(media, tmp_path / "b.gif")


def test_sound_that_the_format_does_not_hold_is_left_out_and_said(tmp_path):
    clip(tmp_path / "a.mkv", "pcm_u8")
    with pytest.warns(CoordnetWarning, match="sound of the codec pcm_u8"):
        write_media(read_media(tmp_path / "a.mkv"), tmp_path / "b.mp4")
    assert packets(tmp_path / "b.mp4") == []
