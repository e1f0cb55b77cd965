"""Scale parameters of encoders: their units, their defaults, and the texts that give them in sample spacings."""

import re
from dataclasses import dataclass
from typing import Literal

from coordnet import _checks

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
