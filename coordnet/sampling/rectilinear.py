"""Rectilinear lattices: coordinates along each axis, in any units, that need not be equally spaced."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.arrays import as_numbers, as_signal, check_weights
from coordnet.sampling.axes import MAX_AXES, Alignment, Axes, Axis, ByAxes, Footprint, UnevenAxis
from coordnet.sampling.grids import Lattice, check_has_gaps, window_of
from coordnet.sampling.samples import Geometry, Samples
from coordnet.sampling.scattered import ScatteredPoints

# Equally spaced nodes for each coordinate along axes of unequal distances, by the number of these axes, where all
# values are known and the prior is not named. With one node 10 rows and planes are 1.2 dB worse in the mean. With
# gaps two are 1.5 dB worse on nine, and volumes would have 8 times as many nodes.
NODES_PER_SAMPLE = ByAxes({1: 2, 2: 2, 3: 1})
SPACING_OFF = 1e-9  # part of their distance by which equally spaced coordinates may be off in any dtype
SPACING_ROUNDING = 4.0  # epsilons of the coordinates' dtype by which equally spaced ones may be off
Coordinates = np.ndarray | Tensor | Sequence[Any]


class RectilinearLattice(Geometry):
    """The lattice that increasing coordinates along each axis span, such as latitudes and longitudes.

    In units of the unit interval, the N coordinates of an axis reach from 0 to (N - 1) / N. Equally spaced coordinates
    are therefore those of ``Lattice``, and have the same fits.

    The coordinates of an axis, (N_j,), are an array, tensor or sequence of increasing numbers, at least one. The
    weights of the squared errors, (*shape, 1) or (*shape, channels), are 0 where no value is known, and 1 if not given.
    A ``ValueError`` is raised if coordinates are not finite, not increasing or repeated, or the weights do not fit.

    Notes
    -----
    ``fit`` weighs thin plates and the adaptive prior. Their nodes are equally spaced, as many as coordinates, and twice
    as many along one or two uneven axes of a whole grid, unless the prior is named. That is too few where the largest
    gap is tens of times the smallest, as among exposure times. A whole grid then takes splines of degree 1, 3 or 5 with
    a knot at each coordinate (``UnevenSpline``), if they are better by 6 dB between every second coordinate; where
    values are missing too, take logarithms of the coordinates. ``prior=None`` solves a whole grid by one matrix for
    each axis, with any encoder of an axis. The nodes of encoders other than ``UnevenSpline`` are equally spaced, so
    that gaps wider than a feature are not filled. The local prior needs equal spacing.
    """

    coordinates: tuple[Float[Tensor, " _"], ...]

    def __init__(self, *coordinates: Coordinates, weights: Float[Tensor, "..."] | None = None) -> None:
        if not 1 <= len(coordinates) <= MAX_AXES:
            raise _checks.wrong("coordinates", f"1 to {MAX_AXES} arrays, one for each axis", len(coordinates))
        self.coordinates = tuple(_increasing(c, j) for j, c in enumerate(coordinates))
        self.grid = tuple(len(c) for c in self.coordinates)
        self.weights = weights
        if weights is not None:
            check_weights(weights, self.grid)
        self._axes = tuple(Axis(len(c)) if _is_even(c) else self._axis(j, c) for j, c in enumerate(self.coordinates))

    def __repr__(self) -> str:
        ranges = ", ".join(f"{len(c)} in [{c[0]:.6g}, {c[-1]:.6g}]" for c in self.coordinates)
        return f"RectilinearLattice({ranges}, density={self.density:.3g})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RectilinearLattice) or self.grid != other.grid:
            return False
        ours, theirs = self.weights, other.weights
        same = ours is theirs or (ours is not None and theirs is not None and torch.equal(ours, theirs))
        return same and all(map(torch.equal, self.coordinates, other.coordinates))

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_whole_lattice(self) -> bool:  # type: ignore[override]
        return self.weights is None

    @property
    def axes(self) -> Axes:
        """The coordinates along each axis, in units of the unit interval."""
        return self._axes

    @property
    def lattice(self) -> "RectilinearLattice":
        """The lattice without weights."""
        return self if self.weights is None else RectilinearLattice(*self.coordinates)

    def reweighted(self, weights: Float[Tensor, "*shape _"]) -> "RectilinearLattice":
        return RectilinearLattice(*self.coordinates, weights=weights)

    def part(self, window: tuple[slice, ...]) -> Lattice | None:
        """Return a window of equally spaced coordinates as a lattice of its own; None at unequal ones."""
        return window_of(self, window) if self.is_regular else None

    def on_even_nodes(self, samples: Samples, *, finer: bool = False) -> Samples:
        """Return samples at unequal coordinates as scattered points, without the unknown ones; others as they are.

        The points are tied to a lattice of equally spaced nodes, as many as coordinates, or ``NODES_PER_SAMPLE`` times
        as many if they are to be ``finer`` and all values are known, for priors that need such nodes.
        """
        if self.is_regular:
            return samples
        points, values, weights = self.positions(device=samples.values.device), samples.values.flatten(0, -2), None
        if self.weights is not None:
            weights = self.weights.flatten(0, -2)
            known = (weights > 0).any(-1)
            points, values, weights = points[known.to(points.device)], values[known.to(values.device)], weights[known]
            weights = None if bool((weights == 1).all()) else weights
        is_even = [axis.even is axis for axis in self.axes]
        times = NODES_PER_SAMPLE[is_even.count(False)] if finer and self.weights is None else 1
        grid = tuple(n if even else times * n for n, even in zip(self.grid, is_even, strict=True))
        return Samples(ScatteredPoints(grid, points.to(values), weights), values)

    def check_hideable(self) -> None:
        """Refuse unequal coordinates, and a lattice that is known as a whole, with a ``ValueError``."""
        if self.weights is None or not self.is_regular:
            super().check_hideable()
        else:
            check_has_gaps(self.weights)

    def to_unit(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points d"]:
        """Return points in units of the unit interval, in float64, for points in the coordinates' units."""
        _checks.coordinates("points", points.shape, len(self.grid))
        return torch.stack([self._unit(j, x.double()) for j, x in enumerate(points.unbind(-1))], dim=-1)

    def locate(self, *coordinates: Coordinates) -> Axes:
        """Return the axes of other coordinates in the same units; see ``RectilinearLattice`` for errors.

        Coordinates more than half a mean distance beyond the lattice's own raise a ``ValueError``.
        """
        if len(coordinates) != len(self.grid):
            raise _checks.wrong("coordinates", f"{len(self.grid)} arrays, one for each axis", len(coordinates))
        return tuple(self.inside(j, c, f"on axis {j}") for j, c in enumerate(coordinates))

    def render_axes(
        self, shape: int | tuple[int, ...] | None, alignment: Alignment = "pixel", footprint: Footprint = "point"
    ) -> Axes:
        """Return the lattice's own axes, or ``shape`` equally spaced positions from the first coordinate to the last.

        One number is the length of every axis. There is no alignment; the footprint "area" raises a ``ValueError``.
        """
        if footprint == "area":
            raise _checks.wrong("footprint", "point, on a rectilinear lattice", footprint)
        if shape is None:
            return self.axes
        lengths = (shape,) * len(self.grid) if isinstance(shape, int) else _checks.lengths("shape", shape)
        if len(lengths) != len(self.grid):
            raise _checks.wrong("shape", f"{len(self.grid)} lengths, one per axis", shape)
        axes = []
        for n, m in zip(self.grid, lengths, strict=True):
            steps = max(_checks.integer("shape", m, 1) - 1, 1)
            axes.append(Axis(m, 0.0, max(n - 1, 1) / n / steps))
        return tuple(axes)

    def sample(self, values: np.ndarray | Tensor) -> Samples:
        """Return values on the lattice, (*shape) or (*shape, channels), as samples; those that are NaN are unknown.

        Values of another shape or type, or NaN alone, raise a ``ValueError``.
        """
        signal, _ = as_signal(values, "values", dimensions=len(self.grid))
        if tuple(signal.shape[:-1]) != self.grid:
            raise _checks.wrong("values", f"the lengths {self.grid} of the coordinates", tuple(signal.shape[:-1]))
        return self.of_values(signal)

    def configuration(self) -> list[Any]:
        """The coordinates of each axis as JSON values."""
        return [c.tolist() for c in self.coordinates]

    def _axis(self, j: int, coordinates: Float[Tensor, " n"]) -> Axis:
        positions = self._unit(j, coordinates).tolist()
        return UnevenAxis(len(positions), positions[0], 1 / len(positions), positions=tuple(positions))

    def _unit(self, j: int, x: Tensor) -> Tensor:
        """Return coordinates of axis j in units of the unit interval."""
        n, own = self.grid[j], self.coordinates[j].to(x.device)
        return (x - own[0]) / (own[-1] - own[0] if n > 1 else 1.0) * (max(n - 1, 1) / n)

    def inside(self, j: int, given: Coordinates, where: str) -> Axis:
        """Return the axis of coordinates that are within half a mean distance of axis j; ``where`` names it in errors.

        A ``ValueError`` is raised for others.
        """
        coordinates = _increasing(given, j)
        if torch.equal(coordinates, self.coordinates[j]):
            return self.axes[j]
        unit, half = self._unit(j, coordinates), 0.5 / self.grid[j]
        if float(unit[0]) < -half or float(unit[-1]) > 1 - half:
            low, high = self.coordinates[j][0], self.coordinates[j][-1]
            found = coordinates[0] if float(unit[0]) < -half else coordinates[-1]
            expected = f"numbers within half a spacing of [{low:.6g}, {high:.6g}] {where}"
            raise _checks.wrong("coordinates", expected, f"{found:.6g}")
        return self._axis(j, coordinates)


