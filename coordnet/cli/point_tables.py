"""Tables of points as samples: the columns that the options of ``coordnet grid`` name, or usual ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.interpolate import LinearNDInterpolator

from coordnet import _checks
from coordnet.cli import specs
from coordnet.cli.common import Gridding
from coordnet.media import MediaError
from coordnet.media.columns import Table
from coordnet.media.files import HDF5_SUFFIXES, mismatch
from coordnet.sampling.drift import moved_inside
from coordnet.sampling.point_lattice import PointLattice
from coordnet.sampling.points import points
from coordnet.sampling.samples import Samples
from coordnet.xarray.datasets import open_dataset

LETTERS = ("x", "y", "z", "t")  # options that name coordinates; axes of results are in the opposite order, as in CF
USUAL = {"x": ("x", "lon", "longitude", "easting"), "y": ("y", "lat", "latitude", "northing")}
COORDINATES_ASKED = {"z": ("z", "height", "depth", "altitude", "elevation"), "t": ("t", "time")}  # only if asked for
UNNAMED = (2, 3)  # columns without names that are taken for coordinates, in the order of ``LETTERS``, and a value


@dataclass(frozen=True)
class Stations:
    """The points of a table: their samples, the names of the values' columns, units, and standard names.

    ``unused`` has the columns named like coordinates that are none, by the option that makes them coordinates.
    """

    samples: Samples
    names: tuple[str, ...]
    units: Mapping[str, str]
    standard_names: Mapping[str, str]
    unused: Mapping[str, str]

    @property
    def drift_names(self) -> tuple[str, ...]:
        """The names of the drift's columns."""
        drift = self.samples.geometry.drift
        return () if drift is None else drift.names

    @property
    def lattice(self) -> PointLattice:
        """The nodes of the fit."""
        return self.samples.geometry.lattice


def read_stations(path: Path, asked: Gridding, device: torch.device) -> Stations:
    """Read the columns that are asked for, as samples with coordinates in the opposite order of ``LETTERS``."""
    table = Table(path)
    axes = _axes(table, asked)
    drift = asked.drift or []
    values = asked.value or [_other(table, [*axes, *drift])]
    sigma = [] if asked.sigma is None else [asked.sigma]
    columns = table.columns([*axes, *values, *drift, *sigma])
    names, d = columns.names, len(axes)
    used = d + len(values) + len(drift)
    told = {name: unit for name, unit in zip(names, columns.units, strict=False) if unit}
    units = told | _pairs("unit", asked.unit, names)
    numbers = np.where(np.isin(columns.numbers, asked.missing or []), np.nan, columns.numbers)
    if used > len(set(names[:used])):
        raise mismatch(path, "another column for each coordinate, value and drift", ", ".join(names[:used]))
    periods = {name: _length(name, text) for name, text in _pairs("period", asked.period, names[:d]).items()}
    with specs.naming(path):
        samples = points(
            numbers[:, :d],
            numbers[:, d : d + len(values)],
            numbers[:, -1] if sigma else None,
            names=names[:d],
            units={name: unit for name, unit in units.items() if name in names[:d]},
            period=periods,
            sphere=names[:d][::-1] if asked.sphere else None,
            drift={name: numbers[:, names.index(name)] for name in names[d + len(values) : used]} or None,
        )
    samples = Samples(samples.geometry, samples.values.to(device))
    standard_names = _pairs("standard_name", asked.standard_name, names)
    return Stations(samples, names[d : d + len(values)], units, standard_names, _unused(table, names))


def _unused(table: Table, used: Sequence[str]) -> dict[str, str]:
    """Return the columns that are named like coordinates and not ``used``, by the letter of the option for it."""
    left = set(table.bare_names) - {name.lower() for name in used}
    found = {letter: [name for name in usual if name in left] for letter, usual in COORDINATES_ASKED.items()}
    return {letter: names[0] for letter, names in found.items() if names}


