"""The nugget of samples on a lattice with gaps: the deviation of white noise that their smallest differences show."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.ndimage import uniform_filter
from scipy.optimize import nnls
from scipy.spatial import KDTree

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
MOST_DRAWS, DRAWN = 8, 12000  # sets of neighbors of a sample of a lattice that skips nodes, and of all samples, at most
# Variance of such noise from which on it counts, relative to the squared error at hidden samples, noise included; at
# 0.33, 3 of 36 noisy fields of 64² nodes are 0.1 to 1.5 dB worse, and none is better.
SHOWS = 0.2
# The same of a lattice that skips nodes, relative to the squared error by neighbors. Settled on 65 synthetic signals,
# 40 fields and 96 crops of gray photographs: without noise five rough signals, two fields and two crops are above; with
# noise of 0.05 in [0, 1] 107 of 195 draws of the signals.
PREVAILS = 0.5
# Excess of the mean squared second differences along one axis over those along another, in the flatter half of a
# lattice, from which on they are texture's, which has a direction. On lattices of noise alone 99 % have less than 9
# over the root of the number of samples, and all of 29 synthetic fields in which noise prevails less than 0.32; nine
# gray crops that have more lose 0.6 dB by smoothing in the mean.
DIRECTED, BY_CHANCE = 0.4, 9.0

Points = Float[np.ndarray, "_ axes"]


def nugget(samples: Samples) -> float:
    """Return the standard deviation of white noise on samples of a lattice with gaps; 0 for others, and for grain.

    The channels have one unit. Every sample is predicted by the plane through its nearest neighbors. Its squared error
    is expected to be the noise's variance, and a multiple of what a process of linear variogram would have, which
    vanishes with the distance; both are found by least squares in the flattest windows. What is left at distance zero
    is called a nugget.

    On a lattice that skips nodes all nearest neighbors have the same distances, so that some of more are drawn. Fine
    texture is like noise there; it is in all channels of a picture, so that only what differs between channels counts,
    and nothing does unless it prevails (``PREVAILS``) and varies along all axes alike (``is_directed``).

    Notes
    -----
    Cressie, "Statistics for Spatial Data" (1993), section 2.4.
    """
    geometry, part = samples.geometry, middle(samples.geometry.shape, LOOKED_AT)
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
        variance = float(np.mean([_variance(mask, y) for mask, y in channels]))
    deviation = math.sqrt(variance)
    return deviation if deviation > GRAIN * float(np.ptp(values[known])) else 0.0


def _variance(known: Bool[np.ndarray, "*lattice"], values: Float[np.ndarray, "*lattice"]) -> float:
    points, y = np.stack(np.nonzero(known), 1).astype(float), values[known]
    if len(y) < FEWEST_KNOWN:
        return 0.0
    chosen = np.random.default_rng(0).permutation(len(y))[:MOST_SAMPLES]
    distances, near = _neighbors(points, points[chosen], 2 * (points.shape[1] + 1))
    errors, farther = _errors(points, y[:, None], chosen, distances, near)
    return _at_distance_zero(points[chosen], np.square(errors)[:, 0], farther)


def _lattice_variance(values: Float[np.ndarray, "*lattice channels"]) -> float:
    shape, channels = values.shape[:-1], values.shape[-1]
    points, y = np.indices(shape).reshape(len(shape), -1).T.astype(float), values.reshape(-1, channels)
    if len(y) < FEWEST_KNOWN or is_directed(values):
        return 0.0
    generator, count = np.random.default_rng(0), 2 * (points.shape[1] + 1)
    chosen = generator.permutation(len(y))[:MOST_SAMPLES]
    draws = min(MOST_DRAWS, DRAWN // len(chosen))
    distances, near = (np.tile(x, (draws, 1)) for x in _neighbors(points, points[chosen], 2 * count))
    drawn = generator.random(near.shape).argsort(1)[:, :count]
    chosen, distances, near = np.tile(chosen, draws), *(np.take_along_axis(x, drawn, 1) for x in (distances, near))
    errors, farther = _errors(points, y, chosen, distances, near)
    apart = errors.var(1, ddof=1) if channels > 1 else np.square(errors)[:, 0]
    found = _at_distance_zero(points[chosen[: len(chosen) // draws]], apart, farther)
    return found if found >= PREVAILS * np.square(errors).mean() else 0.0


def is_directed(values: Float[np.ndarray, "*lattice channels"]) -> bool:
    """Return whether values vary more along one axis of a lattice than along another, as white noise does not.

    The flatter half of the lattice is looked at, where edges have no part. Of several channels only what differs
    between them counts.
    """
    if values.shape[-1] > 1:
        values = values - values.mean(-1, keepdims=True)
    axes = [axis for axis, n in enumerate(values.shape[:-1]) if n > 2]
    along = np.stack([np.square(np.diff(_inner(values, axes, axis), 2, axis)).mean(-1) for axis in axes])
    windows = uniform_filter(along.sum(0), round(WINDOW_SAMPLES ** (1 / len(axes))))
    means = along[:, windows <= np.median(windows)].mean(1)
    excess = max(DIRECTED, BY_CHANCE / math.sqrt(values[..., 0].size))
    return float(means.max()) > (1 + excess) * float(means.min())


def _inner(values: Float[np.ndarray, "*lattice channels"], axes: Sequence[int], kept: int) -> np.ndarray:
    """Return values without the ends of all axes but one."""
    return values[tuple(slice(1, -1) if a in axes and a != kept else slice(None) for a in range(values.ndim))]


def _neighbors(points: Points, chosen: Points, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances and the numbers of the nearest points beside the chosen ones themselves."""
    found: Any = KDTree(points).query(chosen, count + 1)
    return found[0][:, 1:], found[1][:, 1:]


