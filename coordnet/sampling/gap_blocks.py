"""Blocks of points that are as wide as the gaps between these, to be hidden as a whole."""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import distance_transform_edt

from coordnet.sampling.extrapolation import outside_hull

BLOCKS_SEED = 0
PARTS = 5  # parts of the points of which one is hidden at random, to tell what distances are usual
FARTHER = 0.99  # share of the hidden points' distances below one that is usual between points
GAPS = 0.02  # share of the nodes between points that are farther than usual, above which there are gaps
GAP_DEPTH = 0.9  # quantile of the distances in gaps that is half of a block's edge
FEWEST_BLOCKS = 20  # blocks of points with gaps at least, or their errors tell little of further blocks
SHORTER = 0.8  # factor by which blocks are made shorter until there are as many


def cells_like_gaps(positions: Float[np.ndarray, "n d"], lattice: tuple[int, ...]) -> Int[np.ndarray, "n d"] | None:
    """Return the numbers along each axis of the block of each point, with blocks as wide as gaps; None without gaps.

    Nodes within the points' convex hull are in gaps if they are farther from points than nearly all points that are
    hidden at random are from the others; of points that are uniformly random there are hardly any. Blocks are shorter
    where there are few, as of points in clusters.

    - positions: in spacings of nodes
    - lattice: the lengths of the lattice of nodes, of which no axis wraps around
    """
    nodes = np.clip(np.rint(positions).astype(int), 0, np.array(lattice) - 1)
    node: Int[np.ndarray, " n"] = np.asarray(np.ravel_multi_index(tuple(nodes.T), lattice))
    part = np.random.default_rng(BLOCKS_SEED).permutation(len(node)) % PARTS
    hidden = [_distances(node[part != k], lattice)[node[part == k]] for k in range(PARTS)]
    between = _distances(node, lattice)[within_hull(positions, lattice)]
    far = between[between > np.quantile(np.concatenate(hidden), FARTHER)]
    if len(far) <= GAPS * len(between):
        return None
    edge, least = 2 * float(np.quantile(far, GAP_DEPTH)), min(FEWEST_BLOCKS, len(np.unique(node)))
    while len(np.unique(cells := _cells(positions, edge), axis=0)) < least:
        edge *= SHORTER
    return cells


def within_hull(positions: Float[np.ndarray, "n d"], lattice: tuple[int, ...]) -> Bool[np.ndarray, " nodes"]:
    """Return whether each node is within the convex hull of points at some positions, in spacings of nodes."""
    return ~outside_hull(positions, np.moveaxis(np.indices(lattice, dtype=float), 0, -1)).ravel()


def _cells(positions: Float[np.ndarray, "n d"], edge: float) -> Int[np.ndarray, "n d"]:
    return np.floor((positions - positions.min(0)) / edge).astype(int)


def _distances(node: Int[np.ndarray, " n"], lattice: tuple[int, ...]) -> Float[np.ndarray, " nodes"]:
    """Return the distance of every node to the nearest one of a point, in spacings."""
    far: Bool[np.ndarray, " nodes"] = np.ones(math.prod(lattice), dtype=bool)
    far[node] = False
    return np.asarray(distance_transform_edt(far.reshape(lattice))).ravel()


def blocks_of(cells: Int[np.ndarray, "n d"], parts: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Return the number of the block of each point, from 0, and its part, of which few neighbors have the same.

    Neighbors, those across a corner too, that are hidden together are a larger gap than one of them. The blocks take
    their parts in a random order, each that of the fewest neighbors, and of these the one with the fewest points.
    """
    blocks, block, sizes = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    part_of, points = np.full(len(blocks), -1), np.zeros(parts)
    for k in np.random.default_rng(BLOCKS_SEED).permutation(len(blocks)):
        near = part_of[np.abs(blocks - blocks[k]).max(1) <= 1]
        part_of[k] = np.lexsort((points, np.bincount(near[near >= 0], minlength=parts)))[0]
        points[part_of[k]] += sizes[k]
    return block.ravel(), part_of[block.ravel()]


def between_others(positions: Float[np.ndarray, "n d"], part: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Return those of a part of the points that are within the convex hull of all others.

    Only these are hidden: a fit would extrapolate to the others, and its errors there hide those in gaps.
    """
    result = part.copy()
    result[part] = ~outside_hull(positions[~part], positions[part])
    return result
