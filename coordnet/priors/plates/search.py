"""The search for the numbers of a plate: order, cut-off and corner of least expected error, and weights of the axes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from coordnet.linalg.parabola import least_of_parabola
from coordnet.plans.hold_out import middle
from coordnet.priors.plates.errors import (
    CHOOSING,
    FEWEST_DECIDING,
    LOWEST,
    MOST_FOLDS,
    Error,
    FieldErrors,
    GeneralizedErrors,
    Numbers,
    PlateParameters,
    deciding_part,
    deciding_parts,
    errors_of,
)
from coordnet.priors.plates.field import Field, stretch
from coordnet.priors.plates.tiles import coarse_cutoff, coarsened
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Samples

ORDER_GAIN = 0.02  # relative fall of the hidden error below which an order or a cut-off is a failure
STEPS_WITHOUT_GAIN = 2  # orders or cut-offs without it after which the search ends
CUTOFFS = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # radians a sample
POINT_CUTOFFS = (4.0, 2.8, *CUTOFFS, 0.12, 0.08, 0.05, 0.03)  # radians a node; there are two or more for each point

# Order of plates with a corner that are tried beside those of the best order without one.
CORNERED = ByAxes({1: 5, 2: 6, 3: 5})
ROUGH = ByAxes({1: 1, 2: 1.5, 3: 2})  # order that few samples, hidden one by one, may have instead of ``LOWEST``
MUCH_BETTER = 0.5  # squared error of ``ROUGH`` plates there, relative to that of ``LOWEST``, at most
# Orders that are tried with cut-offs for points between nodes; of 3,000 noisy points of four functions 3.5 is the best.
POINT_ORDERS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)
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
# Cut-off, in radians a node, that is tried for such points of a row: where they are interpolated, rounding hides the
# energy in wide gaps. Of 20,000 points the error is 7e-9 then, and 4e-13 so; from 1.5 to 4 it is about the same.
SMOOTH_CUTOFF = 2.0
ABOUT_AS_GOOD = 10.0  # hidden error up to which the highest order is taken for these, relative to the least

# Nodes of the largest lattice on which plates are taken unasked: those of a row need half a kilobyte each, and those of
# a plane four, if plates have a weight.
LARGEST_UNASKED = ByAxes({1: 2**21, 2: 2**21, 3: 2**18})
# These numbers for anisotropies were settled on 27 fields, synthetic and from packages, with four masks each; 28 others
# were held out.
VARIOGRAM_NODES = 2**15  # nodes in the middle of a lattice whose differences are looked at
OCTAVES = 6  # the last range of distances is that of 2^6 to 2^7 nodes
LAGS = 5  # distances in an octave that are looked at, at most
FEWEST_PAIRS = 10  # pairs of samples that tell a mean square
WEIGHTED_ORDERS = (1, 2, 3)  # orders of plates with such weights
WEIGHED_FOLDED = 1000  # samples below which several folds are hidden, so that about a hundred samples are
LEAST_RATIO = 1.5  # ratio of scales below which two axes are alike

P = TypeVar("P", bound=PlateParameters)
Weights = tuple[float, ...]


def choose_plate(field: Field, prior: P) -> tuple[P, FieldErrors]:
    """Return a prior whose order and cut-off are given or chosen by hidden samples of a part, and what was tried.

    Few samples, each of which is hidden alone, decide between plates of order ``LOWEST`` and rough ones. Of more,
    orders are raised while the hidden error of the interpolation falls. If that leaves more than rounding, cut-offs are
    tried with every order; for points on nodes that were laid for them, from two lower orders on, and half ones: with
    all orders if no interpolation is better than the mean of the values.
    """
    errors = errors_of(field, prior)
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
        cutoffs = (cutoff, SMOOTH_CUTOFF) if field.dims == 1 and prior.cutoff is None else (cutoff,)
        order, cutoff = _for_smooth_points(errors.of_plate, orders, cutoffs)
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


def _for_smooth_points(
    error: Error, orders: Sequence[int | float], cutoffs: Sequence[float]
) -> tuple[int | float, float]:
    """Return the order and the cut-off of least error; of one cut-off, the highest order that is ``ABOUT_AS_GOOD``."""
    order, cutoff = min(product(orders, cutoffs), key=lambda numbers: error(*numbers))
    if len(cutoffs) > 1:
        return order, cutoff
    return max(p for p in orders if error(p, cutoff) <= ABOUT_AS_GOOD * error(order, cutoff)), cutoff


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
    if flat and fields[0] is not field and (cutoff < 1 or field.is_small):
        error = _coarse_errors(field, max(1.0, 1 / cutoff))
    best = with_corner(error, (order, cutoff, 0.0), CORNERED[field.dims]) if len(orders) > 1 else (order, cutoff, 0.0)
    if best[2] == 0:
        best = least_near(error, [p for p in orders if abs(p - order) <= 1], cutoff)
    return best, error(*best)


def _coarse_errors(field: Field, step: float) -> Error:
    """Return the errors of generalized cross-validation on coarser nodes, by orders and cut-offs on a field's own."""
    coarse = coarsened(field, step)
    errors = GeneralizedErrors([coarse] if coarse.is_small else deciding_parts(coarse))

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
    between = least_of_parabola(three, [error(order, w) for w in three])
    return order, min((cutoff, between), key=lambda w: error(order, w)), 0.0


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


