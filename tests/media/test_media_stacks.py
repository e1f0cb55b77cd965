"""Stacks of pictures in TIFF files, against tifffile, and arrays of NetCDF and HDF5 files."""

from dataclasses import replace

import numpy as np
import pytest
import tifffile
import torch

from coordnet._checks import CoordnetWarning
from coordnet.media import MediaError, read_mask, read_media, write_media

NUMBERS = np.random.default_rng(0).integers(0, 255, (3, 4, 2, 6, 5), np.uint16)
MICROSCOPE = {"axes": "TZCYX", "unit": "um", "spacing": 0.3, "finterval": 1.5, "Labels": ["a"] * 24}


@pytest.fixture
def hyperstack(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", NUMBERS, imagej=True, resolution=(5.0, 4.0), metadata=MICROSCOPE)
    return tmp_path / "a.tif"


def test_a_stack_of_imagej_returns_with_its_metadata(hyperstack, tmp_path):
    media = read_media(hyperstack)
    assert (media.kind, media.grid) == ("stack", (3, 4, 6, 5))
    assert np.array_equal(np.rint(media.signal.numpy() * 65535), np.moveaxis(NUMBERS, 2, -1))
    write_media(media, tmp_path / f"b{media.lossless_suffix}")
    with tifffile.TiffFile(tmp_path / "b.tif") as made, tifffile.TiffFile(hyperstack) as given:
        assert np.array_equal(made.asarray(), NUMBERS)
        assert made.series[0].axes == "TZCYX"
        assert {**made.imagej_metadata, "ImageJ": ""} == {**given.imagej_metadata, "ImageJ": ""}
        assert made.pages.first.tags.valueof("XResolution") == (5, 1)


def test_an_enlarged_stack_has_smaller_pixels(hyperstack, tmp_path):
    media = read_media(hyperstack)
    larger = replace(media, signal=torch.zeros(3, 4, 12, 15, 2), tags=media.tags.enlarged(2, 3))
    write_media(larger, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as made:
        assert made.pages.first.tags.valueof("XResolution") == (15, 1)
        assert made.pages.first.tags.valueof("YResolution") == (8, 1)


@pytest.mark.parametrize("shape", [(3, 6, 5), (3, 6, 5, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pages_return_as_they_were(tmp_path, shape, dtype):
    pages = (200 * np.random.default_rng(1).random(shape)).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", pages, photometric="rgb" if len(shape) == 4 else "minisblack", metadata=None)
    media = read_media(tmp_path / "a.tif")
    assert media.grid == shape[:3]
    write_media(media, tmp_path / "b.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), pages)


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("kind", ["unassalpha", "unspecified"])
def test_pages_of_colors_with_opacity_return_as_they_were(tmp_path, channels, kind):
    pages = np.random.default_rng(3).integers(0, 255, (3, 6, 5, channels), np.uint8)
    options = {"photometric": "rgb" if channels == 4 else "minisblack", "planarconfig": "contig"}
    tifffile.imwrite(tmp_path / "a.tif", pages, extrasamples=[kind], **options)
    media = read_media(tmp_path / "a.tif")
    assert media.alpha == (kind == "unassalpha")
    write_media(media, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as given, tifffile.TiffFile(tmp_path / "b.tif") as made:
        assert np.array_equal(made.asarray(), pages) and len(made.pages) == 3
        for name in ("shape", "photometric", "extrasamples"):
            assert getattr(made.pages.first, name) == getattr(given.pages.first, name)


@pytest.mark.parametrize("dtype", [bool, np.uint8])
def test_pages_whose_zero_is_white_are_turned_to_black(tmp_path, dtype):
    dark = np.random.default_rng(4).random((3, 6, 8)) < 0.3
    pages = dark if dtype is bool else dark.astype(dtype) * 255
    tifffile.imwrite(tmp_path / "a.tif", pages, photometric="miniswhite")
    media = read_media(tmp_path / "a.tif")
    assert np.array_equal(media.signal[..., 0].numpy(), ~dark)
    write_media(media, tmp_path / "b.tif")
    assert read_media(tmp_path / "b.tif").signal.equal(media.signal)


def test_one_page_of_imagej_keeps_its_units(tmp_path):
    page = np.zeros((6, 5), np.float32)
    tifffile.imwrite(tmp_path / "a.tif", page, imagej=True, resolution=(2.0, 2.0), metadata={"unit": "nm"})
    write_media(read_media(tmp_path / "a.tif"), tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as made:
        assert made.imagej_metadata["unit"] == "nm"
    with pytest.warns(CoordnetWarning, match="the .npy file does not keep ImageJ's metadata"):
        write_media(read_media(tmp_path / "a.tif"), tmp_path / "b.npy")


def test_a_mask_may_be_a_stack(tmp_path):
    known = np.random.default_rng(2).random((3, 6, 5)) < 0.5
    tifffile.imwrite(tmp_path / "m.tif", known.astype(np.uint8) * 255, photometric="minisblack")
    assert np.array_equal(read_mask(tmp_path / "m.tif", (3, 6, 5)).numpy(), known)


def test_a_threshold_is_in_the_numbers_of_a_stack(tmp_path):
    numbers = np.random.default_rng(5).integers(0, 255, (3, 6, 5), np.uint8)
    tifffile.imwrite(tmp_path / "m.tif", numbers, photometric="minisblack")
    assert np.array_equal(read_mask(tmp_path / "m.tif", (3, 6, 5), threshold=127).numpy(), numbers > 127)


def test_arrays_of_netcdf_and_hdf5(tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    values = np.arange(15.0).reshape(3, 5)
    with netcdf.Dataset(tmp_path / "a.h5", "w") as file:
        file.createDimension("y", 3), file.createDimension("x", 5)
        file.createVariable("x", "f8", ("x",))[:] = np.arange(5)
        file.createVariable("a", "f4", ("y", "x"), fill_value=5)[:] = values
        assert read_media(tmp_path / "a.h5").name == "a"
        file.createGroup("more").createVariable("b", "i2", ("y", "x"))[:] = values
    expected = np.where(values == 5, np.nan, values)
    assert np.array_equal(read_media(f"{tmp_path}/a.h5:a").signal[..., 0].numpy(), expected, equal_nan=True)
    assert read_media(f"{tmp_path}/a.h5:more/b").grid == (3, 5)
    for name, message in (("a.h5", r"one array, or a.h5:NAME, found 2 \(a, more/b\)"), ("a.h5:c", "of the name 'c'")):
        with pytest.raises(MediaError, match=message):
            read_media(f"{tmp_path}/{name}")
    with pytest.warns(CoordnetWarning, match="coordinates and attributes"):
        write_media(read_media(f"{tmp_path}/a.h5:a"), tmp_path / "b.npy")
