"""The nodes for scattered points: the points' mean distance, the scales of the axes, and the lattice."""

import itertools
import math
import warnings
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial.distance import cdist

from coordnet import _checks
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.point_lattice import PointAxis, PointLattice
from coordnet.sampling.scattered import MARGIN

# Nodes for each mean distance of the points, by the number of axes. In two dimensions, from 3,000 points of Franke's
# function, 1.5 have 2.8 times the error of 2, and 3 have the same at three times the cost. In three dimensions, from
# 2,000 points, 1.25 have half the error of 1.5, as tiles of as many nodes reach further.
NODES = ByAxes({1: 2.0, 2: 2.0, 3: 1.25})
FEWEST_AROUND = 12  # nodes of a periodic axis at least, so that quintic blends do not meet themselves
MOST_NODES = 32  # nodes for each point at most, beside those of ``SMALL_LATTICE``
COARSER = 1.5  # distance of nodes that reach all points, relative to that for all but few far ones, at most
SMALL_LATTICE = 2**14  # nodes of a lattice that is small for any number of points
IN_CELL = 8.0  # points of a cell in the mean, by which the occupied part of the points' box is measured
TRIED = 400  # points that decide on the scales: a likelihood of as many takes a twentieth of a second
NUGGETS = np.array([1e-13, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0])  # variances of noise; the least is rounding
SMOOTHED = (0.0, 1e-4)  # variances of noise on the points, relative to the kernel r³ at the longest extent of them all
LEAST_ERROR = 1e-20  # squared error, relative to the variance, below which it is rounding
# Gains in log-likelihood from which on other scales are taken, and a scale is doubled or halved once more. In 60 clouds
# that were held out, most of them in clusters or tracks, they gain 0.39 dB in the mean over a search by errors alone,
# with a standard error of 0.19 dB; 9 are better and 4 worse.
GAIN, STEP = 5.0, 1.0
# Mean distances of the points in their extent along any axis that no step of the search makes shorter.
LEAST_DISTANCES = 2.0
CLEARLY = 0.8  # ratio of the squared errors below which pixels have scales other than 1
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


def own_spacing(
    x: Float[np.ndarray, "n d"], scales: Float[np.ndarray, " d"], spacing: float
) -> Float[np.ndarray, " d"] | None:
    """Return the spacing of each axis, in units of its scale, at which all points are nodes of one lattice.

    Points of a picture or of a grid with gaps have such spacings. Their geometric mean is near the given ``spacing``,
    unless steps along one axis are so long that they are divided further. None is returned where there are none, or
    where they would be less than ``FINEST`` of the given one.
    """
    u = (x - x.min(0)) / scales
    steps = np.array([np.diff(np.unique(column)).min(initial=np.inf) for column in u.T])
    steps[np.isinf(steps)] = spacing  # along an axis on which all points are equal
    mean = np.exp(np.log(steps).mean())
    near = mean / max(1, round(mean / spacing))
    divided = steps / np.maximum(1, np.round(steps / near))
    misses = np.abs(u / divided - np.round(u / divided)).max()
    return divided if near >= FINEST * spacing and misses < ON_NODES else None


