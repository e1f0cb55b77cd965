"""The smoothness prior: a penalty on a power of the roughness."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.plans.modes import Modes
from coordnet.sampling.axes import ByAxes

POWER = ByAxes({1: 1.0, 2: 1.5, 3: 2.0})  # the smoothness of natural signals by the number of axes


@dataclass(frozen=True)
class Smoothness:
    """The penalty λ Σ ρ |z|² over modes z, with the roughness ρ = (a₁μ₁ ⊕ … ⊕ a_dμ_d)^p.

    The ``power`` p is the order of smoothness: 1 is a membrane, 2 a thin plate, 0 a ridge on the signal; 1.25 to 1.5
    suits photographs, 2 to 2.5 video. The ``strength`` λ is relative to squared errors of weight 1; 0 interpolates. The
    ``anisotropy`` a_j is the weight of roughness along each axis, or one number for all axes.

    On masked lattices the unknowns are the modes, or with the form "constrained" the unknown points, while the known
    ones are held fixed. The modes converge slowly on holes, scratches and text; with "auto" the mask decides. Huber's
    loss of the errors at samples is for samples with outliers.

    A ``ValueError`` is raised if a number is negative, no anisotropy is positive, or a form or loss is unknown.
    """

    name: ClassVar[str] = "smooth"
    learns: ClassVar[bool] = False  # whether the samples change it
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

    def seeded(self, seed: int) -> "Smoothness":
        """Return the prior itself, which hides no samples."""
        return self

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
