"""Grids of values in NetCDF files that follow the CF conventions, in the classic format, by SciPy."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.io import netcdf_file

from coordnet.media.files import StrPath, atomic_path, encoding

CONVENTIONS = "CF-1.8"
LARGEST_VARIABLE = 2**32 - 4  # bytes of a variable in the classic format with offsets of 64 bits
# The standard name and the axis of columns with these names, and their unit if none is given.
KNOWN_AXES = {
    "lon": ("longitude", "X", "degrees_east"),
    "longitude": ("longitude", "X", "degrees_east"),
    "lat": ("latitude", "Y", "degrees_north"),
    "latitude": ("latitude", "Y", "degrees_north"),
    "depth": ("depth", "Z", None),
    "altitude": ("altitude", "Z", None),
    "x": (None, "X", None),
    "y": (None, "Y", None),
    "z": (None, "Z", None),
}


@dataclass(frozen=True)
class Variable:
    """Values on a grid, (*lengths) in float64, and the attributes of the variable."""

    values: np.ndarray
    attributes: Mapping[str, str] = field(default_factory=dict)


def write_grid(
    path: StrPath,
    coordinates: Mapping[str, np.ndarray],
    variables: Mapping[str, Variable],
    *,
    units: Mapping[str, str],
    axis_names: Mapping[str, str],
    attributes: Mapping[str, str],
) -> None:
    """Write variables on one grid to a new file; NaN stands for what is missing.

    - path: the file, which must not exist
    - coordinates: the coordinates along each axis by its name, in the order of the axes
    - variables: the variables by their names
    - units: the units of axes by their names; longitudes and latitudes have degrees without
    - axis_names: the standard names of axes by their names; longitudes, latitudes, depths and altitudes have theirs
      without
    - attributes: those of the file, such as its title and source

    A ``MediaError`` is raised if the file cannot be written, or a variable is larger than the classic format holds, 4
    GiB.
    """
    size = 8 * math.prod(len(x) for x in coordinates.values())
    with atomic_path(path) as temporary, encoding(path, "a NetCDF file"):
        if size > LARGEST_VARIABLE:
            raise ValueError(f"{size:,} bytes in a variable, of which the format holds 4 GiB")
        with netcdf_file(temporary, "w", version=2) as file:
            for name, text in {"Conventions": CONVENTIONS, **attributes}.items():
                setattr(file, name, text.encode())
            for name, x in coordinates.items():
                file.createDimension(_plain(name), len(x))
                _put(file, name, (name,), x, _axis_attributes(name, units.get(name), axis_names.get(name)))
            for name, variable in variables.items():
                _put(file, name, tuple(coordinates), variable.values, variable.attributes)


def _put(
    file: netcdf_file, name: str, axes: tuple[str, ...], values: np.ndarray, attributes: Mapping[str, str]
) -> None:
    made = file.createVariable(_plain(name), "f8", tuple(map(_plain, axes)))
    made[:] = values
    for key, text in attributes.items():
        setattr(made, key, text.encode())
    if np.isnan(values).any():
        made._FillValue = np.float64("nan")


def _axis_attributes(name: str, unit: str | None, given: str | None) -> dict[str, str]:
    standard, axis, usual = KNOWN_AXES.get(name.lower(), (None, None, None))
    is_degrees = usual is not None and not (unit or "").lower().startswith("degree")  # CF knows them in English alone
    attributes = {"standard_name": given or standard, "axis": axis, "units": usual if is_degrees else unit}
    return {key: text for key, text in attributes.items() if text}


def _plain(name: str) -> str:
    """Return a name with letters, digits and underscores alone, as CF has it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"v_{plain}"
