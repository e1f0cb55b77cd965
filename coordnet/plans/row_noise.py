"""White noise on a whole row, among signals that may vary nearly like it: its standard deviation by likelihoods."""

import math

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import toeplitz

from coordnet.plans.autoregression import autoregression
from coordnet.plans.matern import Decomposed, covariance, decomposed, restricted_likelihoods
from coordnet.plans.nugget import NUGGETS, shared_noise, window_covariances

# Samples of a window, and the largest number of windows. More samples, 128 and 196, estimate the noise of 30 rows worse
# (2 to 30 % of their deviation), as more rows change within windows; with 32 samples more rows seem to have noise.
ROW_WINDOW, MOST_WINDOWS = 64, 200
# Exponents H of fractional Gaussian noises that may explain a row alone; with 0.5 it is white. Of 25 rows with noise of
# 0.01, 0.03, 0.05 and 0.1 of the range, 5 estimates are worse than the noisy row, 17 without ``_alike``. On 62 others
# the means of two panels change by 0.2 to 0.9 dB below 0.05, and by -0.2 and -0.3 dB for 0.1: a few keep their noise.
HURST = (0.6, 0.75, 0.9)
SHORT_SCALES = (0.5, 0.7, 1.4)  # scales in samples of autoregressions of order 1 that may, too
# Gain in log-likelihood by sample from which on an autoregression is far likelier than these: tones and resonances have
# 0.13 to 2, others at most 0.09.
FAR_LIKELIER = 0.1
# Quantile of its spectrum that is noise, how many times that the median power may be if the spectrum has a flat floor,
# and the frequencies that tell these. On 16 rows of tones and of a day's course with noise, the quantile finds 0.75 to
# 0.91 of the noise's deviation. The median power is at most 1.52 times that in tones with noise, and 2 to 10 times that
# in sunspots, the temperature of a sea and damped resonances without noise.
FLOOR_QUANTILE, FLAT_FLOOR, FREQUENCIES = 0.3, 1.55, 2**13
LIKELY = 1.92  # fall of the logarithm of the likelihood at an end of an interval of 95 %


def row_noise(row: Float[np.ndarray, "length channels"]) -> float:
    """Return the standard deviation of white noise on a whole row, whose channels are in one unit.

    It is that of the likeliest explanation of the row's windows: a process of each window's own, with noise that all
    share (``shared_noise``) or without any, or one process of all windows (``_alike``), whose parameters are fewer. By
    Akaike's criterion each parameter counts 1 in the logarithm of the likelihood.

    Akaike, "A new look at the statistical model identification" (1974).
    """
    length = min(len(row), ROW_WINDOW)
    spare = len(row) - length
    firsts = np.linspace(0, spare, min(math.ceil(spare / length) + 1, MOST_WINDOWS)).round().astype(int)
    y = sliding_window_view(row, length, 0)[firsts].reshape(-1, length).T
    y = y[:, np.ptp(y, axis=0) > 0]
    if y.size == 0:
        return 0.0
    shared = shared_noise(y, window_covariances((length,)))
    fewer = 2 * y.shape[1] - 1  # parameters: each window has a variance and a scale of its own, beside the noise
    likelihood, variance = _alike(y)
    explained = (likelihood + fewer, variance), (shared.likelihood, shared.variance), (float(shared.without.sum()), 0.0)
    return math.sqrt(max(explained)[1])


def _alike(y: Float[np.ndarray, "samples windows"]) -> tuple[float, float]:
    """Return the log-likelihood of windows that all have one process of one variance, and the variance of the noise.

    The noise is the least one within ``LIKELY`` of the greatest likelihood: a row that varies nearly like noise all
    along can hardly be told from it, and smoothing would cost more than it can gain. If white noise alone is as likely,
    it is the greatest one. Beside the processes of windows there are fractional Gaussian noises, whose power falls with
    the power 2H - 1 of the frequency.

    None of these explains tones among noise. Where one autoregression whose spectrum has a flat floor is far likelier
    than all of them, its likelihood and noise are returned.

    Mandelbrot and van Ness, "Fractional Brownian motions, fractional noises and applications" (1968).
    """
    lags = np.abs(np.subtract.outer(np.arange(len(y)), np.arange(len(y))))
    rough = [0.5 * ((lags + 1) ** e - 2 * lags**e + np.abs(lags - 1) ** e) for e in 2 * np.array(HURST)]
    rough += [covariance(0.5, lags / scale) for scale in SHORT_SCALES]
    kinds = [*window_covariances((len(y),)), *map(decomposed, rough)]
    totals, noises = map(np.array, zip(*(_of_one_variance(k, y, NUGGETS) for k in kinds), strict=True))
    greatest, autoregressed = float(np.max(totals)), _autoregressed(y)
    if autoregressed[0] > greatest + FAR_LIKELIER * y.size:
        return autoregressed
    likely = totals >= greatest - LIKELY
    return greatest, float((np.max if likely[:, -1].any() else np.min)(noises[likely]))


def _of_one_variance(
    k: Decomposed, y: Float[np.ndarray, "samples windows"], nuggets: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the log-likelihood of windows that share one variance of a process, and of the noise, for each nugget."""
    likelihoods, variances = restricted_likelihoods(k, y[:, None], nuggets)
    shared = variances.mean(0)
    return (likelihoods + 0.5 * (len(y) - 1) * np.log(variances / shared)).sum(0), shared * nuggets


def _autoregressed(y: Float[np.ndarray, "samples windows"]) -> tuple[float, float]:
    """Return the log-likelihood of windows of one autoregression, less its order, and the variance of its noise.

    That is a low power of its spectrum. If the spectrum has no flat floor it tells no noise, and the logarithm is -inf.
    """
    y = y - y.mean()
    a, left = autoregression(y, len(y) // 2)
    power = left * np.square(y).mean() / np.square(np.abs(np.fft.fft(a, FREQUENCIES)))
    floor, half = np.quantile(power, (FLOOR_QUANTILE, 0.5))
    if half > FLAT_FLOOR * floor:
        return -math.inf, 0.0
    k = decomposed(toeplitz(np.fft.ifft(power).real[: len(y)] / power.mean()))
    return float(_of_one_variance(k, y, np.zeros(1))[0][0]) - (len(a) - 1), float(floor)
