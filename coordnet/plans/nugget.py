"""The nugget of samples on a lattice with gaps: the standard deviation of white noise, as close samples show it."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import nnls
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from coordnet.plans.hold_out import middle
from coordnet.plans.matern import Decomposed, covariance, decomposed, pivoted, restricted_likelihoods
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Samples

NUGGET_NODES = 2**16  # nodes in the middle of a lattice that are used, at most
FEWEST_KNOWN = 100  # samples among them below which no noise is estimated
MOST_SAMPLES = 4000  # samples that are predicted by their neighbors, at most
WINDOW_SAMPLES = 16  # neighboring samples whose mean squared error of prediction is that of a window
FLATTEST = 0.25  # share of the windows by which the noise is estimated: those of the least mean square
# Mean square of those windows relative to that of all windows, where all is white noise, by the number of rings.
CHANCE = {1: 0.5, 2: 0.57}
# Relative deviation of what a linear variogram explains of the errors, below which samples are predicted by a second
# ring of neighbors, too: with one distance alone noise cannot be told. Of 39 fields with holes 9 seemed to have no
# noise without the second ring, and 2 with it.
EQUALLY_FAR = 0.2
REWEIGHTINGS = 4  # rounds of weighted least squares
GRAIN = 3 / 255  # deviation relative to the range of the samples up to which noise counts as the grain of a photograph
# Variance of the noise, relative to the squared error at hidden samples (which includes the noise), from which on
# weights take the noise into account. At 0.33, 3 of 36 noisy fields of 64² nodes are 0.1 to 1.5 dB worse, and none is
# better.
SHOWS = 0.2
WINDOW = ByAxes({1: 196, 2: 14, 3: 6})  # samples along each axis of a window of a lattice that skips nodes
# Smoothness and length scales, in samples, of the Gaussian processes that windows of such a lattice are compared with,
# and variances of the noise on them, relative to the process's.
WINDOW_SMOOTHNESSES, WINDOW_SCALES = (0.5, 1.5, 2.5), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# Along each axis in turn the processes may vary ``STRETCH`` times less: a field that varies more along one axis looks
# as if it had noise otherwise. Exponents p of covariances exp(-r^p), and their scales: rough signals without noise.
STRETCH, STRETCHED_SMOOTHNESSES, STRETCHED_SCALES = 3.0, (0.5, 1.5), (1.0, 2.0, 4.0, 8.0)
ROUGH_EXPONENTS, ROUGHEST_EXPONENTS, ROUGH_SCALES = (0.75, 1.25, 1.5), (0.25, 0.5), (1.0, 4.0, 16.0, 64.0)
# Variances of noise that are tried on windows, relative to their mean square, and relative to a window's process.
NOISES, NUGGETS = np.geomspace(1e-8, 4, 98), np.array([0.0, *np.geomspace(1e-7, 1e3, 31)])
HALF_WITHIN = 0.6745  # deviations of a normal distribution within which half of the values are
LIKELIER = 4.0  # least gain in log-likelihood by noise that all windows of a lattice share
MOST_LATTICE_WINDOWS = 64  # windows of a lattice that tell its noise at most, spread over it
LATTICE_GRAIN = 0.007  # that grain on a lattice that skips nodes: 171 of 186 crops of pictures have less
NEIGHBOR_REACH = ByAxes({1: 4, 2: 2, 3: 1})  # largest distance along each axis of the neighbors that predict a sample
HIDDEN_PARTS = 4  # parts of a lattice that are hidden in turn to find the error of that prediction
# Least squared error of that prediction relative to the estimated variance of the noise: white noise cannot be
# predicted, so that the ratio is 1 or more but for errors of the estimates. It is at least 1.04 in the 24 of 64 fields
# and rows in which white noise of 0.1 of the range is seen. On a seismogram it is 0.47 without noise, and 0.74 with
# noise of 0.05, which is estimated twice as large.
LEAST_ERROR = 0.9

Points = Float[np.ndarray, "_ axes"]


def nugget(samples: Samples, anisotropy: tuple[float, ...] = ()) -> float:
    """Return the standard deviation of white noise on samples of a lattice with gaps.

    It is 0 for other samples, and for noise that may be the grain of a photograph. All channels must be in one unit.

    Every sample is predicted by the plane through its nearest neighbors. The expected squared error is a sum of two
    terms: the variance of the noise, and a multiple of the error for a process of linear variogram, which vanishes with
    the distance of the neighbors. Both are found by least squares in the flattest windows. Where all neighbors are
    about as far, the next ones predict every sample, too. The variance that is left at distance zero is called a
    nugget.

    On a lattice that skips nodes this fails, since all nearest neighbors are at the same distance. There each window is
    compared with Gaussian processes of Matérn's covariance, beside noise that all windows share, and with these and
    rougher ones without noise; there is noise if that is likelier. Two things are mistaken for noise and ruled out:
    fine texture of a picture is in all channels alike, so that only differences of channels are compared; a narrow band
    of frequencies is predicted by neighbors (``unpredicted``).

    On a lattice with gaps the ``anisotropy`` a_j scales distances to (Σ x_j² / a_j)^(1/2). With three axes or more,
    texture that moves is mistaken for noise, too: the variance is at most the error with which samples that have all
    neighbors are predicted.

    Cressie, "Statistics for Spatial Data" (1993), section 2.4.
    """
    geometry, part = samples.geometry, middle(samples.geometry.shape, NUGGET_NODES)
    has_gaps = geometry.weights is not None or geometry.is_strided
    if not has_gaps or not geometry.is_nodal:
        return 0.0
    values = samples.values.detach()[part].cpu().double().numpy()
    known = np.broadcast_to((geometry.full_weights[part] > 0).cpu().numpy(), values.shape)
    if not known.any():
        return 0.0
    if geometry.is_strided:
        variance = _lattice_variance(values)
    else:
        channels = zip(np.moveaxis(known, -1, 0), np.moveaxis(values, -1, 0), strict=True)
        variance = float(np.mean([_variance(mask, y, anisotropy) for mask, y in channels]))
        if values.ndim > 3 and variance:
            errors = unpredicted(values, known)
            variance = min(variance, float(np.square(errors).mean()) if errors.size else math.inf)
    deviation, grain = math.sqrt(variance), LATTICE_GRAIN if geometry.is_strided else GRAIN
    return deviation if deviation > grain * float(np.ptp(values[known])) else 0.0


def _variance(
    known: Bool[np.ndarray, "*lattice"], values: Float[np.ndarray, "*lattice"], anisotropy: tuple[float, ...]
) -> float:
    points, y = np.stack(np.nonzero(known), 1) / np.sqrt(anisotropy or 1.0), values[known]
    if len(y) < FEWEST_KNOWN:
        return 0.0
    chosen = np.random.default_rng(0).permutation(len(y))[:MOST_SAMPLES]
    count = 2 * (points.shape[1] + 1)
    nearest: Any = KDTree(points).query(points[chosen], 2 * count + 1)
    distances, near = (part[:, 1:] for part in nearest)  # the nearest is the point itself
    rings = [_errors(points, y, chosen, distances[:, :count], near[:, :count])]
    if rings[0][1].std() < EQUALLY_FAR * rings[0][1].mean():
        rings.append(_errors(points, y, chosen, distances[:, count:], near[:, count:]))
    errors, farther = map(np.array, zip(*rings, strict=True))
    return _at_distance_zero(points[chosen], np.square(errors), farther)


def _lattice_variance(values: Float[np.ndarray, "*lattice channels"]) -> float:
    *shape, channels = values.shape
    axes = sum(n > 1 for n in shape)
    if values[..., 0].size < FEWEST_KNOWN or axes > 3:
        return 0.0
    if channels > 1:
        values = (values - values.mean(-1, keepdims=True)) * math.sqrt(channels / (channels - 1))
    window = tuple(min(n, WINDOW[axes]) for n in shape)
    every = sliding_window_view(values, window, tuple(range(len(shape))))
    y = every[tuple(slice(None, None, n) for n in window)].reshape(-1, math.prod(window)).T
    y = y[:, np.ptp(y, axis=0) > 0]
    if y.size == 0:
        return 0.0
    y = y[:, np.linspace(0, y.shape[1] - 1, min(y.shape[1], MOST_LATTICE_WINDOWS)).round().astype(int)]
    smooth, plain, roughest = _lattice_covariances(window)
    shared = shared_noise(y, smooth)
    rivals = [*plain, *roughest] if channels == 1 else plain  # texture of one channel may be nearly white
    without = [restricted_likelihoods(k, y[:, None], np.zeros(1))[0][:, 0] for k in rivals]
    gain = shared.likelihood - np.max([shared.without, *without], 0).sum()
    errors = unpredicted(values)
    # Noise is everywhere, so that most errors are as large; those at edges and spikes are few.
    usual = (float(np.median(np.abs(errors))) / HALF_WITHIN) ** 2
    shows = SHOWS * float(np.square(errors).mean()) < shared.variance
    is_noise = gain > LIKELIER and shows and LEAST_ERROR * shared.variance < usual
    return shared.variance if is_noise else 0.0


def unpredicted(
    values: Float[np.ndarray, "*lattice channels"], known: Bool[np.ndarray, "*lattice channels"] | None = None
) -> Float[np.ndarray, " n"]:
    """Return the errors of the best linear prediction of samples by their neighbors, cross-validated.

    White noise cannot be predicted, so that their variance is at least that of the noise. Neighbors in opposite
    directions have the same coefficient. There are none if fewer than ``FEWEST_KNOWN`` known samples have all
    neighbors.
    """
    shape = values.shape[:-1]
    reach = [min(NEIGHBOR_REACH[sum(n > 1 for n in shape)], (n - 1) // 2) for n in shape]
    size, axes = [2 * r + 1 for r in reach], tuple(range(len(shape)))
    around = sliding_window_view(values, size, axes).reshape(-1, math.prod(size))
    if known is not None:
        around = around[sliding_window_view(known, size, axes).reshape(around.shape).all(1)]
        if len(around) < FEWEST_KNOWN:
            return np.zeros(0)
    half = around.shape[1] // 2
    pairs, own = around[:, :half] + around[:, :half:-1], around[:, half]
    pairs = np.concatenate([pairs, np.ones((len(own), 1))], 1)
    errors = []
    for hidden in np.array_split(np.arange(len(own)), HIDDEN_PARTS):
        shown = np.ones(len(own), dtype=bool)
        shown[hidden] = False
        weights = np.linalg.lstsq(pairs[shown], own[shown])[0]
        errors.append(own[hidden] - pairs[hidden] @ weights)
    return np.concatenate(errors)


class SharedNoise(NamedTuple):
    """White noise that all windows of a signal share, and what speaks for it."""

    variance: float  # the variance of greatest likelihood
    likelihood: float  # the logarithm of that likelihood, of all windows together
    without: Float[np.ndarray, " windows"]  # that of each window, by the likeliest process without noise


def shared_noise(y: Float[np.ndarray, "samples windows"], processes: Sequence[Decomposed]) -> SharedNoise:
    """Return the noise of greatest likelihood for windows, each of which has the process that suits it best beside it.

    With the variance v of a process of largest likelihood l for a nugget g, the likelihood for noise of variance s², so
    that the process has s² / g, is l - f / 2 (r - 1 - log r) with r = v g / s² and f degrees of freedom.
    """
    by_process = [restricted_likelihoods(k, y[:, None], NUGGETS) for k in processes]
    likelihoods, variances = (np.stack(part, 1) for part in zip(*by_process, strict=True))
    tried, totals = float(np.square(y - y.mean(0)).mean()) * NOISES, []
    for variance in tried:
        r = variances[..., 1:] * NUGGETS[1:] / variance
        totals.append((likelihoods[..., 1:] - 0.5 * (len(y) - 1) * (r - 1 - np.log(r))).max((1, 2)).sum())
    best = int(np.argmax(totals))
    return SharedNoise(float(tried[best]), float(totals[best]), likelihoods[..., 0].max(1))


@lru_cache(maxsize=4)
def window_covariances(window: tuple[int, ...]) -> list[Decomposed]:
    """Return the covariances of a window's samples under each process that it is compared with."""
    nodes = np.indices(window).reshape(len(window), -1).T
    between = cdist(nodes, nodes)
    kinds = product(WINDOW_SMOOTHNESSES, WINDOW_SCALES)
    return [decomposed(covariance(smoothness, between / scale)) for smoothness, scale in kinds]