def _errors(
    points: Points, y: Float[np.ndarray, "n channels"], chosen: np.ndarray, distances: np.ndarray, near: np.ndarray
) -> tuple[Float[np.ndarray, "chosen channels"], Float[np.ndarray, " chosen"]]:
    """Return the errors of planes through neighbors, of the variance of white noise, and that of a linear variogram."""
    offsets = points[near] - points[chosen, None]
    plane = np.concatenate([np.ones((*near.shape, 1)), offsets], 2)
    a = np.linalg.pinv(plane / distances[:, :, None])[:, 0] / distances  # weights of the neighbors
    own = 1 + np.square(a).sum(1)
    between = np.linalg.norm(offsets[:, :, None] - offsets[:, None], axis=-1)
    farther = 2 * (a * distances).sum(1) - np.einsum("nj,njk,nk->n", a, between, a)
    return (y[chosen] - np.einsum("nj,njc->nc", a, y[near])) / np.sqrt(own)[:, None], farther / own


def _at_distance_zero(
    places: Points, squares: Float[np.ndarray, " chosen"], farther: Float[np.ndarray, " chosen"]
) -> float:
    """Return the part of squared errors that is left at distance zero, by the flattest windows of some samples.

    There may be several errors of each sample, one set of all after another.
    """
    squares, farther = (x.reshape(-1, len(places)) for x in (squares, farther))
    windows: Any = KDTree(places).query(places, WINDOW_SAMPLES)[1]
    energies = squares.mean(0)[windows].mean(1)
    flat = windows[energies <= np.quantile(energies, FLATTEST)].ravel()
    squares, farther = (x[:, flat].ravel() for x in (squares, farther))
    parts = np.stack([np.ones(len(squares)), farther], 1)
    found, weights = np.zeros(2), np.ones(len(squares))
    for _ in range(REWEIGHTINGS):
        found = nnls(parts * weights[:, None], squares * weights)[0]
        expected = parts @ found
        weights = expected.mean() / np.maximum(expected, 1e-3 * expected.mean()) if expected.any() else weights
    return float(found[0]) / CHANCE
