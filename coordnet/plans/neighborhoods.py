"""Kriging in moving neighborhoods: windows of a lattice are predicted from the samples nearest to them."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet.plans.kriged_lattices import Covariance
from coordnet.plans.matern import factorized, predictors
from coordnet.sampling.axes import ByAxes

# Up to ``MOST_DENSE`` samples all of them predict every node. Where there are more, the ``NEIGHBORS`` samples nearest
# to a window predict its nodes; time grows with the square of their number. With 400 neighbors in the plane smooth
# fields between clusters have up to twice the error.
MOST_DENSE, NEIGHBORS = 1000, ByAxes({1: 300, 2: 1000, 3: 1000})
WINDOWED = ByAxes({1: 150, 2: 250, 3: 250})  # samples in a window at most
PREDICTED = 2**12  # nodes that are predicted at a time: their covariances with 1,000 samples take 32 megabytes

Window = tuple[slice, ...]  # nodes along each axis


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