@lru_cache(maxsize=4)
def _lattice_covariances(window: tuple[int, ...]) -> tuple[list[Decomposed], ...]:
    """Return the covariances of a window with which noise is weighed, and two kinds of those without noise.

    The first of these are rough, or have lines along an axis that do not tell of each other. The second are white, or
    nearly so.
    """
    nodes = np.indices(window).reshape(len(window), -1).T
    long = [axis for axis, n in enumerate(window) if n > 1]
    kinds = list(product(long if len(long) > 1 else (), STRETCHED_SMOOTHNESSES, STRETCHED_SCALES))

    def along(axis: int, ratio: float, smoothness: float, scale: float) -> Float[np.ndarray, "n n"]:
        x = nodes / (scale * np.where(np.arange(len(window)) == axis, 1.0, ratio))
        return covariance(smoothness, cdist(x, x))

    stretched = [decomposed(along(axis, 1 / STRETCH, *kind)) for axis, *kind in kinds]
    between = cdist(nodes, nodes)
    lines = [pivoted(along(axis, 1e-3, *kind)) for axis, *kind in kinds]
    rough, roughest = (
        [pivoted(np.exp(-((between / scale) ** p))) for p, scale in product(exponents, ROUGH_SCALES)]
        for exponents in (ROUGH_EXPONENTS, ROUGHEST_EXPONENTS)
    )
    white = np.ones(len(nodes)), np.eye(len(nodes))
    return [*window_covariances(window), *stretched], [*rough, *lines], [*roughest, white]


