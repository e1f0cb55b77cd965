"""Samples: where a signal was sampled, and the values there."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling.arrays import FLOATS
from coordnet.sampling.axes import Alignment, Axes, Axis, Footprint, render_axes
from coordnet.sampling.forward import Outside

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
