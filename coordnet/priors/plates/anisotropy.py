"""The anisotropy of a plane: how much more slowly it varies along one axis, from samples of a lattice with gaps."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from coordnet.plans.hold_out import middle
from coordnet.priors.plates.errors import CHOOSING, LOWEST, MOST_FOLDS, FieldErrors, PlateParameters
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.prior import LARGEST_UNASKED
from coordnet.priors.plates.search import climb, deciding_part
from coordnet.sampling.samples import Samples

# These numbers were settled on 27 fields, synthetic and from packages, with four masks each; 28 others were held out.
LOOKED_AT = 2**15  # nodes in the middle of a lattice whose differences are looked at
OCTAVES = 6  # the last range of distances is that of 2^6 to 2^7 nodes
LAGS = 5  # distances in an octave that are looked at, at most
FEWEST_PAIRS = 10  # pairs of samples that tell a mean square
WEIGHTED_ORDERS = (1, 2, 3)  # orders of plates with such weights
FOLDED = 1000  # samples below which several folds are hidden, so that about a hundred samples are
LEAST = 1.5  # ratio of scales below which two axes are alike

Weights = tuple[float, ...]


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
    if max(scales) < LEAST:
        return {}
    shared = samples.channels if geometry.weights.shape[-1] == 1 else 1
    field = Field.of(geometry, samples.values.detach().movedim(-1, 0)[:shared])
    part = deciding_part(field, CHOOSING[field.dims])
    rounds = min(MOST_FOLDS, math.ceil(FOLDED / max(len(part.values), 1)))

    @cache
    def error(order: int, factor: float) -> float:
        weighted = replace(part, anisotropy=_weights(scales, factor))
        errors = FieldErrors(weighted, PlateParameters(order, math.inf), rounds)
        return errors.of_plate(order, math.inf) if errors.folds else math.inf

    factors = [2.0**k for k in range(-7, 3) if LEAST < 2.0**k * max(scales)]

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
    part = middle(samples.grid, LOOKED_AT)
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