def _errors(
    points: Points, y: Float[np.ndarray, " n"], chosen: np.ndarray, distances: np.ndarray, near: np.ndarray
) -> tuple[Float[np.ndarray, " chosen"], Float[np.ndarray, " chosen"]]:
    """Return errors of prediction by planes through neighbors, and the expected squares for a linear variogram.

    Both are scaled so that white noise of variance 1 has errors of variance 1.
    """
    offsets = points[near] - points[chosen, None]
    plane = np.concatenate([np.ones((*near.shape, 1)), offsets], 2)
    a = np.linalg.pinv(plane / distances[:, :, None])[:, 0] / distances  # weights of the neighbors
    own = 1 + np.square(a).sum(1)
    between = np.linalg.norm(offsets[:, :, None] - offsets[:, None], axis=-1)
    farther = 2 * (a * distances).sum(1) - np.einsum("nj,njk,nk->n", a, between, a)
    return (y[chosen] - (a * y[near]).sum(1)) / np.sqrt(own), farther / own


def _at_distance_zero(
    places: Points, squares: Float[np.ndarray, "rings chosen"], farther: Float[np.ndarray, "rings chosen"]
) -> float:
    """Return the part of squared errors that is left at distance zero, in the flattest windows of some samples.

    ``farther`` is the part that a linear variogram explains, up to a factor.
    """
    windows: Any = KDTree(places).query(places, WINDOW_SAMPLES)[1]
    energies = squares.mean(0)[windows].mean(1)
    rings, flat = len(squares), windows[energies <= np.quantile(energies, FLATTEST)].ravel()
    squares, farther = squares[:, flat].ravel(), farther[:, flat].ravel()
    parts = np.stack([np.ones(len(squares)), farther], 1)
    parts_of_error, weights = np.zeros(2), np.ones(len(squares))
    for _ in range(REWEIGHTINGS):
        parts_of_error = nnls(parts * weights[:, None], squares * weights)[0]
        expected = parts @ parts_of_error
        weights = expected.mean() / np.maximum(expected, 1e-3 * expected.mean()) if expected.any() else weights
    return float(parts_of_error[0]) / CHANCE[rings]
