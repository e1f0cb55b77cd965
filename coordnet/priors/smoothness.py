"""The smoothness prior: a penalty on a power of the roughness."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.priors.modes import Modes

Form = Literal["auto", "modes", "constrained"]
Loss = Literal["squared", "huber"]


@dataclass(frozen=True)
class Smoothness:
    """The penalty λ Σ ρ |z|² over modes z, with the roughness ρ = (a₁μ₁ ⊕ … ⊕ a_dμ_d)^p.

    Attributes
    ----------
    power : float
        The order p of smoothness: 1 is a membrane, 2 a thin plate; 1.25 to 1.5 suits photographs, 2 to 2.5 video.
        0 is a ridge on the signal.
    strength : float
        The weight λ of the penalty, relative to squared errors of weight 1; 0 interpolates.
    anisotropy : float or tuple of float
        The weight a_j of roughness along each axis, or one number for all axes.
    form : "auto", "modes" or "constrained"
        The unknowns on masked lattices: the modes, or the unknown points with the known ones held fixed. The first form
        converges slowly on holes, scratches and text; with "auto" the mask decides.
    loss : "squared" or "huber"
        The loss of the errors at samples. Huber's loss is for samples with outliers.

    Raises
    ------
    ValueError
        If a number is negative, no anisotropy is positive, or a form or loss is unknown.
    """

    power: float = 1.5
    strength: float = 0.01
    anisotropy: float | tuple[float, ...] = 1.0
    form: Form = "auto"
    loss: Loss = "squared"

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
