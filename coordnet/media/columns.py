"""Tables in and out: texts beside numbers, comments, units, decimal commas, any delimiter."""

import csv
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from coordnet.media.files import StrPath, atomic_path, decoding, mismatch, readable_file
from coordnet.media.signal import Exact, as_numpy

TABLE_SUFFIXES = (".csv", ".tsv")
EXPECTED = "a table of numbers"
DELIMITERS = (";", "\t", "|", ",")  # in this order; spaces if there is none of them
COMMENTS = ("#", "%", "//")  # beginnings of lines that are no rows
MISSING = frozenset({"", "na", "n/a", "nan", "none", "null", "-", "--", "*"})
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
WITH_UNIT = re.compile(r"(.*\S)\s*[\[(]([^\[\]()]+)[\])]")  # the name of a column with its unit, as in "T (°C)"
SHOWN_NAMES = 12  # names of columns that a message lists


@dataclass(frozen=True)
class Columns:
    """Some columns of a table."""

    names: tuple[str, ...]  # their names, or ``column1`` and so on, counted from 1, in a table without names
    numbers: Float[np.ndarray, "rows columns"]  # their numbers in float64; what is missing is NaN
    units: tuple[str, ...] = ()  # their units, in brackets or in a second row as ERDDAP writes it; empty without one


class Table:
    """A table of text: its rows, and the names of its columns if it has some.

    Cells are separated by semicolons, tabs, bars, commas or spaces, whichever the first row has. Lines that begin with
    ``#``, ``%`` or ``//`` are comments; the last one before the rows may name the columns. Text is UTF-8 or Latin-1. A
    ``MediaError`` is raised for a file without rows.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = readable_file(path, EXPECTED)
        with decoding(path, EXPECTED):
            text = _decoded(self.path.read_bytes())
            if "\0" in text:
                raise mismatch(path, EXPECTED, "a file that is no text")
            lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
            is_comment = [line.lstrip().startswith(COMMENTS) for _, line in lines]
            first = is_comment.index(False) if False in is_comment else len(lines)
            noted = lines[first - 1][1].lstrip().lstrip("#%/") if first else ""
            kept = [line for line, skipped in zip(lines, is_comment, strict=True) if not skipped]
            self.delimiter = _delimiter([line for _, line in kept[:2]])
            rows = self._split([line for _, line in kept])
        self.rows = [(number, row) for (number, _), row in zip(kept, rows, strict=True)]
        if not self.rows:
            raise mismatch(path, "rows of numbers", "none")
        self.names: tuple[str, ...] = ()
        (noted_row,) = self._split([noted])
        width = len(self.rows[0][1])
        if _names_columns(*(row for _, row in self.rows[:2])):
            self.names = tuple(cell.strip() for cell in self.rows.pop(0)[1])
        elif len(noted_row) == width and _is_text(noted_row):
            self.names = tuple(cell.strip() for cell in noted_row)
        self.width = len(self.names) or width

    def index(self, wanted: str) -> int:
        """Return the place of a column by its name, or by its number from 1 on; ``MediaError`` if there is none."""
        lower = [name.lower() for name in self.names]
        for names, name in ((self.names, wanted), (lower, wanted.lower()), (self.bare_names, wanted.lower())):
            if names.count(name) == 1:
                return names.index(name)
        if wanted.isdecimal() and 1 <= int(wanted) <= self.width:
            return int(wanted) - 1
        some = ", ".join(self.names[:SHOWN_NAMES]) + (", …" if len(self.names) > SHOWN_NAMES else "")
        shown = f"the columns {some}" if self.names else f"{self.width} columns without names"
        raise mismatch(self.path, f"a column {wanted!r}", shown)

    @property
    def bare_names(self) -> list[str]:
        """The names in small letters without units, such as "t" for "T (°C)"."""
        return [_split_unit(name)[0].lower() for name in self.names]

    @property
    def numeric(self) -> list[int]:
        """The places of the columns that are not text in each of several rows, as names and dates are."""
        full = len(self.rows) > 1 and all(len(row) >= self.width for _, row in self.rows)
        columns = zip(*(row[: self.width] for _, row in self.rows), strict=True) if full else ()
        texts = {j for j, column in enumerate(columns) if all(_number(cell.strip()) is None for cell in column)}
        return [j for j in range(self.width) if j not in texts]

    def texts(self, count: int) -> dict[int, tuple[str, ...]]:
        """Return the other columns by their places: the name, if there are names, and the cells of ``count`` rows."""
        heading = [list(self.names)] * bool(self.names)
        rows, others = [*heading, *(row for _, row in self.rows[-count:])], {*range(self.width)} - {*self.numeric}
        return {j: tuple(row[j] for row in rows) for j in sorted(others)}

    def columns(self, wanted: Sequence[str] | None = None) -> Columns:
        """Return columns by their names or numbers, or all ``numeric`` ones of a table whose rows have one length.

        A ``MediaError`` names the line of a cell that is no number, or of a row that has too few cells.
        """
        at, rows = self.numeric if wanted is None else [self.index(name) for name in wanted], self.rows
        if not at:
            raise mismatch(self.path, "a column of numbers", "texts alone")
        names, units = self._named(at)
        if self.names and rows and max(at) < len(rows[0][1]):
            second = [rows[0][1][j].strip() for j in at]
            if all(cell and _number(cell) is None for cell in second):
                units, rows = tuple(second), rows[1:]
        if not rows:
            raise mismatch(self.path, "rows of numbers", "none")
        numbers, marks = np.empty((len(rows), len(at))), set()
        for i, (line, row) in enumerate(rows):
            if len(row) <= max(at) or (wanted is None and len(row) > self.width):
                raise mismatch(f"{self.path}: line {line}", f"{self.width} cells as in the first row", str(len(row)))
            for k, j in enumerate(at):
                number = _number(row[j].strip())
                marks |= set(row[j]) & {".", ","} if number is not None else set()
                if number is None or np.isinf(number) or len(marks) > 1:
                    expected = "one decimal mark, a point or a comma" if len(marks) > 1 else "a finite number"
                    raise mismatch(f"{self.path}: line {line}", f"{expected}, in {names[k]}", repr(row[j][:60]))
                numbers[i, k] = number
        return Columns(names, numbers, units)

    def _named(self, at: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of columns and their units, apart if all the names are still different then."""
        names = tuple(self.names[j] if self.names else f"column{j + 1}" for j in at)
        bare, units = zip(*map(_split_unit, names), strict=True)
        return (bare, units) if any(units) and len({*bare}) == len({*names}) else (names, ())

    def _split(self, lines: list[str]) -> list[list[str]]:
        if self.delimiter == " ":
            return [line.split() for line in lines]
        return list(chain.from_iterable(csv.reader([line], delimiter=self.delimiter) for line in lines))


