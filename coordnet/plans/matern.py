"""Matérn's covariance, and the restricted likelihood of samples of such a process with white noise."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

SMOOTHNESSES = (0.5, 1.5, 2.5, 3.5, math.inf)  # those with a closed form; the last one is the Gaussian covariance
JITTER = 1e-10  # variance, relative to the process's, that is added so that smooth processes have a definite covariance

Decomposed = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]  # eigenvalues and eigenvectors


def covariance(smoothness: float, r: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the covariance at distances r in units of the scale, 1 at 0; the Gaussian one is exp(-r²/2).

    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equation 4.16, without its factor on r.
    """
    if smoothness == math.inf:
        return np.exp(-np.square(r) / 2)
    p = int(smoothness)
    total: Any = np.zeros_like(r)
    for i in range(p + 1):
        total += math.comb(p, i) * math.factorial(p + i) / math.factorial(2 * p) * (2 * r) ** (p - i)
    return total * np.exp(-r)


def decomposed(k: Float[np.ndarray, "n n"]) -> Decomposed:
    """Return the eigenvalues, none of them negative, and the eigenvectors of a covariance."""
    sizes, axes = np.linalg.eigh(k)
    return np.maximum(sizes, 0), axes


def restricted_likelihoods(
    k: Decomposed, y: Float[np.ndarray, "n columns"], ones: Float[np.ndarray, " n"], nuggets: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, "columns m"], Float[np.ndarray, "columns m"]]:
    """Return the restricted log-likelihoods of columns, up to a constant, and the variances of their processes.

    There is one for each nugget, the variance of white noise relative to that of the process, whose own variance is
    that of the greatest likelihood. The mean, a multiple of ``ones``, is integrated out.

    Notes
    -----
    Stein, "Interpolation of Spatial Data" (1999), section 6.4.
    """
    sizes, axes = k
    inverse = 1 / (sizes[:, None] + nuggets + JITTER)
    one, z = axes.T @ ones, axes.T @ y
    energy = np.square(one) @ inverse
    left = np.square(z).T @ inverse - np.square((one[:, None] * z).T @ inverse) / energy
    freedom = max(len(y) - 1, 1)
    variances = np.maximum(left, np.finfo(float).tiny) / freedom
    return 0.5 * (np.log(inverse).sum(0) - np.log(energy) - freedom * np.log(variances)), variances
