"""Tables of numbers in and out: CSV."""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from coordnet.media.atomic import atomic_path
from coordnet.media.errors import MediaError, StrPath, one_line, readable_file
from coordnet.media.signal import as_numpy

TABLE_SUFFIXES = (".csv", ".tsv")


class Table(NamedTuple):
    """Numbers in rows and columns; `columns` is empty where the file named none."""

    columns: tuple[str, ...]
    values: Float64[Tensor, "rows columns"]


def read_table(path: StrPath) -> Table:
    """Read a table of numbers, its cells separated by semicolons, tabs or commas.

    The first row names the columns if none of its cells is a number. Empty cells and `nan` are NaN. Where
    semicolons or tabs separate the cells, a comma is a decimal point.

    Returns
    -------
    Table
        Names, and values of shape (rows, columns), float64.

    Raises
    ------
    MediaError
        If the file is missing, empty or no text, a cell is neither a number nor empty, a number is infinite, or
        the rows differ in length. The message names the line.
    """
    path = readable_file(path, "a table of numbers")
    lines = _text(path).splitlines()
    separator = _separator(lines)
    rows = list(_rows(path, lines, separator))
    named = bool(rows) and _is_header(rows[0][1], separator)
    columns = tuple(cell.strip().lstrip("#").strip() for cell in rows[0][1]) if named else ()
    body = rows[1:] if named else rows
    if not body:
        raise MediaError(f"{path}: expected rows of numbers, found none")
    width = len(rows[0][1])
    values = [_numbers(path, line, cells, width, separator) for line, cells in body]
    return Table(columns, torch.tensor(values, dtype=torch.float64))


def write_table(
    path: StrPath, columns: Sequence[str], array: Float[Tensor, "rows columns"], *, force: bool = False
) -> None:
    """Write a table, with commas, in the fewest digits that read back as the same numbers.

    Parameters
    ----------
    path
        The file; with suffix .tsv cells are separated by tabs.
    columns
        Names for the first row, or nothing to write none.
    array
        Shape (rows, columns), float32 or float64.
    force
        Whether to replace a file that is already there.

    Raises
    ------
    MediaError
        If there are other than one name a column, names that would read back as numbers, no values, or
        infinite ones; if the file exists or cannot be written.
    """
    _check_table(path, columns, array)
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    with (
        atomic_path(path, force=force) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        quoting = csv.QUOTE_ALL if re.search('[;,\t"]', "".join(columns)) else csv.QUOTE_MINIMAL
        names = csv.writer(file, delimiter=separator, lineterminator="\n", quoting=quoting)
        names.writerows([columns] if columns else [])
        numbers = csv.writer(file, delimiter=separator, lineterminator="\n")
        numbers.writerows([str(number) for number in row] for row in as_numpy(array))


def _check_table(path: StrPath, columns: Sequence[str], array: Tensor) -> None:
    if array.numel() == 0:
        raise MediaError(f"{path}: expected a table with numbers, found shape {tuple(array.shape)}")
    if torch.isinf(array).any():
        raise MediaError(
            f"{path}: expected finite numbers (NaN marks what is missing), found an infinite one"
        )
    if columns and len(columns) != array.shape[1]:
        raise MediaError(f"{path}: expected {array.shape[1]} names of columns, found {len(columns)}")
    broken = [
        name for name in columns if name != name.strip().lstrip("#").strip() or len(name.splitlines()) != 1
    ]
    if broken or (columns and not _is_header(columns, "\t")):
        raise MediaError(f"{path}: expected names of columns that read back as such, found {list(columns)}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"found a byte that is no UTF-8 text at position {error.start}"
        raise MediaError(f"{path}: expected a table of numbers, {found}") from None
    except OSError as error:
        raise MediaError(f"{path}: expected a table of numbers, found {one_line(error)}") from None


def _separator(lines: Sequence[str]) -> str:
    """Return the first of semicolon, tab and comma that the first line with any text has outside quotes."""
    first = next((line for line in lines if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", first)
    return next((mark for mark in ";\t," if mark in bare), ",")


def _rows(path: Path, lines: Sequence[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of every row that is not blank."""
    reader = csv.reader(lines, delimiter=separator)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                yield reader.line_num, cells
    except csv.Error as error:
        raise MediaError(f"{path}: line {reader.line_num}: expected separated cells, found {error}") from None


def _is_header(cells: Sequence[str], separator: str) -> bool:
    """Return whether a row names columns: some cell has text, and none is a number."""
    texts = [cell for cell in cells if cell.strip()]
    return bool(texts) and all(_number(cell, separator) is None for cell in texts)


def _number(cell: str, separator: str) -> float | None:
    """Return the number in a cell, NaN for an empty one, None for anything else."""
    text = cell.strip()
    if separator != ",":
        text = text.replace(",", ".")
    try:
        return float(text or "nan") if "_" not in text else None
    except ValueError:
        return None


def _numbers(path: Path, line: int, cells: Sequence[str], width: int, separator: str) -> list[float]:
    if len(cells) != width:
        raise MediaError(
            f"{path}: line {line}: expected {width} cells as in the first row, found {len(cells)}"
        )
    numbers: list[float] = []
    for cell in cells:
        number = _number(cell, separator)
        if number is None or math.isinf(number):
            raise MediaError(f"{path}: line {line}: expected a finite number, found {cell.strip()[:60]!r}")
        numbers.append(number)
    return numbers
