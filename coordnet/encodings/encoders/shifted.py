"""Shifted bases: one bump or wave, moved to the nodes t_k of a regular row."""

import copy
import math
from abc import abstractmethod
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.feature_map import Encoder, Scale, interval
from coordnet.encodings.encoders.scale_parameters import Parameter, Spacings
from coordnet.linalg.banded import ROWS, BandedMatrix, Block, rounding
from coordnet.sampling.axes import Axes, Axis

MAX_DENSITY = 0.5  # largest fraction of a matrix that its band may fill; above it the dense product is as fast
TIE = 1e-3  # shift of an edge in node spacings, so that rounding puts it on the same side for every node
SHORTEST_PART = 1e-30  # least length of a cell's part between the samples, by which is divided


class ShiftedBasis(Encoder):
    """ψ_k(x) = φ(t_k - x) with nodes t_k = start + (stop - start) k / K, k = -padding … K - 1 + padding.

    K is the number of nodes within [start, stop), and ``padding`` that of further nodes beyond each end. Positions
    before ``start`` and beyond the ``last`` sample, which ``like`` supplies, are moved there, because bumps decay. With
    ``reflect`` they stay, and bumps are continued by their mirror images at the borders, half a node spacing beyond the
    outermost nodes, so that sums of bumps are even there: the default on axes of cells.
    """

    _: KW_ONLY
    start: float = 0.0
    stop: float = 1.0
    padding: int = 0
    last: float | None = None
    reflect: bool = False

    def __post_init__(self, generator: torch.Generator | None) -> None:
        super().__post_init__(generator)
        self.start, self.stop = interval(self.start, self.stop)
        _checks.integer("padding", self.padding, 0)
        _checks.choice("reflect", self.reflect, (True, False))
        if self.last is not None and not self.start <= _checks.finite("last", self.last) < self.stop:
            raise _checks.wrong("last", f"a number from {self.start} to below {self.stop}", self.last)

    @property
    def columns(self) -> int:
        """K plus the padding nodes at both ends."""
        return self.features + 2 * self.padding

    @property
    def nodes(self) -> Axis:
        """The nodes t_k."""
        spacing = (self.stop - self.start) / self.features
        return Axis(self.columns, self.start - self.padding * spacing, spacing)

    def reach(self, rounding: float) -> float:
        """The distance beyond which φ is at most ``rounding``; infinite unless overridden."""
        return math.inf

    @abstractmethod
    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance t - x."""

    @abstractmethod
    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = ∫φ(u) φ(u + δ) du / ∫φ(u)² du."""

    def bump_mean(self, distance: Float[Tensor, "*shape"], width: float | Tensor) -> Float[Tensor, "*shape"]:
        """(1/w) ∫φ over the distances in a cell of length w around a signed distance; see ``cell_means`` for errors."""
        return super().cell_means(distance, 0.0)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        return self.encode_at(x, self.nodes.points(x.dtype, x.device))

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """Means of ψ over cells, before the gain."""
        return self.encode_at(x, self.nodes.points(x.dtype, x.device), width)

    def encode_at(
        self, x: Float[Tensor, "*points"], nodes: Float[Tensor, "*some _"], width: float = 0.0
    ) -> Float[Tensor, "*points _"]:
        """The columns of ψ whose nodes are at given positions, at positions x or as means over cells around them."""
        if width and self.last is not None and not self.reflect:
            return self._held_means(x.unsqueeze(-1), nodes, width, self.last)
        x = (x if self.reflect or width else self._held(x)).unsqueeze(-1)
        phi = partial(self.bump_mean, width=width) if width else self.bump
        if not self.reflect:
            return phi(nodes - x)
        half = 0.5 * (self.stop - self.start) / self.features
        return phi(nodes - x) + sum(phi(2 * (border - half) - nodes - x) for border in (self.start, self.stop))

    def _held_means(
        self, x: Float[Tensor, "*points 1"], nodes: Float[Tensor, "*some _"], width: float, last: float
    ) -> Tensor:
        """The means over cells of columns whose positions beyond the first and the last sample are moved there."""
        low, high = self._held(x - width / 2), self._held(x + width / 2)
        inside = (high - low).clamp(min=SHORTEST_PART)
        total = inside * self.bump_mean(nodes - (low + high) / 2, inside)
        for end, beyond in ((self.start, self.start - x), (last, x - last)):
            total = total + (beyond + width / 2).clamp(0, width) * self.bump(nodes - end)
        return total / width

    def _held(self, x: Tensor) -> Tensor:
        return x if self.last is None else x.clamp(self.start, self.last)

    def banded(self, axis: Axis, dtype: torch.dtype = torch.float64) -> BandedMatrix | None:
        """The design matrix of an axis as a band, on the CPU; None where its density is above ``MAX_DENSITY``.

        All blocks are computed at once, in float64. On a GPU launching many small ones would cost more.
        """
        nodes, reach = self.nodes, self.reach(rounding(dtype)) + axis.width / 2
        if 2 * reach / nodes.spacing > MAX_DENSITY * nodes.count:
            return None
        left, stored, width = [], 0, 1
        starts = range(0, axis.count, ROWS)
        rows = torch.arange(len(starts) * ROWS).clamp(max=axis.count - 1).reshape(-1, ROWS)
        x = axis.points()[rows]
        ends = (x if self.reflect else self._held(x))[:, [0, -1]].tolist()
        for first, (low, high) in zip(starts, ends, strict=True):
            start = min(max(math.ceil((low - reach - nodes.start) / nodes.spacing), 0), nodes.count - 1)
            stop = min(math.floor((high + reach - nodes.start) / nodes.spacing) + 1, nodes.count)
            left.append(start)
            width = max(width, stop - start)
            stored += max(1, stop - start) * min(ROWS, axis.count - first)
        if stored > MAX_DENSITY * axis.count * nodes.count:
            return None
        left = [min(start, nodes.count - width) for start in left]
        near = nodes.points()[torch.tensor(left).unsqueeze(1) + torch.arange(width)].unsqueeze(1)
        tensors = (*self.parameters(), *self.buffers())
        local = self if all(t.device.type == "cpu" for t in tensors) else copy.deepcopy(self).cpu()
        entries = local._amplified(local.encode_at(x, near, axis.width)).to(dtype).flatten(0, 1)
        entries = entries[: axis.count].split(ROWS)
        blocks = [Block(ROWS * i, *at) for i, at in enumerate(zip(left, entries, strict=True))]
        return BandedMatrix((axis.count, nodes.count), blocks)

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        """Put a node on every sample of an axis, or ``features`` nodes over the same interval.

        On an axis of cells the nodes are the centers of ``features`` cells that tile it.
        """
        (axis,) = axes
        features = features or axis.count
        last = None if axis.width else axis.start + (axis.count - 1) * axis.spacing
        shift = 0.5 * axis.spacing * (axis.count / features - 1) if axis.width else 0.0
        ends = {"start": axis.start + shift, "stop": axis.stop + shift}
        return {"features": features, **ends, "last": last, "reflect": axis.width > 0}