def _increasing(coordinates: Coordinates, axis: int) -> Float[Tensor, " n"]:
    """Return the coordinates of an axis in float64, checked to be finite and increasing."""
    name = f"coordinates[{axis}]"
    if not isinstance(coordinates, Tensor):
        as_numbers(name, coordinates)  # refuses dates, and says what to give in their place
    try:
        given = (
            torch.as_tensor(coordinates if isinstance(coordinates, Tensor) else np.array(coordinates)).detach().cpu()
        )
        result = given.double()
    except (TypeError, ValueError, RuntimeError):
        raise _checks.wrong(name, "a sequence of numbers", type(coordinates).__name__) from None
    if result.ndim != 1 or len(result) == 0:
        raise _checks.wrong(name, "at least one number, in one axis", f"shape {tuple(result.shape)}")
    if not bool(torch.isfinite(result).all()):
        raise _checks.wrong(name, "finite numbers", "NaN or infinity")
    steps = result.diff()
    if bool((steps <= 0).any()):
        at = int((steps <= 0).nonzero()[0, 0])
        raise _checks.wrong(name, "increasing numbers, each once", f"{result[at]:.6g}, {result[at + 1]:.6g}")
    return evened(result, torch.finfo(given.dtype if given.dtype.is_floating_point else torch.float64).eps)


def evened(x: Float[Tensor, " n"], eps: float) -> Float[Tensor, " n"]:
    """Return increasing coordinates, at equal distances if they are so to the rounding of a dtype with an epsilon."""
    return _evenly(x) if _is_even(x, eps) else x


def _is_even(x: Float[Tensor, " n"], eps: float = torch.finfo(torch.float64).eps) -> bool:
    """Whether increasing coordinates are equally spaced to the rounding of a dtype with an epsilon, or of a sum.

    Longitudes from 0° to 360° that were turned into ones from -180° on, such as -2° of 358°, keep the rounding of 358.
    """
    rounding = max(SPACING_ROUNDING * eps * float(x.abs().max()), SPACING_OFF * float(x[-1] - x[0]) / len(x))
    return float((x - _evenly(x)).abs().max()) <= rounding


def _evenly(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return as many equally spaced numbers between the same ends."""
    return torch.linspace(float(x[0]), float(x[-1]), len(x), dtype=torch.float64)
