"""Joint Fourier families: pairs of a cosine and a sine of plane waves."""

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Parameter, Spacings
from coordnet.encodings.encoders.fourier import SIGMA, mean_cosine, normal_draws, pairs, waves
from coordnet.encodings.encoders.joint import AxisScales, JointEncoder


class JointFourier(JointEncoder):
    """ψ(x) = [cos 2πBx, sin 2πBx], B computed from a base (m, d) and a scale for each axis."""

    base: Tensor

    def __init__(self, base: Float[Tensor, "m d"], /, **rest: Any) -> None:
        super().__init__(base.shape[1], 2 * base.shape[0], **rest)
        self.register_buffer("base", base.double())

    @property
    @abstractmethod
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points x, before the gain."""
        return waves(x @ self.frequencies.to(x).T)

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """The mean over the rows of cos 2πb·δ, exactly ψ(x)·ψ(x + δ) over ψ(x)·ψ(x)."""
        return mean_cosine(delta @ self.frequencies.to(delta).T)


class JointRandomFourier(JointFourier):
    """Ψ(x) = [cos 2πBx, sin 2πBx] with the K/2 rows of B drawn from N(0, diag(σ₁² … σ_d²)), by default with seed 0.

    σ is in cycles over the unit interval. As features grow the similarity tends to exp(-2π² Σ σ_j² δ_j²).

    Notes
    -----
    Tancik et al. (NeurIPS 2020), equation 5.
    """

    name = "joint-rff"
    summary = "frequency vectors drawn from a normal distribution"
    scales = (SIGMA,)
    random = True

    def __init__(
        self,
        dimensions: int,
        features: int,
        sigma: AxisScales,
        gain: float = 1.0,
        learnable: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        draws = normal_draws((_checks.integer("dimensions", dimensions, 1), pairs(features)), generator)
        super().__init__(draws.T, gain=gain, learnable=learnable, sigma=sigma)

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""
        return self.base * self.per_axis("sigma", self.base)


class MultiSine(JointFourier):
    """MD-sine: cos and sin of Σ_j s_j / ρ_j^(2k/K), k = 0 … K/2 - 1, with ρ_j = 10000 / 2^j, j = 0 … d - 1.

    The positions are s_j = x_j / step_j, with the step in units of the unit interval.

    Notes
    -----
    Li et al. (NeurIPS 2021), the baseline MD-Sine; they give it for d = 2, and here ρ is halved for every further axis.
    """

    name = "md-sine"
    summary = "the Transformer's frequencies, added over the axes"
    scales = (Parameter("step", "length", Spacings(1.0), "distance of neighboring positions s = x / step"),)

    def __init__(self, dimensions: int, features: int, step: AxisScales, **rest: Any) -> None:
        rho = 10000.0 / 2.0 ** torch.arange(_checks.integer("dimensions", dimensions, 1), dtype=torch.float64)
        exponents = -2 * torch.arange(pairs(features), dtype=torch.float64) / features
        super().__init__(rho ** exponents.unsqueeze(-1), step=step, **rest)

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""
        return self.base / (2 * math.pi * self.per_axis("step", self.base))
