"""Fits of points on grids in the user's units: arrays with coordinates, where points are near enough."""

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from coordnet import _checks
from coordnet.encodings.blending import Blending
from coordnet.sampling.node_spacing import NODES
from coordnet.sampling.point_lattice import PointLattice
from coordnet.sampling.rectilinear import Coordinates, RectilinearLattice

MOST_NODES = 2**28  # nodes of a grid at most: two gigabytes


class Grid(NamedTuple):
    """Values on a grid, (*lengths) or (*lengths, channels), and the coordinates of each axis by its name."""

    values: np.ndarray
    coordinates: dict[str, np.ndarray]


class Gridded:
    """The part of a reconstruction of points that evaluates it on grids in the user's units."""

    lattice: RectilinearLattice | None
    uncertainty: Any

    def grid(
        self,
        spacing: float | Sequence[float | None] | None = None,
        *,
        max_distance: float | None = None,
        std: bool = False,
        drift: Any = None,
        **coordinates: Coordinates,
    ) -> Any:
        """Evaluate a fit of ``cn.points`` on a grid: an ``xarray.DataArray``, or a ``Grid`` without that package.

        Parameters
        ----------
        spacing : number or sequence, optional
            The distance of the grid's nodes along all axes or each, in their units. Nodes are multiples of it and cover
            the points. Axes without spacing or coordinates have the distance of the fit's own nodes.
        max_distance : number, optional
            The distance from the nearest point, in the axes' units, beyond which the result is NaN; on a sphere the
            angle in degrees. By default there are values everywhere; those
            beyond the outermost nodes of the fit, about five points' distances away, are constant.
        std : bool
            Whether the standard deviation of the errors is returned in the place of the values, NaN where a given drift
            is unknown.
        drift : array, function, ``xarray.DataArray``, or several of them by their names
            The drift at the nodes, where the fit has one: an array of the grid's shape, a function of the coordinates
            in the order of the axes, or an array with coordinates, which is interpolated between its nodes.
        **coordinates : array
            The coordinates along an axis by its name, such as ``lon=…``.

        Raises
        ------
        ValueError
            If the fit is not one of points, an axis is unknown, a number is not positive, the grid has more than
            2²⁸ nodes, or a fit from a file, which has no points, is asked for a distance.
        """
        lattice, onto = self._onto(spacing, coordinates)
        axes = lattice.locate(*onto.values())
        values = Blending("linear", lattice.axes).on_axes(self.std(), axes, []) if std else self.on_axes(axes)  # type: ignore[attr-defined]
        if drift is not None or not std:
            moved = self._with_drift(values, drift, tuple(map(len, onto.values())), onto)  # type: ignore[attr-defined]
            values = torch.where(moved.isnan(), torch.nan, values) if std else moved
        values = values.detach().cpu().numpy()
        if max_distance is not None:
            limit = _checks.positive("max_distance", max_distance)
            apart = lattice.distances(self._places("max_distance"), list(onto.values()))
            values = np.where(apart[..., None] <= limit, values, np.nan)
        return _labelled(values[..., 0] if values.shape[-1] == 1 else values, onto, lattice)

    def extrapolates(self, spacing: float | Sequence[float | None] | None = None, **coordinates: Coordinates) -> Any:
        """Return where ``grid`` of the same arguments extrapolates, as true values on that grid.

        That is outside the points' convex hull, and where no point is within three of their mean distances, at the
        scales of the axes. A ``ValueError`` is raised as by ``grid``.
        """
        lattice, onto = self._onto(spacing, coordinates)
        places = self._places("fit")
        dims = max(1, int((np.ptp(places, axis=0) > 0).sum()))
        beyond = lattice.extrapolates(places, list(onto.values()), NODES[dims])
        return _labelled(beyond, onto, lattice)

    def _onto(
        self, spacing: float | Sequence[float | None] | None, coordinates: Mapping[str, Coordinates]
    ) -> tuple[PointLattice, dict[str, np.ndarray]]:
        """Return the nodes of the fit, and the coordinates of a grid along each axis; see ``grid`` for errors."""
        lattice = self.lattice
        if not isinstance(lattice, PointLattice):
            raise _checks.wrong("fit", "one of cn.points(…); others have `render` and `at`", "other samples")
        for name in coordinates:
            _checks.choice("coordinates", name, [axis.name for axis in lattice.named])
        steps = [spacing] * len(lattice.named) if spacing is None or np.ndim(spacing) == 0 else list(spacing)  # type: ignore[arg-type]
        if len(steps) != len(lattice.named):
            raise _checks.wrong("spacing", f"a number, or {len(lattice.named)}, one for each axis", len(steps))
        steps = [step if step is None else _checks.positive("spacing", step) for step in steps]
        sizes = [
            np.size(coordinates[axis.name]) if axis.name in coordinates else axis.covering(step)
            for axis, step in zip(lattice.named, steps, strict=True)
        ]
        if math.prod(sizes) > MOST_NODES:
            raise _checks.wrong("spacing", f"a grid of at most {MOST_NODES:,} nodes", " by ".join(map(str, sizes)))
        return lattice, {
            axis.name: np.asarray(coordinates[axis.name]) if axis.name in coordinates else axis.covered(step)
            for axis, step in zip(lattice.named, steps, strict=True)
        }

    def _places(self, argument: str) -> np.ndarray:
        """Return the places of the points, (n, d), which a fit from a file does not hold."""
        samples = getattr(self.uncertainty, "samples", None)
        if samples is None:
            raise _checks.wrong(argument, "a fit with its points, which a file does not hold", "one from a file")
        return samples.geometry.places.numpy()


def _labelled(values: np.ndarray, onto: dict[str, np.ndarray], lattice: PointLattice) -> Any:
    if find_spec("xarray") is None:
        return Grid(values, onto)
    from xarray import DataArray

    units = {axis.name: {} if axis.unit is None else {"units": axis.unit} for axis in lattice.named}
    labels = {name: (name, x, units[name]) for name, x in onto.items()}
    return DataArray(values, labels, (*onto, *(("channel",) if values.ndim > len(onto) else ())))
