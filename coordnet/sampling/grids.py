"""Grids: a signal's own nodes, every k-th, some of them, or means over cells that tile them."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import Device, LinearOperator, Shape
from coordnet.sampling.arrays import check_weights
from coordnet.sampling.axes import MAX_AXES, Axes, Axis
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.samples import Geometry, Interpolate, Samples

FEWEST_EVERY = 8  # known nodes along an axis from which on those at equal distances are taken for every k-th
LONGEST_PERIOD = 4  # longest period of a mosaic along an axis


@dataclass(frozen=True)
class Lattice(Geometry):
    """A regular part of a signal's grid: every ``steps[j]``-th sample from ``offsets[j]`` on, along each axis.

    It is the whole grid by default. A step below 1, or an offset outside the axis, raises a ``ValueError``.
    """

    grid: tuple[int, ...]
    steps: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    is_whole_lattice = True

    def __post_init__(self) -> None:
        if not isinstance(self.grid, tuple) or not self.grid:
            raise _checks.wrong("grid", "a tuple of lengths, one for each axis", repr(self.grid))
        if len(self.grid) > MAX_AXES:
            raise _checks.wrong("grid", f"at most {MAX_AXES} axes besides the channels", len(self.grid))
        object.__setattr__(self, "steps", self.steps or (1,) * len(self.grid))
        object.__setattr__(self, "offsets", self.offsets or (0,) * len(self.grid))
        if not len(self.grid) == len(self.steps) == len(self.offsets):
            raise _checks.wrong("steps", f"{len(self.grid)} numbers, one for each axis", self.steps)
        for length, step, offset in zip(self.grid, self.steps, self.offsets, strict=True):
            _checks.integer("grid", length, 1)
            _checks.integer("steps", step, 1)
            if not 0 <= _checks.integer("offsets", offset, 0) < length:
                raise _checks.wrong("offsets", f"at least 0 and below the axis's {length} samples", offset)

    def __repr__(self) -> str:
        steps = "" if self.shape == self.grid else f", steps={self.steps}"
        return f"{type(self).__name__}({self.grid}{steps}, density={self.density:.3g})"

    @property
    def axes(self) -> Axes:
        """The lattice along each axis."""
        parts = zip(self.grid, self.steps, self.offsets, strict=True)
        return tuple(Axis.every(n, k, o) for n, k, o in parts)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.count for axis in self.axes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's grid."""
        return tuple(slice(o, None, k) for k, o in zip(self.steps, self.offsets, strict=True))

    @property
    def with_gaps(self) -> "Lattice":
        """The nodes of the signal's lattice, unknown where this lattice skips them; itself if it skips none."""
        if self.shape == self.grid:
            return self
        own = torch.ones(*self.shape, 1) if self.weights is None else self.weights
        weights = own.new_zeros(*self.grid, own.shape[-1])
        weights[self.slices] = own
        return MaskedLattice(self.grid, weights=weights)

    def reweighted(self, weights: Float[Tensor, "*lattice _"]) -> "MaskedLattice":
        return MaskedLattice(self.grid, self.steps, self.offsets, weights)

    def check_hideable(self) -> None:
        """Refuse a lattice that is known as a whole with a ``ValueError``."""
        if not self.is_strided:
            super().check_hideable()

    def part(self, window: tuple[slice, ...]) -> "Lattice":
        return window_of(self, window)

    def sample(self, signal: Float[Tensor, "*grid channels"]) -> Samples:
        """Return the signal's values on the lattice, on a masked one where some are NaN."""
        return self.of_values(signal[self.slices])


