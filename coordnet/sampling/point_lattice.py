"""Lattices of nodes for points, with the name, the unit and the period of each axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.arrays import as_numbers
from coordnet.sampling.axes import Axis, UnevenAxis
from coordnet.sampling.extrapolation import FAR, beyond, distances
from coordnet.sampling.rectilinear import Coordinates, RectilinearLattice
from coordnet.sampling.sphere import nearest_angles, vectors

GRID_ROUNDING = 1e-9  # steps by which an end of a grid may miss a multiple of its spacing
COORDINATE_DIGITS = 12  # digits of a grid's coordinates, in steps: 3 × 0.1 is 0.3


@dataclass(frozen=True)
class PointAxis:
    """The nodes first + i * spacing along one axis in the user's units; with a ``period`` the last precedes the first.

    The points reach from ``low`` to ``high``. An axis of one node, where all points have one coordinate, is ignored.
    On a sphere the axis of latitudes goes on ``over_poles``, along the opposite meridian (``sphere.over_poles``).
    """

    name: str
    first: float
    spacing: float
    count: int
    period: float | None = None
    unit: str | None = None
    low: float = 0.0
    high: float = 0.0
    over_poles: bool = False

    def to_unit(self, x: Tensor) -> Tensor:
        """Return coordinates in units of the unit interval, within it on a periodic axis."""
        if self.count == 1:
            return 0.0 * x
        if self.period is not None:
            x = self.first + (x - self.first).remainder(self.period)
        return (x - self.first) / (self.spacing * self.count)

    def coordinates(self) -> np.ndarray:
        """Return the coordinates of the nodes."""
        return self.first + self.spacing * np.arange(self.count)

    def covered(self, spacing: float | None) -> np.ndarray:
        """Return multiples of a spacing, that of the nodes if not given, which cover the points or one period.

        On a sphere they are the latitudes between the poles.
        """
        step = self.spacing if spacing is None else spacing
        if self.count == 1:
            return np.array([self.low])
        low = self.low / step
        first = math.ceil(low - GRID_ROUNDING) if self.over_poles else math.floor(low + GRID_ROUNDING)
        return np.round(step * (first + np.arange(self.covering(spacing))), COORDINATE_DIGITS - round(math.log10(step)))

    def covering(self, spacing: float | None) -> int:
        """Return the number of coordinates that ``covered`` returns."""
        step = self.spacing if spacing is None else spacing
        if self.count == 1:
            return 1
        if self.over_poles:
            return math.floor(self.high / step + GRID_ROUNDING) - math.ceil(self.low / step - GRID_ROUNDING) + 1
        if self.period is not None:
            return math.ceil(self.period / step - GRID_ROUNDING)
        return math.ceil(self.high / step - GRID_ROUNDING) - math.floor(self.low / step + GRID_ROUNDING) + 1


class PointLattice(RectilinearLattice):
    """The nodes of a fit of points, with the name, the unit and the period of each axis."""

    def __init__(self, *named: PointAxis) -> None:
        super().__init__(*(axis.coordinates() for axis in named))
        self.named = named
        self._axes = tuple(Axis(axis.count, periodic=axis.period is not None) for axis in named)

    @property
    def periods(self) -> list[float | None]:
        """The period of each axis, None for none."""
        return [axis.period for axis in self.named]

    @property
    def steps(self) -> np.ndarray:
        """The distance of the nodes along each axis, in its units."""
        return np.array([axis.spacing for axis in self.named])

    @property
    def latitude(self) -> int | None:
        """The number of the axis of latitudes on a sphere."""
        return next((j for j, axis in enumerate(self.named) if axis.over_poles), None)

    def distances(self, places: Float[np.ndarray, "n d"], axes: Sequence[np.ndarray]) -> Float[np.ndarray, "*grid"]:
        """Return the distance of each node of a grid from the nearest place; on a sphere the angle in degrees."""
        if self.latitude is None:
            return distances(places, axes, self.periods)
        nodes = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
        return nearest_angles(*(vectors(x[..., 1 - self.latitude], x[..., self.latitude]) for x in (places, nodes)))

    def extrapolates(
        self, places: Float[np.ndarray, "n d"], axes: Sequence[np.ndarray], mean_distance: float
    ) -> Bool[np.ndarray, "*grid"]:
        """Return where a grid is beyond places with a mean distance in nodes; see ``beyond``. Spheres have no hull."""
        steps = self.steps
        if self.latitude is not None:
            return self.distances(places, axes) > FAR * mean_distance * steps[self.latitude]
        periods = [period and period / step for period, step in zip(self.periods, steps, strict=True)]
        return beyond(places / steps, [x / h for x, h in zip(axes, steps, strict=True)], periods, mean_distance)

    def part(self, window: Sequence[slice]) -> "PointLattice":
        """Return the nodes in a window of axes that do not wrap around."""
        sides = zip(self.named, window, strict=True)
        return PointLattice(
            *(replace(a, first=a.first + a.spacing * s.start, count=s.stop - s.start) for a, s in sides)
        )

    def configuration(self) -> Any:
        return [vars(axis) for axis in self.named]

    def inside(self, j: int, given: Coordinates, where: str) -> Axis:
        """Return the axis of any finite coordinates; those beyond the nodes are moved to the outermost one."""
        x = torch.as_tensor(as_numbers(self.named[j].name, given))
        if x.ndim != 1 or not len(x) or not bool(torch.isfinite(x).all()):
            raise _checks.wrong(self.named[j].name, "a row of finite coordinates", f"shape {tuple(x.shape)}")
        unit = self._unit(j, x)
        return UnevenAxis(len(x), float(unit[0]), 1 / len(x), positions=tuple(unit.tolist()))

    def _unit(self, j: int, x: Tensor) -> Tensor:
        return self.named[j].to_unit(x)


def lattice_of(configuration: Sequence[Any] | None) -> RectilinearLattice | None:
    """Return the lattice whose ``configuration`` is given, or that coordinates of each axis span; None for none."""
    if not configuration:
        return None
    named = [PointAxis(**part) for part in configuration if isinstance(part, dict)]
    return PointLattice(*named) if named else RectilinearLattice(*configuration)
