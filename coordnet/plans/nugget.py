"""The nugget of samples on a masked lattice: the deviation of white noise that their smallest differences show."""

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import nnls
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from coordnet.plans.hold_out import middle
from coordnet.sampling.samples import Samples

LOOKED_AT = 2**16  # nodes of the middle of a lattice that are looked at
FEWEST_KNOWN = 100  # samples there, fewer of which tell nothing
WINDOW_SAMPLES = 16  # samples whose mean square is that of a window
FLATTEST = 0.25  # share of the windows that are looked at, those of the least mean square
CHANCE = 0.5  # mean square of those windows relative to that of all, for white noise
REWEIGHTINGS = 4  # rounds of weighted least squares
GRAIN = 3 / 255  # deviation relative to the range of the samples up to which it counts as the grain of a photograph
MOST_SAMPLES = 4000  # samples whose neighbors are looked at
# Variance of such noise from which on it counts, relative to the squared error at hidden samples, noise included; at
# 0.33, 3 of 36 noisy fields of 64² nodes are 0.1 to 1.5 dB worse, and none is better.
SHOWS = 0.2


def nugget(samples: Samples) -> float:
    """Return the standard deviation of white noise on samples of a masked lattice; 0 for others, and for grain.

    The channels have one unit. Every sample is predicted by the plane through its nearest neighbors. Its squared error
    is expected to be the noise's variance, and a multiple of what a process of linear variogram would have, which
    vanishes with the distance; both are found by least squares in the flattest windows. What is left at distance zero
    is called a nugget.

    Notes
    -----
    Cressie, "Statistics for Spatial Data" (1993), section 2.4.
    """
    geometry, part = samples.geometry, middle(samples.grid, LOOKED_AT)
    if geometry.weights is None or geometry.is_strided or not geometry.is_nodal:
        return 0.0
    known = (geometry.weights[part] > 0).cpu().numpy()
    values = samples.values.detach()[part].cpu().double().numpy()
    if not known.any():
        return 0.0
    found = [_variance(known[..., min(c, known.shape[-1] - 1)], values[..., c]) for c in range(values.shape[-1])]
    deviation, inside = math.sqrt(float(np.mean(found))), values[np.broadcast_to(known, values.shape)]
    return deviation if deviation > GRAIN * float(np.ptp(inside)) else 0.0


def _variance(known: Bool[np.ndarray, "*lattice"], values: Float[np.ndarray, "*lattice"]) -> float:
    points, y = np.stack(np.nonzero(known), 1).astype(float), values[known]
    if len(y) < FEWEST_KNOWN:
        return 0.0
    chosen = np.random.default_rng(0).permutation(len(y))[:MOST_SAMPLES]
    distances: Any
    near: Any
    distances, near = KDTree(points).query(points[chosen], 2 * (points.shape[1] + 1) + 1)
    near, offsets = near[:, 1:], points[near[:, 1:]] - points[chosen, None]
    plane = np.concatenate([np.ones((*near.shape, 1)), offsets], 2)
    a = np.linalg.pinv(plane / distances[:, 1:, None])[:, 0] / distances[:, 1:]  # weights of the neighbors
    own = 1 + np.square(a).sum(1)
    between = np.stack([cdist(x, x) for x in offsets])
    farther = 2 * (a * distances[:, 1:]).sum(1) - np.einsum("nj,njk,nk->n", a, between, a)
    squares = np.square(y[chosen] - (a * y[near]).sum(1)) / own
    windows: Any = KDTree(points[chosen]).query(points[chosen], WINDOW_SAMPLES)[1]
    energies = squares[windows].mean(1)
    flat = windows[energies <= np.quantile(energies, FLATTEST)].ravel()
    parts = np.stack([np.ones(len(flat)), (farther / own)[flat]], 1)
    found, weights = np.zeros(2), np.ones(len(flat))
    for _ in range(REWEIGHTINGS):
        found = nnls(parts * weights[:, None], squares[flat] * weights)[0]
        expected = parts @ found
        weights = expected.mean() / np.maximum(expected, 1e-3 * expected.mean()) if expected.any() else weights
    return float(found[0]) / CHANCE
