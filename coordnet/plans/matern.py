"""Matérn's covariance, and the restricted likelihood of noisy samples of a Gaussian process."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cholesky
from torch import Tensor

SMOOTHNESSES = (0.5, 1.5, 2.5, 3.5, math.inf)  # ν of covariances with a closed form; inf is the Gaussian covariance
JITTER = 1e-10  # variance, relative to the process's, that is added so that covariance matrices are positive definite

Decomposed = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]  # eigenvalues and eigenvectors
Block = tuple[Decomposed, Float[np.ndarray, "n columns"], Float[np.ndarray, " n"]]  # see ``restricted_likelihoods``


def covariance(smoothness: float, r: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return Matérn's covariance of smoothness ν = p + 1/2 at distances r, in units of the length scale.

    It is e^(-r) Σ_i p! (p + i)! / ((2p)! i! (p - i)!) (2r)^(p - i), 1 at r = 0. For infinite smoothness it is the
    Gaussian exp(-r²/2).

    Notes
    -----
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equation 4.16, whose distances are r
    divided by √(2ν).
    """
    if smoothness == math.inf:
        return np.exp(-np.square(r) / 2)
    p = int(smoothness)
    total: Any = np.zeros_like(r)
    for i in range(p + 1):
        total = total * (2 * r) + math.comb(p, i) * math.factorial(p + i) / math.factorial(2 * p)
    return total * np.exp(-r)


def factorized(k: Float[np.ndarray, "n n"]) -> Float[Tensor, "n n"]:
    """Return Cholesky's lower factor of a covariance matrix and ``JITTER``, which is added in place."""
    k[np.diag_indices_from(k)] += JITTER
    return torch.from_numpy(cholesky(k, lower=True, check_finite=False))


def predictors(
    factor: Float[Tensor, "n n"], y: Float[Tensor, "n columns"]
) -> tuple[Float[Tensor, "n columns"], Float[Tensor, " columns"]]:
    """Return K⁻¹ (y - m) and m = 1ᵀK⁻¹y / 1ᵀK⁻¹1 for each column y of samples, whose covariance K has a factor.

    With the covariances k of nodes and samples, m + k K⁻¹ (y - m) is the best linear unbiased prediction of the nodes.

    Notes
    -----
    Stein, "Interpolation of Spatial Data" (1999), section 1.5.
    """
    solved = torch.cholesky_solve(torch.cat([torch.ones_like(y[:, :1]), y], 1), factor)
    means = solved[:, 1:].sum(0) / solved[:, 0].sum()
    return solved[:, 1:] - solved[:, :1] * means, means


def decomposed(k: Float[np.ndarray, "n n"]) -> Decomposed:
    """Return the eigenvalues and eigenvectors of a covariance matrix; eigenvalues that rounding made negative are 0."""
    sizes, axes = np.linalg.eigh(k)
    return np.maximum(sizes, 0), axes


def restricted_likelihoods(
    blocks: Sequence[Block], nuggets: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, "columns m"], Float[np.ndarray, "columns m"]]:
    """Return the restricted log-likelihood of each column of samples, up to a constant, and its process's variance.

    Both are given for each nugget, which is the variance of the white noise relative to that of the process. Blocks of
    samples are taken to be independent. The variance of the process, which is that of all blocks, is the one of
    greatest likelihood. The mean of each block is integrated out.

    Parameters
    ----------
    blocks : sequence of (Decomposed, (n, columns), (n,))
        The covariance of each block's samples, decomposed by ``decomposed``, for a process of variance 1; its samples,
        one signal in each column; and its samples of the constant signal 1: ones, or the square roots of the weights
        of weighted samples.
    nuggets : (m,)
        The nuggets.

    Notes
    -----
    Stein, "Interpolation of Spatial Data" (1999), section 6.4; Eidsvik, Shaby, Reich, Wheeler and Niemi, "Estimation
    and prediction in spatial models with block composite likelihoods" (2014).
    """
    log_volume, left, freedom = np.zeros(len(nuggets)), np.zeros((1, len(nuggets))), 0
    for (sizes, axes), y, ones in blocks:
        inverse = 1 / (sizes[:, None] + nuggets + JITTER)
        one, z = axes.T @ ones, axes.T @ y
        energy = np.square(one) @ inverse
        left = left + np.square(z).T @ inverse - np.square((one[:, None] * z).T @ inverse) / energy
        log_volume, freedom = log_volume - np.log(inverse).sum(0) + np.log(energy), freedom + max(len(y) - 1, 1)
    variances = np.maximum(left, np.finfo(float).tiny) / freedom
    return -0.5 * (log_volume + freedom * np.log(variances)), variances


def left_out_errors(
    k: Float[np.ndarray, "n n"], y: Float[np.ndarray, "n columns"], ones: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n columns"]:
    """Return the difference of each sample from its prediction by the others, whose covariance is k with the noise.

    Notes
    -----
    Dubrule, "Cross validation of kriging in a unique neighborhood" (1983).
    """
    inverse = np.linalg.inv(k + JITTER * np.eye(len(k)))
    one = inverse @ ones
    projected = inverse - np.outer(one, one) / (one @ ones)
    return projected @ y / projected.diagonal()[:, None]
