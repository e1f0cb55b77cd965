"""The nugget of samples on a lattice with gaps: the standard deviation of white noise, as close samples show it."""

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import nnls
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from coordnet.plans.hold_out import middle
from coordnet.plans.matern import Decomposed, covariance, decomposed, restricted_likelihoods
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
WINDOW_NUGGETS = (0.0, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 10.0, 100.0)
# Samples of a window of a whole row, and the largest number of windows. ``ROW_NOISES`` are the variances of noise that
# are tried, relative to the mean square of the windows, and ``ROW_NUGGETS`` those relative to the variance of a
# window's process. On 30 rows with noise of 2 to 30 % of their deviation, windows of 128 and 196 samples estimate it
# worse, as more rows change within them; with 32 samples more rows seem to have noise.
ROW_WINDOW, MOST_WINDOWS = 64, 200
ROW_NOISES, ROW_NUGGETS = np.geomspace(1e-8, 4, 98), np.array([0.0, *np.geomspace(1e-7, 1e3, 31)])
# Exponents H of fractional Gaussian noises that may explain a row alone; with 0.5 it is white. Of 25 rows with noise of
# 0.01, 0.03, 0.05 and 0.1 of the range, 5 estimates are worse than the noisy row, 17 without ``_alike``. On 62 others
# the means of two panels change by 0.2 to 0.9 dB below 0.05, and by -0.2 and -0.3 dB for 0.1: a few keep their noise.
HURST = (0.6, 0.75, 0.9)
SHORT_SCALES = (0.5, 0.7, 1.4)  # scales in samples of autoregressions of order 1 that may, too
LIKELY = 1.92  # fall of the logarithm of the likelihood at an end of an interval of 95 %
# Least gain in log-likelihood by noise, for each sample and in the median of the windows, with which noise is found. It
# was settled on 256 crops of gray photographs, in which texture gains up to 0.046, and 39 fields with noise of 0.05 in
# [0, 1].
LIKELIER = 0.05
# Deviation relative to the range up to which noise on such a lattice is not removed: the grain of photographs is alike
# at neighboring nodes, so that smoothing loses up to 5 dB between the samples.
LATTICE_GRAIN = 0.03
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
    compared with Gaussian processes of Matérn's covariance, with noise and without, and there is noise if windows are
    much likelier with it. Two things are mistaken for noise and ruled out: fine texture of a picture is in all channels
    alike, so that only differences of channels are compared; a narrow band of frequencies is predicted by neighbors
    (``unpredicted``).

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
            variance = min(variance, unpredicted(values, known))
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
    gains, variances = gains_by_noise(y, window, white=channels == 1)
    variance = float(np.median(variances))
    is_noise = np.median(gains) > LIKELIER * len(y) and variance * LEAST_ERROR < unpredicted(values)
    return variance if is_noise else 0.0


def row_noise(row: Float[np.ndarray, "length channels"]) -> float:
    """Return the standard deviation of white noise on a whole row, whose channels are in one unit.

    It is the one of greatest likelihood for all windows of the row, each of which has the Gaussian process that suits
    it best beside this noise; 0 if processes without noise are likelier. With the variance v of a process of largest
    likelihood l for a nugget g, the likelihood for noise of variance s², so that the process has s² / g, is
    l - f / 2 (r - 1 - log r) with r = v g / s² and f degrees of freedom. Where one process without noise explains all
    windows, as its parameters are fewer, the noise is what it leaves (``_alike``): by Akaike's criterion each parameter
    counts 1 in the logarithm.

    Akaike, "A new look at the statistical model identification" (1974).
    """
    length = min(len(row), ROW_WINDOW)
    spare = len(row) - length
    firsts = np.linspace(0, spare, min(math.ceil(spare / length) + 1, MOST_WINDOWS)).round().astype(int)
    y = sliding_window_view(row, length, 0)[firsts].reshape(-1, length).T
    y = y[:, np.ptp(y, axis=0) > 0]
    if y.size == 0:
        return 0.0
    by_process = [restricted_likelihoods(k, y[:, None], ROW_NUGGETS) for k in _window_covariances((length,))[:-1]]
    likelihoods, variances = (np.stack(part, 1) for part in zip(*by_process, strict=True))
    tried, totals = float(np.square(y - y.mean(0)).mean()) * ROW_NOISES, []
    for variance in tried:
        r = variances[..., 1:] * ROW_NUGGETS[1:] / variance
        totals.append((likelihoods[..., 1:] - 0.5 * (length - 1) * (r - 1 - np.log(r))).max((1, 2)).sum())
    own = likelihoods[..., 0].max(1).sum()
    best, alike, low = max(totals), *_alike(y)
    fewer = 2 * y.shape[1] - 1  # parameters: each window has a variance and a scale of its own, beside the noise
    if max(best, own) < alike + fewer:
        return low
    return math.sqrt(tried[np.argmax(totals)]) if best > own else 0.0


