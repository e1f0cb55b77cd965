"""Fourier families: pairs of a cosine and a sine at chosen frequencies."""

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder, Parameter, Spacings
from coordnet.sampling.axes import Axes

SIGMA = Parameter("sigma", "frequency", Spacings(0.164, "frequency"), "standard deviation of the frequencies")


class FourierFeatures(Encoder):
    """ψ(x) = [cos 2πf₁x … cos 2πf_m x, sin 2πf₁x … sin 2πf_m x] with m = K / 2 frequencies.

    The frequencies are computed from ``base`` (m,) and the scale; see ``FeatureMap`` for the other arguments.
    """

    base: Tensor

    def __init__(self, base: Float[Tensor, " m"], /, **rest: Any) -> None:
        super().__init__(2 * base.numel(), **rest)
        self.register_buffer("base", base.double())

    @property
    @abstractmethod
    def frequencies(self) -> Float[Tensor, " m"]:
        """The frequencies in cycles over the unit interval."""

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return waves(x.unsqueeze(-1) * self.frequencies.to(x))

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The mean over the frequencies of cos 2πfδ, exactly ψ(x)·ψ(x + δ) over ψ(x)·ψ(x)."""
        return mean_cosine(delta.unsqueeze(-1) * self.frequencies.to(delta))

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "FourierFeatures":
        """Construct with a feature for each sample by default, rounded up to pairs."""
        count = axes[0].count
        return cls(features or count + count % 2, **arguments)  # type: ignore[call-arg]


def waves(cycles: Float[Tensor, "*points m"]) -> Float[Tensor, "*points k"]:
    """The cosines of phases given in cycles, followed by their sines."""
    phase = 2 * math.pi * cycles
    return torch.cat([phase.cos(), phase.sin()], dim=-1)


def mean_cosine(cycles: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape"]:
    """The mean over the last axis of the cosines of phases given in cycles."""
    return (2 * math.pi * cycles).cos().mean(-1)


def pairs(features: int) -> int:
    """Half of an even number of features; a ``ValueError`` if it is odd or below 2."""
    features = _checks.integer("features", features, 2)
    if features % 2:
        raise _checks.wrong("features", "an even number, a cosine and a sine for each frequency", features)
    return features // 2


def normal_draws(shape: tuple[int, ...], generator: torch.Generator | None) -> Float[Tensor, "..."]:
    """Standard normal draws in float64, by default from a generator with seed 0."""
    generator = generator or torch.Generator().manual_seed(0)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


class FrequencyRow(FourierFeatures):
    """A row of K / 2 frequencies from 1 to f_max, in cycles over the unit interval."""

    def __init__(self, features: int, f_max: float, **rest: Any) -> None:
        steps = torch.linspace(0, 1, pairs(features), dtype=torch.float64)
        super().__init__(steps, f_max=f_max, **rest)


class LinearFourier(FrequencyRow):
    """LinF: K / 2 frequencies in even steps from 1 to f_max ≥ 1; see ``FeatureMap`` for the other arguments.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 6; their code is given log₂ f_max.
    """

    name = "linf"
    summary = "frequencies in even steps from 1"
    scales = (Parameter("f_max", "frequency", Spacings(0.25, "frequency"), "highest frequency", least=1.0),)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """1 + (f_max - 1) j / (m - 1), j = 0 … m - 1, in cycles over the unit interval."""
        return 1 + (self.f_max - 1) * self.base


class LogFourier(FrequencyRow):
    """LogF: K / 2 frequencies in even ratios from 1 to f_max ≥ 1; see ``FeatureMap`` for the other arguments.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 6; Mildenhall et al., "NeRF" (ECCV 2020), has the powers of two.
    """

    name = "logf"
    summary = "frequencies in even ratios from 1"
    scales = (Parameter("f_max", "frequency", Spacings(0.35, "frequency"), "highest frequency", least=1.0),)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """f_max^(j / (m - 1)), j = 0 … m - 1, in cycles over the unit interval."""
        return self.f_max**self.base


class RandomFourier(FourierFeatures):
    """RFF: K / 2 frequencies drawn from N(0, σ²), by default with seed 0; σ in cycles over the unit interval.

    As features grow the similarity tends to exp(-2π²σ²δ²).

    Notes
    -----
    Tancik et al., "Fourier Features Let Networks Learn High Frequency Functions" (NeurIPS 2020); its stable rank
    is in Zheng et al., "Rethinking Positional Encoding" (2021).
    """

    name = "rff"
    summary = "frequencies drawn from a normal distribution; joint over the axes in a simple encoding"
    scales = (SIGMA,)
    random = True

    def __init__(
        self,
        features: int,
        sigma: float,
        gain: float = 1.0,
        generator: torch.Generator | None = None,
        learnable: bool = False,
    ) -> None:
        draws = normal_draws((pairs(features),), generator)
        super().__init__(draws, gain=gain, learnable=learnable, sigma=sigma)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """σ times the draws, in cycles over the unit interval."""
        return self.sigma * self.base

    def stable_rank(self, samples: int) -> float:
        """min(N, √(2π) σ); a finite draw stays below."""
        return min(float(samples), math.sqrt(2 * math.pi) * self.scale("sigma"))
