"""Signals larger than memory: NPY, NPZ, Zarr and TIFF files that are read and written in blocks of rows."""

import math
import mmap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from coordnet import _checks
from coordnet.media.array_files import ARRAY_SUFFIXES, load_array, zarr_options, zarr_package
from coordnet.media.files import decoding, encoding, mismatch, readable_file, refuse_large, split_member
from coordnet.media.picture_files import (
    IMAGE_SUFFIXES,
    NO_ALPHA,
    TIFF_SUFFIXES,
    TIMES_ALPHA,
    known_values,
    read_pixels,
    tiff_options,
)
from coordnet.media.signal import to_depth
from coordnet.media.tags import Tags, read_tags

ROW_SUFFIXES = (*ARRAY_SUFFIXES, *TIFF_SUFFIXES)


@dataclass(frozen=True)
class RowFile:
    """A signal (*grid, channels) in a file; slicing reads rows and scales them (see ``from_depth``)."""

    path: Path
    stored: Any  # the numbers in the file
    channel_axis: bool  # whether the last axis of the stored numbers holds channels
    alpha: bool  # whether the last channel is opacity
    tags: Tags = Tags()  # metadata of a picture's file

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, then the number of channels."""
        return tuple(self.stored.shape) if self.channel_axis else (*self.stored.shape, 1)

    @property
    def depth(self) -> str:
        """The name of the stored type."""
        return np.dtype(self.stored.dtype).name

    def held(self, suffix: str, shape: tuple[int, ...]) -> tuple[dict[str, Any], list[str]]:
        """Return the options to write a result of this shape with what this file says, and what it does not hold."""
        if suffix == ".zarr":
            return zarr_options(self.stored), []
        tags = self.tags.enlarged(*(m / n for m, n in zip(shape[:2], self.shape[:2], strict=True)))
        channels = shape[-1]
        return tags.for_tiff(channels) if suffix in TIFF_SUFFIXES else tags.for_png(channels)

    def __getitem__(self, rows: slice | tuple[slice, ...]) -> np.ndarray:
        """Return rows of shape (rows, *rest, channels) in float32, or a part of them."""
        part = (rows,) if isinstance(rows, slice) else rows
        with decoding(self.path, "a signal in rows"):
            numbers = np.array(self.stored[part[: self.stored.ndim]])
            numbers = numbers if self.channel_axis else numbers[..., None]
            values = known_values(numbers, self.tags, self.path)
        _release(self.stored)
        if self.tags.nodata is not None and np.isnan(values).any():
            raise mismatch(self.path, "values known everywhere", f"NODATA ({self.tags.nodata:g}; see inpaint)")
        return values


def _release(stored: Any) -> None:
    """Return the pages of a memory map, which count as this process's memory, to the system."""
    if isinstance(stored, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        stored._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


@contextmanager
def open_rows(path: Path, memory: int | None = None) -> Iterator[RowFile]:
    """Open a signal to be read in rows: an array's file or folder, or a TIFF file of one picture.

    A compressed picture is refused as if it were read whole, see ``refuse_large``: a small file may declare any size.
    """
    suffix = split_member(path)[0].suffix.lower()
    alpha = False
    with ExitStack() as opened:
        if suffix in ARRAY_SUFFIXES:
            stored = load_array(path, mapped=True)
        elif suffix in TIFF_SUFFIXES:
            stored, alpha = _open_tiff(readable_file(path, "an image"), opened, memory)
        elif suffix in IMAGE_SUFFIXES:
            stored, alpha = read_pixels(readable_file(path, "an image"), memory)
        else:
            raise mismatch(path, f"one of {' '.join(ROW_SUFFIXES)} or a picture to read in rows", repr(suffix))
        shape = tuple(stored.shape)
        if math.prod(shape) == 0 or not shape:
            raise mismatch(path, "an array with at least one axis and value", str(shape))
        if np.dtype(stored.dtype).kind not in "biuf":
            raise mismatch(path, "real numbers", f"values of type {stored.dtype}")
        picture = suffix in IMAGE_SUFFIXES
        channel_axis = len(shape) == 3 if picture else _checks.ends_in_channels(shape)
        yield RowFile(path, stored, channel_axis, alpha, read_tags(path) if picture else Tags())


def _open_tiff(path: Path, opened: ExitStack, memory: int | None) -> tuple[Any, bool]:
    """Map the picture in a TIFF file, or read it by strips or tiles if it is compressed; see ``read_pixels``."""
    with decoding(path, "an image"):
        page = opened.enter_context(tifffile.TiffFile(path)).pages.first
        plain = page.bitspersample in (8, 16, 32, 64) and page.axes in ("YX", "YXS")
        turned = page.tags.valueof("Orientation", 1) != 1
        if len(page.parent.pages) > 1 or not plain or page.photometric not in (1, 2) or turned:
            raise ValueError("a stack, or pixels that are planar, packed, turned or of a palette")
        alpha = page.samplesperpixel in (2, 4) and NO_ALPHA not in page.extrasamples
        if alpha and TIMES_ALPHA in page.extrasamples:
            raise ValueError("colors times opacity")
        if page.is_memmappable:
            return tifffile.memmap(path, mode="r"), alpha
        refuse_large(path, math.prod(page.shape), memory)
        return zarr_package(path).open(opened.enter_context(page.aszarr()), mode="r"), alpha


def write_rows(
    path: Path,
    shape: tuple[int, ...],
    depth: str,
    blocks: Iterable[np.ndarray],
    *,
    channel_axis: bool,
    alpha: bool = True,
    held: dict[str, Any] | None = None,
) -> Any:
    """Write a signal of this shape (*grid, channels) block by block, into a new .npy, .zarr or uncompressed TIFF file.

    The numbers in the file are returned; for a .png file they are all there is, to be written by ``write_pixels``.

    ``blocks`` are its rows, (rows, *rest, channels), from the first to the last. ``depth`` is the name of a NumPy
    dtype; see ``to_depth``. ``channel_axis=False`` leaves out an axis of channels of length 1; ``alpha`` says
    whether the last channel of a picture is opacity, and ``held`` are the options of ``RowFile.held``.
    """
    kept = shape if channel_axis else shape[:-1]
    with encoding(path, "a signal in rows"):
        stored, row = _create(path, kept, np.dtype(depth), held or {}, alpha=alpha), 0
        for block in blocks:
            stored[row : row + len(block)] = to_depth(block, depth, path).reshape(-1, *kept[1:])
            row += len(block)
            _release(stored)
    return stored


def _create(path: Path, shape: tuple[int, ...], dtype: np.dtype, held: dict[str, Any], *, alpha: bool) -> Any:
    """Create a file and return an array whose assigned rows are written to it; of a .png file, the array alone."""
    if path.suffix.lower() == ".png":
        return np.empty(shape, dtype)
    if path.suffix.lower() == ".npy":
        return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if path.suffix.lower() == ".zarr":
        return zarr_package(path).create_array(store=str(path), shape=shape, dtype=dtype, **held)
    options = tiff_options(shape[2] if len(shape) == 3 else 1, alpha=alpha)
    return tifffile.memmap(path, shape=shape, dtype=dtype, **options, **held)
