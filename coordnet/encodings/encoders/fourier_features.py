"""Fourier families: cosines and sines at chosen frequencies, of a coordinate or a point; and the coordinate itself."""

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.feature_map import AxisScales, Encoder, FeatureMap, JointEncoder, Scale
from coordnet.encodings.encoders.scale_parameters import Parameter, Spacings
from coordnet.sampling.axes import Axes

SIGMA = Parameter("sigma", "frequency", Spacings(0.164, "frequency"), "standard deviation of the frequencies")
STEP = Parameter("step", "length", Spacings(1.0), "distance of neighboring positions s = x / step")


class FourierFeatures(FeatureMap):
    """ψ(x) = [cos 2πf₁·x … cos 2πf_m·x, sin 2πf₁·x … sin 2πf_m·x] with m = K / 2 frequencies.

    They follow from the scale and a ``base``, which is drawn or computed once; those of a joint encoder are vectors,
    (m, d). With ``learnable`` the scale is trained, and each of the drawn frequencies too; computed ones keep their
    ratios. A ``ValueError`` is raised if the number of features is odd.
    """

    def _draw(self, generator: torch.Generator) -> None:
        if self.features % 2:
            raise _checks.wrong("features", "an even number, a cosine and a sine for each frequency", self.features)
        base = self._base(self.features // 2, generator)
        if self.random and self.learnable:
            self.base = nn.Parameter(base)
        else:
            self.register_buffer("base", base)

    @abstractmethod
    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        """The part of the frequencies that the scale does not change, in float64."""

    @property
    @abstractmethod
    def frequencies(self) -> Float[Tensor, "m"] | Float[Tensor, "m d"]:
        """The frequencies in cycles over the unit interval."""

    def _phases(self, x: Tensor) -> Float[Tensor, "*points m"]:
        f = self.frequencies.to(x)
        return 2 * math.pi * (x @ f.T if self.joint else x.unsqueeze(-1) * f)

    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        phases = self._phases(x)
        return torch.cat([phases.cos(), phases.sin()], dim=-1)

    def similarity(self, delta: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The mean over the frequencies of cos 2πf·δ, exactly ψ(x)·ψ(x + δ) over ψ(x)·ψ(x)."""
        return self._phases(delta).cos().mean(-1)


class AxisFourier(FourierFeatures, Encoder):
    """Fourier features of one coordinate."""

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """ψ times sinc(fw) for every frequency f, before the gain."""
        gain = torch.sinc(self.frequencies.to(x) * width)
        return self.encode(x) * torch.cat([gain, gain])

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        return {"features": features or axes[0].count + axes[0].count % 2}


class LinearFourier(AxisFourier):
    """LinF: K / 2 frequencies in even steps from 1 to f_max ≥ 1; see ``FeatureMap`` for the other arguments.

    Source: Zheng et al. (ECCV 2022), section 6; their code takes log₂ f_max.
    """

    name = "linf"
    summary = "frequencies in even steps from 1"
    scales = (Parameter("f_max", "frequency", Spacings(0.25, "frequency"), "highest frequency", least=1.0),)
    f_max: Scale

    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        return torch.linspace(0, 1, m, dtype=torch.float64)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """1 + (f_max - 1) j / (m - 1), j = 0 … m - 1, in cycles over the unit interval."""
        return 1 + (self.f_max - 1) * self.base


class LogFourier(LinearFourier):
    """LogF: K / 2 frequencies in even ratios from 1 to f_max ≥ 1; see ``FeatureMap`` for the other arguments.

    Source: Zheng et al. (ECCV 2022), section 6; Mildenhall et al., "NeRF" (ECCV 2020), has the powers of two.
    """

    name = "logf"
    summary = "frequencies in even ratios from 1"
    scales = (Parameter("f_max", "frequency", Spacings(0.35, "frequency"), "highest frequency", least=1.0),)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """f_max^(j / (m - 1)), j = 0 … m - 1, in cycles over the unit interval."""
        return self.f_max**self.base


class RandomFourier(AxisFourier):
    """RFF: K / 2 frequencies drawn from N(0, σ²); σ in cycles over the unit interval.

    As features grow the similarity tends to exp(-2π²σ²δ²).

    Source: Tancik et al., "Fourier Features Let Networks Learn High Frequency Functions" (NeurIPS 2020); its stable
    rank is in Zheng et al., "Rethinking Positional Encoding" (2021).
    """

    name = "rff"
    summary = "frequencies drawn from a normal distribution; joint over the axes in a simple encoding"
    scales = (SIGMA,)
    random = True
    sigma: Scale

    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        return torch.randn(m, dtype=torch.float64, generator=generator)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """σ times the draws, in cycles over the unit interval."""
        return self.sigma * self.base

    def stable_rank(self, samples: int) -> float:
        """min(N, √(2π) σ), the limit of many features; finite draws have less."""
        return min(float(samples), math.sqrt(2 * math.pi) * self.scale("sigma"))


class JointRandomFourier(FourierFeatures, JointEncoder):
    """Ψ(x) = [cos 2πBx, sin 2πBx] with the K/2 rows of B drawn from N(0, diag(σ₁² … σ_d²)).

    σ is in cycles over the unit interval. As features grow the similarity tends to exp(-2π² Σ σ_j² δ_j²).

    Source: Tancik et al. (NeurIPS 2020), equation 5.
    """

    name = "joint-rff"
    summary = "frequency vectors drawn from a normal distribution"
    scales = (SIGMA,)
    random = True
    sigma: AxisScales

    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dimensions, m, dtype=torch.float64, generator=generator).T

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""
        return self.base * self.per_axis("sigma", self.base)


class Sinusoidal(AxisFourier):
    """ψ(s) = [cos(s ρ^(-2l/K)), sin(s ρ^(-2l/K))], l = 0 … K/2 - 1, at s = x / step.

    The step, the distance of positions s and s + 1, is in units of the unit interval; ``rho`` is ρ, above 1.

    Source: Vaswani et al., "Attention Is All You Need" (NeurIPS 2017), section 3.5, with the sines after the cosines
    instead of between them. Idé et al. (2024) show that it is a low-pass filter.
    """

    name = "sinusoidal"
    summary = "the Transformer's: angular frequencies falling in even ratios from 1 to 1/ρ"
    scales = (STEP,)
    step: Scale
    rho: float = 10000.0

    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        if _checks.positive("rho", self.rho) <= 1:
            raise _checks.wrong("rho", "a number above 1", self.rho)
        self.rho = float(self.rho)
        return self.rho ** (-2 * torch.arange(m, dtype=torch.float64) / self.features)

    @property
    def frequencies(self) -> Float[Tensor, " m"]:
        """ρ^(-2l/K) / (2π step), in cycles over the unit interval."""
        return self.base / (2 * math.pi * self.step)


class MultiSine(FourierFeatures, JointEncoder):
    """MD-sine: cos and sin of Σ_j s_j / ρ_j^(2k/K), k = 0 … K/2 - 1, with ρ_j = 10000 / 2^j, j = 0 … d - 1.

    The positions are s_j = x_j / step_j, with the step in units of the unit interval.

    Source: Li et al. (NeurIPS 2021), the baseline MD-Sine; they give it for d = 2, and here ρ is halved for every
    further axis.
    """

    name = "md-sine"
    summary = "the Transformer's frequencies, added over the axes"
    scales = (STEP,)
    step: AxisScales

    def _base(self, m: int, generator: torch.Generator) -> Tensor:
        rho = 10000.0 / 2.0 ** torch.arange(self.dimensions, dtype=torch.float64)
        exponents = -2 * torch.arange(m, dtype=torch.float64) / self.features
        return rho ** exponents.unsqueeze(-1)

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """ρ_j^(-2k/K) / (2π step_j), in cycles over the unit interval."""
        return self.base / (2 * math.pi * self.per_axis("step", self.base))


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
        return self.cell_means(x, 0.0)

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """ψ times sinc(fw) for every frequency f in cycles over the unit interval, before the gain."""
        s, d = x.unsqueeze(-1) / self.step, self.features
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

    def _draw(self, generator: torch.Generator) -> None:
        if self.features != 1:
            raise _checks.wrong("features", "1, the coordinate itself", self.features)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
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
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        return {"features": features or 1}
