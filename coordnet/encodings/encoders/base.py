"""Encoders: maps of positions to K features, with their scale parameters and their theory."""

import copy
import inspect
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.similarity import mean_similarity
from coordnet.linalg.banded import BandedMatrix
from coordnet.sampling.axes import Axes, Axis

M = TypeVar("M", bound="FeatureMap")
Scale = float | tuple[float, ...]
_IN_SPACINGS = re.compile(r"\s*([-+0-9.eE]+?)\s*(/?)px\s*")
_GIVEN_BY_LIKE = {"dimensions", "features", "start", "stop", "gain"}


@dataclass(frozen=True)
class Spacings:
    """A scale in sample spacings: number · spacing where it is a length, number / spacing where it is a frequency.

    Its text is ``0.64px`` or ``0.25/px``.
    """

    number: float
    unit: Literal["length", "frequency"] = "length"

    def __str__(self) -> str:
        return f"{self.number:.12g}{'px' if self.unit == 'length' else '/px'}"

    def __mul__(self, factor: float) -> "Spacings":
        return Spacings(self.number * factor, self.unit)

    def on(self, spacing: float) -> float:
        """The scale in units of the unit interval, for samples of this spacing."""
        return self.number * spacing if self.unit == "length" else self.number / spacing


@dataclass(frozen=True)
class Parameter:
    """A scale parameter of an encoder."""

    name: str  # the constructor's argument
    unit: Literal["length", "frequency"]  # units of the unit interval, or cycles over it
    default: Spacings | float  # a value that suits natural signals
    meaning: str  # the line that ``coordnet encoders`` prints
    least: float = 0.0  # the lower bound, to which the default is raised on an axis with few samples

    def suited(self, spacing: float) -> float:
        """The default for samples of this spacing, in units of the unit interval."""
        return max(self.least, self.on(self.default, spacing))

    def widened(self, factor: float) -> Spacings | float:
        """The default for features that are wider by a factor: a longer length, or a lower frequency."""
        return self.default * (factor if self.unit == "length" else 1 / factor)

    def on(self, value: Spacings | float | str, spacing: float) -> float:
        """A value of the parameter in units of the unit interval, for samples of this spacing.

        Raises
        ------
        ValueError
            If a text is neither a number nor in the parameter's unit (``0.64px``, or ``0.25/px`` for a frequency).
        """
        if isinstance(value, str):
            value = self._parse(value)
        return value.on(spacing) if isinstance(value, Spacings) else float(value)

    def _parse(self, text: str) -> Spacings | float:
        match = _IN_SPACINGS.fullmatch(text)
        try:
            number = float(match[1] if match else text)
            if match is None:
                return number
            if bool(match[2]) == (self.unit == "frequency"):
                return Spacings(number, self.unit)
        except ValueError:
            pass
        form = "0.64px" if self.unit == "length" else "0.25/px"
        expected = f"a positive number, or one in sample spacings such as {form}"
        raise _checks.wrong(self.name, expected, repr(text))


