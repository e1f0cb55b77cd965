"""Joint encoders: maps of a d-dimensional point to K features that are no product or concatenation of axes."""

import math
from abc import abstractmethod
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.coordinates import Axes, Axis, lattice_points
from coordnet.encoders.base import FeatureMap, averaged_similarity, scales_for
from coordnet.encoders.fourier import pairs
from coordnet.encoders.parameters import Parameter

J = TypeVar("J", bound="JointEncoder")
QUADRATURE = {1: 2048, 2: 48, 3: 14}  # midpoints an axis of the rule that integrates similarities


class JointEncoder(FeatureMap):
    """A map ψ: R^d → R^K of points to K features.

    Parameters
    ----------
    dimensions : int
        d, at least 1.
    features : int
        K.
    gain, learnable, **scales
        See ``FeatureMap``; a scale is a number for all axes, or a tuple of one an axis.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a tuple has not one scale an axis.
    """

    def __init__(
        self,
        dimensions: int,
        features: int,
        gain: float = 1.0,
        learnable: bool = False,
        **scales: float | tuple[float, ...] | list[float],
    ) -> None:
        self_dimensions = _checks.integer("dimensions", dimensions, 1)
        each = {name: _each_axis(name, value, dimensions) for name, value in scales.items()}
        super().__init__(features, gain, learnable, **each)
        self.dimensions = self_dimensions

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """D(δ): the mean of ψ(x)·ψ(x + δ) over pairs of points in the unit cube, by quadrature; D(0) = 1."""
        count = QUADRATURE.get(self.dimensions, 6)
        axes = (Axis(count, 0.5 / count, 1 / count),) * self.dimensions
        return averaged_similarity(
            self.encode, lattice_points(axes, device=delta.device).flatten(0, -2), delta
        )

    def per_axis(self, name: str, like: Tensor) -> Float[Tensor, " d"]:
        """A scale parameter as a vector, of one number an axis, of the dtype and device of another tensor."""
        value = getattr(self, name)
        return (value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)).to(like)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points in units of the unit interval; device and dtype follow them."""
        if points.shape[-1] != self.dimensions:
            raise _checks.wrong("points", f"last axis of {self.dimensions} coordinates", tuple(points.shape))
        return self._amplified(self.encode(points))

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        return {"dimensions": self.dimensions, **super().configuration()}

    @classmethod
    def for_axes(
        cls: type[J], axes: Axes, features: int | None, scales: dict[str, tuple[float, ...]], **options: Any
    ) -> J:
        """Construct for the samples of d axes, the scale parameters being numbers already; 512 features."""
        return cls(len(axes), features or 512, **scales, **options)

    @classmethod
    def like(
        cls: type[J],
        axes: Axes,
        *,
        features: int | None = None,
        normalize: bool = False,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> J:
        """Return the encoder that suits the samples of d axes; see ``Encoder.like`` for the options.

        Raises
        ------
        ValueError
            If a parameter is unknown or out of its range.
        """
        if features is not None:
            _checks.integer("features", features, 1)
        each = [scales_for(cls.parameters, dict(options), axis) for axis in axes]
        scales = {p.name: tuple(one[p.name] for one in each) for p in cls.parameters}
        options = {name: value for name, value in options.items() if name not in scales}
        cls._check_options(options)
        if cls.random:
            options["generator"] = generator
        encoder = cls.for_axes(axes, features, scales, **options)
        if normalize:
            rows = encoder(lattice_points(axes).flatten(0, -2)).detach().norm(dim=-1)
            encoder.gain = 1 / float(rows.max())
        return encoder


class JointFourier(JointEncoder):
    """ψ(x) = [cos 2πBx, sin 2πBx], B computed from a base (m, d) and a scale an axis.

    Parameters
    ----------
    base : (m, d)
        What the frequencies are computed from.
    gain, learnable, **scales
        See ``FeatureMap``.
    """

    base: Tensor

    def __init__(self, base: Float[Tensor, "m d"], **rest: Any) -> None:
        super().__init__(base.shape[1], 2 * base.shape[0], **rest)
        self.register_buffer("base", base.double())

    @property
    @abstractmethod
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points x, before the gain."""
        phase = 2 * math.pi * x @ self.frequencies.to(x).T
        return torch.cat([phase.cos(), phase.sin()], dim=-1)

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """The mean over the rows of cos 2πb·δ, exactly ψ(x)·ψ(x + δ) over ψ(x)·ψ(x)."""
        return (2 * math.pi * delta @ self.frequencies.to(delta).T).cos().mean(-1)


