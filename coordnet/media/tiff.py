"""TIFF, which holds more kinds of pixels than any one decoder reads."""

import logging
import math
from pathlib import Path

import numpy as np
import tifffile

from coordnet.media.deep import decode_deep
from coordnet.media.errors import MediaError, decoding
from coordnet.media.orientation import upright
from coordnet.media.raster import read_raster

# tifffile logs what is wrong with a file; without any handler Python would print it.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def read_tiff(path: Path) -> np.ndarray:
    """Return the picture in a TIFF file, upright, with the bits and channels that it has.

    Pillow reads what has 8 bits or fewer, tifffile reads the rest, and FFmpeg reads 16-bit files whose
    compression (LZW, PackBits) tifffile leaves to a further package.

    Returns
    -------
    ndarray
        Shape (height, width, channels); any integer or float type.

    Raises
    ------
    MediaError
        If the file cannot be decoded, or holds a stack of pictures.
    """
    with decoding(path, "an image"), tifffile.TiffFile(path) as file:
        if not file.pages:
            raise MediaError(f"{path}: expected an image, found a TIFF file without a picture")
        page = file.pages.first
        count = file.series[0].size // max(1, math.prod(page.shape))
        if count > 1:
            raise MediaError(f"{path}: expected one picture, found {count} (a stack can be read as .npy)")
        shallow = page.bitspersample <= 8 and page.samplesperpixel <= 4
        if not shallow:
            return upright(_deep_page(path, page), _orientation(page))
    return read_raster(path)


def _deep_page(path: Path, page: tifffile.TiffPage) -> np.ndarray:
    try:
        pixels = page.asarray()
    except ValueError as error:
        if "imagecodecs" not in str(error) or page.bitspersample != 16:
            raise
        return decode_deep(path, "tiff")
    if page.axes.startswith("S"):
        pixels = np.moveaxis(pixels, 0, -1)
    if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE and pixels.dtype.kind == "u":
        pixels = np.iinfo(pixels.dtype).max - pixels
    return pixels.reshape(*pixels.shape[:2], -1)


def _orientation(page: tifffile.TiffPage) -> object:
    tag = page.tags.get("Orientation")
    return None if tag is None else int(tag.value)


def write_tiff(path: Path, pixels: np.ndarray) -> None:
    """Write a picture of shape (height, width, channels) and any integer or float type, zlib compressed."""
    channels = pixels.shape[-1]
    colours = 3 if channels in (3, 4) else 1
    extra = ["unassalpha" if channels in (2, 4) else "unspecified"] * (channels - colours)
    tifffile.imwrite(
        path,
        pixels[..., 0] if channels == 1 else pixels,
        photometric="rgb" if colours == 3 else "minisblack",
        planarconfig=None if channels == 1 else "contig",
        extrasamples=extra or None,
        compression="zlib",
        metadata=None,
    )
