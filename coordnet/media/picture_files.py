"""Pictures in and out at the bit depth of the file, by imageio and tifffile."""

import io
import logging
import math
import re
import sys
from pathlib import Path
from typing import Any

import av
import imageio.v3 as iio
import numpy as np
import tifffile
import torch
from PIL import Image
from scipy.spatial import KDTree
from skimage.transform import resize, resize_local_mean

from coordnet.linalg.orientations import upright
from coordnet.media import files
from coordnet.media.files import MediaError, StrPath, atomic_path, decoding, encoding, mismatch
from coordnet.media.signal import Media, from_depth, rounded_by_float32
from coordnet.media.tags import Tags, read_tags

TIFF_SUFFIXES = (".tif", ".tiff")
IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".apng", *TIFF_SUFFIXES),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".tga", ".jp2", ".avif"),
)
ANIMATED_SUFFIXES = (".gif", ".webp", ".apng", ".png", ".avif")
# Formats whose 16 bits per channel Pillow may cut to 8. FFmpeg keeps them and writes these pixel types.
_DEEP_SUFFIXES = (".png", ".apng", ".pgm", ".ppm", ".pnm")
_DEEP_PIXELS = {1: "gray16be", 2: "ya16be", 3: "rgb48be", 4: "rgba64be"}
# What a channel beyond the colors is (TIFF 6.0, page 31): unspecified, opacity that colors are multiplied by, opacity.
NO_ALPHA, TIMES_ALPHA, STRAIGHT = 0, 1, 2
HEADER = 33  # bytes of a PNG file to the end of its first chunk, which has the size and the type of the pixels
COMPRESSED_LESS = 2**24  # numbers of a picture that is compressed less, five times as fast
AVERAGED = 8  # a side that shrinks by more is first averaged over areas: a wide filter takes seconds a picture
_SIZE = r"([1-9]\d*)[x×]([1-9]\d*)"
_CROP = _SIZE + r"(?:\+(\d+)\+(\d+))?"

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # otherwise Python prints what tifffile logs
COLORS = 256  # colors in a palette


def read_image(path: StrPath, *, size: str | None = None, crop: str | None = None, memory: int | None = None) -> Media:
    """Read a picture, turned upright, into a signal of shape (height, width, channels).

    Integers are scaled to [0, 1], and one bit is 0 or 1, which is the type bool; the NODATA of a GeoTIFF is NaN.
    Channels are 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha); a TIFF file may have others. The first
    picture of an animation is read.
    ``size`` ("256x256") is the height and width to resize to with anti-aliasing; ``crop`` is the part to keep after
    that, "128x128" from the center or "128x128+10+20" from row 10 and column 20. A picture that needs more than
    ``memory`` bytes is refused, see ``refuse_large``.
    """
    path = files.readable_file(path, "an image")
    pixels, alpha = read_pixels(path, memory)
    pixels, tags = pixels > 0 if _has_one_bit(path) else pixels, read_tags(path)
    image, suffix = resize_and_crop(known_values(pixels, tags, path), size, crop, memory), path.suffix.lower()
    stored, whole = kept_numbers(pixels, tags), size is None and crop is None
    options: Any = {"alpha": alpha, "stored": stored if whole else None, "tags": tags if whole else tags.cut()}
    return Media(torch.from_numpy(image), "image", path.stem, pixels.dtype.name, suffix=suffix, **options)


def is_stack(path: Path) -> bool:
    """Return whether a file is a TIFF file whose first series has several pages."""
    if path.suffix.lower() not in TIFF_SUFFIXES:
        return False
    with decoding(path, "an image"), tifffile.TiffFile(path) as file:
        return file.series[0].size > math.prod(file.pages.first.shape)


def is_animated(path: Path) -> bool:
    """Return whether a file of a format of pictures holds several of them."""
    return path.suffix.lower() in ANIMATED_SUFFIXES and files.declared_pictures(path, sys.maxsize) > 1


