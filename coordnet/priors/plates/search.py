"""The numbers of a plate: its order, cut-off and corner as they are given, and the search for those of least error."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from coordnet import _checks
from coordnet.sampling.axes import ByAxes

CUTOFF_BOUNDS = (1e-9, 1e9)  # radians a sample: the powers of others, up to the 16th, are beyond the range of float64
ORDERS = (1.0, 8.0)  # the lowest and the highest order: above, float64 does not hold the solution
ORDER_GAIN = 0.02  # relative fall of the hidden error below which an order or a cut-off is a failure
STEPS_WITHOUT_GAIN = 2  # orders or cut-offs without it after which the search ends
CUTOFFS = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # radians a sample
POINT_CUTOFFS = (4.0, 2.8, *CUTOFFS, 0.12, 0.08, 0.05, 0.03)  # radians a node, of which a point has two or more

# Order of plates with a corner that are tried beside those of the best order without one.
CORNERED = ByAxes({1: 5, 2: 6, 3: 5})

Numbers = tuple[int | float, float, float]  # an order, a cut-off and a corner
Error = Callable[..., float]  # the error of plates of these numbers, without a corner if that is not given


@dataclass(frozen=True)
class PlateParameters:
    """The parameters of ``ThinPlate``, as its plans take them; it says what they are."""

    order: int | float | None = None
    cutoff: float | None = None
    hold_out: float = 0.1
    seed: int = 0
    corner: float = 0.0
    anisotropy: tuple[float, ...] = ()

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
        for weight in self.anisotropy:
            _checks.positive("anisotropy", weight)
        if self.hold_out != 0 or not self.is_chosen:
            if not 0 < _checks.positive("hold_out", self.hold_out) < 1:
                expected = "a number above 0 and below 1, or 0 where nothing is chosen"
                raise _checks.wrong("hold_out", expected, self.hold_out)
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))

    @property
    def is_chosen(self) -> bool:
        """Whether both numbers are given, so that samples are hidden for the report alone."""
        return self.order is not None and self.cutoff is not None


def whole_orders(orders: Sequence[int | float]) -> Sequence[int | float]:
    """Return the whole ones of some orders, or all if there is none."""
    return [p for p in orders if p % 1 == 0] or orders


def by_hidden_points(error: Error, orders: Sequence[int | float]) -> Numbers:
    """Return the best order and its best cut-off for points by hidden ones.

    Whole orders with every second cut-off come first, then the half orders and the cut-offs next to the best one.
    """
    order, cutoff, _ = by_orders(error, whole_orders(orders), POINT_CUTOFFS[::2], patience=1)
    return least_near(error, [p for p in orders if p == order or abs(p - order) == 0.5], cutoff)


def with_corner(error: Error, numbers: Numbers, other: int) -> Numbers:
    """Return numbers, or those of a plate with a corner, of the same order or another one, if its error is less.

    All corners with the cut-offs next to theirs are tried with the other order, as the two depend on each other. With
    the same order the cut-off is the best with the middle corner, and the corner the best with that.
    """
    at = min(range(len(POINT_CUTOFFS)), key=lambda k: abs(math.log(POINT_CUTOFFS[k] / numbers[1])))
    cutoffs, corners = POINT_CUTOFFS[max(at - 1, 0) : at + 2], list(POINT_CUTOFFS[at + 1 : at + 6])
    if len(corners) < 3:
        return numbers
    cutoff = min(cutoffs, key=lambda w: error(numbers[0], w, corners[2]))
    cornered = [(numbers[0], cutoff, corner) for corner in corners]
    return min(numbers, *cornered, *product([other], cutoffs, corners), key=lambda one: error(*one))


def least_near(error: Error, orders: Sequence[int | float], cutoff: float) -> Numbers:
    """Return the best of some orders and the cut-offs next to one, or that of the parabola through three of these."""
    at = POINT_CUTOFFS.index(cutoff)
    near = product(orders, POINT_CUTOFFS[max(at - 1, 0) : at + 2])
    order, cutoff = min(near, key=lambda numbers: error(*numbers))
    at = POINT_CUTOFFS.index(cutoff)
    three = POINT_CUTOFFS[max(at - 1, 0) : at + 2]
    between = _least(three, [error(order, w) for w in three])
    return order, min((cutoff, between), key=lambda w: error(order, w)), 0.0


def _least(cutoffs: Sequence[float], errors: Sequence[float]) -> float:
    """Return the cut-off at the least of the parabola through errors over logarithms, the middle one if there is none.

    The errors are those of three cut-offs, of which the middle one has the least; of fewer the first is returned.
    """
    if len(cutoffs) < 3 or not np.isfinite(errors).all():
        return cutoffs[0] if len(cutoffs) < 3 else cutoffs[1]
    a, b, _ = np.polyfit(np.log(cutoffs), errors, 2)
    return float(f"{np.clip(np.exp(-b / (2 * a)), min(cutoffs), max(cutoffs)):.3g}") if a > 0 else cutoffs[1]


def by_orders(error: Error, orders: Sequence[int | float], cutoffs: Sequence[float], **stop: Any) -> Numbers:
    """Return the best order and its best cut-off: the higher the order is, the lower its best cut-off."""
    best: dict[int | float, float] = {}

    def smoothed(p: int | float) -> float:
        lowest = min(best.values(), default=math.inf)
        best[p] = climb([w for w in cutoffs if w <= lowest], lambda w: error(p, w), **stop)
        return error(p, best[p])

    order = climb(orders, smoothed, gain=stop.get("gain", ORDER_GAIN))
    return order, best[order], 0.0


def climb(
    candidates: Sequence[Any],
    error: Callable[[Any], float],
    patience: int = STEPS_WITHOUT_GAIN,
    gain: float = ORDER_GAIN,
) -> Any:
    """Return the best candidate, trying one after another until some of them bring no relative gain."""
    best, least, failures = candidates[0], error(candidates[0]), 0
    for candidate in candidates[1:]:
        value = error(candidate)
        failures = 0 if value < (1 - gain) * least or least == math.inf else failures + 1
        if value < least:
            best, least = candidate, value
        if failures == patience:
            break
    return best
