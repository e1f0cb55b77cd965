"""Tables of numbers in and out, as CSV files."""

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from coordnet.media.files import StrPath, atomic_path, decoding, mismatch, readable_file
from coordnet.media.signal import Exact, as_numpy

TABLE_SUFFIXES = (".csv", ".tsv")


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


def write_table(
    path: StrPath, columns: Sequence[str], array: Float[Tensor, "rows columns"], *, exact: Exact | None = None
) -> None:
    """Write a table, float32 or float64, in the fewest digits that read back as the same numbers.

    ``columns`` are the names in the first row, one for each column; if it is empty, that row is left out. Cells are
    separated by commas, or by tabs if the suffix is .tsv. ``exact`` are numbers that replace the array's.
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
        values = as_numpy(array)
        if exact is not None:  # as texts, for each has the digits of its own type
            values = replace(exact, numbers=exact.numbers.astype(str)).over(values.astype(str))
        np.savetxt(file, values, fmt="%s", delimiter=separator)
