"""Encodings of a position in a sequence, at any real position: the faithful DFT, and the identity."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder, Scale
from coordnet.encodings.encoders.fourier_features import STEP
from coordnet.sampling.axes import Axes


class DFT(Encoder):
    """ψ(s) = [1/√K; √(2/K) cos ω_k s; √(2/K) sin ω_k s; cos(πs)/√K for even K], ω_k = 2πk/K, k = 1 … ⌈K/2⌉ - 1.

    Here s = x / step, with the step in units of the unit interval. The rows of s = 0 … K - 1 are orthonormal.

    Source: Idé et al., "Improving Transformers using Faithful Positional Encoding" (2024), section 4.
    """

    name = "dft"
    summary = "every frequency of the discrete Fourier transform over K positions"
    scales = (STEP,)
    step: Scale

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return self.cell_means(x, 0.0)

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """ψ times sinc(fw) for every frequency f in cycles over the unit interval, before the gain."""
        s, d = (x / self.step).unsqueeze(-1), self.features
        k = torch.arange(1, (d + 1) // 2, dtype=x.dtype, device=x.device)
        cell = width / self.step  # in positions
        phase, gain = 2 * math.pi / d * s * k, math.sqrt(2) * torch.sinc(k / d * cell)
        parts = [torch.ones_like(s), gain * phase.cos(), gain * phase.sin()]
        if d % 2 == 0:
            parts.append((math.pi * s).cos() * torch.sinc(torch.as_tensor(cell / 2, dtype=x.dtype, device=x.device)))
        return torch.cat(parts, dim=-1) / math.sqrt(d)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """(1 + 2 Σ cos ω_k δ (+ cos πδ)) / K with δ in positions: exact for odd K, and at whole positions for even."""
        return self.encode(delta) @ self.encode(delta.new_zeros(()))

    def stable_rank(self, samples: int) -> float:
        """N if the samples are whole positions and N is at most K, as all singular values are 1; else NaN."""
        whole = math.isclose(samples * self.scale("step"), 1) and samples <= self.features
        return float(samples) if whole else math.nan


class Identity(Encoder):
    """ψ(x) = x, one feature: no encoding, for networks whose first layer does the work (SIREN)."""

    name = "identity"
    summary = "the coordinate itself, one feature"
    features: int = 1

    def __post_init__(self, generator: torch.Generator | None) -> None:
        super().__post_init__(generator)
        if self.features != 1:
            raise _checks.wrong("features", "1, the coordinate itself", self.features)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return x.unsqueeze(-1)

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """The mean of x over a cell is its center."""
        return self.encode(x)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The mean of x (x + |δ|) over pairs in [0, 1), scaled: (1 - |δ|)(2 + |δ|) / 2, for |δ| ≤ 1."""
        return (1 - delta.abs()) * (2 + delta.abs()) / 2

    def stable_rank(self, samples: int) -> float:
        """1: one column."""
        return 1.0

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "Identity":
        """Construct the encoder, which has one feature on any axis."""
        return cls(features or 1, **arguments)
