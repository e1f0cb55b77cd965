"""Encodings of a position in a sequence, at any real position: the Transformer's, the faithful DFT, the identity."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder, Parameter, Spacings
from coordnet.encodings.encoders.fourier import FourierFeatures, pairs
from coordnet.sampling.axes import Axes

STEP = Parameter("step", "length", Spacings(1.0), "distance of neighboring positions s = x / step")


class Sinusoidal(FourierFeatures):
    """ψ(s) = [cos(s ρ^(-2l/K)), sin(s ρ^(-2l/K))], l = 0 … K/2 - 1, at s = x / step.

    The step, the distance of positions s and s + 1, is in units of the unit interval; ``rho`` is ρ.

    Raises
    ------
    ValueError
        If ρ is not above 1, or K is odd.

    Notes
    -----
    Vaswani et al., "Attention Is All You Need" (NeurIPS 2017), section 3.5, with the sines after the cosines instead
    of between them. Idé et al. (2024) show that it is a low-pass filter.
    """

    name = "sinusoidal"
    summary = "the Transformer's: angular frequencies falling in even ratios from 1 to 1/ρ"
    scales = (STEP,)

    def __init__(self, features: int, step: float, rho: float = 10000.0, **rest: Any) -> None:
        if _checks.positive("rho", rho) <= 1:
            raise _checks.wrong("rho", "a number above 1", rho)
        exponents = -2 * torch.arange(pairs(features), dtype=torch.float64) / features
        super().__init__(rho**exponents, step=step, **rest)
        self.rho = float(rho)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """ρ^(-2l/K) / (2π step), in cycles over the unit interval."""
        return self.base / (2 * math.pi * self.step)


class DFT(Encoder):
    """ψ(s) = [1/√K; √(2/K) cos ω_k s; √(2/K) sin ω_k s; cos(πs)/√K for even K], ω_k = 2πk/K, k = 1 … ⌈K/2⌉ - 1.

    Here s = x / step, with the step in units of the unit interval. The rows of s = 0 … K - 1 are orthonormal.

    Notes
    -----
    Idé et al., "Improving Transformers using Faithful Positional Encoding" (2024), section 4.
    """

    name = "dft"
    summary = "every frequency of the discrete Fourier transform over K positions"
    scales = (STEP,)

    def __init__(self, features: int, step: float, **rest: Any) -> None:
        super().__init__(features, step=step, **rest)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        s, d = (x / self.step).unsqueeze(-1), self.features
        k = torch.arange(1, (d + 1) // 2, dtype=x.dtype, device=x.device)
        phase = 2 * math.pi / d * s * k
        parts = [torch.ones_like(s), math.sqrt(2) * phase.cos(), math.sqrt(2) * phase.sin()]
        if d % 2 == 0:
            parts.append((math.pi * s).cos())
        return torch.cat(parts, dim=-1) / math.sqrt(d)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """(1 + 2 Σ cos ω_k δ (+ cos πδ)) / K with δ in positions: exact at whole positions, for odd K at all."""
        s, d = (delta / self.step).unsqueeze(-1), self.features
        k = torch.arange(1, (d + 1) // 2, dtype=delta.dtype, device=delta.device)
        total = 1 + 2 * (2 * math.pi / d * s * k).cos().sum(-1)
        return (total + (math.pi * s.squeeze(-1)).cos() if d % 2 == 0 else total) / d

    def stable_rank(self, samples: int) -> float:
        """N where the samples are whole positions and at most K of them: all singular values are 1."""
        whole = math.isclose(samples * self.scale("step"), 1) and samples <= self.features
        return float(samples) if whole else math.nan


class Identity(Encoder):
    """ψ(x) = x: no encoding, for networks whose first layer does the work (SIREN).

    Raises
    ------
    ValueError
        If the number of features is not 1.
    """

    name = "identity"
    summary = "the coordinate itself, one feature"

    def __init__(self, features: int = 1, gain: float = 1.0) -> None:
        super().__init__(features, gain)
        if features != 1:
            raise _checks.wrong("features", "1, the coordinate itself", features)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return x.unsqueeze(-1)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The mean of x (x + |δ|) over pairs in [0, 1), scaled: (1 - |δ|)(2 + |δ|) / 2, for |δ| ≤ 1."""
        return (1 - delta.abs()) * (2 + delta.abs()) / 2

    def stable_rank(self, samples: int) -> float:
        """1: one column."""
        return 1.0

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "Identity":
        """Construct with one feature, whatever the axis."""
        return cls(features or 1, **arguments)