def known_values(pixels: np.ndarray, tags: Tags, path: StrPath) -> np.ndarray:
    """Return pixels as values in float32, NaN where they have the number of a missing one; see ``from_depth``."""
    missing = tags.missing(pixels)
    if missing is None or not missing.any():
        return from_depth(pixels, path)
    values = from_depth(np.where(missing, pixels.dtype.type(0), pixels), path)
    values[missing] = np.nan
    return values


def kept_numbers(pixels: np.ndarray, tags: Tags) -> np.ndarray | None:
    """Return pixels if what is written for their values may differ from them, otherwise None."""
    # A palette is chosen anew unless some of its colors stay.
    differ = tags.palette is not None or tags.nodata is not None
    return pixels if differ else rounded_by_float32(pixels)


def _has_one_bit(path: Path) -> bool:
    """Return whether the pixels of a picture are black or white, without opacity, and are stored in one bit each."""
    with decoding(path, "an image"):
        if path.suffix.lower() in TIFF_SUFFIXES:
            with tifffile.TiffFile(path) as file:
                page = file.pages.first
                return page.bitspersample == page.samplesperpixel == 1
        with Image.open(path, formats=files.FORMATS) as image:
            return image.mode == "1" and "transparency" not in image.info


def read_pixels(path: Path, memory: int | None = None) -> tuple[np.ndarray, bool]:
    """Return the first picture in a file, upright, and whether its last channel is opacity.

    It has the shape (height, width, channels) and the file's integer or float type. A palette becomes RGB, a
    transparent color becomes an alpha channel, one bit becomes 0 and 255, and CMYK and other color models become RGB;
    colors that the file has times their opacity are divided by it. A small file can unpack to fill the memory; what it
    declares is therefore held against ``memory`` first, see ``refuse_large``. Pillow refuses more than 178 megapixels
    by itself.
    """
    with decoding(path, "an image"):
        by_tifffile = _read_by_tifffile(path, memory) if path.suffix.lower() in TIFF_SUFFIXES else None
        pixels, orientation, extra = (*_read_raster(path, memory), (STRAIGHT,)) if by_tifffile is None else by_tifffile
        pixels = upright(pixels, orientation)
        pixels = pixels.reshape(*pixels.shape[:2], -1).astype(pixels.dtype.newbyteorder("="), copy=False)
        alpha = pixels.shape[-1] in (2, 4) and NO_ALPHA not in extra
        return divided(pixels) if alpha and TIMES_ALPHA in extra else pixels, alpha


def divided(pixels: np.ndarray) -> np.ndarray:
    """Return pixels whose colors are divided by their opacity, black where that is zero."""
    peak = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "iu" else 1
    colors, alpha = pixels[..., :-1].astype(np.float64) * peak, pixels[..., -1:].astype(np.float64)
    colors = np.divide(colors, alpha, out=np.zeros_like(colors), where=alpha > 0)
    colors = colors if pixels.dtype.kind == "f" else np.clip(np.rint(colors), 0, peak)
    return np.concatenate([colors.astype(pixels.dtype), pixels[..., -1:]], axis=-1)


def _read_raster(path: Path, memory: int | None) -> tuple[np.ndarray, int]:
    """Return the pixels and the orientation of a picture that Pillow reads."""
    files.declared_pictures(path, memory)
    file: Any
    with iio.imopen(path, "r", plugin="pillow") as file:
        metadata = file.metadata(index=0, exclude_applied=False)
        mode = metadata["mode"]
        if mode not in ("I", "F") and not mode.startswith("I;16"):
            alpha = "A" if "transparency" in metadata or mode in ("LA", "La", "PA", "RGBA", "RGBa") else ""
            mode = ("L" if mode in ("1", "L", "LA", "La") else "RGB") + alpha
        pixels = file.read(index=0, mode=mode)  # raises for a truncated file
        # After the read, the metadata has no orientation if Pillow has turned the picture.
        orientation = file.metadata(index=0, exclude_applied=False).get("Orientation", 1)
    if path.suffix.lower() in _DEEP_SUFFIXES:
        with av.open(str(path)) as container:  # imageio's reader would collect garbage, which takes 0.2 s
            stored = container.streams.video[0].codec_context.pix_fmt or ""
        if stored.startswith(("gray16", "ya16", "rgb48", "rgba64")):
            pixels = _read_by_ffmpeg(path)
    return pixels, orientation


