"""Pictures in and out at the bit depth of the file, by imageio and tifffile."""

import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import av
import imageio.v3 as iio
import numpy as np
import tifffile
import torch
from jaxtyping import Float
from skimage.transform import resize
from torch import Tensor

from coordnet.media.files import MediaError, StrPath, atomic_path, decoding, encoding, mismatch, readable_file
from coordnet.media.signal import Media, as_numpy, from_depth, to_depth

TIFF_SUFFIXES = (".tif", ".tiff")
IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".apng", *TIFF_SUFFIXES),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".tga", ".jp2", ".avif"),
)
# Formats of which Pillow may cut 16 bits a channel to 8. FFmpeg keeps them; it writes these pixel types.
_DEEP_SUFFIXES = (".png", ".apng", ".pgm", ".ppm", ".pnm")
_DEEP_PIXELS = {1: "gray16be", 2: "ya16be", 3: "rgb48be", 4: "rgba64be"}
# The axes to flip for an orientation (TIFF 6.0, page 36); from 5 on, rows and columns are then exchanged.
_FLIPPED = {2: (1,), 3: (0, 1), 4: (0,), 6: (0,), 7: (0, 1), 8: (1,)}
_SIZE = re.compile(r"(\d+)[x×](\d+)")
_CROP = re.compile(r"(\d+)[x×](\d+)(?:\+(\d+)\+(\d+))?")

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # or Python prints what tifffile logs


def read_image(path: StrPath, *, size: str | None = None, crop: str | None = None) -> Media:
    """Read a picture, turned upright, into a signal of shape (height, width, channels).

    Integers are scaled to [0, 1]. Channels are 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha);
    a TIFF file may have others. The first picture of an animation is read. `size` ("256x256") is the height and
    width to resize to with anti-aliasing; `crop` is the part to keep after that, "128x128" from the center or
    "128x128+10+20" from row 10 and column 20.
    """
    path = readable_file(path, "an image")
    pixels = read_pixels(path)
    image = resize_and_crop(from_depth(pixels, path), size, crop)
    return Media(torch.from_numpy(image), "image", path.stem, pixels.dtype.name)


def read_pixels(path: Path) -> np.ndarray:
    """Return the first picture in a file, upright, (height, width, channels), in the file's integer or float type.

    A palette becomes RGB, a transparent color becomes an alpha channel, one bit becomes 0 and 255, and CMYK and
    other color models become RGB. Pillow refuses more than 178 megapixels, as a guard against small files that
    unpack to fill the memory.
    """
    with decoding(path, "an image"):
        pixels = _read_deep_tiff(path) if path.suffix.lower() in TIFF_SUFFIXES else None
        pixels = _read_raster(path) if pixels is None else pixels
        return pixels.astype(pixels.dtype.newbyteorder("="), copy=False)


def count_pictures(path: Path) -> int:
    """Return the number of pictures in a file; an animation has more than one."""
    with decoding(path, "an image"):
        return iio.improps(path, index=..., plugin="pillow").n_images or 1  # type: ignore[arg-type]


def _read_raster(path: Path) -> np.ndarray:
    file: Any
    with iio.imopen(path, "r", plugin="pillow") as file:
        found = file.metadata(index=0, exclude_applied=False)
        pixels = file.read(index=0, mode=_plain_mode(found))  # raises for a truncated file
        # The second look at the metadata has no orientation if Pillow turned the picture on loading it.
        orientation = file.metadata(index=0, exclude_applied=False).get("Orientation")
    if path.suffix.lower() in _DEEP_SUFFIXES and found["mode"] in ("I", "LA", "RGB", "RGBA"):
        with av.open(str(path)) as container:  # imageio's reader would collect garbage, which takes 0.2 s
            stored = container.streams.video[0].codec_context.pix_fmt or ""
        if stored.startswith(("gray16", "ya16", "rgb48", "rgba64")):
            pixels = _read_by_ffmpeg(path)
    return _upright(pixels, orientation)


def _plain_mode(found: Mapping[str, Any]) -> str:
    """Return Pillow's mode among gray, gray with alpha, RGB and RGBA that loses nothing of an image."""
    mode = found["mode"]
    if mode in ("I", "F") or mode.startswith("I;16"):
        return mode
    alpha = "A" if "transparency" in found or mode in ("LA", "La", "PA", "RGBA", "RGBa") else ""
    return ("L" if mode in ("1", "L", "LA", "La") else "RGB") + alpha


def _read_by_ffmpeg(path: Path) -> np.ndarray:
    return iio.imread(path, plugin="pyav", format=None, index=0)


def _upright(pixels: np.ndarray, orientation: int | None) -> np.ndarray:
    """Apply an orientation tag, and add the axis of channels where it is missing."""
    pixels = np.flip(pixels, _FLIPPED.get(orientation or 1, ()))
    pixels = pixels.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else pixels
    return pixels.reshape(*pixels.shape[:2], -1)


def _read_deep_tiff(path: Path) -> np.ndarray | None:
    """Return the picture in a TIFF file, or None for 8 bits and fewer, which Pillow reads in every compression.

    tifffile leaves LZW and PackBits to a further package; FFmpeg reads them if they have 16 bits.
    """
    with tifffile.TiffFile(path) as file:
        if not file.pages:
            raise mismatch(path, "an image", "a TIFF file without a picture")
        page = file.pages.first
        count = file.series[0].size // max(1, math.prod(page.shape))
        if count > 1:
            raise mismatch(path, "one picture", f"{count} (a stack can be read as .npy)")
        if page.bitspersample <= 8 and page.samplesperpixel <= 4:
            return None
        try:
            pixels = page.asarray()
            pixels = np.moveaxis(pixels, 0, -1) if page.axes.startswith("S") else pixels
            if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE and pixels.dtype.kind == "u":
                pixels = np.iinfo(pixels.dtype).max - pixels
        except ValueError as error:
            if "imagecodecs" not in str(error) or page.bitspersample != 16:
                raise
            pixels = _read_by_ffmpeg(path)
        tag = page.tags.get("Orientation")
        return _upright(pixels, None if tag is None else int(tag.value))


