"""Arrays and masks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from coordnet._checks import CoordnetWarning
from coordnet.media import MediaError, files, read_array, read_mask, read_media, write_media
from coordnet.media.files import NEEDED, refuse_large
from coordnet.media.row_blocks import open_rows


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float16", "float32", "float64", "bool", ">f4"])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 9), (2, 3, 4, 5, 6), (3, 5, 2)])
def test_arrays_round_trip(tmp_path, dtype, shape):
    original = (np.random.default_rng(0).standard_normal(shape) * 50).astype(np.int8).astype(dtype)
    np.save(tmp_path / "a.npy", original)
    media = read_media(tmp_path / "a.npy")
    expected = shape if len(shape) > 1 and shape[-1] <= 4 else (*shape, 1)
    assert (media.kind, media.rate) == ("array", None)
    assert tuple(media.signal.shape) == expected
    write_media(media, tmp_path / "b.npy")
    found = np.load(tmp_path / "b.npy")
    assert found.dtype == original.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, original)


def test_integers_are_scaled_by_their_largest_value(tmp_path):
    for dtype, values, expected in [
        ("uint8", [0, 51, 255], [0, 0.2, 1]),
        ("int16", [-32767, 0, 32767], [-1, 0, 1]),
        ("int64", [0, 2**62, 2**63 - 1], [0, 0.5, 1]),
        ("bool", [0, 1, 1], [0, 1, 1]),
    ]:
        np.save(tmp_path / "a.npy", np.array(values, dtype))
        assert read_array(tmp_path / "a.npy").signal[:, 0].tolist() == pytest.approx(expected)


def test_largest_integers_do_not_wrap(tmp_path):
    for dtype in ("int64", "uint64", "int32", "uint32"):
        write_media(torch.tensor([[1.0], [2.0]]), tmp_path / f"{dtype}.npy", depth=dtype)
        assert (np.load(tmp_path / f"{dtype}.npy") > np.iinfo(dtype).max * 0.999).all()


def test_nan_is_kept(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1.0, np.nan]))
    assert read_array(tmp_path / "a.npy").signal.isnan().tolist() == [[False], [True]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1.0, np.inf]), "finite numbers .* found inf"),
        (np.array([1e300]), r"within float32 .* found 1e\+300"),
        (np.array([1j]), "complex128"),
        (np.array(["a"]), "type str"),
        (np.zeros(3, [("x", "f4")]), "real numbers"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.array(1.0), r"shape \(\)"),
    ],
)
def test_what_is_no_signal(tmp_path, values, message):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(MediaError, match=message):
        read_array(tmp_path / "a.npy")


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(MediaError, match="Python objects"):
        read_array(tmp_path / "a.npy")


def checks(*shape):
    return np.random.default_rng(1).random(shape) < 0.5


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "P", "I;16"])
def test_picture_masks(tmp_path, mode):
    known = checks(6, 9)
    image = Image.fromarray((known * 3).astype(np.uint16)) if mode == "I;16" else Image.fromarray(known).convert(mode)
    image.save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png", (6, 9)).numpy().tolist() == known.tolist()


def test_any_colour_makes_a_pixel_known_and_alpha_none(tmp_path):
    colours = np.zeros((1, 5, 4), np.uint8)
    colours[0, :, 3] = [0, 255, 255, 255, 0]
    colours[0, [1, 2, 4], [0, 2, 1]] = 1
    Image.fromarray(colours).save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png", (1, 5)).tolist() == [[False, True, True, False, True]]


def test_jpeg_mask_is_cut_at_half(tmp_path):
    known = np.zeros((32, 32), bool)
    known[8:24, 8:16] = True
    Image.fromarray((known * 255).astype(np.uint8)).save(tmp_path / "m.jpg", quality=50)
    assert read_mask(tmp_path / "m.jpg", (32, 32)).numpy().tolist() == known.tolist()


def test_array_masks(tmp_path):
    known = checks(4, 6, 9)
    np.save(tmp_path / "clip.npy", known * 2.5)
    np.save(tmp_path / "line.npy", known[0, 0])
    np.save(tmp_path / "nan.npy", np.where(known, 1.0, np.nan))
    for path, shape, expected in [
        ("clip.npy", (4, 6, 9), known),
        ("clip.npy", (4, 6), known),  # one mask a channel
        ("line.npy", (9,), known[0, 0]),
        ("nan.npy", (4, 6, 9), known),
    ]:
        np.testing.assert_array_equal(read_mask(tmp_path / path, shape).numpy(), expected)


def test_masks_of_clips(tmp_path):
    known = checks(4, 6, 9)
    Image.fromarray(known[0]).save(tmp_path / "frame.png")
    np.save(tmp_path / "frame.npy", known[0])
    first, *others = [Image.fromarray(frame) for frame in known]
    first.save(tmp_path / "clip.gif", save_all=True, append_images=others)
    np.testing.assert_array_equal(read_mask(tmp_path / "clip.gif", (4, 6, 9)).numpy(), known)
    for shape in ((6, 9), (3, 6, 9)):
        with pytest.raises(MediaError, match=r"clip.gif: expected a mask of the signal's size .*, found 4 pictures"):
            read_mask(tmp_path / "clip.gif", shape)
    for name in ("frame.png", "frame.npy"):
        found = read_mask(tmp_path / name, (4, 6, 9)).numpy()
        np.testing.assert_array_equal(found, np.broadcast_to(known[0], (4, 6, 9)))


def rimmed():
    """A disc whose edge is smooth, as drawing programs make it: 255 inside, 0 outside."""
    y, x = np.mgrid[:40, :50]
    return (255 * np.clip(12.5 - np.hypot(y - 20, x - 25), 0, 1)).astype(np.uint8)


def test_the_rim_of_a_smooth_mask_is_cut_at_half_of_its_range(tmp_path):
    disc = rimmed()
    Image.fromarray(disc).save(tmp_path / "m.png")
    np.save(tmp_path / "m.npy", disc / 255 * 4)
    for name in ("m.png", "m.npy"):
        with pytest.warns(CoordnetWarning, match="half of its range"):
            known = read_mask(tmp_path / name, (40, 50))
        np.testing.assert_array_equal(known.numpy(), disc > 127)
    above = read_mask(tmp_path / "m.png", (40, 50), threshold=200)
    np.testing.assert_array_equal(above.numpy(), disc > 200)
    np.testing.assert_array_equal(read_mask(tmp_path / "m.png", (40, 50), threshold=200, invert=True), disc <= 200)


def test_what_is_no_mask_needs_a_threshold(tmp_path):
    values = np.random.default_rng(0).random((8, 9))
    np.save(tmp_path / "photo.npy", values)
    np.save(tmp_path / "pale.npy", np.where(values > 0.5, 255, 128))
    for name in ("photo.npy", "pale.npy"):
        with pytest.raises(MediaError, match="--threshold"):
            read_mask(tmp_path / name, (8, 9))
        with pytest.raises(MediaError, match="size 9x8, found 8x9"):  # before its values are looked at
            read_mask(tmp_path / name, (9, 8))
    np.testing.assert_array_equal(read_mask(tmp_path / "photo.npy", (8, 9), threshold=0.7).numpy(), values > 0.7)


def test_opacity_decides_where_the_colours_are_all_the_same(tmp_path):
    known = checks(6, 9)
    for mode, colour in (("RGBA", (9, 9, 9)), ("LA", (200,))):
        pixels = np.empty((6, 9, len(mode)), np.uint8)
        pixels[..., :-1], pixels[..., -1] = colour, known * 255
        Image.fromarray(pixels, mode).save(tmp_path / "m.png")
        np.testing.assert_array_equal(read_mask(tmp_path / "m.png", (6, 9)).numpy(), known)


def test_arrays_of_an_archive_and_of_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    a, b = np.random.default_rng(0).random((2, 5, 7)).astype(np.float32)
    np.savez(tmp_path / "one.npz", a)
    np.savez(tmp_path / "two.npz", first=a, second=b)
    zarr.save(str(tmp_path / "b.zarr"), b)
    for name, expected in [("one.npz", a), ("two.npz:first", a), ("two.npz:second", b), ("b.zarr", b)]:
        media = read_media(f"{tmp_path}/{name}")
        np.testing.assert_array_equal(media.signal[..., 0].numpy(), expected)
        assert media.name in ("one", "two", "b")
        known = read_mask(f"{tmp_path}/{name}", (5, 7), threshold=0.5)
        np.testing.assert_array_equal(known.numpy(), expected > 0.5)
        with open_rows(Path(f"{tmp_path}/{name}")) as rows:
            np.testing.assert_array_equal(rows[1:3][..., 0], expected[1:3])
    for name, found in [("two.npz", "2 .first, second."), ("two.npz:third", "'third', found first"), ("c.zarr", "no")]:
        with pytest.raises(MediaError, match=found):
            read_media(f"{tmp_path}/{name}")
    with pytest.raises(MediaError, match="can be written"):
        write_media(torch.rand(4, 4, 1), tmp_path / "out.npz")


def test_masks_that_do_not_fit(tmp_path):
    Image.fromarray(checks(6, 9)).save(tmp_path / "m.png")
    with pytest.raises(MediaError, match="size 9x6, found 6x9"):
        read_mask(tmp_path / "m.png", (9, 6))
    Image.fromarray(np.zeros((6, 9), np.uint8)).save(tmp_path / "none.png")
    with pytest.raises(MediaError, match="nothing known"):
        read_mask(tmp_path / "none.png", (6, 9))
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with pytest.raises(MediaError, match="mask of numbers"):
        read_mask(tmp_path / "words.npy", (1,))
    (tmp_path / "m.csv").write_text("1,0\n")
    with pytest.raises(MediaError, match="found the suffix"):
        read_mask(tmp_path / "m.csv", (1, 2))


def test_a_mask_may_take_the_memory_that_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LEAST_MEMORY", 100 * NEEDED)
    monkeypatch.setattr(files, "available_memory", lambda: 0)
    np.save(tmp_path / "m.npy", np.eye(20, dtype=bool))
    Image.fromarray(np.eye(20, dtype=np.uint8) * 255).save(tmp_path / "m.png")
    for name in ("m.npy", "m.png"):
        with pytest.raises(MediaError, match="at most 100 numbers"):
            read_mask(tmp_path / name, (20, 20))
        assert int(read_mask(tmp_path / name, (20, 20), memory=400 * NEEDED).sum()) == 20


@pytest.mark.parametrize(("free", "allowed"), [(0, 2**30), (2**33, 2**30), (23 * 2**30, 23 * 2**27)])
def test_the_memory_for_reading_follows_from_what_is_free(monkeypatch, free, allowed):
    """A photograph of 45 megapixels needs 1.08 GB."""
    monkeypatch.setattr(files, "available_memory", lambda: free)
    refuse_large("a", allowed // NEEDED)
    with pytest.raises(MediaError, match="--memory allows more"):
        refuse_large("a", allowed // NEEDED + 1)
