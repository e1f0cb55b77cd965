"""The thin plate: a penalty on all derivatives of one order, for smooth fields."""

import math
from dataclasses import dataclass

from coordnet import _checks

CUTOFF_BOUNDS = (1e-9, 1e9)  # radians a sample: the powers of others, up to the 16th, are beyond the range of float64
ORDERS = (1.0, 8.0)  # the lowest and the highest order: above, float64 does not hold the solution


@dataclass(frozen=True)
class PlateParameters:
    """The parameters of ``ThinPlate``, as its plans take them; it says what they are."""

    order: int | float | None = None
    cutoff: float | None = None
    hold_out: float = 0.1
    seed: int = 0
    corner: float = 0.0

    def __post_init__(self) -> None:
        if self.order is not None:
            if 2 * _checks.between("order", self.order, *ORDERS) % 1:
                raise _checks.wrong("order", f"a multiple of 1/2 from {ORDERS[0]:g} to {ORDERS[1]:g}", self.order)
            object.__setattr__(self, "order", int(self.order) if self.order % 1 == 0 else float(self.order))
        if self.cutoff is not None and self.cutoff != math.inf:
            _checks.between("cutoff", self.cutoff, *CUTOFF_BOUNDS)
        if self.corner:
            object.__setattr__(self, "corner", float(_checks.between("corner", self.corner, *CUTOFF_BOUNDS)))
            if self.order is None or self.order % 1:
                raise _checks.wrong("order", "a whole one beside a corner", self.order)
        if self.hold_out != 0 or not self.is_chosen:
            if not 0 < _checks.positive("hold_out", self.hold_out) < 1:
                expected = "a number above 0 and below 1, or 0 where nothing is chosen"
                raise _checks.wrong("hold_out", expected, self.hold_out)
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))

    @property
    def is_chosen(self) -> bool:
        """Whether both numbers are given, so that samples are hidden for the report alone."""
        return self.order is not None and self.cutoff is not None
