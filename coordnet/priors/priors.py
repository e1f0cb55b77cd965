"""Priors: what is assumed of a signal where nothing was measured."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.priors.modes import Modes
from coordnet.sampling.axes import ByAxes

Form = Literal["auto", "modes", "precision"]


@dataclass(frozen=True)
class Smoothness:
    """The penalty λ Σ ρ |z|² over modes z, with the roughness ρ = (a₁μ₁ ⊕ … ⊕ a_dμ_d)^p.

    Attributes
    ----------
    power : float
        p, the order of smoothness: 1 is a membrane, 2 a thin plate; 1.25 to 1.5 suits photographs, 2 to 2.5 video.
        0 is a ridge on the signal.
    strength : float
        λ, against squared errors of weight 1; 0 interpolates.
    anisotropy : float or tuple of float
        a_j, the weight of roughness along each axis, or one for all of them.
    form : "auto", "modes" or "precision"
        How masked lattices are solved: for the modes, or for the unknown points with the known ones held. Holes,
        scratches and text stall the first; by default the mask decides.

    Raises
    ------
    ValueError
        If a number is negative, or no anisotropy is positive.
    """

    power: float = 1.5
    strength: float = 0.01
    anisotropy: float | tuple[float, ...] = 1.0
    form: Form = "auto"

    def __post_init__(self) -> None:
        _checks.nonnegative("power", self.power)
        _checks.nonnegative("strength", self.strength)
        values = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,)
        for value in values:
            _checks.nonnegative("anisotropy", value)
        if not any(values):
            raise _checks.wrong("anisotropy", "a positive weight on some axis", self.anisotropy)
        _checks.choice("form", self.form, ("auto", "modes", "precision"))

    def roughness(self, modes: Modes) -> Float[Tensor, "*modes"]:
        """ρ of every mode.

        Raises
        ------
        ValueError
            If there is one anisotropy an axis, but for another number of axes.
        """
        dims = len(modes.lattice)
        weights = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,) * dims
        if len(weights) != dims:
            raise _checks.wrong("anisotropy", f"one number, or {dims}, one an axis", self.anisotropy)
        return modes.roughness(tuple(float(w) for w in weights)) ** self.power


@dataclass(frozen=True)
class Adaptive:
    """A Gaussian prior whose variance of every mode is learned from the samples themselves.

    From a power law (a ``Smoothness``) on, rounds of solving and of re-estimating the variances follow; hidden
    samples decide which power law to start from and how many rounds to keep, none if none helps.

    Attributes
    ----------
    starts : tuple of Smoothness
        The power laws to choose from; those that suit the number of axes if left out.
    rounds : int
        At most so many.
    hold_out : float
        The share of the samples that is hidden to decide; 0 decides nothing and takes the first start and all rounds.
    rotated : bool
        Learn a spectrum for each eigenvector of the channels' covariance, not for each channel.
    seed : int
        Of the hidden samples.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    starts: tuple[Smoothness, ...] = ()
    rounds: int = 8
    hold_out: float = 0.1
    rotated: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.integer("rounds", self.rounds, 0)
        if not 0 <= _checks.nonnegative("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a number of at least 0 and below 1", self.hold_out)

    def candidates(self, dims: int) -> tuple[Smoothness, ...]:
        """The power laws to start from, for a number of axes."""
        return self.starts or STARTS[dims]


STARTS = ByAxes(
    {
        1: (Smoothness(1.0, 0.01), Smoothness(1.0, 0.1), Smoothness(2.0, 0.1)),
        2: (Smoothness(1.5, 0.01), Smoothness(1.5, 0.03), Smoothness(2.0, 0.003), Smoothness(2.5, 0.003)),
        3: (
            Smoothness(2.0, 0.01),
            Smoothness(2.5, 0.01),
            Smoothness(2.0, 0.01, (0.3, 1.0, 1.0)),
            Smoothness(2.0, 0.01, (3.0, 1.0, 1.0)),
        ),
        4: (Smoothness(2.0, 0.01), Smoothness(2.5, 0.01)),
    }
)
