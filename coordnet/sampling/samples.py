"""Samples: where a signal was sampled, and the values there."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling.arrays import FLOATS
from coordnet.sampling.axes import Alignment, Axes, Axis, Footprint, render_axes
from coordnet.sampling.measurements import Outside

Blend = Literal["similarity", "printed", "linear", "cubic", "quintic"]
MAX_AXES = 7  # as many as PyTorch's Fourier transforms take on a CPU
BLENDS = ("similarity", "printed", "linear", "cubic", "quintic")


class Geometry(ABC):
    """Where a signal is sampled."""

    grid: tuple[int, ...]  # the lengths of the signal's own grid
    points: Tensor  # (n, d), the coordinates of scattered points
    weights: Tensor | None = None  # of the squared errors; None where every sample has the same weight
    blending: Blend | None = None  # how scattered points depend on a lattice
    outside: Outside = "error"  # whether scattered points beyond the lattice are refused or moved to its border
    coordinates: tuple[Tensor, ...] | None = None  # along each axis, in units of the user's own, if there are any
    operator: LinearOperator | None = None  # the map of the lattice that was measured, if not the lattice itself
    sigma: float | None = None  # the standard deviation of the noise of samples with weight 1, if known
    is_whole_lattice: bool = False  # whether every point of a lattice is sampled
    is_scattered: bool = False  # whether the samples are scattered points, not points of a lattice
    has_cells: bool = False  # whether the samples are means over cells, not values at points

    @property
    @abstractmethod
    def density(self) -> float:
        """The number of samples, or the sum of their weights, for each point of the signal's own grid."""

    @property
    @abstractmethod
    def axes(self) -> Axes:
        """The positions of the lattice along each axis."""

    @property
    def is_even(self) -> bool:
        """Whether the positions of the lattice are equally spaced along each axis."""
        return all(axis.is_even for axis in self.axes)

    @property
    def pixels(self) -> Axes:
        """The points of the signal's own grid along each axis, or its cells for samples that are means over cells."""
        return tuple(Axis(n) for n in self.grid)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the values, without channels."""

    def render_axes(
        self, shape: int | tuple[int, ...] | None, alignment: Alignment = "pixel", footprint: Footprint = "point"
    ) -> Axes:
        """Return the axes of a render of ``shape`` outputs, the signal's own lengths by default."""
        return render_axes(self.grid if shape is None else shape, self.grid, alignment, footprint)

    def of_constant(self, like: Tensor) -> Tensor | float:
        """Return the samples of the constant signal 1: 1, or (*samples) with the dtype and device of another tensor."""
        return 1.0

    @abstractmethod
    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""

    @abstractmethod
    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write values at the samples into a tensor on the signal's own grid, each at the nearest node."""


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
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's grid."""
        return tuple(slice(o, None, k) for k, o in zip(self.steps, self.offsets, strict=True))

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


@dataclass(frozen=True)
class ScatteredPoints(Geometry):
    """Points anywhere in [0, 1)^d, tied to a lattice.

    Parameters
    ----------
    grid : tuple of int
        The lengths of the lattice on which the reconstruction lives.
    points, weights
        Coordinates (n, d) in units of the unit interval, which may be repeated, and weights (n, 1) or (n, channels) of
        the squared errors; 1 if not given.
    blending : str, optional
        How a point depends on the nodes around it: "linear", "cubic" or "quintic" interpolation, or "similarity", least
        squares by the similarity of the encoder ("printed": as the papers print it). By default closed-form fits take
        "cubic" in one and two dimensions and "linear" in more, thin plates "quintic", which all reproduce constants,
        and gradient fits evaluate the encoding at the points themselves.
    outside : "error" or "clamp"
        Whether points beyond the outermost nodes are refused or moved to the border. A point less than one spacing
        after the last node is always accepted. An argument that does not fit the others raises a ``ValueError``.
    """

    grid: tuple[int, ...]
    points: Float[Tensor, "n d"]
    weights: Float[Tensor, "n _"] | None = None
    blending: Blend | None = None
    outside: Outside = "error"
    is_scattered = True

    def __post_init__(self) -> None:
        Lattice(self.grid)
        check_values("points", self.points)
        if self.points.ndim != 2 or self.points.shape[1] != len(self.grid):
            raise _checks.wrong("points", f"{len(self.grid)} coordinates per point", tuple(self.points.shape))
        if self.weights is not None:
            check_weights(self.weights)
            if self.weights.ndim != 2 or len(self.weights) != len(self.points):
                raise _checks.wrong("weights", f"shape ({len(self.points)}, 1)", tuple(self.weights.shape))
        if self.blending is not None:
            _checks.choice("blending", self.blending, BLENDS)
        _checks.choice("outside", self.outside, ("error", "clamp"))

    def __repr__(self) -> str:
        """Return the lengths of the lattice, and the number of points for each of its nodes."""
        return f"ScatteredPoints({self.grid}, points={len(self.points)}, density={self.density:.3g})"

    @property
    def density(self) -> float:
        """The number of points for each node of the lattice."""
        return len(self.points) / math.prod(self.grid)

    @property
    def axes(self) -> Axes:
        """The whole lattice, j / N along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points."""
        return (len(self.points),)

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return zeros: scattered points are not points of the grid."""
        return torch.zeros(*self.grid, channels, dtype=torch.bool)

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write every point's value into a tensor on the lattice, at the nearest node."""
        lengths = torch.tensor(self.grid)
        index = (self.points.cpu() * lengths).round().long().clamp(min=0)
        onto[tuple(torch.minimum(index, lengths - 1).T)] = values