@dataclass(frozen=True, repr=False)
class MaskedLattice(Lattice):
    """A lattice with unknown entries.

    The weights, (*lattice, 1) or (*lattice, channels), are 0 where nothing is known, and 1 or any other positive weight
    of the squared error where a sample is known. Weights of another shape than the lattice's, weights that are negative
    or not finite, and weights that are zero everywhere raise a ``ValueError``.
    """

    weights: Float[Tensor, "..."] = field(default_factory=lambda: torch.ones(()))
    is_whole_lattice = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(self.weights, self.shape)

    @property
    def without_gaps(self) -> Lattice:
        """The lattice of every k-th node along each axis, if these are known and no others; itself for other gaps.

        Axes on which nodes are skipped have ``FEWEST_EVERY`` known ones at least.
        """
        known = (self.weights > 0).cpu()
        seen = known[..., :1]
        places = [seen.movedim(j, 0).flatten(1).any(1).nonzero()[:, 0].tolist() for j in range(len(self.grid))]
        skips = [(at, n) for at, n in zip(places, self.grid, strict=True) if len(at) < n]
        if self.shape != self.grid or not self.is_binary or not skips or min(len(at) for at, _ in skips) < FEWEST_EVERY:
            return self
        steps = tuple(at[1] - at[0] if len(at) > 1 else 1 for at in places)
        lattice = Lattice(self.grid, steps, tuple(at[0] for at in places))
        return lattice if torch.equal(lattice.known(known.shape[-1]), known) else self

    def check_hideable(self) -> None:
        """Refuse a lattice that skips samples or is known as a whole with a ``ValueError``."""
        if self.shape != self.grid:
            super().check_hideable()
        check_has_gaps(self.weights)


def check_has_gaps(weights: Float[Tensor, "*lattice _"]) -> None:
    """Refuse weights of a lattice of which nothing is unknown with a ``ValueError``."""
    if bool((weights > 0).all()):
        raise _checks.wrong("samples", "a masked lattice of which some are unknown", "none")


def is_mosaic(weights: Float[Tensor, "*lattice channels"] | None) -> bool:
    """Whether weights of three colors of a picture differ by color and repeat within a few pixels."""
    if weights is None or weights.ndim != 3 or weights.shape[-1] != 3:
        return False
    known = weights > 0
    return bool(known.flatten(0, 1).any(0).all()) and all(period_of(known, axis) is not None for axis in (0, 1))