def resize_and_crop(image: np.ndarray, size: str | None, crop: str | None) -> np.ndarray:
    """Resize an image (height, width, channels) in float32 with anti-aliasing, then crop it; see `read_image`.

    If the margins of a crop from the center differ, the smaller one is at the top or left.
    """
    if size is not None and (shape := _parse_size(size)) != image.shape[:2]:
        image = np.asarray(resize(image, shape, order=1, anti_aliasing=True, preserve_range=True))
    if crop is not None:
        image = image[_parse_crop(crop, *image.shape[:2])]
    return np.ascontiguousarray(image, dtype=np.float32)


def _parse_size(text: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(text.strip())
    height, width = (int(part) for part in match.groups()) if match else (0, 0)
    if height < 1 or width < 1:
        raise MediaError(f"size: expected HEIGHTxWIDTH such as 256x256, found {text!r}")
    return height, width


def _parse_crop(text: str, height: int, width: int) -> tuple[slice, slice]:
    match = _CROP.fullmatch(text.strip())
    rows, columns = (int(part) for part in match.groups()[:2]) if match else (0, 0)
    if match is None or rows < 1 or columns < 1:
        raise MediaError(f"crop: expected HEIGHTxWIDTH or HEIGHTxWIDTH+TOP+LEFT, found {text!r}")
    central = (height - rows) // 2, (width - columns) // 2
    top, left = central if match[3] is None else (int(match[3]), int(match[4]))
    if top < 0 or left < 0 or top + rows > height or left + columns > width:
        raise MediaError(f"crop: expected a part of {height}x{width} (height x width), found {text!r}")
    return slice(top, top + rows), slice(left, left + columns)


# The depths and channels that a format holds (an empty tuple: any), and the options of its encoder.
_JPEG = ("uint8",), (1, 3), {"quality": 95, "subsampling": 0}
_FORMATS: dict[str, tuple[tuple[str, ...], tuple[int, ...], dict[str, Any]]] = {
    ".png": (("uint8", "uint16"), (1, 2, 3, 4), {}),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".webp": (("uint8",), (1, 2, 3, 4), {"lossless": True, "exact": True}),
    ".bmp": (("uint8",), (1, 3), {}),
    ".tif": ((), (), {}),
    ".tiff": ((), (), {}),
}


def write_image(
    signal: Float[Tensor, "height width channels"], path: StrPath, *, depth: str = "uint8", force: bool = False
) -> None:
    """Write a picture; integers are the signal times their largest value, rounded and clipped.

    Formats are PNG (8 and 16 bits), TIFF (any depth, any number of channels), JPEG and BMP (8 bits, gray or RGB)
    and WebP (8 bits, lossless, gray becomes RGB). Only JPEG is lossy, at quality 95. `depth` is the name of a NumPy
    dtype that the format holds; an integer depth holds [0, 1].
    """
    suffix, channels = Path(path).suffix.lower(), signal.shape[-1]
    _check_holds(signal, path, suffix, depth)
    pixels = to_depth(as_numpy(signal), depth, path)
    pixels = pixels[..., 0] if channels == 1 else pixels
    with atomic_path(path, force=force) as temporary, encoding(path, "an image"):
        if suffix in TIFF_SUFFIXES:
            tifffile.imwrite(temporary, pixels, **tiff_options(channels))
        elif depth == "uint16":
            stored = _DEEP_PIXELS[channels]
            formats = {"in_pixel_format": stored, "out_pixel_format": stored}
            iio.imwrite(temporary, pixels, plugin="pyav", codec="png", is_batch=False, **formats)
        else:
            iio.imwrite(temporary, pixels, plugin="pillow", is_batch=False, **_FORMATS[suffix][2])


def tiff_options(channels: int) -> dict[str, Any]:
    """Return tifffile's options for a compressed picture with channels last, opacity in the last of 2 or 4."""
    colors = 3 if channels in (3, 4) else 1
    extra = ["unassalpha" if channels in (2, 4) else "unspecified"] * (channels - colors)
    return {
        "photometric": "rgb" if colors == 3 else "minisblack",
        "planarconfig": None if channels == 1 else "contig",
        "extrasamples": extra or None,
        "compression": "zlib",
        "metadata": None,
    }


def _check_holds(signal: Tensor, path: StrPath, suffix: str, depth: str) -> None:
    if suffix not in _FORMATS:
        raise mismatch(path, f"an image suffix to write ({' '.join(_FORMATS)})", repr(suffix))
    if signal.numel() == 0:
        raise mismatch(path, "an image of at least one pixel", f"shape {tuple(signal.shape)}")
    channels, (depths, allowed, _) = signal.shape[-1], _FORMATS[suffix]
    if depths and depth not in depths:
        raise mismatch(path, f"{' or '.join(depths)} in {suffix}", f"{depth} (.tiff holds it)")
    if allowed and channels not in allowed:
        expected = f"{' or '.join(map(str, allowed))} channels in {suffix}"
        raise mismatch(path, expected, f"{channels} (.png holds 1 to 4, .tiff any number)")
