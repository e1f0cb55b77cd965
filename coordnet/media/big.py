"""Arrays and pictures that are read and written in rows: NPY, Zarr and TIFF larger than memory."""

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tifffile

from coordnet.media.depths import from_depth, real_dtype, to_depth
from coordnet.media.errors import MediaError, decoding, encoding, readable_file
from coordnet.media.mapped import read_rows

ROW_SUFFIXES = (".npy", ".zarr", ".tif", ".tiff")
STRIP, TILE = 64, 256  # rows and columns of a TIFF file's tile; rows of a Zarr array's chunk
_MOST_CHANNELS = 4

Kind = Literal["array", "image"]


@dataclass(frozen=True)
class RowFile:
    """A signal in a file, (*grid, channels), whose rows are scaled as they are read: see ``from_depth``.

    Attributes
    ----------
    path : Path
        The file, or the folder of a Zarr array.
    stored : array-like
        What is in it; its rows are read by slicing.
    kind : "array" or "image"
        Images have opacity as the last of 2 or 4 channels.
    channel_axis : bool
        Whether the last axis that is stored holds channels.
    opened : ExitStack
        What is closed with it, as a context manager.
    """

    path: Path
    stored: Any
    kind: Kind
    channel_axis: bool
    opened: ExitStack

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, and the channels."""
        return tuple(self.stored.shape) if self.channel_axis else (*self.stored.shape, 1)

    @property
    def depth(self) -> str:
        """The name of the type that is stored."""
        return np.dtype(self.stored.dtype).name

    @property
    def nbytes(self) -> int:
        """Bytes of the signal in float32."""
        return 4 * math.prod(self.shape)

    @property
    def alpha(self) -> bool:
        """Whether the last channel is opacity."""
        return self.kind == "image" and self.shape[-1] in (2, 4)

    @property
    def _mmap(self) -> Any:
        return getattr(self.stored, "_mmap", None)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows, (rows, *rest, channels), in float32."""
        values = from_depth(read_rows(self.stored, rows), self.path)
        return values if self.channel_axis else values[..., None]


def open_rows(path: Path) -> RowFile:
    """Open a signal to be read in rows: an .npy file, a .zarr folder, or a TIFF file of one picture.

    Raises
    ------
    MediaError
        If the file is missing, damaged or of another kind, a package is missing that reads it, or the array is empty
        or not of real numbers.
    """
    suffix, opened = path.suffix.lower(), ExitStack()
    if suffix == ".zarr":
        stored, kind = _zarr(path), "array"
    elif suffix == ".npy":
        with decoding(readable_file(path, "an NPY array"), "an NPY array"):
            stored, kind = np.load(path, mmap_mode="r", allow_pickle=False), "array"
    elif suffix in ROW_SUFFIXES:
        stored, kind = _tiff(readable_file(path, "an image"), opened), "image"
    else:
        raise MediaError(
            f"{path}: expected one of {' '.join(ROW_SUFFIXES)} to read in rows, found {suffix!r}"
        )
    if len(stored.shape) == 0 or math.prod(stored.shape) == 0:
        raise MediaError(f"{path}: expected an array with at least one axis and value, found {stored.shape}")
    real_dtype(np.dtype(stored.dtype).name, path)
    axes = len(stored.shape)
    channels = axes == 3 if kind == "image" else axes > 1 and stored.shape[-1] <= _MOST_CHANNELS
    return RowFile(path, stored, kind, channels, opened)


def write_rows(
    path: Path, shape: tuple[int, ...], depth: str, blocks: Iterable[np.ndarray], *, channel_axis: bool
) -> None:
    """Write a signal as it is made, in the format of the path's suffix: an .npy, .zarr or TIFF file.

    Parameters
    ----------
    path
        Where nothing is yet.
    shape
        (*grid, channels).
    depth
        NumPy dtype name; integers are the signal times their largest value, rounded and clipped.
    blocks
        Rows of the signal, (rows, *rest, channels), one block under the other.
    channel_axis
        False to leave out a channel axis of length 1.

    Raises
    ------
    MediaError
        If the file cannot be written.
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
    zarr = _zarr_package(path)
    chunks = (min(STRIP, shape[0]), *(min(1024, n) for n in shape[1:]))
    array = zarr.create_array(store=str(path), shape=shape, dtype=dtype, chunks=chunks)
    row = 0
    for block in blocks:
        array[row : row + len(block)] = block
        row += len(block)


def _write_tiff(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterator[np.ndarray]) -> None:
    channels = shape[2] if len(shape) == 3 else 1
    colours = 3 if channels in (3, 4) else 1
    extra = ["unassalpha" if channels in (2, 4) else "unspecified"] * (channels - colours)
    tifffile.imwrite(
        path,
        _tiles(blocks),
        shape=shape,
        dtype=dtype,
        photometric="rgb" if colours == 3 else "minisblack",
        planarconfig=None if channels == 1 else "contig",
        extrasamples=extra or None,
        tile=(STRIP, TILE),
        compression="zlib",
        bigtiff=math.prod(shape) * dtype.itemsize > 2**31,
        metadata=None,
    )


def _tiles(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """The rows cut into tiles of ``STRIP`` by ``TILE``, those at the border filled with zeros."""
    for strip in _strips(blocks):
        for left in range(0, strip.shape[1], TILE):
            part = strip[:, left : left + TILE]
            missing = [(0, STRIP - part.shape[0]), (0, TILE - part.shape[1])]
            yield np.pad(part, [*missing, *[(0, 0)] * (part.ndim - 2)])


def _strips(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """The same rows in blocks of ``STRIP``, the last one shorter."""
    kept: list[np.ndarray] = []
    for block in blocks:
        joined = np.concatenate([*kept, block]) if kept else block
        whole = len(joined) // STRIP * STRIP
        for a in range(0, whole, STRIP):
            yield joined[a : a + STRIP]
        kept = [joined[whole:]] if whole < len(joined) else []
    yield from kept


def _zarr(path: Path) -> Any:
    if not path.exists():
        raise MediaError(f"{path}: expected a Zarr array, found nothing of this name")
    package = _zarr_package(path)
    with decoding(path, "a Zarr array"):
        found = package.open(str(path), mode="r")
        if not isinstance(found, package.Array):
            raise ValueError("a group of arrays: name one of them")
        return found


def _zarr_package(path: Path) -> Any:
    try:
        import zarr
    except ImportError:
        raise MediaError(
            f"{path}: expected the package zarr (pip install 'coordnet[zarr]'), found none"
        ) from None
    return zarr


def _tiff(path: Path, opened: ExitStack) -> Any:
    """The picture in a TIFF file: mapped where it is not compressed, else read strip by strip or tile by tile."""
    with decoding(path, "an image"), ExitStack() as stack:
        page = stack.enter_context(tifffile.TiffFile(path)).pages.first
        plain = page.bitspersample in (8, 16, 32, 64) and page.axes in ("YX", "YXS")
        if len(page.parent.pages) > 1 or not plain or page.photometric not in (1, 2) or _turned(page):
            raise ValueError("a stack, or pixels that are planar, packed, turned or of a palette")
        if page.is_memmappable:
            return tifffile.memmap(path, mode="r")
        found = _zarr_package(path).open(stack.enter_context(page.aszarr()), mode="r")
        opened.push(stack.pop_all())
        return found


def _turned(page: tifffile.TiffPage) -> bool:
    tag = page.tags.get("Orientation")
    return tag is not None and int(tag.value) != 1