def period_of(known: Tensor, axis: int) -> int | None:
    """Return the period of a mask along an axis, None if it is more than ``LONGEST_PERIOD`` or half of the axis."""
    length = known.shape[axis]
    for period in range(1, min(LONGEST_PERIOD, length // 2) + 1):
        n = length - period
        if torch.equal(known.narrow(axis, 0, n), known.narrow(axis, period, n)):
            return period
    return None


def window_of(geometry: Geometry, window: tuple[slice, ...]) -> Lattice:
    """Return a window of equally spaced samples as a lattice of its own."""
    lengths = tuple(s.stop - s.start for s in window)
    weights = geometry.weights
    return Lattice(lengths) if weights is None else MaskedLattice(lengths, weights=weights[window].clone())


@dataclass(frozen=True)
class AreaLattice(Geometry):
    """Means over cells of ``cells[j]`` pixels along each axis of a signal's own grid of pixels, which the cells tile.

    A pixel is itself a cell, whose value is the mean of the signal over it. With cells of one pixel, the default, the
    samples are the pixels of a picture, taken as areas. The weights of the squared errors, (*shape, 1) or
    (*shape, channels), are 0 where no mean is known, and 1 if not given. A ``ValueError`` is raised if a cell's length
    is below 1 or does not divide the grid's, or the weights do not fit the cells.
    """

    grid: tuple[int, ...]
    cells: tuple[int, ...] = ()
    weights: Float[Tensor, "..."] | None = None
    is_regular = True  # type: ignore[assignment]
    is_nodal = is_strided = hides_alike = False  # type: ignore[assignment]
    footprint = "area"

    def __post_init__(self) -> None:
        Lattice(self.grid)  # refuses what is no grid
        object.__setattr__(self, "cells", _checks.lengths("cells", self.cells or (1,) * len(self.grid)))
        if len(self.cells) != len(self.grid):
            raise _checks.wrong("cells", f"{len(self.grid)} lengths, one for each axis", self.cells)
        for length, cell in zip(self.grid, self.cells, strict=True):
            if _checks.integer("grid", length, 1) % cell:
                raise _checks.wrong("cells", f"lengths that divide the grid {self.grid}", self.cells)
        object.__setattr__(self, "is_whole_lattice", self.weights is None)
        if self.weights is not None:
            check_weights(self.weights, self.shape)

    def __repr__(self) -> str:
        return f"AreaLattice({self.grid}, cells={self.cells}, density={self.density:.3g})"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n // cell for n, cell in zip(self.grid, self.cells, strict=True))

    @property
    def axes(self) -> Axes:
        return tuple(Axis.cells(m, n) for m, n in zip(self.shape, self.grid, strict=True))

    @property
    def pixels(self) -> Axes:
        return tuple(Axis.cells(n, n) for n in self.grid)

    @property
    def fine_axes(self) -> Axes:
        return self.pixels

    def forward(self, lattice: Axes, interpolate: Interpolate, dtype: torch.dtype, device: Device) -> ForwardModel:
        """Return the means over cells of a lattice of pixels, or the entries of a lattice of cells."""
        if lattice == self.axes:
            return super().forward(lattice, interpolate, dtype, device)
        means = CellMeans(self.grid, self.cells)
        return ForwardModel(means, self.stacked_weights(dtype, device), 1 / math.prod(self.cells))

    def part(self, window: tuple[slice, ...]) -> Lattice:
        """Return the means in a window as values of a lattice of their own, without their cells."""
        return window_of(self, window)

    def check_point_values(self, argument: str, expected: str, found: str) -> None:
        """Refuse means over cells with a ``ValueError``."""
        raise _checks.wrong(argument, f"{expected} for means over cells", found)

    def check_trainable(self, *, integrates: bool) -> None:
        """Refuse a network without integrals over the cells with a ``ValueError``."""
        if not integrates:
            expected = "values at points, unless a linear head is on a complex encoding, which has integrals"
            raise _checks.wrong("samples", expected, "means over cells")

    def caption(self, channels: int) -> str:
        return f"means over {math.prod(self.shape)} cells"

    def sample(self, signal: Float[Tensor, "*grid channels"]) -> Samples:
        """Return the means over the cells of a signal; one with a pixel that is NaN is unknown."""
        return self.of_values(CellMeans(self.grid, self.cells)(signal.movedim(-1, 0)).movedim(0, -1))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where a pixel was itself sampled: where cells are pixels and known, and nowhere otherwise."""
        return (
            super().known(channels) if self.shape == self.grid else torch.zeros(*self.grid, channels, dtype=torch.bool)
        )

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write the known means into a tensor on the signal's own grid, each at every pixel of its cell."""
        known = torch.ones_like(values, dtype=torch.bool) if self.weights is None else self.weights > 0
        known = known.expand_as(values).to(onto.device)
        for axis, cell in enumerate(self.cells):
            values, known = (x.repeat_interleave(cell, axis) for x in (values, known))
        onto.copy_(torch.where(known, values, onto))


class CellMeans(LinearOperator):
    """The map of lattice signals to their means over cells of some pixels along each axis, which tile the lattice."""

    is_portable = True

    def __init__(self, lattice: Shape, cells: Shape) -> None:
        self.domain, self.cells = tuple(lattice), tuple(cells)
        self.codomain = tuple(n // cell for n, cell in zip(lattice, cells, strict=True))

    def _apply(self, x: Tensor) -> Float[Tensor, "*signals_cells"]:
        split = [length for pair in zip(self.codomain, self.cells, strict=True) for length in pair]
        inner = tuple(range(-2 * len(self.cells) + 1, 0, 2))
        return x.reshape(*self.batch_of(x), *split).mean(inner)

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*signals_lattice"]:
        """Return each cell's value, divided by the number of its pixels, at all of them."""
        result = y / math.prod(self.cells)
        for axis, cell in enumerate(self.cells, -len(self.cells)):
            result = result.repeat_interleave(cell, axis)
        return result
