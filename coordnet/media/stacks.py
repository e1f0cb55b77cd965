"""Stacks in TIFF files: pages of one size, such as slices, times and channels of a microscope, ImageJ's included."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import torch

from coordnet.media import files
from coordnet.media.files import StrPath, atomic_path, decoding, encoding, mismatch
from coordnet.media.picture_files import (
    NO_ALPHA,
    TIMES_ALPHA,
    black_at_zero,
    divided,
    kept_numbers,
    known_values,
    tiff_options,
)
from coordnet.media.signal import Media
from coordnet.media.tags import read_tags

CHANNELS = "SC"  # tifffile's letters of the axes that are channels: samples of a pixel, else channels of a microscope
IMAGEJ_TYPES = ("uint8", "uint16", "float32")
MAX_AXES = 4  # axes of the largest grid that is restored


def read_stack(path: StrPath, memory: int | None = None) -> Media:
    """Read a stack into a signal of shape (*grid, channels), the last two axes of the grid being height and width.

    Integers are scaled as those of pictures. More than ``memory`` bytes, see ``refuse_large``, more than four axes
    without the channels, and axes that do not end in height and width raise a ``MediaError``.
    """
    path = files.readable_file(path, "an image")
    numbers, axes, alpha = read_pages(path, memory)
    tags = read_tags(path)
    values = torch.from_numpy(np.ascontiguousarray(known_values(numbers, tags, path)))
    stored = kept_numbers(numbers, tags)
    options: Any = {"suffix": path.suffix.lower(), "axes": axes, "alpha": alpha, "stored": stored, "tags": tags}
    return Media(values, "stack", path.stem, numbers.dtype.name, **options)


def read_pages(path: Path, memory: int | None = None) -> tuple[np.ndarray, str, bool]:
    """Return the numbers (*grid, channels) of a stack, its axes, and whether its last channel is opacity."""
    with decoding(path, "a stack of pictures"), tifffile.TiffFile(path) as file:
        series = file.series[0]
        files.refuse_large(path, series.size, memory)
        channel = _channel(series.axes)
        axes = series.axes.replace(channel, "")
        if axes[-2:] != "YX" or len(axes) > MAX_AXES:
            raise mismatch(path, "a stack of height, width and at most two other axes", f"axes {series.axes}")
        page: Any = file.pages.first
        numbers, extra = black_at_zero(series.asarray(), page), tuple(page.extrasamples)
        numbers = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
    numbers = np.moveaxis(numbers, series.axes.index(channel), -1) if channel else numbers[..., None]
    alpha = len(extra) == 1 and numbers.shape[-1] in (2, 4) and NO_ALPHA not in extra
    return divided(numbers) if alpha and TIMES_ALPHA in extra else numbers, series.axes, alpha


def write_stack(media: Media, path: Path) -> list[str]:
    """Write pages into a TIFF file, with tifffile's letters for the axes of the source where there are any.

    The tags that the file does not hold are returned.
    """
    tags, channels, numbers = media.tags, media.signal.shape[-1], media.numbers(path)
    axes = media.axes or "TZYX"[-numbers.ndim + 1 :] + "S" * (channels > 1)
    channel = _channel(axes)
    numbers = np.moveaxis(numbers, -1, axes.index(channel)) if channel else numbers[..., 0]
    imagej = tags.imagej if media.depth in (("uint8",) if axes.endswith("S") else IMAGEJ_TYPES) else None
    held, lost = (tags if imagej is None else replace(tags, imagej=None)).for_tiff(channels)
    options: dict[str, Any] = tiff_options(channels if axes.endswith("S") else 1, alpha=media.alpha)
    if imagej is None:
        options |= {"compression": "zlib", "metadata": {"axes": axes}}
    else:
        said = {key: value for key, value in imagej.items() if key != "resolution"}
        options |= {"imagej": True, "resolution": imagej["resolution"], "metadata": {**said, "axes": axes}}
    with atomic_path(path) as temporary, encoding(path, "a stack of pictures"):
        tifffile.imwrite(temporary, numbers, **options, **held)
    return lost


def _channel(axes: str) -> str:
    """Return the letter of the axis of channels among some axes, which is empty if there is none."""
    return next((axis for axis in CHANNELS if axis in axes), "")