def read_drift(path: Path | None, names: Sequence[str], axes: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the columns of a drift by their names, each as ``Reconstruction.grid`` takes it; None without names.

    A NetCDF file has variables of these names; those of a table of places are interpolated linearly between them. A
    ``MediaError`` is raised if there is no file, or it has no such column, or there is a file without names.
    """
    if not names:
        if path is not None:
            raise MediaError(f"--drift-at: expected a column for it (--drift NAME), found none, and {path}")
        return None
    if path is None or not path.exists():
        found = "none" if path is None else f"no file {path}"
        raise MediaError(f"--drift-at: expected a file with {', '.join(names)} on the grid, found {found}")
    if path.suffix.lower() not in HDF5_SUFFIXES:
        found = Table(path).columns([*axes, *names]).numbers
        places, columns = found[:, : len(axes)], found[:, len(axes) :].T
        return {name: _between(places, column) for name, column in zip(names, columns, strict=True)}
    with open_dataset(path) as dataset:
        for name in names:
            if name not in dataset or set(dataset[name].dims) != set(axes):
                found, parts = ("it along ", dataset[name].dims) if name in dataset else ("", dataset)
                expected = f"a variable {name} along {', '.join(axes)}"
                raise mismatch(path, expected, found + ", ".join(map(str, parts)))
        return {name: dataset[name].load() for name in names}


def _between(places: np.ndarray, column: np.ndarray) -> Callable[..., np.ndarray]:
    """Return the linear interpolation of a column between places, NaN beyond them, as a function of coordinates."""
    known = np.isfinite(places).all(1) & np.isfinite(column)
    if places.shape[1] == 1:
        order = known.nonzero()[0][places[known, 0].argsort()]
        nodes = places[order, 0]
        return lambda x: np.interp(moved_inside(x, nodes), nodes, column[order], np.nan, np.nan)
    return LinearNDInterpolator(places[known], column[known], rescale=True)


def _axes(table: Table, asked: Gridding) -> list[str]:
    """Return the columns of the coordinates, the last of ``LETTERS`` first."""
    given = {letter: getattr(asked, letter) for letter in LETTERS}
    if given["x"] is None:
        for letter, usual in USUAL.items():
            given[letter] = given[letter] or next((name for name in usual if name in table.bare_names), None)
        if table.width in UNNAMED and not table.names and not any(given.values()):
            given |= dict(zip(LETTERS, map(str, range(1, table.width)), strict=False))
    if given["x"] is None:
        columns = ", ".join(table.names) or f"{table.width} columns without names (--x 1)"
        raise MediaError(f"--x: expected a column of coordinates, found none, and {table.path} has {columns}")
    return [name for name in reversed(given.values()) if name is not None]


def _other(table: Table, axes: Sequence[str]) -> str:
    """Return the only column that is no coordinate."""
    taken = {table.index(name) for name in axes}
    others = [j for j in range(table.width) if j not in taken]
    if len(others) != 1:
        columns = ", ".join(table.names) or f"{table.width} columns without names (--value 3)"
        raise MediaError(f"--value: expected a column of values, found none, and {table.path} has {columns}")
    return table.names[others[0]] if table.names else str(others[0] + 1)


def _pairs(option: str, texts: Sequence[str] | None, names: Sequence[str]) -> dict[str, str]:
    """Return the texts COLUMN=TEXT of an option by the names of columns, which the file must have."""
    by_name, pairs = {name.lower(): name for name in names}, {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if name.lower() not in by_name or not equals or not value:
            raise _checks.wrong(option, f"COLUMN=… with one of {', '.join(names)}", repr(text))
        pairs[by_name[name.lower()]] = value
    return pairs


def _length(name: str, text: str) -> float:
    try:
        return _checks.positive("period", float(text))
    except ValueError:
        raise _checks.wrong("period", f"{name}= and a positive number", repr(text)) from None