def _split_unit(name: str) -> tuple[str, str]:
    """Return the name of a column and its unit in brackets, which is empty where there is none."""
    parts = WITH_UNIT.fullmatch(name)
    return (parts[1], parts[2].strip()) if parts else (name, "")


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter of rows; commas within numbers between spaces are decimal ones."""
    plain = [re.sub(r'"[^"]*"', "", line) for line in lines]
    for mark in DELIMITERS[:-1]:
        if plain and mark in plain[0]:
            return mark
    words = plain[-1].split() if plain else []
    by_spaces = len(words) > 1 and all(DECIMAL_COMMA.fullmatch(word) or "," not in word for word in words)
    return " " if by_spaces else ","


def _names_columns(first: list[str], second: Sequence[str] = ()) -> bool:
    """Whether a row has texts alone, or texts for the most part with a number below one: a year may name a column."""
    if _is_text(first):
        return True
    cells = [_number(cell.strip()) is None for cell in first]
    below = [_number(cell.strip()) is not None for cell in second]
    return sum(cells) > len(cells) / 2 and any(map(operator.and_, cells, below))


def _is_text(row: list[str]) -> bool:
    """Whether no cell of a row is a number, and not all are missing."""
    cells = [cell.strip() for cell in row]
    present = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(present) and all(_number(cell) is None for cell in present)


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN for a missing one, None for anything else."""
    if cell.lower() in MISSING:
        return float("nan")
    if DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def read_table(path: StrPath) -> tuple[tuple[str, ...], Float64[Tensor, "rows columns"]]:
    """Read the names, if any, and the numbers of the ``numeric`` columns of a ``Table``, whose rows have one length."""
    table = Table(path)
    names = tuple(table.names[j] for j in table.numeric) if table.names else ()
    return names, torch.from_numpy(table.columns().numbers)


def write_table(
    path: StrPath,
    columns: Sequence[str],
    array: Float[Tensor, "rows columns"],
    *,
    exact: Exact | None = None,
    texts: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Write a table, float32 or float64, in the fewest digits that read back as the same numbers.

    ``columns`` are the names in the first row, one for each column; if it is empty, that row is left out. Cells are
    separated by commas, or by tabs if the suffix is .tsv. ``exact`` are numbers that replace the array's. ``texts`` are
    columns of text by their places, see ``Table.texts``.
    """
    if array.numel() == 0:
        raise mismatch(path, "a table with numbers", f"shape {tuple(array.shape)}")
    if columns and len(columns) != array.shape[1]:
        raise mismatch(path, f"{array.shape[1]} names of columns", str(len(columns)))
    with np.printoptions(legacy=False):  # other packages set NumPy's old format, of twelve digits
        cells = as_numpy(array).astype(str)
        if exact is not None:  # as texts, for each has the digits of its own type
            cells = replace(exact, numbers=exact.numbers.astype(str)).over(cells)
    rows = [list(columns)] * bool(columns) + cells.tolist()
    for place, column in texts.items():
        for row, text in zip(rows, column, strict=True):
            row.insert(place, text)
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    quoting = csv.QUOTE_ALL if columns and re.search('[;,\t"]', "".join(rows[0])) else csv.QUOTE_MINIMAL
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if columns:
            csv.writer(file, delimiter=separator, lineterminator="\n", quoting=quoting).writerow(rows.pop(0))
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)
