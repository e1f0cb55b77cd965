"""The search for a plate's order, cut-off and corner of least expected error."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from coordnet.plans.hold_out import middle
from coordnet.priors.plates.errors import (
    CHOOSING,
    FOLDED,
    LOWEST,
    POINT_ROUNDS,
    Error,
    FieldErrors,
    GeneralizedErrors,
    Numbers,
    PlateParameters,
)
from coordnet.priors.plates.field import Field, stretch
from coordnet.priors.plates.maps import MAP_RADIUS, flat_part
from coordnet.priors.plates.tiles import coarse_cutoff, coarsened
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.sphere import spread

ORDER_GAIN = 0.02  # relative fall of the hidden error below which an order or a cut-off is a failure
STEPS_WITHOUT_GAIN = 2  # orders or cut-offs without it after which the search ends
CUTOFFS = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # radians a sample
POINT_CUTOFFS = (4.0, 2.8, *CUTOFFS, 0.12, 0.08, 0.05, 0.03)  # radians a node, of which a point has two or more

# Order of plates with a corner that are tried beside those of the best order without one.
CORNERED = ByAxes({1: 5, 2: 6, 3: 5})
# Nodes to which the part of ``CHOOSING`` nodes is enlarged at most: a plate on it takes a fraction of a second. Beyond
# it, in pictures with large holes or hardly any samples, the trial would take longer than the fit.
LARGEST_PART = ByAxes({1: 2**20, 2: 128**2, 3: 4 * 20**3})
CHOOSING_POINTS = ByAxes(
    {1: 2**16, 2: 48**2, 3: 12**3}
)  # nodes of parts for points between nodes: half a second in all
FEWEST_DECIDING = 100  # samples in the part that decides, or it is enlarged
ROUGH = ByAxes({1: 1, 2: 1.5, 3: 2})  # order that few samples, hidden one by one, may have instead of ``LOWEST``
MUCH_BETTER = 0.5  # squared error of ``ROUGH`` plates there, relative to that of ``LOWEST``, at most
# Orders that are tried with cut-offs for points between nodes; of 3,000 noisy points of four functions 3.5 is the best.
POINT_ORDERS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)
MOST_PARTS = ByAxes({2: 4, 3: 2})  # parts of a large lattice of points, so that none of its regions decides alone
FEWEST_HERE = 30  # points in a part at least
ROUGH_ORDER = 3  # order up to which half orders next to it are tried, too, for points that are interpolated
HIGHEST, HIGHEST_LARGE = 6, 4  # the highest order; the second on lattices of more than LARGE_NODES nodes
LARGE_NODES = ByAxes({1: 2**24, 2: 128**2, 3: 0})
# Squared error that all points expect of a plate through noisy ones in space, relative to the hidden one of the
# interpolation, at most: hidden points of a part in space are near its faces, where smooth plates are extrapolated.
CLEAR = 0.5
NOISELESS = 1e-9  # hidden error below which samples have no noise, relative to their variance
# Hidden error below which points are of a smooth function, relative to their variance.
# A few hidden points hardly tell the highest two orders from each other there, and the higher one extrapolates better:
# it is the better one of 48 clouds of eleven functions wherever the two differ, by up to three times.
SMOOTH_ERROR = 1e-8
ABOUT_AS_GOOD = 10.0  # hidden error up to which the highest order is taken for these, relative to the least

P = TypeVar("P", bound=PlateParameters)


def deciding_part(field: Field, size: int) -> Field:
    """Return the middle of a lattice of more than ``size`` nodes, or all of it.

    It is enlarged up to ``LARGEST_PART`` nodes until it has ``FEWEST_DECIDING`` samples, as it has none in the middle
    of a hole.
    """
    while size < math.prod(field.lattice):
        part = field.part(middle(field.lattice, size))
        if len(part.values) >= FEWEST_DECIDING or 4 * size > LARGEST_PART[field.dims]:
            return part
        size *= 4
    return field


def deciding_parts(field: Field) -> list[Field]:
    """Return parts of a lattice of points, each around one of them: up to ``MOST_PARTS``, or the whole lattice."""
    size = CHOOSING_POINTS[field.dims]
    side = math.ceil(size ** (1 / field.dims))
    if field.latitude is not None:
        h = 1 / float(np.linalg.norm(field.positions[0]))
        centers = (h * field.positions[(field.positions @ v).argmax()] for v in spread(MOST_PARTS[field.dims]))
        return [flat_part(field, center, min(side / 2 * h, MAP_RADIUS))[0] for center in centers]
    if math.prod(field.lattice) <= size or len(field.values) < FEWEST_DECIDING:
        return [field]
    along = np.argsort(field.positions[:, int(np.argmax(field.lattice))], kind="stable")
    most = MOST_PARTS[field.dims]
    count = most if math.prod(field.lattice) >= most * size else 1
    parts = []
    for k in range(count):
        center = field.positions[along[(2 * k + 1) * len(along) // (2 * count)]]
        starts = [max(0, min(int(x) - side // 2, n - side)) for x, n in zip(center, field.lattice, strict=True)]
        part = field.part(tuple(slice(a, min(a + side, n)) for a, n in zip(starts, field.lattice, strict=True)))
        if len(part.values) >= FEWEST_HERE:
            parts.append(part)
    return parts or [field]


def choose_plate(field: Field, prior: P) -> tuple[P, FieldErrors]:
    """Return a prior whose order and cut-off are given or chosen by hidden samples of a part, and what was tried.

    Few samples, each of which is hidden alone, decide between plates of order ``LOWEST`` and rough ones. Of more,
    orders are raised while the hidden error of the interpolation falls. If that leaves more than rounding, cut-offs are
    tried with every order; for points on nodes that were laid for them, from two lower orders on, and half ones: with
    all orders if no interpolation is better than the mean of the values.
    """
    errors = _errors_of(field, prior)
    order, cutoff, corner = prior.order or LOWEST, prior.cutoff or math.inf, prior.corner
    if prior.is_chosen or not errors.folds:
        return replace(prior, order=order, cutoff=cutoff), errors
    if errors.hides_singly:
        rough = prior.order or ROUGH[field.dims]
        is_rough = errors.of_plate(rough, cutoff) < MUCH_BETTER * errors.of_plate(order, cutoff)
        return replace(prior, order=rough if is_rough else order, cutoff=cutoff), errors
    is_large = math.prod(field.lattice) > LARGE_NODES[field.dims] and (field.dims > 2 or not field.laid)
    whole = range(LOWEST, (HIGHEST_LARGE if is_large else HIGHEST) + 1)
    orders: Sequence[int | float] = whole if prior.order is None else [prior.order]
    order = climb(orders, lambda p: errors.of_plate(p, cutoff))
    variance = errors.field.values[:, : errors.field.count].var()
    if field.laid and errors.of_plate(order, cutoff) < SMOOTH_ERROR * field.values[:, : field.count].var():
        order = max(p for p in orders if errors.of_plate(p, cutoff) <= ABOUT_AS_GOOD * errors.of_plate(order, cutoff))
    if prior.cutoff is None and errors.of_plate(order, cutoff) > NOISELESS * variance:
        if field.laid and prior.order is None:
            at, is_told = POINT_ORDERS.index(order), errors.of_plate(order, cutoff) < variance
            orders = POINT_ORDERS[(at - 2 if order <= 3 else at) if is_told else 0 :]
        least = errors.of_plate(order, cutoff)
        best, expected = _smoothing_noise(field, errors, orders) if field.laid else ((order, cutoff, corner), math.inf)
        if field.dims < 3:
            expected = errors.of_plate(*best)
        if not expected < (least if field.dims < 3 else CLEAR * least):
            error = errors.of_plate
            cutoffs = [stretch(field.anisotropy) * w for w in CUTOFFS]
            best = by_hidden_points(error, orders) if field.laid else by_orders(error, orders, cutoffs)
            expected = error(*best)
        if expected < least:
            order, cutoff, corner = best
    if field.laid and prior.order is None and cutoff == math.inf and order <= ROUGH_ORDER:
        near = [p for p in POINT_ORDERS if abs(p - order) <= 0.5]
        order = min(near, key=lambda p: errors.of_plate(p, cutoff))
    return replace(prior, order=order, cutoff=cutoff, corner=corner), errors


def _errors_of(field: Field, prior: PlateParameters) -> FieldErrors:
    """Return the errors at hidden samples of the part, or the parts, that decide."""
    if not field.laid:
        return FieldErrors(deciding_part(field, CHOOSING[field.dims]), prior)
    first, *others = parts = deciding_parts(field)
    rounds = min(POINT_ROUNDS, math.ceil(FOLDED / max(sum(len(part.values) for part in parts), 1)))
    return FieldErrors(first, prior, rounds if field.dims < 3 else 1, others)  # a solve in space takes a second


def _smoothing_noise(field: Field, errors: FieldErrors, orders: Sequence[int | float]) -> tuple[Numbers, float]:
    """Return the order and the cut-off for noisy points by all of them, and the error that these expect.

    That is infinite for points that are few or come in tracks, and for those that plates should nearly interpolate.
    Whole orders come first, those and the half ones next to the best with the cut-offs next to it then, on nodes as
    coarse as these allow, so that more points count; parts of a sphere are maps, which keep their nodes.
    """
    fields = [errors.field, *(other.field for other in errors.others)]
    if errors.cells is not None or sum(len(field.values) for field in fields) < FEWEST_DECIDING:
        return (LOWEST, math.inf, 0.0), math.inf
    error = GeneralizedErrors(fields).of_plate
    order, cutoff, _ = by_orders(error, whole_orders(orders), POINT_CUTOFFS, patience=1, gain=0.0)
    flat = field.dims == 2 and field.latitude is None
    if flat and fields[0] is not field and (cutoff < 1 or field.has_narrow_band):
        error = _coarse_errors(field, max(1.0, 1 / cutoff))
    best = with_corner(error, (order, cutoff, 0.0), CORNERED[field.dims]) if len(orders) > 1 else (order, cutoff, 0.0)
    if best[2] == 0:
        best = least_near(error, [p for p in orders if abs(p - order) <= 1], cutoff)
    return best, error(*best)


def _coarse_errors(field: Field, step: float) -> Error:
    """Return the errors of generalized cross-validation on coarser nodes, by orders and cut-offs on a field's own."""
    coarse = coarsened(field, step)
    errors = GeneralizedErrors([coarse] if coarse.has_narrow_band else deciding_parts(coarse))

    def error(order: int | float, cutoff: float, corner: float = 0.0) -> float:
        return errors.of_plate(order, coarse_cutoff(order, cutoff, step, field.dims), step * corner)

    return error


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