class Gaussian(ShiftedBasis):
    """φ(u) = exp(-u² / (2σ²)), with σ in units of the unit interval; see ``ShiftedBasis`` for the other arguments.

    Source: Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), section 4.
    """

    name = "gaussian"
    summary = "a Gaussian bump at each node"
    scales = (Parameter("sigma", "length", Spacings(0.64), "standard deviation of the bump"),)
    sigma: Scale

    def reach(self, rounding: float) -> float:
        """σ √(-2 ln ε), where φ is ε."""
        return math.sqrt(-2 * math.log(rounding)) * self.scale("sigma")

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(-0.5 * (distance / self.sigma).square())

    def bump_mean(self, distance: Float[Tensor, "*shape"], width: float | Tensor) -> Float[Tensor, "*shape"]:
        """σ √(π/2) / w times the difference of erf(u / (σ√2)) at the two ends of a cell."""
        scale = self.sigma * math.sqrt(2)
        ends = [torch.erf((distance + sign * width / 2) / scale) for sign in (1, -1)]
        return (ends[0] - ends[1]) * (math.sqrt(math.pi) / 2 * scale / width)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = exp(-δ² / (4σ²))."""
        return torch.exp(-0.25 * (delta / self.sigma).square()).to(delta)

    def stable_rank(self, samples: int) -> float:
        """min(N, 1 / (2 √π σ))."""
        return min(float(samples), 1 / (2 * math.sqrt(math.pi) * self.scale("sigma")))


class Impulse(ShiftedBasis):
    """φ(u) = δ(u): 1 at the node nearest to x (the lower of two equally near ones), else 0; see ``ShiftedBasis``.

    Source: Zheng et al. (ECCV 2022), section 4, where positions lie on the nodes; here others take the nearest node.
    """

    name = "impulse"
    summary = "1 at the nearest node"

    def encode_at(
        self, x: Float[Tensor, "*points"], nodes: Float[Tensor, "*some _"], width: float = 0.0
    ) -> Float[Tensor, "*points _"]:
        """Columns of one-hot rows; positions beyond the outermost nodes are moved to them."""
        first, last = self.nodes.start, self.nodes.stop - self.nodes.spacing
        return super().encode_at(x.clamp(first, last), nodes, width)

    def reach(self, rounding: float) -> float:
        """The spacing of the nodes."""
        return self.nodes.spacing

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 within half a spacing of the node."""
        return box(distance / self.nodes.spacing + TIE)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = 1 at δ = 0, else 0."""
        return (delta == 0).to(delta)

    def stable_rank(self, samples: int) -> float:
        """N."""
        return float(samples)


def box(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """1 where -1/2 ≤ u < 1/2, else 0."""
    return ((u >= -0.5) & (u < 0.5)).to(u)


def straight_through(hard: Float[Tensor, "*shape"], soft: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The values of ``hard`` with the derivatives of ``soft``."""
    return hard + (soft - soft.detach())


