"""Gaussian processes: Matérn's covariance, the restricted likelihood of noisy samples, and prediction from them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import cholesky, solve_triangular
from torch import Tensor

from coordnet.sampling.axes import ByAxes

SMOOTHNESSES = (0.5, 1.5, 2.5, 3.5, math.inf)  # ν of covariances with a closed form; inf is the Gaussian covariance
JITTER = 1e-10  # variance, relative to the process's, that is added so that covariance matrices are positive definite

# Up to ``MOST_DENSE`` samples all of them predict every node. Where there are more, the ``NEIGHBORS`` samples nearest
# to a window predict its nodes; time grows with the square of their number. With 400 neighbors in the plane smooth
# fields between clusters have up to twice the error.
MOST_DENSE, NEIGHBORS = 1000, ByAxes({1: 300, 2: 1000, 3: 1000})
WINDOWED = ByAxes({1: 150, 2: 250, 3: 250})  # samples in a window at most
PREDICTED = 2**12  # nodes that are predicted at a time: their covariances with 1,000 samples take 32 megabytes

Decomposed = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]  # d and T, with T K Tᵀ = diag(d) for K
# The covariances of two sets of places, in nodes.
Covariance = Callable[[Float[np.ndarray, "n axes"], Float[np.ndarray, "m axes"]], Float[np.ndarray, "n m"]]
Window = tuple[slice, ...]  # nodes along each axis


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


def kriged(
    covariance: Covariance,
    noise: Float[np.ndarray, " n"],
    x: Float[np.ndarray, "n axes"],
    y: Float[Tensor, "channels n"],
    grid: tuple[int, ...],
) -> Float[Tensor, "channels *grid"]:
    """Return the best linear unbiased prediction of all nodes of a grid from samples at places x, in nodes.

    The variances of the samples' noise are relative to that of the process. Nodes are predicted from all of up to
    ``MOST_DENSE`` samples, and from the ``NEIGHBORS`` nearest to each window of a grid with more.

    Notes
    -----
    Chilès and Delfiner, "Geostatistics: Modeling Spatial Uncertainty" (2012), section 3.6.
    """
    dims, window, count = max(1, sum(n > 1 for n in grid)), tuple(slice(0, n) for n in grid), len(x)
    windows = iter([window])
    if count > MOST_DENSE:
        windows, count = windows_of(x, window, WINDOWED[dims]), NEIGHBORS[dims]
    f = y.new_empty(len(y), *grid)
    for window in windows:
        near = nearest(x, window, count)
        k = covariance(x[near], x[near]) + np.diag(noise[near])
        multipliers, means = predictors(factorized(k), y[:, torch.from_numpy(near)].T)
        nodes = np.mgrid[window].reshape(len(window), -1).T
        parts = np.array_split(nodes, math.ceil(len(nodes) / PREDICTED))
        predicted = torch.cat([torch.from_numpy(covariance(part, x[near])) @ multipliers for part in parts]) + means
        f[(slice(None), *window)] = predicted.T.reshape(-1, *(side.stop - side.start for side in window))
    return f


def windows_of(x: Float[np.ndarray, "n axes"], window: Window, most: int) -> Iterator[Window]:
    """Yield windows of nodes that cover one, with ``most`` of the places x in each, unless it is a node wide there.

    They are the leaves of a k-d tree. Bentley, "Multidimensional binary search trees used for associative searching"
    (1975).
    """
    axis = int(np.ptp(x, axis=0).argmax()) if len(x) else 0
    side = window[axis]
    if len(x) <= most or side.stop - side.start == 1:
        yield window
        return
    at = min(max(math.ceil(np.median(x[:, axis])), side.start + 1), side.stop - 1)
    is_before = x[:, axis] < at
    for half, part in ((slice(side.start, at), x[is_before]), (slice(at, side.stop), x[~is_before])):
        yield from windows_of(part, (*window[:axis], half, *window[axis + 1 :]), most)


def nearest(x: Float[np.ndarray, "n axes"], window: Window, count: int) -> Int[np.ndarray, " count"]:
    """Return the numbers of the ``count`` places that are nearest to a window of nodes."""
    first, last = np.array([[side.start, side.stop - 1] for side in window]).T
    beyond = np.maximum(np.maximum(first - x, x - last), 0)
    return np.sort(np.square(beyond).sum(1).argpartition(count - 1)[:count])
