"""Burg's autoregression of a row with gaps, and the covariance that it implies."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.signal import lfilter, lfiltic

LEAST_LEFT = 1e-13  # variance that an autoregression leaves, relative to that of the signal, below which it is rounding


@dataclass(frozen=True)
class Autoregression:
    """A process u of variance 1 for which Σ a_k u_(i-k) is white noise, over k from 0 to its order.

    Attributes
    ----------
    coefficients : (order + 1,)
        The coefficients a, with a_0 = 1.
    first : (order + 1,)
        The covariances at distances from 0 to the order.
    """

    coefficients: Float[np.ndarray, " n"]
    first: Float[np.ndarray, " n"]

    def covariances(self, count: int) -> Float[np.ndarray, " count"]:
        """Return the covariances at distances of 0, 1, … count - 1: further ones r are those of Σ a_k r_(i-k) = 0."""
        further = count - len(self.first)
        if further <= 0 or len(self.first) == 1:
            return np.pad(self.first[:count], (0, max(further, 0)))
        before = lfiltic([1.0], self.coefficients, self.first[::-1])
        return np.concatenate([self.first, lfilter([1.0], self.coefficients, np.zeros(further), zi=before)[0]])


def autoregression(
    u: Float[np.ndarray, "n signals"], most: int, known: Bool[np.ndarray, " n"] | None = None
) -> Autoregression:
    """Return Burg's autoregression of signals without a mean, of the order up to ``most`` with the least AICc.

    A reflection coefficient of order m is that of all known samples with m known ones before them, so that gaps
    contribute nothing, and the gain in likelihood is of as many samples. Orders end where what is left of the signals
    is rounding.

    Notes
    -----
    Burg, "Maximum entropy spectral analysis" (1975); Hurvich and Tsai, "Regression and time series model selection in
    small samples" (1989).
    """
    known = np.ones(len(u), bool) if known is None else known
    forward = backward = np.where(known[:, None], u, 0.0)
    count, energy = int(known.sum()) * u.shape[1], float(np.square(forward).sum())
    a, r, left, likelihood = np.ones(1), np.ones(1), 1.0, 0.0
    least, best = math.inf, (a, r)
    for order in range(min(most, count - 2) + 1):
        criterion = 2 * order * count / (count - order - 1) - 2 * likelihood
        if criterion < least:
            least, best = criterion, (a, r)
        known = known[1:] & known[:-1]
        forward, backward = forward[1:] * known[:, None], backward[:-1] * known[:, None]
        squares = float(np.square(forward).sum() + np.square(backward).sum())
        reflection = -2 * float((forward * backward).sum()) / squares if squares > LEAST_LEFT * energy else 1.0
        if left * (1 - reflection**2) <= LEAST_LEFT:
            break
        likelihood -= 0.5 * int(known.sum()) * u.shape[1] * math.log(1 - reflection**2)
        r = np.append(r, -reflection * left - a[1:] @ r[:0:-1])
        left *= 1 - reflection**2
        a = np.append(a, 0.0) + reflection * np.append(a, 0.0)[::-1]
        forward, backward = forward + reflection * backward, backward + reflection * forward
    return Autoregression(*best)
