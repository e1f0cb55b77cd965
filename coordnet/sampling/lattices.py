"""Lattices: a signal's own grid, every k-th point of it, or some of its entries."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.axes import Axes, Axis
from coordnet.sampling.samples import MAX_AXES, Geometry, Samples, check_weights, known_entries


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
        """Return the lengths, the steps and the density."""
        steps = "" if self.shape == self.grid else f", steps={self.steps}"
        return f"{type(self).__name__}({self.grid}{steps}, density={self.density:.3g})"

    @property
    def density(self) -> float:
        """The share of the signal's own grid that the lattice has."""
        return math.prod(self.shape) / math.prod(self.grid)

    @property
    def axes(self) -> Axes:
        """The lattice along each axis."""
        parts = zip(self.grid, self.steps, self.offsets, strict=True)
        return tuple(Axis.every(n, k, o) for n, k, o in parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return tuple(axis.count for axis in self.axes)

    @property
    def filled_axes(self) -> Axes | None:
        """The lattice along each axis."""
        return self.axes

    @property
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's grid."""
        return tuple(slice(o, None, k) for k, o in zip(self.steps, self.offsets, strict=True))

    def reweighted(self, weights: Float[Tensor, "*lattice _"]) -> "MaskedLattice":
        """Return the lattice with weights, 0 where nothing is known."""
        return MaskedLattice(self.grid, self.steps, self.offsets, weights)

    def part(self, window: tuple[slice, ...]) -> "Lattice":
        """Return a window of the lattice, as a lattice of its own."""
        return window_of(self, window)

    def sample(self, signal: Float[Tensor, "*grid channels"]) -> Samples:
        """Return the signal's values on the lattice, on a masked one where some are NaN."""
        values = signal[self.slices]
        known, weights = known_entries(values), None if self.weights is None else self.weights.to(values)
        if known is not None and not bool(known.any()):
            raise _checks.wrong("signal", "a value that is not NaN where it is sampled", "NaN alone")
        if known is not None:
            weights = known if weights is None else known * weights
        if weights is None:
            return Samples(self, values)
        return Samples(self.reweighted(weights), torch.where(values.isnan() | (weights == 0), 0.0, values))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""
        known = torch.zeros(*self.grid, channels, dtype=torch.bool)
        known[self.slices] = True if self.weights is None else (self.weights > 0).cpu()
        return known

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write the known values into a tensor on the signal's own grid."""
        known = self.known(onto.shape[-1])[self.slices].to(onto.device)
        onto[self.slices] = torch.where(known, values, onto[self.slices])


@dataclass(frozen=True)
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
        if tuple(self.weights.shape[:-1]) != self.shape:
            raise _checks.wrong("weights", f"shape {(*self.shape, 1)}", tuple(self.weights.shape))
        check_weights(self.weights)

    __repr__ = Lattice.__repr__

    @property
    def density(self) -> float:
        """The share of the signal's own grid that is known, for weights of 0 and 1."""
        return super().density * float(self.weights.mean())

    @property
    def filled_axes(self) -> None:
        """None: a mask leaves entries unknown."""

    def check_hideable(self) -> None:
        """Refuse a lattice that skips samples or is known as a whole with a ``ValueError``."""
        if self.shape != self.grid:
            super().check_hideable()
        check_has_gaps(self.weights)


def check_has_gaps(weights: Float[Tensor, "*lattice _"]) -> None:
    """Refuse weights of a lattice of which nothing is unknown with a ``ValueError``."""
    if bool((weights > 0).all()):
        raise _checks.wrong("samples", "a masked lattice of which some are unknown", "none")


def window_of(geometry: Geometry, window: tuple[slice, ...]) -> Lattice:
    """Return a window of equally spaced samples as a lattice of its own."""
    lengths = tuple(s.stop - s.start for s in window)
    weights = geometry.weights
    return Lattice(lengths) if weights is None else MaskedLattice(lengths, weights=weights[window].clone())
