"""Matérn's covariance, and the restricted likelihood of noisy samples of a Gaussian process."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cholesky, solve_triangular
from torch import Tensor

SMOOTHNESSES = (0.5, 1.5, 2.5, 3.5, math.inf)  # ν of covariances with a closed form; inf is the Gaussian covariance
JITTER = 1e-10  # variance, relative to the process's, that is added so that covariance matrices are positive definite

Decomposed = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]  # d and T, with T K Tᵀ = diag(d) for K


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
    """Return the decomposition of a covariance matrix, and ``JITTER``, by its eigenvalues and eigenvectors.

    It serves all nuggets. Eigenvalues that rounding made negative are 0 before ``JITTER`` is added.
    """
    sizes, axes = np.linalg.eigh(k)
    return np.maximum(sizes, 0) + JITTER, axes.T


def pivoted(k: Float[np.ndarray, "n n"]) -> Decomposed:
    """Return the decomposition of a covariance matrix, and ``JITTER``, by Cholesky's factor L, for the nugget 0 alone.

    T is diag(L) L⁻¹, and d the square of L's diagonal. The time is a tenth of that for eigenvectors. ``JITTER`` is
    added in place.
    """
    factor = factorized(k).numpy()
    pivots = factor.diagonal()
    return np.square(pivots), solve_triangular(factor / pivots, np.eye(len(k)), lower=True, check_finite=False)


def restricted_likelihoods(
    k: Decomposed,
    y: Float[np.ndarray, "n blocks columns"],
    nuggets: Float[np.ndarray, " m"],
    ones: Float[np.ndarray, " n"] | None = None,
) -> tuple[Float[np.ndarray, "columns m"], Float[np.ndarray, "columns m"]]:
    """Return the restricted log-likelihood of each column of samples, up to a constant, and its process's variance.

    Both are given for each nugget g, which is the variance of the white noise relative to that of the process. With
    C = K + g, e = 1ᵀC⁻¹1 and q the sum of yᵀC⁻¹y - (1ᵀC⁻¹y)² / e over the b blocks, the variance of greatest likelihood
    is q / f, with f = b (n - 1) degrees of freedom, and the logarithm is -(b log |C| + b log e + f log(q / f)) / 2.

    Parameters
    ----------
    k : Decomposed
        The covariance K of a block's samples, for a process of variance 1; see ``decomposed`` and ``pivoted``.
    y : (n, blocks, columns)
        One signal in each column. Its blocks are taken to be independent, with one variance, each with an unknown mean,
        which is integrated out.
    nuggets : (m,)
        The nuggets.
    ones : (n,), optional
        The samples of the constant signal 1: the square roots of the weights of weighted samples; 1 if not given.

    Notes
    -----
    Stein, "Interpolation of Spatial Data" (1999), section 6.4; Eidsvik, Shaby, Reich, Wheeler and Niemi, "Estimation
    and prediction in spatial models with block composite likelihoods" (2014).
    """
    (sizes, axes), (n, blocks, columns) = k, y.shape
    inverse = 1 / (sizes[:, None] + nuggets)
    one, z = axes @ (np.ones(n) if ones is None else ones), (axes @ y.reshape(n, -1)).reshape(y.shape)
    energy = np.square(one) @ inverse
    sums = ((one[:, None, None] * z).reshape(n, -1).T @ inverse).reshape(blocks, columns, -1)
    left = np.square(z).sum(1).T @ inverse - np.square(sums).sum(0) / energy
    freedom = blocks * max(n - 1, 1)
    variances = np.maximum(left, np.finfo(float).tiny) / freedom
    return -0.5 * (blocks * (np.log(energy) - np.log(inverse).sum(0)) + freedom * np.log(variances)), variances


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
