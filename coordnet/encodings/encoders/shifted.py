"""Shifted bases: one bump, moved to the nodes t_k of a regular row."""

import copy
import math
from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder, Parameter, Scale, Spacings, interval
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.sampling.axes import Axes, Axis

MAX_DENSITY = 0.5  # largest fraction of a matrix that its band may fill; above it the dense product is as fast
TIE = 1e-3  # shift of an edge in node spacings, so that rounding puts it on the same side for every node


class ShiftedBasis(Encoder):
    """ψ_k(x) = φ(t_k - x) with nodes t_k = start + (stop - start) k / K, k = -padding … K - 1 + padding.

    K is the number of nodes within [start, stop). ``padding`` is the number of further nodes beyond each end, so that
    bumps reach the border from both sides. See ``FeatureMap`` for the other arguments.
    """

    _: KW_ONLY
    start: float = 0.0
    stop: float = 1.0
    padding: int = 0

    def __post_init__(self, generator: torch.Generator | None) -> None:
        super().__post_init__(generator)
        self.start, self.stop = interval(self.start, self.stop)
        _checks.integer("padding", self.padding, 0)

    @property
    def columns(self) -> int:
        """K plus the padding nodes at both ends."""
        return self.features + 2 * self.padding

    @property
    def nodes(self) -> Axis:
        """The nodes t_k."""
        spacing = (self.stop - self.start) / self.features
        return Axis(self.columns, self.start - self.padding * spacing, spacing)

    @property
    def support(self) -> float:
        """The distance beyond which φ is zero or below the rounding of float64; infinite unless overridden."""
        return math.inf

    @abstractmethod
    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance t - x."""

    @abstractmethod
    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = ∫φ(u) φ(u + δ) du / ∫φ(u)² du."""

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return self.encode_part(x, slice(None))

    def encode_part(self, x: Float[Tensor, "*points"], part: slice) -> Float[Tensor, "*points _"]:
        """The columns ``part`` of ψ at positions x, before the gain."""
        return self.bump(self.nodes.points(x.dtype, x.device)[part] - x.unsqueeze(-1))

    def banded(self, axis: Axis) -> BandedMatrix | None:
        """The design matrix of an axis, in float64 on the CPU; None if its density is above ``MAX_DENSITY``.

        Launching many small kernels on a GPU takes longer than computing the blocks on the CPU.
        """
        nodes = self.nodes
        if 2 * self.support / nodes.spacing > MAX_DENSITY * self.columns:
            return None
        local = copy.deepcopy(self).cpu()
        x = axis.points(torch.float64)

        def block(first: int, last: int) -> Block:
            low, high = (axis.start + i * axis.spacing for i in (first, last - 1))
            left = math.floor((low - self.support - nodes.start) / nodes.spacing)
            right = math.ceil((high + self.support - nodes.start) / nodes.spacing) + 1
            left = min(max(left, 0), nodes.count - 1)
            columns = slice(left, min(max(right, left + 1), nodes.count))
            return Block(first, left, local._amplified(local.encode_part(x[first:last], columns)))

        matrix = BandedMatrix.build((axis.count, nodes.count), block)
        return matrix if matrix.density <= MAX_DENSITY else None

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "ShiftedBasis":
        """Put a node on every sample of an axis, or ``features`` nodes over the same interval."""
        (axis,) = axes
        return cls(features or axis.count, start=axis.start, stop=axis.stop, **arguments)


class Gaussian(ShiftedBasis):
    """φ(u) = exp(-u² / (2σ²)), with σ in units of the unit interval; see ``ShiftedBasis`` for the other arguments.

    Source: Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), section 4.
    """

    name = "gaussian"
    summary = "a Gaussian bump at each node"
    scales = (Parameter("sigma", "length", Spacings(0.64), "standard deviation of the bump"),)
    sigma: Scale

    @property
    def support(self) -> float:
        """8.5 σ, where φ is 2e-16."""
        return 8.5 * self.scale("sigma")

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        return torch.exp(-0.5 * (distance / self.sigma).square())

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = exp(-δ² / (4σ²))."""
        return torch.exp(-0.25 * (delta / self.sigma).square())

    def stable_rank(self, samples: int) -> float:
        """min(N, 1 / (2 √π σ))."""
        return min(float(samples), 1 / (2 * math.sqrt(math.pi) * self.scale("sigma")))


class Impulse(ShiftedBasis):
    """φ(u) = δ(u): 1 at the node nearest to x (the lower of two equally near ones), else 0; see ``ShiftedBasis``.

    Source: Zheng et al. (ECCV 2022), section 4, where positions lie on the nodes; here others take the nearest node.
    """

    name = "impulse"
    summary = "1 at the nearest node"

    def encode_part(self, x: Float[Tensor, "*points"], part: slice) -> Float[Tensor, "*points _"]:
        """Columns of one-hot rows; positions beyond the outermost nodes are moved to them."""
        first, last = self.nodes.start, self.nodes.stop - self.nodes.spacing
        return super().encode_part(x.clamp(first, last), part)

    @property
    def support(self) -> float:
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
