"""Blocks of scattered points, which are hidden as a whole, and the score of a fit by them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from tqdm import tqdm

from coordnet import _checks
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry, Samples

# Blocks along the points' extent on each axis, by the number of axes, unless their size is given. A sixth of a row is
# as long as many of its periods.
BLOCKS = ByAxes({1: 30, 2: 6})
SEED = 0
FARTHER = 0.99  # share of the hidden points' distances below one that is usual between points
GAPS = 0.02  # share of the nodes between points that are farther than usual, above which there are gaps
GAP_DEPTH = 0.9  # quantile of the distances in gaps that is half of a block's edge
FEWEST_BLOCKS = 20  # blocks of points with gaps at least, or their errors tell little of further blocks
SHORTER = 0.8  # factor by which blocks are made shorter until there are as many


def folds_by_blocks(
    geometry: Geometry, size: float | Sequence[float] | None, folds: int
) -> tuple[Int[np.ndarray, " n"], int]:
    """Return the fold of each point, that of its block, and the number of blocks; see ``block_score`` for errors."""
    block = np.unique(cells_of(geometry, size), axis=0, return_inverse=True)[1].ravel()
    count = int(block.max()) + 1
    if count < folds:
        expected = f"a size that gives at least {folds} blocks, one for each fold"
        raise _checks.wrong("blocks", expected, f"{count} blocks")
    return (np.random.default_rng(SEED).permutation(count) % folds)[block], count


def cells_of(geometry: Geometry, size: float | Sequence[float] | None) -> Int[np.ndarray, "n d"]:
    """Return the numbers along each axis of the block of each point; see ``block_score`` for errors."""
    places = _places(geometry)
    low, extent = places.min(0), np.ptp(places, axis=0)
    lengths = np.where(extent > 0, extent, 1.0) * (1 + 1e-9) / BLOCKS[max(1, int((extent > 0).sum()))]
    if size is not None:
        given = [size] * len(low) if np.ndim(size) == 0 else list(size)  # type: ignore[arg-type]
        if len(given) != len(low):
            raise _checks.wrong("blocks", f"a number, or {len(low)}, one for each axis", len(given))
        lengths = np.array([_checks.positive("blocks", length) for length in given])
    return np.floor((places - low) / lengths).astype(int)


def apart(cells: Int[np.ndarray, "blocks d"], sizes: Int[np.ndarray, " blocks"], parts: int) -> np.ndarray:
    """Return a part of each block, so that few neighbors, those across a corner too, have the same one.

    Neighbors that are hidden together are a larger gap than one of them. The blocks take their parts in a random order,
    each that of the fewest neighbors, and of these the one with the fewest points.
    """
    part_of, points = np.full(len(cells), -1), np.zeros(parts)
    for k in np.random.default_rng(SEED).permutation(len(cells)):
        near = part_of[np.abs(cells - cells[k]).max(1) <= 1]
        part_of[k] = np.lexsort((points, np.bincount(near[near >= 0], minlength=parts)))[0]
        points[part_of[k]] += sizes[k]
    return part_of


def edges_of_gaps(
    geometry: Geometry, hidden: Float[np.ndarray, " hidden"], between: Float[np.ndarray, " nodes"]
) -> list[float] | None:
    """Return the lengths of blocks that are like the gaps of points, in their units; None if there are none.

    Nodes are in gaps that are farther from points than nearly all points that are ``hidden`` at random are; of points
    that are uniformly random there are hardly any. Blocks are shorter where there are few, as of points in clusters.

    - geometry: the points, on nodes that were laid for them
    - hidden, between: the distances to the nearest point that is shown of points that are hidden at random, and of the
      nodes within the points' convex hull, in spacings
    """
    far = between[between > np.quantile(hidden, FARTHER)]
    if len(far) <= GAPS * len(between):
        return None
    edges = 2 * float(np.quantile(far, GAP_DEPTH)) * geometry.lattice.steps
    while len(np.unique(cells_of(geometry, edges.tolist()), axis=0)) < min(FEWEST_BLOCKS, len(geometry.nodes)):
        edges = SHORTER * edges
    return edges.tolist()


def beyond_ends(geometry: Geometry, hidden: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Return which hidden points of a row come before the first or after the last other one; none of more axes."""
    places = _places(geometry)
    used = np.ptp(places, axis=0) > 0
    if used.sum() != 1 or any(geometry.axes[j].periodic for j in np.flatnonzero(used)):
        return np.zeros_like(hidden)
    x = places[:, used][:, 0]
    return hidden & ((x < x[~hidden].min()) | (x > x[~hidden].max()))


def _places(geometry: Geometry) -> Float[np.ndarray, "n d"]:
    """Return the points, in the units of their coordinates if these have any."""
    places = getattr(geometry, "places", None)
    return (geometry.positions() if places is None else places).numpy()


@dataclass(frozen=True)
class Score:
    """The errors of fits at the points that each did not see.

    Attributes
    ----------
    rmse : float, or list of float
        The root of the mean squared error, weighted as the points are; one for each of several columns.
    r2 : float, or list of float
        1 minus the squared errors over the squared differences from the mean; NaN where all values are equal.
    folds, blocks : int
        The number of fits, and of the blocks that were hidden in them.
    """

    rmse: float | list[float]
    r2: float | list[float]
    folds: int
    blocks: int


def block_score(
    samples: Samples,
    refit: Callable[[Samples], Reconstruction],
    size: float | Sequence[float] | None,
    folds: int,
    *,
    progress: bool = False,
) -> Score:
    """Return the score of fits that each do not see a part of the blocks of points.

    Points of a row before the first or after the last that a fit sees do not count, as the fit extrapolates there.

    - samples: values at scattered points
    - refit: the fit as a function of samples
    - size: the lengths of a block in the units of the points' coordinates; a part of their extent if not given
    - folds: the number of parts, at least 2
    - progress: whether to show a bar

    A ``ValueError`` is raised if the samples are no scattered points, the sizes are not positive, or there are fewer
    blocks than folds, or none between others.
    """
    geometry = samples.geometry
    geometry.check_blocks("samples", "scattered points (cn.points) for a score by blocks")
    _checks.integer("folds", folds, 2)
    fold, count = folds_by_blocks(geometry, size, folds)
    weights = geometry.full_weights.to(samples.values).expand_as(samples.values).cpu().double().numpy().copy()
    values, errors = samples.values.detach().cpu().double().numpy(), np.zeros(samples.values.shape)
    for part in tqdm(range(folds), "refits", disable=not progress, dynamic_ncols=True):
        rows = fold == part
        hidden = torch.from_numpy(rows)[:, None].expand(samples.values.shape).to(samples.values.device)
        estimate = geometry.at_samples(refit(samples.without(hidden))).detach().cpu().double().numpy()
        errors[rows] = (estimate - values)[rows]
        weights[beyond_ends(geometry, rows)] = 0.0
    if not weights.any():
        raise _checks.wrong("blocks", "a size that gives some blocks between others", f"{count} blocks")
    mean = (weights * values).sum(0) / weights.sum(0)
    total = (weights * (values - mean) ** 2).sum()
    squared = (weights * errors**2).sum()
    rmse = float(np.sqrt(squared / weights.sum()))
    return Score(rmse, float(1 - squared / total) if total > 0 else float("nan"), folds, count)
