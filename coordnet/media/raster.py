"""Pictures as Pillow decodes them: PNG, JPEG, WebP, BMP and the rest."""

from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from coordnet.media.deep import decode_deep
from coordnet.media.errors import decoding
from coordnet.media.orientation import upright

# FFmpeg's decoder for the formats that may hold more than the 8 bits a colour that Pillow keeps.
_DEEP_DECODERS = {"PNG": "png", "PPM": "ppm"}


def read_raster(path: Path) -> np.ndarray:
    """Return the first picture in a file, upright, with the bits and channels that it has.

    Palettes become RGB, a transparent palette entry or colour makes an alpha channel, one bit becomes 0 and
    255, CMYK and other colour models become RGB.

    Returns
    -------
    ndarray
        Shape (height, width, channels); uint8, uint16, int32 or float32.

    Raises
    ------
    MediaError
        If Pillow cannot decode the file, or it holds more than 178 megapixels (Pillow's guard against small
        files that unpack to fill the memory).
    """
    with decoding(path, "an image"), Image.open(path) as image:
        deep = _is_deep(image)
        image.load()  # raises for a truncated file, which FFmpeg would read without complaint
        orientation = image.getexif().get(ExifTags.Base.Orientation)  # none is left where Pillow applied it
        pixels = decode_deep(path, _DEEP_DECODERS[str(image.format)]) if deep else _pillow_pixels(image)
    return upright(pixels, orientation)


def count_pictures(path: Path) -> int:
    """Return how many pictures a file holds: more than one if it is animated."""
    with decoding(path, "an image"), Image.open(path) as image:
        return getattr(image, "n_frames", 1)


def _is_deep(image: Image.Image) -> bool:
    """Return whether a colour image has more than 8 bits a channel in the file."""
    if image.format not in _DEEP_DECODERS or image.mode not in ("LA", "RGB", "RGBA"):
        return False
    arguments = getattr(image, "tile", [(None, None, None, None)])[0][3]
    if image.format == "PPM":
        return isinstance(arguments, tuple) and isinstance(arguments[-1], int) and arguments[-1] > 255
    return str(arguments).endswith(";16B")


def _pillow_pixels(image: Image.Image) -> np.ndarray:
    mode = _plain_mode(image)
    pixels = np.asarray(image if mode == image.mode else image.convert(mode))
    if mode == "I" and image.format == "PPM":  # 16-bit grey, which Pillow keeps in 32 bits
        pixels = pixels.astype(np.uint16)
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize == 2:
        pixels = pixels.astype(np.uint16)  # I;16B is big-endian
    return pixels.reshape(*pixels.shape[:2], -1)


def _plain_mode(image: Image.Image) -> str:
    """Return the mode among grey, grey with alpha, RGB and RGBA that loses nothing of an image."""
    transparent = "transparency" in image.info
    if image.mode in ("1", "L"):
        return "LA" if transparent else "L"
    if image.mode in ("LA", "La"):
        return "LA"
    if image.mode in ("RGBA", "RGBa", "PA"):
        return "RGBA"
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return image.mode
    return "RGBA" if transparent and image.mode in ("P", "RGB") else "RGB"
