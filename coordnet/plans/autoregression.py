"""Autoregressions of rows with gaps, and the best linear unbiased prediction of these from both sides."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import solve_triangular, solveh_banded
from scipy.signal import lfilter
from torch import Tensor

from coordnet.linalg.operators import LinearOperator

# The coefficients of an autoregression, the first of which is 1, and the variance that it leaves of the signal's.
Autoregression = tuple[Float[np.ndarray, " _"], float]

LEAST_LEFT = 1e-13  # variance that an autoregression leaves, relative to that of the signal, below which it is rounding
# Such a variance below which a signal is taken for tones, and how many times more terms than Burg's tell these; the
# first that has runs is taken. Of 17 rows of tones and smooth curves with gaps, 12 are filled by 2 to 170 dB
# better than by Burg's, and one is 3 dB worse.
NEARLY_EXACT, MORE_TERMS = 1e-10, (4, 2, 1)
MOST_ENTRIES = 2**23  # entries of the least squares at most
QUIET_RUNS = 0.5  # mean square of runs, relative to that of the signal, up to which they are its quiet parts
DAMPINGS = 2.0 ** -np.arange(30, 5, -1)  # falls of a pole's modulus that are tried in turn, until all are within 1
DIAGONAL_SURPLUS = 1e-14  # relative increase of the diagonal of matrices that rounding might make indefinite


def autoregression(
    u: Float[np.ndarray, "n signals"], most: int, known: Bool[np.ndarray, " n"] | None = None
) -> Autoregression:
    """Return a with a_0 = 1, so that Σ a_k u_(i-k) is white, and its variance relative to that of u.

    They are Burg's autoregression of the order of the least AICc.

    A reflection coefficient of order m is that of the known samples with m known ones before them, so that gaps
    contribute nothing, and the gain in likelihood is that of as many samples. Orders end at ``most``, or where what is
    left of the signals is rounding. The signals have no mean, and one variance.

    Notes
    -----
    Burg, "Maximum entropy spectral analysis" (1975); Hurvich and Tsai, "Regression and time series model selection in
    small samples" (1989).
    """
    known = np.ones(len(u), bool) if known is None else known
    forward = backward = np.where(known[:, None], u, 0.0)
    count, energy = int(known.sum()) * u.shape[1], float(np.square(forward).sum())
    a, left, gain, tried = np.ones(1), 1.0, 0.0, []
    for order in range(min(most, count - 2) + 1):
        tried.append((2 * order * count / (count - order - 1) - gain, a, left))
        known = known[1:] & known[:-1]
        forward, backward = forward[1:] * known[:, None], backward[:-1] * known[:, None]
        squares = float(np.square(forward).sum() + np.square(backward).sum())
        reflection = -2 * float((forward * backward).sum()) / squares if squares > LEAST_LEFT * energy else 1.0
        left *= 1 - reflection**2
        if left <= LEAST_LEFT:
            break
        gain -= int(known.sum()) * u.shape[1] * math.log(1 - reflection**2)
        a = np.append(a, 0.0) + reflection * np.append(a, 0.0)[::-1]
        forward, backward = forward + reflection * backward, backward + reflection * forward
    return min(tried, key=lambda each: each[0])[1:]


def modified_covariance(
    u: Float[np.ndarray, "n signals"], burg: Autoregression, known: Bool[np.ndarray, " n"]
) -> Autoregression:
    """Return the autoregression that predicts known runs of signals forwards and backwards with the least squares.

    This is the modified covariance method. Burg's recursion shifts the lines of a spectrum, so that a tone is out of
    phase in the middle of a gap. The autoregression ``burg`` is returned if it leaves less of the signals, since poles
    beyond the unit circle are drawn into it here, and if all long runs are quiet parts of the signals.

    Notes
    -----
    Ulrych and Clayton, "Time series modelling and maximum entropy" (1976); Tufts and Kumaresan, "Estimation of
    frequencies of multiple sinusoids: making linear prediction perform like maximum likelihood" (1982), has more terms.
    """
    order = len(burg[0]) - 1
    for terms in [more * order for more in (MORE_TERMS if burg[1] < NEARLY_EXACT else (1,))]:
        if not 0 < terms < len(u) or 2 * u.size * terms > MOST_ENTRIES:
            continue
        whole = sliding_window_view(known, terms + 1).all(1)
        runs = sliding_window_view(u, terms + 1, 0)[whole].reshape(-1, terms + 1)
        if len(runs) >= terms and np.square(runs).mean() > QUIET_RUNS:
            found = _least_squares(runs)
            return found if found and found[1] <= burg[1] else burg
    return burg


def _least_squares(runs: Float[np.ndarray, "runs order_and_one"]) -> Autoregression | None:
    """Return the stable autoregression of runs and their reverses; None if there is none.

    Coefficients are drawn to 0 as by white noise of the variance ``LEAST_LEFT``.
    """
    both = np.concatenate([runs[:, ::-1], runs])  # the newest sample is first
    terms = both.shape[1] - 1
    ridge = math.sqrt(LEAST_LEFT * len(both)) * np.eye(terms)
    equations = np.concatenate([np.concatenate([both[:, 1:], both[:, :1]], 1), np.pad(ridge, ((0, 0), (0, 1)))])
    r: Any = np.linalg.qr(equations, mode="r")
    a = np.append(1.0, -solve_triangular(r[:terms, :terms], r[:terms, terms]))
    for fall in DAMPINGS:
        damped = a * (1 - fall) ** np.arange(terms + 1)
        if _is_stable(damped):
            left = np.square(both @ damped).mean() / np.square(both).mean()
            return damped, max(float(left), LEAST_LEFT)
    return None


def _is_stable(a: Float[np.ndarray, " order_and_one"]) -> bool:
    """Return whether all poles are within the unit circle, as they are if all reflection coefficients are below 1."""
    while len(a) > 1:
        if not abs(a[-1]) < 1:
            return False
        a = ((a - a[-1] * a[::-1]) / (1 - a[-1] ** 2))[:-1]
    return True


class GapPrediction(LinearOperator):
    """The best linear unbiased prediction of rows (*batch, n) from their known nodes, which have white noise.

    With the inverse Q of the covariance of all n nodes of an autoregression, and rows f that are 0 at unknown nodes u,
    the prediction for a process without a mean is -Q_uu⁻¹ (Q f)_u. The mean m is 1ᵀK⁻¹f / 1ᵀK⁻¹1, with the covariance
    K of the known nodes: K⁻¹f is Q times the prediction there. Of noise of the variance g, which is a part of the
    process, g K⁻¹(f - m) is removed.

    Parameters
    ----------
    a : (order + 1,)
        The coefficients of the autoregression, of an order of n / 2 at most.
    known : (n,)
        Which nodes are known.
    nugget : float
        The variance g, relative to that of the innovations; with 0 known nodes stay as they are.

    Notes
    -----
    Janssen, Veldhuis and Vries, "Adaptive interpolation of discrete-time signals that can be modeled as autoregressive
    processes" (1986), whose sum of squares leaves out the first samples.
    """

    is_portable = True

    def __init__(
        self, a: Float[np.ndarray, " order_and_one"], known: Bool[np.ndarray, " n"], nugget: float = 0.0
    ) -> None:
        self.domain = self.codomain = (len(known),)
        self.a, self.known, self.nugget, self.unknown = a, known[:, None], nugget, np.flatnonzero(~known)
        self.bands = _precision_bands(a, self.unknown, len(known))
        self.one = self._without_mean(self.known.astype(float))
        self.weights = np.where(self.known, _precise(a, self.one), 0.0)  # K⁻¹ 1
        self.weights /= self.weights.sum()

    def _without_mean(self, f: Float[np.ndarray, "n rows"]) -> Float[np.ndarray, "n rows"]:
        """Return rows that are 0 at unknown nodes with these predicted for a process without a mean."""
        return f + self._solved(-_precise(self.a, f))

    def _solved(self, f: Float[np.ndarray, "n rows"]) -> Float[np.ndarray, "n rows"]:
        """Return Q_uu⁻¹ f_u at unknown nodes, and 0 at the others."""
        h = np.zeros_like(f)
        if len(self.unknown):
            h[self.unknown] = solveh_banded(self.bands, f[self.unknown], lower=True)
        return h

    def _noise(self, f: Float[np.ndarray, "n rows"]) -> Float[np.ndarray, "n rows"]:
        """Return the noise on known nodes, of a symmetric map."""
        if not self.nugget:
            return np.zeros_like(f)
        left = self._without_mean(f) - self.one * (self.weights * f).sum(0)
        return np.where(self.known, self.nugget * _precise(self.a, left), 0.0)

    def _apply(self, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        f = np.where(self.known, _columns(x), 0.0)
        means = (self.weights * f).sum(0)
        return _like(self._without_mean(f) + means * (1 - self.one) - self._noise(f), x)

    def _apply_adjoint(self, y: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        f = _columns(y)
        means, known = ((1 - self.one) * f).sum(0), np.where(self.known, f, 0.0)
        from_gaps = np.where(self.known, self.weights * means - _precise(self.a, self._solved(f)), 0.0)
        return _like(known + from_gaps - self._noise(known), y)


def _columns(x: Float[Tensor, "*batch n"]) -> Float[np.ndarray, "n rows"]:
    return x.detach().cpu().double().reshape(-1, x.shape[-1]).T.numpy()


def _like(columns: Float[np.ndarray, "n rows"], x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return torch.from_numpy(columns.T.copy()).reshape(x.shape).to(x)


def _precise(
    a: Float[np.ndarray, " order_and_one"], f: Float[np.ndarray, "n columns"]
) -> Float[np.ndarray, "n columns"]:
    """Return Q f: Q is L Lᵀ - M Mᵀ, with Toeplitz matrices L of a and M of its reverse, which reaches the last nodes.

    Notes
    -----
    Gohberg and Semencul, "On the inversion of finite Toeplitz matrices and their continuous analogs" (1972).
    """

    def along(b: Float[np.ndarray, " _"], x: Float[np.ndarray, "m rows"]) -> Float[np.ndarray, "m rows"]:
        reverse: Any = lfilter(b, [1.0], x[::-1], axis=0)
        return np.asarray(lfilter(b, [1.0], reverse[::-1], axis=0))

    product, order = along(a, f), len(a) - 1
    if order:
        product[-order:] -= along(a[:0:-1], f[-order:])
    return product


def _precision_bands(
    a: Float[np.ndarray, " order_and_one"], unknown: Int[np.ndarray, " m"], count: int
) -> Float[np.ndarray, "bands m"]:
    """Return the diagonals from the main one down of the part of Q that belongs to unknown ones of some nodes.

    Q_ij is Σ a_k a_(k+j-i) over k from 0 to the distance of the pair from the nearer end of the row.
    """
    order = len(a) - 1
    sums = np.stack([np.cumsum(a * np.append(a[d:], np.zeros(d))) for d in range(order + 1)])
    width = int((np.searchsorted(unknown, unknown + order, "right") - np.arange(len(unknown))).max(initial=1))
    bands = np.zeros((width, len(unknown)))
    for k, band in enumerate(bands):
        i, j = unknown[: len(unknown) - k], unknown[k:]
        ends = np.minimum(np.minimum(i, count - 1 - j), order)
        band[: len(i)] = np.where(j - i <= order, sums[np.minimum(j - i, order), ends], 0.0)
    bands[0] *= 1 + DIAGONAL_SURPLUS
    return bands
