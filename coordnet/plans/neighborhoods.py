"""Neighborhoods: windows of a lattice with few points in each, and the points nearest to a window."""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

Window = tuple[slice, ...]  # nodes along each axis


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
