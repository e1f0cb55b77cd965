"""Where a grid is far from points, or outside their hull, so that a fit extrapolates there."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull, Delaunay, KDTree, QhullError

FAR = 3.0  # mean distances of the points beyond which even what is between them is extrapolated
ON_HULL = 1e-6  # tolerance of a place on the border of the hull, which is inside, relative to the simplex


def distances(
    places: Float[np.ndarray, "n d"], axes: Sequence[Float[np.ndarray, " _"]], periods: Sequence[float | None]
) -> Float[np.ndarray, "*grid"]:
    """Return the distance of each node of a grid from the nearest place; along a periodic axis around the circle."""
    low, box = places.min(0), np.array([period or 0.0 for period in periods])
    around = np.where(box > 0, box, 1.0)

    def from_low(x: np.ndarray) -> np.ndarray:
        return np.where(box > 0, np.mod(x - low, around) % around, x - low)

    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    tree = KDTree(from_low(places), boxsize=box if box.any() else None)
    nearest = tree.query(from_low(nodes.reshape(-1, len(box))))[0]
    return np.asarray(nearest).reshape(nodes.shape[:-1])


def beyond(
    places: Float[np.ndarray, "n d"],
    axes: Sequence[Float[np.ndarray, " _"]],
    periods: Sequence[float | None],
    mean_distance: float,
) -> Bool[np.ndarray, "*grid"]:
    """Return whether each node of a grid is outside the places' convex hull, or ``FAR`` mean distances from all.

    On a grid with a periodic axis, where there is no hull, the distance alone decides.
    """
    far = distances(places, axes, periods) > FAR * mean_distance
    return far if any(periods) else far | outside_hull(places, np.stack(np.meshgrid(*axes, indexing="ij"), -1))


def outside_hull(places: Float[np.ndarray, "n d"], at: Float[np.ndarray, "*any d"]) -> Bool[np.ndarray, "*any"]:
    """Return whether each position is outside the places' convex hull, or outside their box if they are flat."""
    used = np.ptp(places, axis=0) > 0
    outside = np.any((at < places.min(0)) | (at > places.max(0)), -1)
    if used.sum() > 1:
        try:
            corners = places[:, used][ConvexHull(places[:, used]).vertices]
            outside |= Delaunay(corners).find_simplex(at[..., used], tol=ON_HULL) < 0
        except QhullError:  # the places are in a plane, next to which the distance decides
            pass
    return outside
