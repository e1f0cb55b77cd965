"""Numbers in and out: tables in CSV files, arrays in NPY files."""

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from coordnet.media.files import StrPath, atomic_path, decoding, encoding, mismatch, readable_file
from coordnet.media.signal import Media, as_numpy, from_depth, to_depth

TABLE_SUFFIXES = (".csv", ".tsv")
ARRAY_SUFFIXES = (".npy",)
MAX_CHANNELS = 4  # a last axis that is longer belongs to the grid


def read_table(path: StrPath) -> tuple[tuple[str, ...], Float64[Tensor, "rows columns"]]:
    """Read the names of the columns, if any, and the numbers of a table with semicolons, tabs or commas between cells.

    The first row names the columns if none of its cells is a number. Empty cells and ``nan`` are NaN. The message of a
    ``MediaError`` names the line.
    """
    path = readable_file(path, "a table of numbers")
    with decoding(path, "a table of numbers in UTF-8 text"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        first = re.sub(r'"[^"]*"', "", next((line for line in lines if line.strip()), ""))
        reader = csv.reader(lines, delimiter=next((mark for mark in ";\t" if mark in first), ","))
        rows = [(reader.line_num, row) for row in reader if len(row) > 1 or "".join(row).strip()]
    columns, texts = (), [cell for cell in rows[0][1] if cell.strip()] if rows else []
    if texts and all(_number(text) is None for text in texts):
        columns = tuple(cell.strip().lstrip("#").strip() for cell in rows.pop(0)[1])
    if not rows:
        raise mismatch(path, "rows of numbers", "none")
    width = len(columns or rows[0][1])
    values = []
    for line, cells in rows:
        if len(cells) != width:
            raise mismatch(f"{path}: line {line}", f"{width} cells as in the first row", str(len(cells)))
        values.append([_number(cell) for cell in cells])
        for cell, number in zip(cells, values[-1], strict=True):
            if number is None or math.isinf(number):
                raise mismatch(f"{path}: line {line}", "a finite number", repr(cell.strip()[:60]))
    return columns, torch.tensor(values, dtype=torch.float64)


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN for an empty one, None for anything else."""
    try:
        return float(cell.strip() or "nan") if "_" not in cell else None
    except ValueError:
        return None


def write_table(path: StrPath, columns: Sequence[str], array: Float[Tensor, "rows columns"]) -> None:
    """Write a table, float32 or float64, in the fewest digits that read back as the same numbers.

    ``columns`` are the names in the first row, one for each column; if it is empty, that row is left out. Cells are
    separated by commas, or by tabs if the suffix is .tsv.
    """
    if array.numel() == 0:
        raise mismatch(path, "a table with numbers", f"shape {tuple(array.shape)}")
    if columns and len(columns) != array.shape[1]:
        raise mismatch(path, f"{array.shape[1]} names of columns", str(len(columns)))
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    quoting = csv.QUOTE_ALL if re.search('[;,\t"]', "".join(columns)) else csv.QUOTE_MINIMAL
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if columns:
            csv.writer(file, delimiter=separator, lineterminator="\n", quoting=quoting).writerow(columns)
        np.savetxt(file, as_numpy(array), fmt="%s", delimiter=separator)


def read_array(path: StrPath) -> Media:
    """Read an array of any number of axes into a signal of shape (*grid, channels).

    Integers are divided by the largest value of their type, booleans become 0 and 1, floats keep their values,
    NaN included. Pickled objects are never loaded. The last axis holds channels if it is one of two or more and no
    longer than 4; otherwise an axis of length 1 is added.
    """
    path = readable_file(path, "an NPY array")
    values = load_array(path)
    given = last_axis_holds_channels(values.shape)
    scaled = np.ascontiguousarray(from_depth(values, path))
    signal = torch.from_numpy(scaled if given else scaled[..., None])
    return Media(signal, "array", path.stem, values.dtype.name, channel_axis=given)


def load_array(path: Path, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Return the array in an NPY file, or a memory map of it; pickled objects are never loaded."""
    with decoding(path, "an NPY array"):
        values = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise ValueError("an archive of arrays")
    if values.size == 0 or values.ndim == 0:
        raise mismatch(path, "an array with at least one axis and value", f"shape {values.shape}")
    return values if mmap_mode else values.astype(values.dtype.newbyteorder("="), copy=False)


def last_axis_holds_channels(shape: tuple[int, ...]) -> bool:
    """Return whether the last axis of an array of unknown meaning is short enough for channels."""
    return len(shape) > 1 and shape[-1] <= MAX_CHANNELS


def write_array(
    signal: Float[Tensor, "*grid channels"], path: StrPath, *, depth: str = "float32", channel_axis: bool = True
) -> None:
    """Write an array as an .npy file; integers are the signal times their type's largest value, rounded and clipped.

    ``depth`` is the name of a NumPy dtype of booleans, integers or floats. ``channel_axis=False`` leaves out an axis of
    channels of length 1.
    """
    values = to_depth(as_numpy(signal), depth, path)
    values = values if channel_axis or values.shape[-1] != 1 else values[..., 0]
    with atomic_path(path) as temporary, encoding(path, "an array"):
        np.save(temporary, values, allow_pickle=False)
