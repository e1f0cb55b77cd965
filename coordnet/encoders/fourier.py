"""Fourier families: pairs of a cosine and a sine at chosen frequencies."""

import math
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.coordinates import Axis
from coordnet.encoders.base import Encoder, Parameter

E = TypeVar("E", bound="FourierFeatures")


class FourierFeatures(Encoder):
    """ψ(x) = [cos 2πf₁x … cos 2πf_m x, sin 2πf₁x … sin 2πf_m x] with m = K / 2 frequencies.

    Parameters
    ----------
    frequencies : (m,)
        In cycles over the unit interval.
    gain : float
        See ``Encoder``.
    """

    frequencies: Tensor

    def __init__(self, frequencies: Float[Tensor, " m"], gain: float = 1.0) -> None:
        super().__init__(2 * frequencies.numel(), gain)
        self.register_buffer("frequencies", frequencies.double())

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        phase = 2 * math.pi * x.unsqueeze(-1) * self.frequencies.to(x)
        return torch.cat([phase.cos(), phase.sin()], dim=-1)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The mean over the frequencies of cos 2πfδ."""
        return (2 * math.pi * delta.unsqueeze(-1) * self.frequencies.to(delta)).cos().mean(-1)

    def stable_rank(self, samples: int) -> float:
        """NaN: the papers give a theory for the random family alone."""
        return math.nan

    @classmethod
    def for_axis(
        cls: type[E], axis: Axis, features: int | None, scales: dict[str, float], **options: Any
    ) -> E:
        """As many features as samples, rounded up to pairs."""
        return cls(features or axis.count + axis.count % 2, **scales, **options)  # type: ignore[call-arg]

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        scales = {p.name: getattr(self, p.name) for p in self.parameters}
        return {"features": self.features, **scales, "gain": self.gain}


def pairs(features: int) -> int:
    """Half of an even number of features.

    Raises
    ------
    ValueError
        If ``features`` is odd or below 2.
    """
    features = _checks.integer("features", features, 2)
    if features % 2:
        raise _checks.wrong("features", "an even number, a cosine and a sine for each frequency", features)
    return features // 2


def at_least_one(f_max: float) -> float:
    """The highest frequency of a row that starts at 1.

    Raises
    ------
    ValueError
        If it is below 1.
    """
    if _checks.positive("f_max", f_max) < 1:
        raise _checks.wrong("f_max", "at least 1 cycle over the unit interval", f_max)
    return float(f_max)


class LinearFourier(FourierFeatures):
    """LinF: frequencies in even steps from 1 to f_max.

    Parameters
    ----------
    features : int
        K, even.
    f_max : float
        The highest frequency, in cycles over the unit interval, at least 1.
    gain : float
        See ``Encoder``.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 6; their code is given log₂ f_max.
    """

    name = "linf"
    parameters = (Parameter("f_max", "frequency", "0.25/px", "highest frequency", least=1.0),)

    def __init__(self, features: int, f_max: float, gain: float = 1.0) -> None:
        self_f_max = at_least_one(f_max)
        super().__init__(torch.linspace(1, self_f_max, pairs(features), dtype=torch.float64), gain)
        self.f_max = self_f_max


class LogFourier(FourierFeatures):
    """LogF: frequencies in even ratios from 1 to f_max.

    Parameters
    ----------
    features : int
        K, even.
    f_max : float
        The highest frequency, in cycles over the unit interval, at least 1.
    gain : float
        See ``Encoder``.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 6; Mildenhall et al., "NeRF" (ECCV 2020), has the powers of two.
    """

    name = "logf"
    parameters = (Parameter("f_max", "frequency", "0.35/px", "highest frequency", least=1.0),)

    def __init__(self, features: int, f_max: float, gain: float = 1.0) -> None:
        self_f_max = at_least_one(f_max)
        steps = torch.linspace(0, math.log(self_f_max), pairs(features), dtype=torch.float64)
        super().__init__(steps.exp(), gain)
        self.f_max = self_f_max


class RandomFourier(FourierFeatures):
    """RFF: frequencies drawn from a normal distribution.

    Parameters
    ----------
    features : int
        K, even.
    sigma : float
        Standard deviation of the frequencies, in cycles over the unit interval.
    gain : float
        See ``Encoder``.
    generator : torch.Generator, optional
        Draws the frequencies; one seeded with 0 if not given.

    Notes
    -----
    Tancik et al., "Fourier Features Let Networks Learn High Frequency Functions" (NeurIPS 2020); its stable rank
    is in Zheng et al., "Rethinking Positional Encoding" (2021).
    """

    name = "rff"
    parameters = (Parameter("sigma", "frequency", "0.164/px", "standard deviation of the frequencies"),)
    random = True

    def __init__(
        self, features: int, sigma: float, gain: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        sigma = _checks.positive("sigma", sigma)
        generator = generator or torch.Generator().manual_seed(0)
        super().__init__(sigma * torch.randn(pairs(features), dtype=torch.float64, generator=generator), gain)
        self.sigma = sigma

    def stable_rank(self, samples: int) -> float:
        """min(N, √(2π) σ); a finite draw stays below."""
        return min(samples, math.sqrt(2 * math.pi) * self.sigma)
