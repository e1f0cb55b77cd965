"""Shifted bases: one bump, moved to the nodes t_k of a regular row."""

import math
from abc import abstractmethod
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder
from coordnet.encodings.encoders.parameters import Parameter
from coordnet.sampling.axes import Axis

E = TypeVar("E", bound="ShiftedBasis")


class ShiftedBasis(Encoder):
    """ψ_k(x) = φ(t_k - x) with nodes t_k = start + (stop - start) k / K, k = -padding … K - 1 + padding.

    Parameters
    ----------
    features : int
        K, the number of nodes within [start, stop).
    start, stop : float
        The interval that the nodes divide; [0, 1) by default.
    padding : int
        Nodes beyond either end, so that the border is reached from both sides.
    **rest
        Scales, gain and learnable; see ``FeatureMap``.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    def __init__(
        self, features: int, start: float = 0.0, stop: float = 1.0, padding: int = 0, **rest: Any
    ) -> None:
        super().__init__(features, **rest)
        self.start = _checks.finite("start", start)
        self.stop = _checks.finite("stop", stop)
        if not stop > start:
            raise _checks.wrong("stop", f"a number above `start` ({start})", stop)
        self.padding = _checks.integer("padding", padding, 0)

    @property
    def columns(self) -> int:
        """K and the padding nodes of both ends."""
        return self.features + 2 * self.padding

    @property
    def nodes(self) -> Axis:
        """The nodes t_k."""
        spacing = (self.stop - self.start) / self.features
        return Axis(self.columns, self.start - self.padding * spacing, spacing)

    @property
    def support(self) -> float:
        """The distance beyond which φ is zero, or below the rounding of float64; infinite if not said otherwise."""
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

    def forward_part(self, x: Float[Tensor, "*points"], part: slice) -> Float[Tensor, "*points _"]:
        """The columns ``part`` of ψ at positions x: all others are zero where they are beyond ``support``."""
        return self._amplified(self.encode_part(x, part))

    @classmethod
    def for_axis(
        cls: type[E], axis: Axis, features: int | None, scales: dict[str, float], **options: Any
    ) -> E:
        """Put the nodes on the samples of an axis, or as many as asked for over the same interval."""
        return cls(features or axis.count, start=axis.start, stop=axis.stop, **scales, **options)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Padding nodes, beside what every encoder takes."""
        return ("padding", *super().options())

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        place = {"start": self.start, "stop": self.stop, "padding": self.padding}
        return {**super().configuration(), **place}


class Gaussian(ShiftedBasis):
    """φ(u) = exp(-u² / (2σ²)).

    Parameters
    ----------
    features : int
        K.
    sigma : float
        σ, in units of the unit interval.
    **place
        See ``ShiftedBasis``.

    Notes
    -----
    Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), section 4.
    """

    name = "gaussian"
    summary = "a Gaussian bump at each node"
    scales = (Parameter("sigma", "length", "0.64px", "standard deviation of the bump"),)

    def __init__(self, features: int, sigma: float, **place: Any) -> None:
        super().__init__(features, sigma=sigma, **place)

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


class Triangle(ShiftedBasis):
    """φ(u) = max(1 - |u| / h, 0); with K = N and h of one spacing, linear interpolation.

    Parameters
    ----------
    features : int
        K.
    half_width : float
        h, half the width d of the papers, in units of the unit interval.
    **place
        See ``ShiftedBasis``.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 4; their printed similarity, ``printed_similarity``, is not the
    autocorrelation of the triangle, which is the cubic B-spline that ``similarity`` gives.
    """

    name = "triangle"
    summary = "a triangle at each node"
    scales = (Parameter("half_width", "length", "1px", "distance from the peak to zero"),)

    def __init__(self, features: int, half_width: float, **place: Any) -> None:
        super().__init__(features, half_width=half_width, **place)

    @property
    def support(self) -> float:
        """Half the width, h."""
        return self.scale("half_width")

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        return (1 - distance.abs() / self.half_width).clamp(min=0)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The cubic B-spline: with u = |δ| / h, 1 - 3u²/2 + 3u³/4 below 1 and (2 - u)³/4 up to 2."""
        u = delta.abs() / self.half_width
        inner = 1 - 1.5 * u.square() + 0.75 * u**3
        return torch.where(u < 1, inner, 0.25 * (2 - u).clamp(min=0) ** 3)

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """¼ max(d - |δ|, 0)², scaled to 1 at δ = 0, as Zheng et al. (ECCV 2022) print it."""
        return (1 - delta.abs() / (2 * self.half_width)).clamp(min=0).square()

    def stable_rank(self, samples: int) -> float:
        """min(N, (4/3) / d) with d = 2h."""
        return min(float(samples), (4 / 3) / (2 * self.scale("half_width")))
