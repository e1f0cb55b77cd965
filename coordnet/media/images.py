"""Pictures in and out, at the bit depth of the file."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from coordnet.media.atomic import atomic_path
from coordnet.media.deep import encode_deep_png
from coordnet.media.depths import from_depth, to_depth
from coordnet.media.errors import MediaError, StrPath, encoding, readable_file
from coordnet.media.framing import frame_image
from coordnet.media.raster import read_raster
from coordnet.media.signal import Media, as_numpy
from coordnet.media.tiff import read_tiff, write_tiff

TIFF_SUFFIXES = (".tif", ".tiff")
IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".apng", *TIFF_SUFFIXES),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".tga", ".jp2", ".avif"),
)


def read_image(path: StrPath, *, size: str | None = None, crop: str | None = None) -> Media:
    """Read a picture, as it is meant to be seen, into a signal of shape (height, width, channels).

    Integers are scaled to [0, 1]. Channels are 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha);
    a TIFF may have others. The first picture of an animation is read.

    Parameters
    ----------
    path
        PNG, JPEG, TIFF, WebP, BMP, GIF or another format of Pillow's.
    size
        Height and width to resize to with anti-aliasing, such as "256x256".
    crop
        Part to keep after resizing: "128x128" from the centre, "128x128+10+20" from row 10 and column 20.

    Raises
    ------
    MediaError
        If the file is missing, empty, damaged or no image, holds an infinite value, or `size` or `crop` do
        not fit it.
    """
    path = readable_file(path, "an image")
    suffix = path.suffix.lower()
    pixels = read_tiff(path) if suffix in TIFF_SUFFIXES else read_raster(path)
    image = frame_image(from_depth(pixels, path), size, crop)
    return Media(torch.from_numpy(image), "image", path.stem, pixels.dtype.name, suffix=suffix)


def write_image(
    signal: Float[Tensor, "height width channels"],
    path: StrPath,
    *,
    depth: str = "uint8",
    force: bool = False,
) -> None:
    """Write a picture; integers are the signal times their largest value, rounded and clipped to their range.

    Parameters
    ----------
    signal
        Shape (height, width, channels); [0, 1] is the whole range of an integer depth.
    path
        PNG (8 and 16 bits), TIFF (any depth, any number of channels), JPEG and BMP (8 bits, grey or RGB) or
        WebP (8 bits, lossless, grey is stored as RGB). Nothing lossy but JPEG, at quality 95.
    depth
        NumPy dtype name; must be one that the format holds.
    force
        Whether to replace a file that is already there.

    Raises
    ------
    MediaError
        If the format is unknown or cannot hold the depth or the channels, the signal has no pixel or a NaN
        that would have to become an integer, or the file exists or cannot be written.
    """
    _check_holds(signal, path, depth)
    pixels = to_depth(as_numpy(signal), depth, path)
    write = _FORMATS[Path(path).suffix.lower()].write
    with atomic_path(path, force=force) as temporary, encoding(path, "an image"):
        write(temporary, pixels)


def _check_holds(signal: Tensor, path: StrPath, depth: str) -> None:
    suffix, channels = Path(path).suffix.lower(), signal.shape[-1]
    if suffix not in _FORMATS:
        raise MediaError(
            f"{path}: expected an image suffix to write ({' '.join(_FORMATS)}), found {suffix!r}"
        )
    if signal.numel() == 0:
        raise MediaError(
            f"{path}: expected an image of at least one pixel, found shape {tuple(signal.shape)}"
        )
    form = _FORMATS[suffix]
    if form.depths and depth not in form.depths:
        expected = " or ".join(form.depths)
        raise MediaError(
            f"{path}: expected {expected}, all that {suffix} holds, found {depth} (.tiff holds it)"
        )
    if form.channels and channels not in form.channels:
        expected = " or ".join(map(str, form.channels))
        advice = "has an alpha channel" if channels in (2, 4) else "is no colour image"
        raise MediaError(
            f"{path}: expected {expected} channels in {suffix}, found {channels}: the signal {advice}"
        )


def _picture(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else np.ascontiguousarray(pixels))


def _write_png(path: Path, pixels: np.ndarray) -> None:
    if pixels.dtype == np.uint16:
        path.write_bytes(encode_deep_png(pixels))
    else:
        _picture(pixels).save(path, format="PNG")


def _write_jpeg(path: Path, pixels: np.ndarray) -> None:
    _picture(pixels).save(path, format="JPEG", quality=95, subsampling=0)


def _write_webp(path: Path, pixels: np.ndarray) -> None:
    _picture(pixels).save(path, format="WEBP", lossless=True, exact=True)


def _write_bmp(path: Path, pixels: np.ndarray) -> None:
    _picture(pixels).save(path, format="BMP")


class _Format(NamedTuple):
    """What a format holds; an empty tuple means anything."""

    write: Callable[[Path, np.ndarray], None]
    depths: tuple[str, ...]
    channels: tuple[int, ...]


_FORMATS = {
    ".png": _Format(_write_png, ("uint8", "uint16"), (1, 2, 3, 4)),
    ".jpg": _Format(_write_jpeg, ("uint8",), (1, 3)),
    ".jpeg": _Format(_write_jpeg, ("uint8",), (1, 3)),
    ".webp": _Format(_write_webp, ("uint8",), (1, 2, 3, 4)),
    ".bmp": _Format(_write_bmp, ("uint8",), (1, 3)),
    ".tif": _Format(write_tiff, (), ()),
    ".tiff": _Format(write_tiff, (), ()),
}