def _read_by_ffmpeg(path: Path) -> np.ndarray:
    return iio.imread(path, plugin="pyav", format=None, index=0)


def _read_by_tifffile(path: Path, memory: int | None) -> tuple[np.ndarray, int, tuple[int, ...]] | None:
    """Return the pixels, the orientation and the kinds of extra channels of a TIFF file.

    It is None for 8 bits and fewer, which Pillow reads, but for a channel that is neither color nor opacity. tifffile
    needs another package for LZW and PackBits; FFmpeg reads these if they have 8 or 16 bits.
    """
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        count = file.series[0].size // max(1, math.prod(page.shape))
        if count > 1:
            raise mismatch(path, "one picture", f"{count} (a stack can be read as .npy)")
        extra = tuple(page.extrasamples)
        if page.bitspersample <= 8 and page.samplesperpixel <= 4 and NO_ALPHA not in extra:
            return None
        files.refuse_large(path, math.prod(page.shape), memory)
        try:
            pixels = page.asarray()
            pixels = np.moveaxis(pixels, 0, -1) if page.axes.startswith("S") else pixels
            pixels = black_at_zero(pixels, page)
        except ValueError as error:
            if "imagecodecs" not in str(error) or page.bitspersample not in (8, 16):
                raise
            pixels = _read_by_ffmpeg(path)
        return pixels, int(page.tags.valueof("Orientation", 1)), extra


def black_at_zero(pixels: np.ndarray, page: tifffile.TiffPage) -> np.ndarray:
    """Return the pixels of a page, inverted if zero is white there."""
    if page.photometric != tifffile.PHOTOMETRIC.MINISWHITE or pixels.dtype.kind not in "bu":
        return pixels
    return ~pixels