def _alike(y: Float[np.ndarray, "samples windows"]) -> tuple[float, float]:
    """Return the log-likelihood of windows that all have one process of one variance, and the deviation of the noise.

    The likelihood is that without noise. The deviation is the least one within ``LIKELY`` of the greatest likelihood: a
    row that varies nearly like noise all along can hardly be told from it, and smoothing would cost more than it can
    gain. If white noise alone is as likely, it is the greatest one. Beside the processes of windows there are
    fractional Gaussian noises, whose power falls with the power 2H - 1 of the frequency.

    Mandelbrot and van Ness, "Fractional Brownian motions, fractional noises and applications" (1968).
    """
    length, lags = len(y), np.abs(np.subtract.outer(np.arange(len(y)), np.arange(len(y))))
    rough = [0.5 * ((lags + 1) ** e - 2 * lags**e + np.abs(lags - 1) ** e) for e in 2 * np.array(HURST)]
    rough += [covariance(0.5, lags / scale) for scale in SHORT_SCALES]
    totals, noises = [], []
    for k in [*_window_covariances((length,))[:-1], *map(decomposed, rough)]:
        likelihoods, variances = restricted_likelihoods(k, y[:, None], ROW_NUGGETS)
        shared = variances.mean(0)
        totals.append((likelihoods + 0.5 * (length - 1) * np.log(variances / shared)).sum(0))
        noises.append(shared * ROW_NUGGETS)
    likely = np.array(totals) >= np.max(totals) - LIKELY
    chosen = np.max if likely[:, -1].any() else np.min
    return float(np.max(totals, 0)[0]), math.sqrt(chosen(np.array(noises)[likely]))


def unpredicted(
    values: Float[np.ndarray, "*lattice channels"], known: Bool[np.ndarray, "*lattice channels"] | None = None
) -> float:
    """Return the mean squared error of the best linear prediction of samples by their neighbors, cross-validated.

    White noise cannot be predicted, so that the error is at least its variance. Neighbors in opposite directions have
    the same coefficient. It is infinite if fewer than ``FEWEST_KNOWN`` known samples have all neighbors.
    """
    shape = values.shape[:-1]
    reach = [min(NEIGHBOR_REACH[sum(n > 1 for n in shape)], (n - 1) // 2) for n in shape]
    size, axes = [2 * r + 1 for r in reach], tuple(range(len(shape)))
    around = sliding_window_view(values, size, axes).reshape(-1, math.prod(size))
    if known is not None:
        around = around[sliding_window_view(known, size, axes).reshape(around.shape).all(1)]
        if len(around) < FEWEST_KNOWN:
            return math.inf
    half = around.shape[1] // 2
    pairs, own = around[:, :half] + around[:, :half:-1], around[:, half]
    pairs = np.concatenate([pairs, np.ones((len(own), 1))], 1)
    squares = 0.0
    for hidden in np.array_split(np.arange(len(own)), HIDDEN_PARTS):
        shown = np.ones(len(own), dtype=bool)
        shown[hidden] = False
        weights = np.linalg.lstsq(pairs[shown], own[shown])[0]
        squares += float(np.square(own[hidden] - pairs[hidden] @ weights).sum())
    return squares / len(own)


def gains_by_noise(
    y: Float[np.ndarray, "samples windows"], window: tuple[int, ...], *, white: bool
) -> tuple[Float[np.ndarray, " windows"], Float[np.ndarray, " windows"]]:
    """Return the gain in each window's log-likelihood by noise, and the variance of that noise.

    Both likelihoods are those of the process that suits the window best. With ``white``, that without noise may be
    white itself, as texture of one channel may be.
    """
    nuggets = np.array(WINDOW_NUGGETS)
    by_process = [restricted_likelihoods(k, y[:, None], nuggets) for k in _window_covariances(window)]
    likelihoods, variances = (np.stack(part, 1) for part in zip(*by_process, strict=True))
    noisy, noises = (x[:, :-1, 1:].reshape(y.shape[1], -1) for x in (likelihoods, variances * nuggets))
    plain = likelihoods[:, : None if white else -1, 0].max(1)
    return noisy.max(1) - plain, np.take_along_axis(noises, noisy.argmax(1)[:, None], 1)[:, 0]


@lru_cache(maxsize=4)
def _window_covariances(window: tuple[int, ...]) -> list[Decomposed]:
    """Return the covariances of a window's samples under each process that it is compared with; the last is white."""
    nodes = np.indices(window).reshape(len(window), -1).T
    between = cdist(nodes, nodes)
    kinds = product(WINDOW_SMOOTHNESSES, WINDOW_SCALES)
    smooth = [decomposed(covariance(smoothness, between / scale)) for smoothness, scale in kinds]
    return [*smooth, (np.ones(len(nodes)), np.eye(len(nodes)))]


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
