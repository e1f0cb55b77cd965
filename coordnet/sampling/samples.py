"""Samples: where a signal was sampled, and the values there."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import Device, LinearOperator
from coordnet.sampling.arrays import check_values, known_entries
from coordnet.sampling.axes import Alignment, Axes, Axis, Footprint, lattice_points, render_axes
from coordnet.sampling.drift import Drift
from coordnet.sampling.forward import ForwardModel, Interpolation, Outside

Blend = Literal["similarity", "printed", "linear", "cubic", "quintic", "septic"]
Interpolate = Callable[[Tensor], Interpolation]  # points (n, d) to the map of a lattice onto them
BLENDS = ("similarity", "printed", "linear", "cubic", "quintic", "septic")


class Geometry(ABC):
    """Where a signal is sampled; a way to sample is a subclass with its own operations.

    By default the samples are the values of the signal at the nodes of its grid.
    """

    grid: tuple[int, ...]  # the lengths of the signal's own grid
    weights: Tensor | None = None  # weights of the squared errors; None where every sample has the same weight
    footprint: Footprint = "point"  # whether samples are values at points, or means over cells
    blending: Blend | None = None  # the named way in which scattered points depend on a lattice
    outside: Outside = "error"  # whether scattered points beyond the lattice are refused or moved to its border
    lattice: Any = None  # the ``RectilinearLattice`` of the nodes, in units of the user's own, if it has such units
    operator: LinearOperator | None = None  # the map of the lattice that was measured, if not the lattice itself
    sigma: float | None = None  # the standard deviation of the noise of samples with weight 1, if known
    is_whole_lattice: bool = False  # whether every point of a lattice is sampled
    is_laid: bool = False  # whether the nodes were laid for the samples, denser than these and beyond them
    drift: Drift | None = None  # columns on which the values at points depend linearly, beside a field
    latitude: int | None = None  # the axis of latitudes of nodes on a sphere, which go on over the poles
    hides_alike: bool = True  # whether samples can be hidden in the way that others are missing
    within_hull: Any = None  # whether each node is within the convex hull of points, None where these have none
    cells_like_gaps: Any = None  # the block of each point along each axis, as wide as gaps; None where there are none

    @property
    def density(self) -> float:
        """The number of samples for each point of the signal's own grid; of those known, for weights of 0 and 1."""
        share = math.prod(self.shape) / math.prod(self.grid)
        return share if self.weights is None else share * float(self.weights.mean())

    @property
    def axes(self) -> Axes:
        """The positions of the lattice along each axis: all of it, j / N, by default."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's own grid."""
        return (slice(None),) * len(self.grid)

    @property
    def is_even(self) -> bool:
        """Whether the positions of the lattice are equally spaced along each axis."""
        return all(axis.even is axis for axis in self.axes)

    @property
    def is_nodal(self) -> bool:
        """Whether each sample is the value, known or unknown, at one node of a lattice of equal distances."""
        return self.is_even

    @property
    def is_regular(self) -> bool:
        """Whether each sample is of one node, or of one cell, of a lattice of equal distances."""
        return self.is_nodal

    @property
    def is_strided(self) -> bool:
        """Whether the samples are a whole lattice within that of the signal, and skip the nodes between."""
        return self.is_whole_lattice and self.shape != self.grid

    @property
    def with_gaps(self) -> "Geometry":
        """The nodes of the signal's lattice, unknown where a lattice skips them; the geometry itself for others."""
        return self

    @property
    def without_gaps(self) -> "Geometry":
        """The lattice of every k-th node whose gaps are the nodes between; the geometry itself for others."""
        return self

    @property
    def is_binary(self) -> bool:
        """Whether every sample is either known, with the weight 1, or unknown."""
        return self.weights is None or bool(((self.weights == 0) | (self.weights == 1)).all())

    @property
    def pixels(self) -> Axes:
        """The points of the signal's own grid along each axis, or its cells for samples that are means over cells."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values, without channels."""
        return self.grid

    def render_axes(
        self, shape: int | tuple[int, ...] | None, alignment: Alignment = "pixel", footprint: Footprint = "point"
    ) -> Axes:
        """Return the axes of a render of ``shape`` outputs, the signal's own lengths by default."""
        return render_axes(self.grid if shape is None else shape, self.grid, alignment, footprint)

    def of_constant(self, like: Tensor) -> Tensor | float:
        """Return the samples of the constant signal 1: 1, or (*samples) with the dtype and device of another tensor."""
        return 1.0

    @property
    def fine_axes(self) -> Axes:
        """The axes of the finest lattice that a fit may reconstruct: the samples' own, or the pixels within cells."""
        return self.axes

    @property
    def filled_axes(self) -> Axes | None:
        """The axes along which values may be interpolated one after another; None where a node has no sample."""
        return self.axes if self.is_whole_lattice else None

    @property
    def gaps(self) -> Bool[Tensor, "masks *lattice"] | None:
        """Where the lattice's entries are unknown, for one mask or one of each channel; None if all are known.

        Scattered points and measurements have no gaps: their samples are no entries of a lattice.
        """
        return None if self.weights is None else (self.weights == 0).movedim(-1, 0)

    @property
    def closed_form_blend(self) -> Blend | None:
        """How values at samples depend on the nodes around them in a closed form; None where samples are nodes."""
        return None

    @property
    def full_weights(self) -> Float[Tensor, "*samples _"]:
        """The weights of the squared errors, which are 1 where none are given."""
        return torch.ones(*self.shape, 1) if self.weights is None else self.weights

    @property
    def nodes(self) -> Int[Tensor, " n"]:
        """The flat index of the grid's node at each sample, or nearest to it."""
        lengths = torch.tensor(self.grid)
        index = (self.positions() * lengths).round().long().clamp(min=0).minimum(lengths - 1)
        strides = [math.prod(self.grid[j + 1 :]) for j in range(len(self.grid))]
        return (index * torch.tensor(strides)).sum(-1)

    def positions(self, dtype: torch.dtype = torch.float64, device: Device = "cpu") -> Float[Tensor, "n d"]:
        """Return the coordinates of every sample, or of the center of its cell, in units of the unit interval."""
        return lattice_points(self.axes, dtype, device).flatten(0, -2)

    def at_samples(self, fit: Any) -> Float[Tensor, "*samples channels"]:
        """Return the values of a ``Reconstruction`` where the samples are."""
        return fit.on_axes(self.axes)

    def forward(self, lattice: Axes, interpolate: Interpolate, dtype: torch.dtype, device: Device) -> ForwardModel:
        """Return the map from signals on the nodes of ``lattice`` to the samples; ``interpolate`` maps to points."""
        return ForwardModel.mask(self.stacked_weights(dtype, device))

    def stacked_weights(self, dtype: torch.dtype, device: Device) -> Float[Tensor, "1 channels *samples"]:
        """Return the weights in the order of a ``ForwardModel``."""
        return self.full_weights.movedim(-1, 0).unsqueeze(0).to(device, dtype).contiguous()

    def reweighted(self, weights: Float[Tensor, "*samples _"]) -> "Geometry":
        """Return the same samples with other weights, (*samples, 1) or (*samples, channels)."""
        return replace(self, weights=weights)  # type: ignore[type-var]  # a geometry that is no dataclass overrides it

    def blended(self, blend: Blend) -> "Geometry":
        """Return the geometry with a way in which scattered points depend on the lattice, unless it names one."""
        return self

    def part(self, window: tuple[slice, ...]) -> "Geometry | None":
        """Return the samples in a window as a lattice of their own; None where they are not equally spaced."""
        return None

    def on_even_nodes(self, samples: "Samples", *, finer: bool = False) -> "Samples":
        """Return samples of this geometry for fits with equally spaced nodes: those at unequal places as points.

        There may be ``finer`` nodes than samples.
        """
        return samples

    def check_filled(self, argument: str, expected: str, found: str | None = None) -> None:
        """Refuse samples that are not all of a lattice with a ``ValueError``."""
        if self.filled_axes is None:
            raise _checks.wrong(argument, expected, found or type(self).__name__)

    def check_hideable(self) -> None:
        """Refuse samples of which none can be hidden in the way that others are missing with a ``ValueError``."""
        expected = "a lattice with gaps or scattered points, of which some can be hidden to measure errors"
        raise _checks.wrong("samples", expected, repr(self))

    def check_blocks(self, argument: str, expected: str) -> None:
        """Refuse samples that are not hidden in blocks of a size in their units, with a ``ValueError``."""
        raise _checks.wrong(argument, expected, repr(self))

    def check_point_values(self, argument: str, expected: str, found: str) -> None:  # noqa: B027, most samples pass
        """Refuse samples that are no values of the signal at points with a ``ValueError``."""

    def check_trainable(self, *, integrates: bool) -> None:  # noqa: B027, most samples pass
        """Refuse samples that a network, which ``integrates`` over cells or not, cannot be trained on."""

    def caption(self, channels: int) -> str:
        """Return the title of a figure of the samples, with their number or the known share of the grid."""
        return f"samples ({100 * float(self.known(channels).double().mean()):.3g} %)"

    @abstractmethod
    def sample(self, signal: Float[Tensor, "*grid channels"]) -> "Samples":
        """Return the samples of a signal on the grid; where it is NaN they are unknown."""

    def of_values(self, values: Float[Tensor, "*samples channels"]) -> "Samples":
        """Return values as samples, of which those that are NaN are unknown; NaN alone raises a ``ValueError``."""
        known, weights = known_entries(values), None if self.weights is None else self.weights.to(values)
        if known is not None:
            if not bool(known.any()):
                raise _checks.wrong("signal", "a value that is not NaN where it is sampled", "NaN alone")
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
        """Write the known values into a tensor on the signal's own grid, each at the nearest node."""
        known = self.known(onto.shape[-1])[self.slices].to(onto.device)
        onto[self.slices] = torch.where(known, values, onto[self.slices])


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

    def without(self, hidden: Bool[Tensor, "*samples channels"]) -> "Samples":
        """Return the samples with those that are hidden unknown; one mask hides them in all channels alike."""
        weights = self.geometry.full_weights.to(self.values)
        shown = hidden[..., : weights.shape[-1]].logical_not() * weights
        return Samples(self.geometry.reweighted(shown), torch.where(hidden, 0.0, self.values))

    def part(self, window: tuple[slice, ...]) -> "Samples | None":
        """Return the samples in a window of a lattice; None where there are no windows (see ``Geometry.part``)."""
        geometry = self.geometry.part(window)
        return None if geometry is None else Samples(geometry, self.values[window])

    def of_channels(self, chosen: Bool[Tensor, " channels"]) -> "Samples":
        """Return the samples of some channels."""
        weights, values = self.weights, self.values[..., chosen]
        if weights is None or weights.shape[-1] == 1:
            return Samples(self.geometry, values)
        return Samples(self.geometry.reweighted(weights[..., chosen]), values)

    def on_even_nodes(self, *, finer: bool = False) -> "Samples":
        """Return the samples for fits whose nodes are equally spaced: those at unequal coordinates as points."""
        return self.geometry.on_even_nodes(self, finer=finer)

    def with_gaps(self) -> "Samples":
        """Return samples of a lattice that skips nodes as those of all nodes, of which the skipped ones are unknown."""
        geometry = self.geometry.with_gaps
        if geometry is self.geometry:
            return self
        values = self.values.new_zeros(*geometry.shape, self.channels)
        values[self.geometry.slices] = self.values
        return Samples(geometry, values)

    def without_gaps(self) -> "Samples":
        """Return samples at every k-th node, and nowhere else, as those of a lattice that skips the others."""
        geometry = self.geometry.without_gaps
        return self if geometry is self.geometry else Samples(geometry, self.values[geometry.slices])

    def detached(self) -> "Samples":
        """Return the samples without gradients to their values."""
        return self if not self.values.requires_grad else Samples(self.geometry, self.values.detach())

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

    In these units squares neither overflow nor vanish, and a signal times any power of two is treated alike to the bit.
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
