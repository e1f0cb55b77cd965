"""What every encoder of one axis is: a map of a coordinate to K features, with its theory beside it."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.coordinates import Axis

E = TypeVar("E", bound="Encoder")
_IN_SPACINGS = re.compile(r"\s*([-+0-9.eE]+?)\s*(/?)px\s*")


@dataclass(frozen=True)
class Parameter:
    """One scale parameter of an encoder.

    Attributes
    ----------
    name : str
        The constructor's argument.
    unit : "length" or "frequency"
        Of the unit interval: a length, or cycles (a standard deviation of cycles) in it.
    default : str
        In sample spacings: ``"0.64px"`` is a length, ``"0.25/px"`` a frequency.
    meaning : str
        A line for ``coordnet encoders``.
    least : float
        What the default is raised to on an axis with few samples.
    """

    name: str
    unit: Literal["length", "frequency"]
    default: str
    meaning: str
    least: float = 0.0

    def suited(self, spacing: float) -> float:
        """The default for samples of this spacing, in units of the unit interval."""
        return max(self.least, in_unit_interval(self, self.default, spacing))


def in_unit_interval(parameter: Parameter, value: float | str, spacing: float) -> float:
    """A scale parameter given as a number, or in sample spacings as text, in units of the unit interval.

    Raises
    ------
    ValueError
        If the text is neither a number nor of the parameter's kind (``0.64px``, or ``0.25/px`` for a frequency).
    """
    form = "0.64px" if parameter.unit == "length" else "0.25/px"
    expected = f"a positive number, or one in sample spacings such as {form}"
    if not isinstance(value, str):
        return float(value)
    match = _IN_SPACINGS.fullmatch(value)
    try:
        number = float(match[1] if match else value)
    except ValueError:
        raise _checks.wrong(parameter.name, expected, repr(value)) from None
    if match is None:
        return number
    if bool(match[2]) != (parameter.unit == "frequency"):
        raise _checks.wrong(parameter.name, expected, repr(value))
    return number / spacing if match[2] else number * spacing


class Encoder(nn.Module, ABC):
    """A map ψ: R → R^K of one coordinate to K features.

    Parameters
    ----------
    features : int
        K, at least 1.
    gain : float
        What every feature is multiplied by; the papers divide an encoding matrix by its largest row norm, which
        is a gain of one over that norm (see ``like``).

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    random: ClassVar[bool] = False

    def __init__(self, features: int, gain: float = 1.0) -> None:
        super().__init__()
        self.features = _checks.integer("features", features, 1)
        self.gain = _checks.positive("gain", gain)

    @property
    def columns(self) -> int:
        """The number of columns of the encoding matrix: K, and the padding nodes where there are any."""
        return self.features

    @abstractmethod
    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""

    @abstractmethod
    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = ∫ψ(t, x) ψ(t, x + δ) dt as features grow, scaled so that D(0) = 1."""

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D as the papers print it, where that is not ``similarity``; for reproduction."""
        return self.similarity(delta)

    @abstractmethod
    def stable_rank(self, samples: int) -> float:
        """The paper's ‖A‖_F² / ‖A‖₂² of ``samples`` points in [0, 1) under ever more features."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""

    def forward(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x in units of the unit interval; device and dtype follow x."""
        features = self.encode(x)
        return features if self.gain == 1 else features * self.gain

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
            spacings: ``sigma="0.64px"``, ``f_max="0.25/px"``.

        Raises
        ------
        ValueError
            If a parameter is unknown or out of its range.
        """
        known = {p.name: p for p in cls.parameters}
        scales = {
            n: in_unit_interval(p, options.pop(n), axis.spacing) if n in options else p.suited(axis.spacing)
            for n, p in known.items()
        }
        allowed = cls.options()
        for option in options:
            if option not in allowed:
                names = ", ".join([*known, "features", "normalize", *allowed])
                raise _checks.wrong(option, f"a parameter of the {cls.name} encoder ({names})", repr(option))
        if cls.random:
            options["generator"] = generator
        encoder = cls.for_axis(axis, features, scales, **options)
        if normalize:
            encoder.gain = 1 / float(encoder(axis.points()).norm(dim=-1).max())
        return encoder

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of what ``like`` takes beside the scale parameters."""
        return ()
