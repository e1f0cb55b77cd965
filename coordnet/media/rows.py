"""Signals larger than memory: NPY, Zarr and TIFF files that are read and written in blocks of rows."""

import math
import mmap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tifffile

from coordnet.media.files import decoding, encoding, mismatch, readable_file
from coordnet.media.pictures import TIFF_SUFFIXES, tiff_options
from coordnet.media.signal import from_depth, real_dtype, to_depth
from coordnet.media.tables import last_axis_holds_channels, load_array

ROW_SUFFIXES = (".npy", ".zarr", *TIFF_SUFFIXES)
STRIP, TILE = 64, 256  # rows and columns of a TIFF file's tile; rows of a Zarr array's chunk
MAX_MAPPED_BYTES = 2**24  # of a memory map that are read before its pages are released
READAHEAD_BYTES = 2**16  # that the system maps around a byte that is read


@dataclass(frozen=True)
class RowFile:
    """A signal (*grid, channels) in a file; slicing reads rows and scales them (see `from_depth`)."""

    path: Path
    stored: Any  # the numbers in the file
    kind: Literal["array", "image"]
    channel_axis: bool  # whether the last axis of the stored numbers holds channels
    opened: ExitStack  # closed with the context

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, then the number of channels."""
        return tuple(self.stored.shape) if self.channel_axis else (*self.stored.shape, 1)

    @property
    def depth(self) -> str:
        """The name of the stored type."""
        return np.dtype(self.stored.dtype).name

    @property
    def nbytes(self) -> int:
        """The bytes of the signal in float32."""
        return 4 * math.prod(self.shape)

    @property
    def alpha(self) -> bool:
        """Whether the last channel is opacity: true for images of 2 channels (gray) or 4 (RGB)."""
        return self.kind == "image" and self.shape[-1] in (2, 4)

    @property
    def _mmap(self) -> Any:
        return getattr(self.stored, "_mmap", None)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return rows of shape (rows, *rest, channels) in float32."""
        values = from_depth(read_rows(self.stored, rows), self.path)
        return values if self.channel_axis else values[..., None]


