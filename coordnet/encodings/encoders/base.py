"""What every encoder is: a map of positions to K features, with its theory beside it."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.parameters import Parameter, in_unit_interval
from coordnet.encodings.encoders.quadrature import averaged_similarity
from coordnet.sampling.axes import Axis

E = TypeVar("E", bound="Encoder")
M = TypeVar("M", bound="FeatureMap")


class FeatureMap(nn.Module, ABC):
    """A map of positions to K features with positive scale parameters, fixed or trained.

    A scale is an attribute of its own name: a number where it is fixed, a tensor in the graph where it is trained.
    A trained scale is kept as its logarithm, ``log_NAME``, so that it stays positive and a step of Adam is relative.

    Parameters
    ----------
    features : int
        K, at least 1.
    gain : float
        What every feature is multiplied by; the papers divide an encoding matrix by its largest row norm, which
        is a gain of one over that norm (see ``like``).
    learnable : bool
        Train the scales, from their given values on. That mends a bad start; a good one it can overfit, where there
        are as many features as samples: on a 128×128 crop a Gaussian's σ that starts at 0.64 spacings falls to 0.27
        in 300 epochs at a rate of 0.1, and the held-out PSNR from 27.5 to 14.1 dB. With a tenth of the samples as
        ``held_out`` of ``fit_gradient`` it is 21.6 dB; at a rate of 0.01 it stays at 27.5 dB without, 26.5 dB with.
    **scales
        The scale parameters: positive numbers, or tuples of one an axis.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    scales: ClassVar[tuple[Parameter, ...]] = ()
    random: ClassVar[bool] = False

    def __init__(
        self,
        features: int,
        gain: float = 1.0,
        learnable: bool = False,
        **scales: float | tuple[float, ...],
    ) -> None:
        super().__init__()
        self.features = _checks.integer("features", features, 1)
        self.gain = _checks.positive("gain", gain)
        self.learnable = bool(learnable)
        for name, value in scales.items():
            checked = _positive(name, value)
            if learnable:
                log = torch.tensor(checked, dtype=torch.float64).log()
                self.register_parameter(f"log_{name}", nn.Parameter(log))
            else:
                setattr(self, name, checked)

    def __getattr__(self, name: str) -> Any:
        log = self.__dict__.get("_parameters", {}).get(f"log_{name}")
        return super().__getattr__(name) if log is None else log.exp()

    def scale(self, name: str) -> Any:
        """The present value of a scale parameter as a number, or as a tuple of one an axis."""
        value = getattr(self, name)
        if not isinstance(value, Tensor):
            return value
        value = value.detach().double().cpu()
        return tuple(value.tolist()) if value.ndim else float(value)

    def rescaled(self: M, factor: float) -> M:
        """A copy whose scale parameters are ``factor`` times these, or the least that they may be.

        Raises
        ------
        ValueError
            If the factor is not positive.
        """
        _checks.positive("factor", factor)
        other = copy.deepcopy(self)
        for parameter in self.scales:
            value = self.scale(parameter.name)
            scaled = [
                max(v * factor, parameter.least) for v in (value if isinstance(value, tuple) else (value,))
            ]
            if self.learnable:
                log = (
                    torch.tensor(scaled, dtype=torch.float64)
                    .log()
                    .reshape(getattr(other, parameter.name).shape)
                )
                other.get_parameter(f"log_{parameter.name}").data.copy_(log)
            else:
                setattr(other, parameter.name, tuple(scaled) if isinstance(value, tuple) else scaled[0])
        return other

    @property
    def columns(self) -> int:
        """The number of columns of the encoding matrix: K, and the padding nodes where there are any."""
        return self.features

    @abstractmethod
    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x, before the gain."""

    def stable_rank(self, samples: int) -> float:
        """‖A‖_F² / ‖A‖₂² of ``samples`` points in [0, 1) under ever more features; NaN where no theory gives it."""
        return math.nan

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        scales = {p.name: self.scale(p.name) for p in self.scales}
        learnable = {"learnable": self.learnable} if self.scales else {}
        return {"features": self.features, **scales, **learnable, "gain": self.gain}

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of what ``like`` takes beside the scale parameters."""
        return ("learnable",) if cls.scales else ()

    def _amplified(self, features: Tensor) -> Tensor:
        return features if self.gain == 1 else features * self.gain

    @classmethod
    def _made(
        cls: type[M],
        make: Callable[..., M],
        positions: Tensor,
        features: int | None,
        normalize: bool,
        generator: torch.Generator | None,
        options: dict[str, Any],
    ) -> M:
        """What ``like`` does whatever the number of axes: check the options, construct, normalise at the positions."""
        if features is not None:
            _checks.integer("features", features, 1)
        cls._check_options(options)
        if cls.random:
            options["generator"] = generator
        encoder = make(features, **options)
        if normalize:
            encoder.gain = 1 / float(encoder(positions).detach().norm(dim=-1).max())
        return encoder

    @classmethod
    def _check_options(cls, options: dict[str, Any]) -> None:
        for option in options:
            if option not in cls.options():
                names = ", ".join([*(p.name for p in cls.scales), "features", "normalize", *cls.options()])
                raise _checks.wrong(option, f"a parameter of the {cls.name} encoder ({names})", repr(option))