def anisotropies(samples: Samples) -> dict[int, Weights]:
    """Return the weights s² of the squared frequencies along each axis, 1 for the roughest, for plates of some orders.

    Variograms tell the scale s of each axis. For each order twice and four times these scales are tried, or a half, a
    quarter and so on, while plates have less error at hidden samples. The result is empty if all axes are alike, by
    their variograms or because equal weights have less error with the order ``LOWEST``, and if samples are not nodes of
    a plane with gaps. In volumes the evolving prior has scales of its own.
    """
    geometry = samples.geometry
    is_plane = len(geometry.grid) == 2 and geometry.is_nodal and geometry.shape == geometry.grid
    if not is_plane or geometry.weights is None or math.prod(geometry.grid) > LARGEST_UNASKED[2]:
        return {}
    scales = variogram_scales(samples)
    if max(scales) < LEAST_RATIO:
        return {}
    shared = samples.channels if geometry.weights.shape[-1] == 1 else 1
    field = Field.of(geometry, samples.values.detach().movedim(-1, 0)[:shared])
    part = deciding_part(field, CHOOSING[field.dims])
    rounds = min(MOST_FOLDS, math.ceil(WEIGHED_FOLDED / max(len(part.values), 1)))

    @cache
    def error(order: int, factor: float) -> float:
        weighted = replace(part, anisotropy=_weights(scales, factor))
        errors = FieldErrors(weighted, PlateParameters(order, math.inf), rounds)
        return errors.of_plate(order, math.inf) if errors.folds else math.inf

    factors = [2.0**k for k in range(-7, 3) if LEAST_RATIO < 2.0**k * max(scales)]

    def best(order: int) -> float:
        larger = climb([1.0, *(f for f in factors if f > 1)], lambda f: error(order, f), patience=1)
        smaller = [1.0, *(f for f in reversed(factors) if f < 1)]
        return larger if larger > 1 else climb(smaller, lambda f: error(order, f), patience=1)

    if not error(LOWEST, best(LOWEST)) < error(LOWEST, 0.0):
        return {}
    return {order: _weights(scales, best(order)) for order in WEIGHTED_ORDERS}


def _weights(scales: tuple[float, ...], factor: float) -> Weights:
    """Return the weights of the axes if the scales of those that are not the roughest are multiplied by a factor."""
    return tuple(float(f"{max(1.0, factor * s) ** 2:.2g}") if s > 1 else 1.0 for s in scales)


def variogram_scales(samples: Samples) -> tuple[float, ...]:
    """Return the scale of each axis, relative to that of the roughest, by the mean squares of differences.

    Values differ at distances of s to 2s nodes along an axis as much as they do at 1 to 2 nodes along the roughest one.
    With a covariance of scaled distances the variogram is the same function along all axes but for their scales.

    Cressie, "Statistics for Spatial Data" (1993), section 2.5.2.
    """
    part = middle(samples.grid, VARIOGRAM_NODES)
    values = samples.values.detach()[part].cpu().double().numpy()
    known = np.broadcast_to((samples.geometry.full_weights[part] > 0).cpu().numpy(), values.shape)
    axes = [(np.moveaxis(values, axis, 0), np.moveaxis(known, axis, 0)) for axis in range(values.ndim - 1)]
    nearest = [_mean_square(*axis, octave=0) for axis in axes]
    rough = max(nearest)
    return tuple(_scale(*axis, first, rough) for axis, first in zip(axes, nearest, strict=True))


def _mean_square(y: Float[np.ndarray, "n *others"], known: Bool[np.ndarray, "n *others"], octave: int) -> float:
    """Return the mean square of differences at 2^k to 2^(k+1) nodes along the first axis; 0 if it is not told."""
    squares, pairs = 0.0, 0
    for lag in np.unique(np.linspace(2**octave, 2 ** (octave + 1), LAGS).astype(int)):
        both = known[lag:] & known[:-lag]
        squares += float(np.square((y[lag:] - y[:-lag])[both]).sum())
        pairs += int(both.sum())
    return squares / pairs if pairs >= FEWEST_PAIRS else 0.0


def _scale(
    y: Float[np.ndarray, "n *others"], known: Bool[np.ndarray, "n *others"], first: float, rough: float
) -> float:
    """Return 2^k for the first k, between the octaves, whose mean square is ``rough``; the last k if none is."""
    if not 0 < first < rough:
        return 1.0
    octave, below, above = 0, first, first
    while above < rough and octave < OCTAVES and (following := _mean_square(y, known, octave + 1)):
        octave, below, above = octave + 1, above, max(above, following)
    if above < rough or octave == 0:
        return 2.0**octave
    return 2 ** (octave - math.log(above / rough) / math.log(above / below))