def read_rows(source: Any, rows: slice) -> np.ndarray:
    """Return rows of an array, copied column by column from a memory map in Fortran's order.

    In that order every value of a row is on a page of its own, so that reading a few rows maps the whole file.
    """
    if not isinstance(source, np.memmap) or source.flags.c_contiguous or not source.flags.f_contiguous:
        return np.asarray(source[rows])
    columns = source.reshape(len(source), -1, order="F")
    out = np.empty((len(columns[rows]), columns.shape[1]), source.dtype, order="F")
    step = max(1, MAX_MAPPED_BYTES // (READAHEAD_BYTES + out[:, 0].nbytes))
    for a in range(0, columns.shape[1], step):
        out[:, a : a + step] = columns[rows, a : a + step]
        release(source)
    return out.reshape(-1, *source.shape[1:], order="F")


def release(source: object) -> None:
    """Give the pages of a memory map, which count as this process's memory, back to the system.

    A map in mode "c" keeps its pages, because they alone hold what was written to it.
    """
    mapped = getattr(source, "_mmap", None)  # an attribute of NumPy's memory maps
    private = getattr(source, "mode", "r") == "c"
    if not private and isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def open_rows(path: Path) -> RowFile:
    """Open a signal to be read in rows: an .npy file, a .zarr folder, or a TIFF file of one picture."""
    suffix, opened, kind = path.suffix.lower(), ExitStack(), "array"
    if suffix == ".zarr":
        if not path.exists():
            raise mismatch(path, "a Zarr array", "nothing of this name")
        zarr = _zarr_package(path)
        with decoding(path, "a Zarr array"):
            stored = zarr.open(str(path), mode="r")
            if not isinstance(stored, zarr.Array):
                raise ValueError("a group of arrays: name one of them")
    elif suffix == ".npy":
        stored = load_array(readable_file(path, "an NPY array"), mmap_mode="r")
    elif suffix in TIFF_SUFFIXES:
        stored, kind = _open_tiff(readable_file(path, "an image"), opened), "image"
    else:
        raise mismatch(path, f"one of {' '.join(ROW_SUFFIXES)} to read in rows", repr(suffix))
    shape = tuple(stored.shape)
    if math.prod(shape) == 0 or not shape:
        raise mismatch(path, "an array with at least one axis and value", str(shape))
    real_dtype(np.dtype(stored.dtype).name, path)
    channel_axis = len(shape) == 3 if kind == "image" else last_axis_holds_channels(shape)
    return RowFile(path, stored, kind, channel_axis, opened)


def _zarr_package(path: Path) -> Any:
    try:
        import zarr
    except ImportError:
        raise mismatch(path, "the package zarr (pip install 'coordnet[zarr]')", "none") from None
    return zarr


def _open_tiff(path: Path, opened: ExitStack) -> Any:
    """Map the picture in a TIFF file, or read it by strips or tiles if it is compressed."""
    with decoding(path, "an image"), ExitStack() as stack:
        page = stack.enter_context(tifffile.TiffFile(path)).pages.first
        plain = page.bitspersample in (8, 16, 32, 64) and page.axes in ("YX", "YXS")
        tag = page.tags.get("Orientation")
        turned = tag is not None and int(tag.value) != 1
        if len(page.parent.pages) > 1 or not plain or page.photometric not in (1, 2) or turned:
            raise ValueError("a stack, or pixels that are planar, packed, turned or of a palette")
        if page.is_memmappable:
            return tifffile.memmap(path, mode="r")
        found = _zarr_package(path).open(stack.enter_context(page.aszarr()), mode="r")
        opened.push(stack.pop_all())
        return found


def write_rows(
    path: Path, shape: tuple[int, ...], depth: str, blocks: Iterable[np.ndarray], *, channel_axis: bool
) -> None:
    """Write a signal of this shape (*grid, channels) block by block, into a new .npy, .zarr or TIFF file.

    `blocks` are its rows, (rows, *rest, channels), from the first to the last. `depth` is the name of a NumPy dtype;
    integers are the signal times their largest value, rounded and clipped. `channel_axis=False` leaves out an axis
    of channels of length 1.
    """
    kept = shape if channel_axis else shape[:-1]
    stored = (to_depth(block, depth, path).reshape(-1, *kept[1:]) for block in blocks)
    writer = {".npy": _write_npy, ".zarr": _write_zarr}.get(path.suffix.lower(), _write_tiff)
    with encoding(path, "a signal in rows"):
        writer(path, kept, np.dtype(depth), stored)


def _write_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterator[np.ndarray]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)


def _write_zarr(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterator[np.ndarray]) -> None:
    chunks = (min(STRIP, shape[0]), *(min(1024, n) for n in shape[1:]))
    array = _zarr_package(path).create_array(store=str(path), shape=shape, dtype=dtype, chunks=chunks)
    row = 0
    for block in blocks:
        array[row : row + len(block)] = block
        row += len(block)


def _write_tiff(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterator[np.ndarray]) -> None:
    options = tiff_options(shape[2] if len(shape) == 3 else 1)
    options |= {"tile": (STRIP, TILE), "bigtiff": math.prod(shape) * dtype.itemsize > 2**31}
    tifffile.imwrite(path, _tiles(blocks), shape=shape, dtype=dtype, **options)


def _tiles(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the rows in tiles of `STRIP` by `TILE`, padded with zeros at the border."""
    for strip in _strips(blocks):
        for left in range(0, strip.shape[1], TILE):
            part = strip[:, left : left + TILE]
            missing = [(0, STRIP - part.shape[0]), (0, TILE - part.shape[1])]
            yield np.pad(part, [*missing, *[(0, 0)] * (part.ndim - 2)])


def _strips(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the rows in blocks of `STRIP`; the last block may be shorter."""
    kept: list[np.ndarray] = []
    for block in blocks:
        joined = np.concatenate([*kept, block]) if kept else block
        whole = len(joined) // STRIP * STRIP
        for a in range(0, whole, STRIP):
            yield joined[a : a + STRIP]
        kept = [joined[whole:]] if whole < len(joined) else []
    yield from kept
