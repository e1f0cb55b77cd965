"""The smoothness prior: a penalty on a power of the roughness."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.plans.modes import Modes
from coordnet.sampling.axes import ByAxes

POWER = ByAxes({1: 1.0, 2: 1.5, 3: 2.0})  # the smoothness of natural signals by the number of axes


@dataclass(frozen=True)
class SmoothnessParameters:
    """The parameters of ``Smoothness``, as its plans take them; it says what they are."""

    power: float = 1.5
    strength: float = 0.01
    anisotropy: float | tuple[float, ...] = 1.0
    form: Literal["auto", "modes", "constrained"] = "auto"
    loss: Literal["squared", "huber"] = "squared"

    def __post_init__(self) -> None:
        _checks.nonnegative("power", self.power)
        _checks.nonnegative("strength", self.strength)
        values = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,)
        for value in values:
            _checks.nonnegative("anisotropy", value)
        if not any(values):
            raise _checks.wrong("anisotropy", "a positive weight on some axis", self.anisotropy)
        _checks.choice("form", self.form, ("auto", "modes", "constrained"))
        _checks.choice("loss", self.loss, ("squared", "huber"))

    def axis_weights(self, dims: int) -> tuple[float, ...]:
        """Return the anisotropy as one weight per axis; a ``ValueError`` is raised for a tuple of another length."""
        weights = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,) * dims
        if len(weights) != dims:
            raise _checks.wrong("anisotropy", f"one number, or {dims}, one per axis", self.anisotropy)
        return tuple(float(weight) for weight in weights)

    def roughness(self, modes: Modes) -> Float[Tensor, "*modes"]:
        """Return ρ of every mode; see ``axis_weights`` for errors."""
        return modes.roughness(self.axis_weights(len(modes.lattice))) ** self.power

    def penalty(self, modes: Modes) -> Float[Tensor, "*modes"]:
        """Return λρ of every mode."""
        return self.strength * self.roughness(modes)
