"""The thin plate: a penalty on all derivatives of one order, for smooth fields."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from coordnet import _checks

CUTOFF_BOUNDS = (1e-9, 1e9)  # radians a sample: the powers of others, up to the 16th, are beyond the range of float64
ORDERS = (1, 8)  # the lowest and the highest order: above, float64 does not hold the solution


@dataclass(frozen=True)
class ThinPlate:
    """The energy Σ p!/α! ‖D^α f‖² of a lattice signal f over all derivatives of order |α| = p, by first differences D.

    The lattice is open: nothing is assumed beyond its borders, where the plate is free. A polynomial of degree below
    the order p has no energy. Samples of a row are interpolated by natural splines, which have the least energy of
    derivatives themselves. It suits smooth fields, as physics and geography have them; photographs have edges, which
    it does not suit.

    Attributes
    ----------
    order : int, optional
        The order p of the derivatives, from 1 to 8; hidden samples choose it if it is not given.
    cutoff : float, optional
        The frequency ω, in radians a sample of the lattice, above which samples count as noise, from 1e-9 to 1e9: the
        energy has the weight ω^(-2p) against squared errors of weight 1. With ``math.inf`` samples are interpolated.
        Hidden samples choose it if it is not given.
    hold_out : float
        The fraction of the samples that is hidden for a choice.
    seed : int
        The seed of the hidden samples.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    Duchon, "Splines minimizing rotation-invariant semi-norms in Sobolev spaces" (1977), has the continuous energy;
    Wahba, "Spline Models for Observational Data" (1990), chapter 2.
    """

    name: ClassVar[str] = "plates"
    learns: ClassVar[bool] = True  # whether the samples change it
    on_cpu: ClassVar[bool] = True  # SciPy solves for it there, wherever the samples are
    order: int | None = None
    cutoff: float | None = None
    hold_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order is not None and not ORDERS[0] <= _checks.integer("order", self.order, ORDERS[0]) <= ORDERS[1]:
            raise _checks.wrong("order", f"an integer from {ORDERS[0]} to {ORDERS[1]}", self.order)
        if self.cutoff is not None and self.cutoff != math.inf:
            _checks.between("cutoff", self.cutoff, *CUTOFF_BOUNDS)
        if not 0 < _checks.positive("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a number above 0 and below 1", self.hold_out)
        _checks.integer("seed", self.seed, 0)

    @property
    def is_chosen(self) -> bool:
        """Whether both numbers are given, so that no sample needs to be hidden."""
        return self.order is not None and self.cutoff is not None

    def seeded(self, seed: int) -> "ThinPlate":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, seed=seed)