class ShiftedWave(ShiftedBasis):
    """A periodic φ of frequency f, in cycles over the unit interval."""

    scales = (Parameter("frequency", "frequency", 1.0, "cycles over the unit interval"),)
    frequency: Scale

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        """Put the nodes on the samples of an axis, and let the waves go on beyond them."""
        return {**super()._suited(axes, features, given), "last": None, "reflect": False}


class Sine(ShiftedWave):
    """φ(u) = sin(2πfu), f in cycles over the unit interval; see ``ShiftedBasis`` for the other arguments.

    Source: Zheng et al. (ECCV 2022), section 4, with the angular frequency 2πf: the matrix has rank 2.
    """

    name = "sine"
    summary = "a sine shifted to each node"

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.sin(2 * math.pi * self.frequency * distance)

    def bump_mean(self, distance: Float[Tensor, "*shape"], width: float | Tensor) -> Float[Tensor, "*shape"]:
        """φ times sinc(fw)."""
        return self.bump(distance) * torch.sinc(torch.as_tensor(self.frequency, dtype=torch.float64) * width)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = cos 2πfδ, the integral taken over whole periods."""
        return torch.cos(2 * math.pi * self.frequency * delta).to(delta)

    def stable_rank(self, samples: int) -> float:
        """At most 2, by the Gram matrices of both factors of sin(a - b) = sin a cos b - cos a sin b; 2 for whole f."""
        w = 4 * math.pi * self.scale("frequency")  # the Gram matrices follow from ∫₀¹ cos wx and ∫₀¹ sin wx
        c, s = math.sin(w) / w, (1 - math.cos(w)) / w
        gram = 0.5 * torch.tensor([[1 + c, s], [s, 1 - c]], dtype=torch.float64)
        turned = 0.5 * torch.tensor([[1 - c, -s], [-s, 1 + c]], dtype=torch.float64)
        squares = torch.linalg.eigvals(gram @ turned).real
        return min(float(samples), float(squares.sum() / squares.max()))


class Square(ShiftedWave):
    """φ(u) = sgn(sin 2πfu), f in cycles over the unit interval; see ``ShiftedBasis`` for the other arguments.

    Its derivative in f is zero almost everywhere; a learnable f is trained by the derivative of tanh(4 sin 2πfu).

    Source: Zheng et al. (ECCV 2022), section 4.
    """

    name = "square"
    summary = "a square wave shifted to each node"

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        wave = torch.sin(2 * math.pi * self.frequency * distance)
        return straight_through(wave.sign(), torch.tanh(4 * wave)) if self.is_followed("frequency") else wave.sign()

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 - 2|δ| for |δ| ≤ 1 in units of half a period, continued with period 2; over whole periods."""
        halves = (2 * self.frequency * delta.abs()) % 2
        return (1 - 2 * torch.minimum(halves, 2 - halves)).to(delta)

    def stable_rank(self, samples: int) -> float:
        """π²/4 for whole f, and close to it for others above 1; the paper only says that it is near the sine's 2.

        The first harmonic has 8/π² of the energy, in two equal singular values.
        """
        return min(float(samples), math.pi**2 / 4)