class FeatureMap(nn.Module, ABC):
    """A map of positions to K features with positive scale parameters, fixed or trained.

    A scale is an attribute of its own name: a number where it is fixed, a tensor in the graph where it is trained.
    A trained scale is kept as its logarithm, ``log_NAME``, so that it stays positive and a step of Adam is relative.
    Every other argument of the constructor is an attribute of its name too.

    Parameters
    ----------
    features : int
        K, at least 1.
    gain : float
        The factor on every feature; the papers divide an encoding matrix by its largest row norm (see ``like``).
    learnable : bool
        Train the scales, from their given values on. This corrects a bad start, but can overfit from a good one where
        there are as many features as samples: then hold out samples (``held_out`` of ``fit_gradient``) or take small
        steps. On a 128×128 crop a Gaussian's σ falls from 0.64 spacings to 0.27 in 300 epochs at a rate of 0.1, and
        the held-out PSNR from 27.5 to 14.1 dB; with a tenth held out it is 21.6 dB, at a rate of 0.01 27.5 dB.
    **scales
        The scale parameters: positive numbers, or tuples with one for each axis.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    scales: ClassVar[tuple[Parameter, ...]] = ()
    random: ClassVar[bool] = False
    joint: ClassVar[bool]

    def __init__(self, features: int, gain: float = 1.0, learnable: bool = False, **scales: Scale) -> None:
        super().__init__()
        self.features = _checks.integer("features", features, 1)
        self.gain = _checks.positive("gain", gain)
        self.learnable = bool(learnable)
        for name, value in scales.items():
            self._set_scale(name, self._check_scale(name, value))

    def _check_scale(self, name: str, value: Scale) -> Scale:
        if isinstance(value, tuple):
            return tuple(_checks.positive(name, v) for v in value)
        least = next((p.least for p in self.scales if p.name == name), 0.0)
        if _checks.positive(name, value) < least:
            raise _checks.wrong(name, f"at least {least:g}", value)
        return float(value)

    def _set_scale(self, name: str, value: Scale) -> None:
        if self.learnable:
            log = torch.tensor(value, dtype=torch.float64).log()
            self.register_parameter(f"log_{name}", nn.Parameter(log))
        else:
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        log = self.__dict__.get("_parameters", {}).get(f"log_{name}")
        return super().__getattr__(name) if log is None else log.exp()

    def scale(self, name: str) -> Any:
        """The present value of a scale parameter as a number, or as a tuple with one for each axis."""
        value = getattr(self, name)
        return _numbers(value) if isinstance(value, Tensor) else value

    def rescaled(self: M, factor: float) -> M:
        """A copy whose scale parameters are multiplied by ``factor``, and raised to their lower bounds.

        Raises
        ------
        ValueError
            If the factor is not positive.
        """
        _checks.positive("factor", factor)
        other = copy.deepcopy(self)
        for parameter in self.scales:
            value = torch.as_tensor(self.scale(parameter.name), dtype=torch.float64)
            scaled = (factor * value).clamp(min=parameter.least)
            other._set_scale(parameter.name, _numbers(scaled))
        return other

    @property
    def columns(self) -> int:
        """The number of columns of the encoding matrix: K, and the padding nodes where there are any."""
        return self.features

    @property
    def kinks(self) -> list[Float[Tensor, "_"]] | None:
        """The positions on each axis between which ψ is multilinear; None where it is not."""
        return None

    @abstractmethod
    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x, before the gain."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x in units of the unit interval; device and dtype follow x."""
        return self._amplified(self.encode(x))

    def _amplified(self, features: Tensor) -> Tensor:
        return features if self.gain == 1 else features * self.gain

    def stable_rank(self, samples: int) -> float:
        """‖A‖_F² / ‖A‖₂² on ``samples`` points in [0, 1) as features grow; NaN where no theory gives it."""
        return math.nan

    @classmethod
    def arguments(cls) -> list[str]:
        """The names of the constructor's arguments: its own, then those that it passes on to its bases."""
        names: dict[str, None] = {}
        for base in cls.__mro__[: cls.__mro__.index(FeatureMap) + 1]:
            if "__init__" in vars(base):
                parameters = inspect.signature(base.__init__).parameters.values()
                named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
                names |= dict.fromkeys(named[1:])
                if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                    break
        without = {"generator"} if cls.scales else {"generator", "learnable"}
        return [name for name in names if name not in without]

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of the options that ``like`` takes beside the scale parameters."""
        others = _GIVEN_BY_LIKE | {parameter.name for parameter in cls.scales}
        return tuple(name for name in cls.arguments() if name not in others)

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        scales = {parameter.name for parameter in self.scales}
        return {name: self.scale(name) if name in scales else getattr(self, name) for name in self.arguments()}

    def description(self) -> dict[str, Any]:
        """The name and the arguments, from which ``encoding_from`` constructs the encoder again."""
        return {"name": self.name, **self.configuration()}

    @classmethod
    @abstractmethod
    def positions(cls, axes: Axes) -> Float[Tensor, "..."]:
        """The positions at which the encoder is evaluated on some axes."""

    @classmethod
    @abstractmethod
    def for_axes(cls: type[M], axes: Axes, features: int | None, **arguments: Any) -> M:
        """Construct for the samples of some axes, with the number of features that suits them unless it is given."""

    @classmethod
    def like(
        cls: type[M],
        axes: Axis | Axes,
        *,
        features: int | None = None,
        normalize: bool = False,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> M:
        """Return the encoder that suits some samples.

        Parameters
        ----------
        axes : Axis, or tuple of Axis
            One axis, or the d axes of a lattice for a joint encoder.
        features : int, optional
            K; by default the number of samples of an axis, or a number of a joint encoder's own.
        normalize : bool
            Divide by the largest row norm of the encoding matrix of the samples, as the papers do.
        generator : torch.Generator, optional
            Draws the parameters of encoders that are random.
        **options
            The encoder's own parameters. Scales are numbers in units of the unit interval, ``Spacings``, or texts in
            sample spacings: ``sigma="0.64px"``, ``f_max="0.25/px"``; ``learnable=True`` trains them.

        Raises
        ------
        ValueError
            If a parameter is unknown or out of its range.
        """
        if features is not None:
            _checks.integer("features", features, 1)
        axes = (axes,) if isinstance(axes, Axis) else tuple(axes)
        arguments: dict[str, Any] = {"generator": generator} if cls.random else {}
        for p in cls.scales:
            given = options.pop(p.name, None)
            each = tuple(p.suited(a.spacing) if given is None else p.on(given, a.spacing) for a in axes)
            arguments[p.name] = each if cls.joint else each[0]
        for name, value in options.items():
            if name not in cls.options():
                names = [*(p.name for p in cls.scales), "features", "normalize", *cls.options()]
                expected = f"a parameter of the {cls.name} encoder ({', '.join(names)})"
                raise _checks.wrong(name, expected, repr(value))
        encoder = cls.for_axes(axes, features, **arguments, **options)
        if normalize:
            encoder.gain = 1 / float(encoder(cls.positions(axes)).detach().norm(dim=-1).max())
        return encoder


class Encoder(FeatureMap):
    """A map ψ: R → R^K of one coordinate to K features; see ``FeatureMap`` for the arguments."""

    joint = False

    @property
    def frequencies(self) -> Float[Tensor, " m"] | None:
        """The frequencies in cycles over the unit interval; None where the features are no waves."""
        return None

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = ∫ψ(t, x) ψ(t, x + δ) dt as features grow, scaled so that D(0) = 1.

        Where the integral depends on x it is averaged over the pairs of positions in [0, 1) at distance δ,
        by quadrature; |δ| ≤ 1 then.
        """
        return mean_similarity(lambda x: self.encode(x.squeeze(-1)), delta.unsqueeze(-1), self.kinks)

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D as the papers print it, for reproduction; it differs from ``similarity`` where they are wrong."""
        return self.similarity(delta)

    def banded(self, axis: Axis) -> BandedMatrix | None:
        """The design matrix of an axis as a band, on the CPU in float64; None where it has no narrow band."""
        return None

    @classmethod
    def positions(cls, axes: Axes) -> Float[Tensor, " n"]:
        """The points of the first axis."""
        return axes[0].points()

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "Encoder":
        """Construct for the samples of one axis, with a feature for each sample by default."""
        return cls(features or axes[0].count, **arguments)


def _numbers(scale: Tensor) -> Scale:
    values = scale.detach().double().cpu().tolist()
    return tuple(values) if isinstance(values, list) else values