class Encoder(FeatureMap):
    """A map ψ: R → R^K of one coordinate to K features; see ``FeatureMap`` for the arguments."""

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = ∫ψ(t, x) ψ(t, x + δ) dt as features grow, scaled so that D(0) = 1.

        Where the integral depends on x it is averaged over the pairs of positions in [0, 1) that are δ apart,
        by quadrature; |δ| ≤ 1 then.
        """
        return averaged_similarity(lambda x: self.encode(x.squeeze(-1)), delta.unsqueeze(-1))

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D as the papers print it, where that is not ``similarity``; for reproduction."""
        return self.similarity(delta)

    def forward(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x in units of the unit interval; device and dtype follow x."""
        return self._amplified(self.encode(x))

    @classmethod
    def for_axis(
        cls: type[E], axis: Axis, features: int | None, scales: dict[str, float], **options: Any
    ) -> E:
        """Construct for the samples of an axis, its scale parameters being numbers already."""
        return cls(features or axis.count, **scales, **options)

    @classmethod
    def like(
        cls: type[E],
        axis: Axis,
        *,
        features: int | None = None,
        normalize: bool = False,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> E:
        """Return the encoder that suits the samples of an axis.

        Parameters
        ----------
        axis : Axis
            Where the samples are.
        features : int, optional
            K; the number of samples if not given.
        normalize : bool
            Divide by the largest row norm of the encoding matrix of the axis, as the papers do.
        generator : torch.Generator, optional
            For encoders that draw their parameters.
        **options
            The encoder's own parameters; scales as numbers in units of the unit interval, or as text in sample
            spacings: ``sigma="0.64px"``, ``f_max="0.25/px"``; ``learnable=True`` trains them.

        Raises
        ------
        ValueError
            If a parameter is unknown or out of its range.
        """
        scales = scales_for(cls.scales, options, axis)

        def make(features: int | None, **others: Any) -> E:
            return cls.for_axis(axis, features, scales, **others)

        return cls._made(make, axis.points(), features, normalize, generator, options)


def scales_for(parameters: tuple[Parameter, ...], options: dict[str, Any], axis: Axis) -> dict[str, float]:
    """Take the scale parameters out of some options, or their defaults, as numbers for the samples of an axis."""
    return {
        p.name: in_unit_interval(p, options.pop(p.name), axis.spacing)
        if p.name in options
        else p.suited(axis.spacing)
        for p in parameters
    }


def _positive(name: str, value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if isinstance(value, tuple):
        return tuple(_checks.positive(name, v) for v in value)
    return _checks.positive(name, value)