def scales_of(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n channels"]) -> Float[np.ndarray, " d"]:
    """Return the power of two of each axis, in its units, over which values change as much as along the others.

    Searches start from 1 and from the extents of the axes, and go to likelier scales, in the mean of the channels; the
    likelier of both ends is taken. Each step gains ``STEP`` in log-likelihood, and splines through the points without
    one of them predict it better: the likelihood alone is sure of wrong scales where values have edges. No step makes
    the points' extent along an axis shorter than ``LEAST_DISTANCES`` mean distances: the scale of an axis along which
    values are linear, or do not vary, would grow until all points are between two nodes. All are 1 unless the others
    gain ``GAIN`` over that, and have less error; clearly less for pixels, whose texture a likelihood does not know.
    """
    extent = np.ptp(x, axis=0)
    used, result = extent > 0, np.ones(x.shape[1])
    if used.sum() < 2:
        return result
    x, extent = x[:, used], extent[used]
    known = [(np.isfinite(column), column) for column in y.T]
    parts = [_some(x[there], column[there]) for there, column in known if there.sum() >= 8 * len(extent)]
    parts = [part for part in parts if np.ptp(part[1]) > 0]
    if not parts:
        return result

    @cache
    def likelihood(octaves: tuple[float, ...]) -> float:
        return float(np.mean([log_likelihood(*part, np.exp2(octaves)) for part in parts]))

    @cache
    def error(octaves: tuple[float, ...]) -> float:
        return float(np.exp(np.mean([np.log(_error(*part, np.exp2(octaves))) for part in parts])))

    equal = (0.0,) * len(extent)
    sized = np.round(np.log2(extent))

    def climbed(octaves: tuple[float, ...]) -> tuple[float, ...]:
        better = [
            other
            for other in _next(octaves)
            if _shortest(extent, other, len(x)) >= min(LEAST_DISTANCES, _shortest(extent, octaves, len(x)))
            and likelihood(other) > likelihood(octaves) + STEP
            and error(other) < error(octaves)
        ]
        return climbed(max(better, key=likelihood)) if better else octaves

    octaves = max(climbed(equal), climbed(tuple(sized - sized.max())), key=likelihood)
    least = (CLEARLY if _are_pixels(x) else 1.0) * error(equal)
    if likelihood(octaves) > likelihood(equal) + GAIN and error(octaves) < least:
        result[used] = np.exp2(octaves)
    return result


def _shortest(extent: Float[np.ndarray, " d"], octaves: tuple[float, ...], count: int) -> float:
    """Return the least extent of points along an axis, in mean distances, in units of the scales of the axes."""
    relative = extent / np.exp2(octaves)
    return float(relative.min() / (np.prod(relative) / count) ** (1 / len(relative)))


def _are_pixels(x: Float[np.ndarray, "n d"]) -> bool:
    """Return whether points are nodes of a lattice with the same spacing along all axes, as pixels are."""
    steps = [np.diff(np.unique(column)).min() for column in x.T]
    u = (x - x.min(0)) / min(steps)
    return bool(max(steps) < (1 + ON_NODES) * min(steps) and np.abs(u - np.round(u)).max() < ON_NODES)


def _next(octaves: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return a doubling and a halving of the scale of each axis but one, to which the others are relative."""
    dims = len(octaves)
    steps = itertools.product(range(1 if dims == 2 else 0, dims), (1, -1))
    return [tuple(octaves + sign * np.eye(dims)[j]) for j, sign in steps]


def _some(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return some points that lie as all do, drawn at random, and their values."""
    drawn = np.random.default_rng(0).permutation(len(x))[:TRIED]
    return x[drawn], y[drawn]


def log_likelihood(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], scales: Float[np.ndarray, " d"]) -> float:
    """Return the restricted log-likelihood of values at points, up to a constant that does not depend on the scales.

    It is that of the likeliest of some intrinsic random functions of order 1, whose linear trend is left out. Their
    generalized covariances are -r and r³ at distances r in units of the scales, beside white noise of ``NUGGETS``
    relative to the mean eigenvalue. The first are as rough as terrain, the others as cubic splines. Errors at points
    say less where these come in clusters or tracks, as near ones predict them whatever the scales are.

    Notes
    -----
    Matheron, "The intrinsic random functions and their applications" (1973); Kitanidis, "Statistical estimation of
    polynomial generalized covariance functions and hydrologic applications" (1983).
    """
    trend = np.column_stack([np.ones(len(x)), x - x.mean(0)])
    contrasts = np.linalg.qr(trend, mode="complete")[0][:, trend.shape[1] :]
    u, z, likelihoods = x / scales, contrasts.T @ y, []
    r = cdist(u, u)
    for covariance in (-r, r**3):
        sizes, axes = np.linalg.eigh(contrasts.T @ covariance @ contrasts)
        variances = (np.maximum(sizes, 0) / sizes.mean())[:, None] + NUGGETS
        energy = np.square(axes.T @ z) @ (1 / variances) / len(z)
        energy = np.maximum(energy, np.finfo(float).tiny)  # that of a plane is 0
        likelihoods.append(-0.5 * float((np.log(variances).sum(0) + len(z) * np.log(energy)).min()))
    return max(likelihoods)


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


def nodes_reaching(
    x: np.ndarray, names: tuple[str, ...], periods: dict[str, float], units: dict[str, str], scales: np.ndarray
) -> tuple[Bool[np.ndarray, " n"], PointLattice]:
    """Return which points nodes reach, and these nodes: all, unless few far ones would make them ``COARSER``."""
    lattice, near = _lattice(x, names, periods, units, scales), ~far_off(x / scales) | bool(periods)
    alone = lattice if near.all() else _lattice(x[near], names, periods, units, scales)
    if (lattice.steps <= COARSER * alone.steps).all():
        return np.ones_like(near), lattice
    text = f"`coordinates`: {(~near).sum()} of {len(x)} points far from all others are left out; fit them apart"
    warnings.warn(text, _checks.CoordnetWarning, stacklevel=3)
    return near, alone


def _lattice(
    x: np.ndarray, names: tuple[str, ...], periods: dict[str, float], units: dict[str, str], scales: np.ndarray
) -> PointLattice:
    """Return the nodes for points: ``NODES`` for each mean distance, and ``MARGIN`` beyond the outermost points.

    On a circle they begin where the widest gap of the points ends, so that points on both sides of the date line lie
    beside each other.
    """
    lowest, highest = x.min(0).tolist(), x.max(0).tolist()
    x = x.copy()
    for name, length in periods.items():
        x[:, names.index(name)] = _after_widest_gap(x[:, names.index(name)], length)
    low, extent = x.min(0), np.ptp(x, axis=0)
    around = np.array([periods.get(name, 0.0) for name in names])
    dims = max(1, int((extent > 0).sum()))
    spacing = mean_distance(x / scales) / NODES[dims]
    while True:
        h = spacing * scales
        open_counts = np.ceil(extent / h) + 1 + 2 * MARGIN[dims]
        closed_counts = np.maximum(np.ceil(around / h), FEWEST_AROUND)
        counts = np.where(extent == 0, 1, np.where(around > 0, closed_counts, open_counts))
        if math.prod(counts) <= MOST_NODES * len(x) + SMALL_LATTICE:
            break
        spacing *= 1.25
    own = None if periods else own_spacing(x, scales, spacing)
    if own is not None:
        h = own * scales
        counts = np.where(extent == 0, 1, np.round(extent / h) + 1 + 2 * MARGIN[dims])
    axes = []
    for j, name in enumerate(names):
        count, period = int(counts[j]), periods.get(name)
        first = low[j] if period or count == 1 else low[j] + (extent[j] - (count - 1) * h[j]) / 2
        step = period / count if period else 1.0 if count == 1 else h[j]
        ends = lowest[j], highest[j]
        axes.append(PointAxis(name, float(first), float(step), count, period, units.get(name), *ends))
    return PointLattice(*axes)


def _after_widest_gap(x: Float[np.ndarray, " n"], period: float) -> Float[np.ndarray, " n"]:
    """Return coordinates on a circle from the end of its widest gap on."""
    around = np.unique(np.mod(x, period))
    start = around[(np.diff(around, append=around[0] + period).argmax() + 1) % len(around)]
    return start + np.mod(x - start, period)


def nodes_on_sphere(x: np.ndarray, names: tuple[str, ...], latitude: int, units: dict[str, str]) -> PointLattice:
    """Return nodes on the whole sphere, half the points' mean distance on it apart along meridian and equator."""
    east, north = np.radians(x[:, 1 - latitude] % 360), np.sin(np.radians(x[:, latitude]))  # an equal-area map
    rows = math.ceil(math.pi * NODES[2] / mean_distance(np.stack([east, north], -1)))
    rows = min(max(rows, FEWEST_AROUND), math.isqrt(MOST_NODES * len(x) + SMALL_LATTICE) // 2)
    step, axes = 180 / rows, []
    for j, name in enumerate(names):
        if j == latitude:
            unit = units.get(name, "degrees_north")
            axes.append(PointAxis(name, step / 2 - 90, step, 2 * rows, 360.0, unit, -90.0, 90.0, over_poles=True))
        else:
            low, high = float(x[:, j].min()), float(x[:, j].max())
            axes.append(PointAxis(name, 0.0, step, 2 * rows, 360.0, units.get(name, "degrees_east"), low, high))
    return PointLattice(*axes)