def check_values(name: str, values: object) -> Tensor:
    """Return a tensor of finite float32 or float64 numbers, at least one; others raise a ``ValueError``."""
    if not isinstance(values, Tensor) or values.dtype not in FLOATS:
        found = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise _checks.wrong(name, "a tensor of torch.float32 or torch.float64", found)
    if values.numel() == 0:
        raise _checks.wrong(name, "at least one number", f"shape {tuple(values.shape)}")
    if not bool(torch.isfinite(values).all()):
        raise _checks.wrong(name, "finite values", "NaN or infinity")
    return values


def check_weights(weights: Float[Tensor, "..."]) -> None:
    """Refuse weights that are negative, not finite, or zero everywhere with a ``ValueError``."""
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise _checks.wrong("weights", "finite numbers of at least 0", "NaN, infinity or a negative number")
    if not bool((weights > 0).any()):
        raise _checks.wrong("weights", "at least one known sample", "none: the mask is empty")


@dataclass(frozen=True)
class Samples:
    """Values of a signal where it was sampled: (*lattice, channels), or (n, channels) at scattered points.

    They are zero where a masked lattice is unknown. Values that do not fit the geometry, or are not finite, raise a
    ``ValueError``.
    """

    geometry: Geometry
    values: Float[Tensor, "*lattice channels"]

    def __post_init__(self) -> None:
        expected, shape = self.geometry.shape, tuple(self.values.shape[:-1])
        if shape != expected:
            whole = f"shape {(*expected, 'channels')}"
            if shape[-len(expected) :] == expected:
                whole += ", one signal (a batch goes to `cn.plan(encoding, geometry).fit`)"
            raise _checks.wrong("values", whole, tuple(self.values.shape))
        check_values("values", self.values)
        if self.weights is not None and self.weights.shape[-1] not in (1, self.channels):
            expected = f"1 or {self.channels} in the last axis, the number of channels"
            raise _checks.wrong("weights", expected, tuple(self.weights.shape))

    def __repr__(self) -> str:
        """Return the geometry, the number of channels and the dtype."""
        return f"Samples({self.geometry}, channels={self.channels}, dtype={self.values.dtype})"

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
        """The positions of the samples' lattice along each axis."""
        return self.geometry.axes

    @property
    def weights(self) -> Tensor | None:
        """The geometry's weights; None where every value has the same weight."""
        return self.geometry.weights

    def detached(self) -> "Samples":
        """Return the samples without gradients to their values."""
        return self if not self.values.requires_grad else replace(self, values=self.values.detach())

    def mean(self) -> Float[Tensor, " channels"]:
        """Return the constant nearest to every channel: the (weighted) mean, for samples of the signal itself."""
        values = self.values.movedim(-1, 0).unsqueeze(0)
        return channel_means(values, self.weights, self.geometry.of_constant(values))[0]

    def centered(self) -> Float[Tensor, "channels *samples"]:
        """Return the differences from the samples of that constant."""
        values = self.values.movedim(-1, 0)
        mean = self.mean().reshape(-1, *(1,) * (values.ndim - 1))
        return values - mean * self.geometry.of_constant(values)


def units_of(values: Float[Tensor, "signals *rest"]) -> Float[Tensor, "signals *ones"]:
    """Return a power of two near the largest magnitude of each signal.

    In these units squares neither overflow nor vanish, and because a division by a power of two is exact, a signal
    times any power of two is treated alike to the bit.
    """
    largest = values.detach().abs().amax(tuple(range(1, values.ndim)), keepdim=True)
    return torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)


def channel_means(
    values: Float[Tensor, "signals channels *samples"], weights: Tensor | None, of_constant: Tensor | float = 1.0
) -> Float[Tensor, "signals channels"]:
    """Return the constant nearest to every channel, weighted by a geometry's weights, (*samples, 1 or channels).

    It is the mean, or with the samples of the constant signal 1 the factor by which they are nearest to the values.
    """
    if not isinstance(of_constant, Tensor):
        if weights is None:
            return values.flatten(2).mean(-1)
        weights = weights.movedim(-1, 0).to(values).expand_as(values).flatten(2)
        return (weights * values.flatten(2)).sum(-1) / weights.sum(-1).clamp(min=torch.finfo(values.dtype).tiny)
    weighted = of_constant if weights is None else of_constant * weights.movedim(-1, 0).to(values)
    weighted = weighted.expand_as(values).flatten(2)
    energy = (weighted * of_constant.flatten()).sum(-1)
    return (weighted * values.flatten(2)).sum(-1) / energy.clamp(min=torch.finfo(values.dtype).tiny)