def resize_and_crop(image: np.ndarray, size: str | None, crop: str | None, memory: int | None = None) -> np.ndarray:
    """Resize an image (height, width, channels) in float32 with anti-aliasing, then crop it; see ``read_image``."""
    if size is not None and (shape := _parse("size", _SIZE, size)) != image.shape[:2]:
        files.refuse_large("`size`", math.prod(shape) * math.prod(image.shape[2:]), memory)
        # Means over areas leave half of the shrinking, at most 8, to the filter.
        means = tuple(AVERAGED * m // 2 if n > AVERAGED * m else n for n, m in zip(image.shape, shape, strict=False))
        if means != image.shape[:2]:
            image = np.asarray(resize_local_mean(image, means, preserve_range=True))
        image = np.asarray(resize(image, shape, order=1, anti_aliasing=True, preserve_range=True))
    if crop is not None:
        rows, columns, *place = _parse("crop", _CROP, crop)
        height, width = image.shape[:2]
        top, left = place or ((height - rows) // 2, (width - columns) // 2)
        if min(top, left) < 0 or top + rows > height or left + columns > width:
            raise MediaError(f"`crop`: expected a part of {height}x{width} (height x width), found {crop!r}")
        image = image[top : top + rows, left : left + columns]
    return np.ascontiguousarray(image, dtype=np.float32)


def _parse(option: str, pattern: str, text: str) -> tuple[int, ...]:
    match = re.fullmatch(pattern, text.strip())
    if match is None:
        raise MediaError(f"`{option}`: expected HEIGHTxWIDTH such as 256x256, found {text!r}")
    return tuple(int(number) for number in match.groups() if number is not None)


def write_image(media: Media, path: Path) -> list[str]:
    """Write a picture without loss; integers are the signal times their type's largest value, rounded and clipped.

    PNG holds 1 to 4 channels of uint8 or uint16, or one of bool, TIFF any number of channels of any type, and notes
    whether the last of 2 or 4 is opacity. The tags that the file does not hold are returned.
    """
    suffix, channels, depth, tags = path.suffix.lower(), media.signal.shape[-1], media.depth, media.tags
    if suffix not in (".png", *TIFF_SUFFIXES):
        raise mismatch(path, "the suffix .png or .tiff to write an image", repr(suffix))
    if media.signal.numel() == 0:
        raise mismatch(path, "an image of at least one pixel", f"shape {tuple(media.signal.shape)}")
    if suffix == ".png" and depth != "bool" * (channels == 1) and (depth not in ("uint8", "uint16") or channels > 4):
        found = f"{channels} channels of {depth} (.tiff holds them)"
        raise mismatch(path, "1 to 4 channels of uint8 or uint16 in .png", found)
    pixels, exact = media.numbers(path), media.exact
    pixels = pixels[..., 0] if channels == 1 else pixels
    held, lost = (tags.for_tiff if suffix in TIFF_SUFFIXES else tags.for_png)(channels)
    with atomic_path(path) as temporary, encoding(path, "an image"):
        if suffix in TIFF_SUFFIXES:
            tifffile.imwrite(temporary, pixels, compression="zlib", **tiff_options(channels, alpha=media.alpha), **held)
        elif tags.palette is not None and exact is not None and channels == 3:
            indexed(pixels, np.asarray(exact.where.all(-1)), tags.palette).save(temporary, **held)
        else:
            write_pixels(pixels, temporary, held)
            lost += tags.lost_palette
    return lost


def write_pixels(pixels: np.ndarray, path: Path, held: dict[str, Any]) -> None:
    """Write pixels of 8 or 16 bits, (height, width) or with 1 to 4 channels, into a PNG file.

    ``held`` are Pillow's options for what the file says beside them, see ``Tags``.
    """
    pixels = pixels[..., 0] if pixels.shape[2:] == (1,) else pixels
    if pixels.dtype == np.uint16:
        stored = _DEEP_PIXELS[1 if pixels.ndim == 2 else pixels.shape[2]]
        formats = {"in_pixel_format": stored, "out_pixel_format": stored}
        iio.imwrite(path, pixels, plugin="pyav", codec="png", is_batch=False, **formats)
        if held:
            path.write_bytes(_with_chunks(path.read_bytes(), held))
    else:
        fast: dict[str, Any] = {"compress_level": 1} if pixels.size > COMPRESSED_LESS else {}
        iio.imwrite(path, pixels, plugin="pillow", is_batch=False, **fast, **held)


def _with_chunks(written: bytes, held: dict[str, Any]) -> bytes:
    """Return a PNG file by FFmpeg with the chunks between header and pixels that Pillow makes of its options."""
    model = io.BytesIO()
    Image.new("L", (1, 1)).save(model, "PNG", **held)
    chunks = model.getvalue()
    first, last = written.index(b"IDAT") - 4, chunks.index(b"IDAT") - 4
    return written[:HEADER] + chunks[HEADER:last] + written[first:]


def tiff_options(channels: int, *, alpha: bool) -> dict[str, Any]:
    """Return tifffile's options for a picture with channels last; ``alpha``: the last of 2 or 4 channels is opacity."""
    colors = 3 if channels in (3, 4) else 1
    extra = ["unassalpha" if alpha and channels in (2, 4) else "unspecified"] * (channels - colors)
    return {
        "photometric": "rgb" if colors == 3 else "minisblack",
        "planarconfig": None if channels == 1 else "contig",
        "extrasamples": extra or None,
        "metadata": None,
    }


def indexed(pixels: np.ndarray, kept: np.ndarray, palette: np.ndarray | None) -> Image.Image:
    """Return a picture (height, width, 3) whose palette has the colors of the kept pixels (height, width).

    These are those of a ``palette`` (colors, 3), in its order, where one is given. Other pixels get the nearest of 256
    colors, those that are left being chosen for them.
    """
    others, colors = pixels[~kept], np.unique(pixels[kept], axis=0) if palette is None else palette
    if len(others) and len(colors) < COLORS:
        chosen = np.asarray(Image.fromarray(others[None]).quantize(COLORS - len(colors)).convert("RGB"))[0]
        colors = np.concatenate([colors, np.unique(chosen, axis=0)])
    distinct, first = np.unique(colors, axis=0, return_index=True)
    picture = Image.fromarray(first[KDTree(distinct).query(pixels)[1]].astype(np.uint8))
    picture.putpalette(colors.tobytes())
    return picture
