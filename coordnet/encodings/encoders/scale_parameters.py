"""Scale parameters of encoders: their units, their defaults, and numbers in sample spacings."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import is_transformed


@dataclass(frozen=True)
class Spacings:
    """A length in sample spacings, written ``0.64px``, or a frequency in cycles over one, written ``0.25/px``."""

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

    def on(self, value: Spacings | float | str | Tensor, spacing: float) -> Any:
        """A value of the parameter in units of the unit interval, which a tensor has, for samples of this spacing.

        A ``ValueError`` is raised if a text is neither a number nor written as ``Spacings`` are.
        """
        if isinstance(value, str):
            suffix, text = "px" if self.unit == "length" else "/px", value.strip()
            try:
                number = float(text.removesuffix(suffix))
            except ValueError:
                expected = f"a positive number, or one in sample spacings such as 0.5{suffix}"
                raise _checks.wrong(self.name, expected, repr(value)) from None
            value = Spacings(number, self.unit) if text.endswith(suffix) else number
        if isinstance(value, Tensor):
            return self.checked(value)
        return value.on(spacing) if isinstance(value, Spacings) else _checks.positive(self.name, value)

    def checked(self, value: Any) -> Any:
        """The value, a number or a tensor, in units of the unit interval.

        A ``ValueError`` is raised if it is not positive or below the lower bound. Tensors are only looked at where that
        neither waits for a GPU nor ends a transform of ``torch.func``.
        """
        if isinstance(value, Tensor):
            if not value.is_floating_point():
                raise _checks.wrong(self.name, "a tensor of floating-point numbers", value.dtype)
            if value.device.type == "cpu" and not is_transformed(value):
                self.checked(float(value.detach().min()))
                self.checked(float(value.detach().max()))
            return value
        if isinstance(value, str | Spacings):
            expected = "a number in units of the unit interval (`like` takes sample spacings)"
            raise _checks.wrong(self.name, expected, repr(str(value)))
        if _checks.positive(self.name, value) < self.least:
            raise _checks.wrong(self.name, f"at least {self.least:g}", value)
        return float(value)
