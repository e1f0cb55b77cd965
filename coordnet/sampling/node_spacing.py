"""How far apart nodes are for scattered points: the points' mean distance, and the scales of the axes."""

import itertools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial.distance import cdist

IN_CELL = 8.0  # points of a cell in the mean, by which the occupied part of the points' box is measured
TRIED = 400  # points that decide on the scales: a solve of as many takes a hundredth of a second
SMOOTHED = (0.0, 1e-4)  # variances of noise on the points, relative to the kernel r³ at the longest extent of them all
GAIN = 0.8  # ratio of the squared errors of hidden points below which other scales are taken
LEAST_ERROR = 1e-20  # squared error, relative to the variance, below which it is rounding
MOST_DOUBLINGS = 24  # doublings or halvings of the scale of an axis at most
ON_NODES = 1e-6  # steps by which a coordinate misses a node of the points' own lattice at most
FAR_OFF = 5.0  # distance from the median along an axis, relative to the largest of the nearest nine tenths, at least
MOST_FAR = 0.01  # share of the points that are so far off at most, or one: more of them are a region of their own
FINEST = 0.5  # distance of the nodes of that lattice, relative to those that the mean distance asks for, at least


def mean_distance(x: Float[np.ndarray, "n d"]) -> float:
    """Return the edge of the cube that a point has in the mean, in the part of the points' box that they occupy.

    The box is cut into cells of ``IN_CELL`` points in the mean; cells without points do not count, so that clusters and
    tracks are as near to each other as their points are. Axes along which all points are equal do not count.
    """
    extent = np.ptp(x, axis=0)
    x, extent = x[:, extent > 0], extent[extent > 0]
    if not len(extent):
        return 1.0
    edge = (np.prod(extent) * IN_CELL / len(x)) ** (1 / len(extent))
    counts = np.maximum(np.round(extent / edge), 1)
    cells = np.minimum(np.floor((x - x.min(0)) / extent * counts), counts - 1)
    occupied = len(np.unique(cells, axis=0)) / np.prod(counts)
    return float((np.prod(extent) * occupied / len(x)) ** (1 / len(extent)))


def far_off(x: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
    """Return which points are far from all others, if these are few.

    A mistaken coordinate, such as a station at longitude and latitude 0, is one.
    """
    away = np.abs(x - np.median(x, axis=0))
    far: Any = (away > FAR_OFF * np.quantile(away, 0.9, axis=0)).any(1)
    return far if far.sum() <= max(1, MOST_FAR * len(x)) else np.zeros_like(far)


def own_spacing(x: Float[np.ndarray, "n d"], scales: Float[np.ndarray, " d"], spacing: float) -> float | None:
    """Return the spacing near another one, in units of the scales, at which all points are nodes.

    Points of a picture or of a grid with gaps have one; None is returned where there is none, or where it is less than
    ``FINEST`` of the other one.
    """
    u = (x - x.min(0)) / scales
    steps = [np.diff(np.unique(column)).min(initial=np.inf) for column in u.T]
    step = min(steps)
    if not np.isfinite(step):
        return None
    divided = step / max(1, round(step / spacing))
    misses = np.abs(u / divided - np.round(u / divided)).max()
    return divided if divided >= FINEST * spacing and misses < ON_NODES else None


def scales_of(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n channels"]) -> Float[np.ndarray, " d"]:
    """Return the power of two of each axis, in its units, over which values change as much as along the others.

    All are 1, unless splines through the points without one of them predict it clearly better with others, in the
    geometric mean of the channels. The search starts from 1, or from the extents of the axes where these are better.
    """
    extent = np.ptp(x, axis=0)
    used, result = extent > 0, np.ones(x.shape[1])
    if used.sum() < 2:
        return result
    x, extent = x[:, used], extent[used]
    known = [(np.isfinite(column), column) for column in y.T]
    parts = [_some(x[there], column[there]) for there, column in known if there.sum() >= 8 * len(used)]
    parts = [part for part in parts if np.ptp(part[1]) > 0]
    if not parts:
        return result

    def error(scales: np.ndarray) -> float:
        return float(np.exp(np.mean([np.log(_error(*part, scales)) for part in parts])))

    scales = np.ones(len(extent))
    least = error(scales)
    sized = np.exp2(np.round(np.log2(extent)))
    sized /= sized.max()
    if (of_sized := error(sized)) < GAIN * least:
        scales, least = sized, of_sized
    for _ in range(MOST_DOUBLINGS):
        others = [scales * np.exp2(step) for step in _steps(len(scales))]
        errors = [error(other) for other in others]
        best = int(np.argmin(errors))
        if errors[best] >= GAIN * least:
            break
        scales, least = others[best], errors[best]
    result[used] = scales
    return result


def _steps(dims: int) -> list[np.ndarray]:
    """Return a doubling and a halving of the scale of each axis but one, to which the others are relative."""
    return [sign * np.eye(dims)[j] for j, sign in itertools.product(range(1 if dims == 2 else 0, dims), (1, -1))]


def _some(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return some points that lie as all do, drawn at random, and their values."""
    drawn = np.random.default_rng(0).permutation(len(x))[:TRIED]
    return x[drawn], y[drawn]


def _error(x: np.ndarray, y: np.ndarray, scales: np.ndarray) -> float:
    """Return the squared mean of the errors |c_i / (M⁻¹)_ii| at each point of the cubic spline through the others.

    It is that of the better of two splines: one meets the other points, and one is smoothed, as noise asks for.

    Rippa, "An algorithm for selecting a good value for the parameter c in radial basis function interpolation" (1999).
    """
    u = x / scales
    u = (u - u.mean(0)) / np.ptp(u, axis=0).max()
    kernel, polynomials = cdist(u, u) ** 3, np.column_stack([np.ones(len(u)), u])
    corner, errors = np.zeros((polynomials.shape[1],) * 2), []
    for smoothing in SMOOTHED:
        matrix = np.block([[kernel + smoothing * np.eye(len(u)), polynomials], [polynomials.T, corner]])
        try:
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:  # the points are on a line
            return float("inf")
        missed = (inverse[: len(u), : len(u)] @ y) / np.diag(inverse)[: len(u)]
        errors.append(float(np.abs(missed).mean()) ** 2 if np.isfinite(missed).all() else float("inf"))
    return max(min(errors), LEAST_ERROR * y.var())
