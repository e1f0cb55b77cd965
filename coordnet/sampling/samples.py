"""What is known of a signal: where it was sampled, and the values there."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.axes import Axes, Axis


@dataclass(frozen=True)
class Lattice:
    """A regular part of a signal's grid: every ``steps[j]``-th sample from ``offsets[j]`` on, along each axis.

    Attributes
    ----------
    grid : tuple of int
        The signal's own lengths, one an axis.
    steps, offsets : tuple of int
        The whole grid if left out.

    Raises
    ------
    ValueError
        If a step is below 1 or an offset falls outside the axis.
    """

    grid: tuple[int, ...]
    steps: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", self.steps or (1,) * len(self.grid))
        object.__setattr__(self, "offsets", self.offsets or (0,) * len(self.grid))
        for length, step, offset in zip(self.grid, self.steps, self.offsets, strict=True):
            _checks.integer("grid", length, 1)
            _checks.integer("steps", step, 1)
            if not 0 <= offset < length:
                raise _checks.wrong("offsets", f"at least 0 and below the axis's {length} samples", offset)

    @property
    def axes(self) -> Axes:
        """The positions of the lattice along each axis."""
        parts = zip(self.grid, self.steps, self.offsets, strict=True)
        return tuple(Axis.every(n, k, o) for n, k, o in parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return tuple(axis.count for axis in self.axes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's grid."""
        return tuple(slice(o, None, k) for k, o in zip(self.steps, self.offsets, strict=True))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""
        known = torch.zeros(*self.grid, channels, dtype=torch.bool)
        known[self.slices] = True
        return known


@dataclass(frozen=True)
class MaskedLattice(Lattice):
    """A lattice of which some entries are unknown.

    Attributes
    ----------
    weights : (*lattice, 1) or (*lattice, channels)
        0 where nothing is known, 1 where a sample is, any other positive number to weight its squared error.

    Raises
    ------
    ValueError
        If the weights have not the lattice's shape, are negative or not finite, or are zero everywhere.
    """

    weights: Float[Tensor, "..."] = field(default_factory=lambda: torch.ones(()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(self.weights.shape[:-1]) != self.shape:
            raise _checks.wrong("weights", f"shape {(*self.shape, 1)}", tuple(self.weights.shape))
        check_weights(self.weights)

    @property
    def density(self) -> float:
        """The mean weight: the fraction of entries that are known where weights are 0 and 1."""
        return float(self.weights.mean())

    @property
    def by_channel(self) -> bool:
        """Whether the channels' masks may differ."""
        return self.weights.shape[-1] > 1

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""
        known = torch.zeros(*self.grid, channels, dtype=torch.bool)
        known[self.slices] = (self.weights > 0).expand(*self.shape, channels).cpu()
        return known


@dataclass(frozen=True)
class ScatteredPoints:
    """Points anywhere in [0, 1)^d, tied to a lattice of the given lengths.

    Attributes
    ----------
    grid : tuple of int
        The lengths of the lattice on which the reconstruction lives.
    points : (n, d)
        In units of the unit interval; repeated points are allowed.
    weights : (n, 1) or (n, channels), optional
        Of the squared errors; 1 if not given.

    Raises
    ------
    ValueError
        If a coordinate is not finite, the number of axes does not fit, there is no point, or a weight is negative.
    """

    grid: tuple[int, ...]
    points: Float[Tensor, "n d"]
    weights: Float[Tensor, "n _"] | None = None

    def __post_init__(self) -> None:
        if self.points.shape[1] != len(self.grid):
            raise _checks.wrong("points", f"{len(self.grid)} coordinates a point", self.points.shape[1])
        if len(self.points) == 0:
            raise _checks.wrong("points", "at least one point", "none")
        if not bool(torch.isfinite(self.points).all()):
            raise _checks.wrong("points", "finite coordinates", "NaN or infinity")
        if self.weights is not None:
            check_weights(self.weights)

    @property
    def axes(self) -> Axes:
        """The whole lattice, j / N along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the values: the number of points."""
        return (len(self.points),)


Geometry = Lattice | MaskedLattice | ScatteredPoints


def check_weights(weights: Float[Tensor, "..."]) -> None:
    """Refuse weights that are negative, not finite, or zero everywhere."""
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise _checks.wrong("weights", "finite numbers of at least 0", "others")
    if not bool((weights > 0).any()):
        raise _checks.wrong("weights", "at least one known sample", "none: the mask is empty")


@dataclass(frozen=True)
class Samples:
    """Values of a signal where it was sampled.

    Attributes
    ----------
    geometry : Lattice, MaskedLattice or ScatteredPoints
        Where.
    values : (*lattice, channels), or (n, channels) at scattered points
        What; zero where a masked lattice knows nothing.

    Raises
    ------
    ValueError
        If the values do not fit the geometry, or a known one is not finite.
    """

    geometry: Geometry
    values: Float[Tensor, "*lattice channels"]

    def __post_init__(self) -> None:
        expected, shape = self.geometry.shape, tuple(self.values.shape[:-1])
        if shape != expected:
            raise _checks.wrong("values", f"shape {(*expected, 'channels')}", tuple(self.values.shape))
        if not bool(torch.isfinite(self.values).all()):
            raise _checks.wrong("values", "finite values", "NaN or infinity")

    @property
    def channels(self) -> int:
        """The number of channels."""
        return self.values.shape[-1]

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the signal's own grid."""
        return self.geometry.grid

    @property
    def axes(self) -> Axes:
        """The axes of the geometry's lattice."""
        return self.geometry.axes

    @property
    def weights(self) -> Tensor | None:
        """The geometry's weights; None where every value counts alike."""
        return (
            None if not isinstance(self.geometry, MaskedLattice | ScatteredPoints) else self.geometry.weights
        )

    def mean(self) -> Float[Tensor, " channels"]:
        """Return the (weighted) mean of every channel."""
        axes = tuple(range(self.values.ndim - 1))
        if self.weights is None:
            return self.values.mean(axes)
        weights = self.weights.to(self.values).expand_as(self.values)
        return (weights * self.values).sum(axes) / weights.sum(axes).clamp(
            min=torch.finfo(weights.dtype).tiny
        )