class JointRandomFourier(JointFourier):
    """Ψ(x) = [cos 2πBx, sin 2πBx] with the K/2 rows of B drawn from N(0, diag(σ₁² … σ_d²)).

    Parameters
    ----------
    dimensions : int
        d.
    features : int
        K, even.
    sigma : float or tuple of float
        σ, in cycles over the unit interval.
    gain, learnable
        See ``FeatureMap``.
    generator : torch.Generator, optional
        Draws the frequencies; one seeded with 0 if not given.

    Notes
    -----
    Tancik et al. (NeurIPS 2020), equation 5. As features grow the similarity tends to exp(-2π² Σ σ_j² δ_j²).
    """

    name = "joint-rff"
    summary = "frequency vectors drawn from a normal distribution"
    parameters = (Parameter("sigma", "frequency", "0.164/px", "standard deviation of the frequencies"),)
    random = True

    def __init__(
        self,
        dimensions: int,
        features: int,
        sigma: float | tuple[float, ...] | list[float],
        gain: float = 1.0,
        learnable: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        shape = (_checks.integer("dimensions", dimensions, 1), pairs(features))
        generator = generator or torch.Generator().manual_seed(0)
        draws = torch.randn(shape, dtype=torch.float64, generator=generator).T
        super().__init__(draws, gain=gain, learnable=learnable, sigma=sigma)

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""
        return self.base * self.per_axis("sigma", self.base)


class MultiSine(JointFourier):
    """MD-sine: cos and sin of Σ_j s_j / ρ_j^(2k/K), k = 0 … K/2 - 1, with ρ_j = 10000 / 2^j, j = 0 … d - 1.

    At positions s_j = x_j / step_j; in two dimensions the bases are 10000 and 5000.

    Parameters
    ----------
    dimensions : int
        d.
    features : int
        K, even.
    step : float or tuple of float
        The distance of neighbouring positions, in units of the unit interval.
    gain, learnable
        See ``FeatureMap``.

    Notes
    -----
    Li et al. (NeurIPS 2021), the baseline MD-Sine; they give it for d = 2, and the halving of ρ goes on from there.
    """

    name = "md-sine"
    summary = "the Transformer's frequencies, added over the axes"
    parameters = (Parameter("step", "length", "1px", "distance of neighbouring positions s = x / step"),)

    def __init__(
        self,
        dimensions: int,
        features: int,
        step: float | tuple[float, ...] | list[float],
        gain: float = 1.0,
        learnable: bool = False,
    ) -> None:
        rho = 10000.0 / 2.0 ** torch.arange(_checks.integer("dimensions", dimensions, 1), dtype=torch.float64)
        exponents = -2 * torch.arange(pairs(features), dtype=torch.float64) / features
        super().__init__(rho ** exponents.unsqueeze(-1), gain=gain, learnable=learnable, step=step)

    @property
    def frequencies(self) -> Float[Tensor, "m d"]:
        """B, in cycles over the unit interval."""
        return self.base / (2 * math.pi * self.per_axis("step", self.base))


def _each_axis(
    name: str, value: float | tuple[float, ...] | list[float], dimensions: int
) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dimensions
    if len(values) != dimensions:
        raise _checks.wrong(name, f"one number, or {dimensions}, one an axis", value)
    return values
