"""Interpolations by SciPy and scikit-image of the same samples, the peers of every table."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.samples import Samples

Baseline = Callable[[Samples], Tensor | None]
SPLINE_SECONDS = 1e-7  # seconds of a spline for each sample of its result
TRIANGULATION_SECONDS = {"linear": 15e-6, "cubic": 50e-6}  # seconds of ``griddata`` in 2-D, for a known point
TRIANGULATION_LIMIT = {2: 2_000_000, 3: 60_000}  # known points that half a minute triangulates, by the number of axes

# Seconds for one unknown point, by the number of axes, measured on pictures of 64² to 512², a quarter to 98 % known.
BIHARMONIC_SECONDS = {2: 7e-6, 3: 3e-5}
BIHARMONIC_LIMIT = {2: 500_000, 3: 20_000}  # unknown points; the factors of more take gigabytes


def nearest(samples: Samples) -> Float[Tensor, "*grid channels"]:
    """Return the value of the nearest sample, on the signal's own grid."""
    axes = samples.geometry.filled_axes
    if axes is None:
        return _by_channel(samples, lambda x, y: _nearest_scattered(x, y, _targets(samples)))
    index = []
    for axis, length in zip(axes, samples.grid, strict=True):
        positions = (Axis(length).points() - axis.start) / axis.spacing
        index.append(positions.round().long().clamp(0, axis.count - 1))
    return samples.values[torch.meshgrid(*index, indexing="ij")]


def linear(samples: Samples, *, patient: bool = False) -> Float[Tensor, "*grid channels"] | None:
    """Interpolate linearly on the signal's own grid: by a spline of degree 1, or ``griddata`` where samples are masked.

    It is None if more points than ``TRIANGULATION_LIMIT`` would have to be triangulated and ``patient`` is false.
    """
    return interpolated(samples, 1, patient)


def cubic(samples: Samples) -> Float[Tensor, "*grid channels"] | None:
    """Interpolate cubically on the signal's own grid: by a tensor spline, or ``griddata`` where samples are masked.

    It is None if ``griddata`` has no cubic method (three dimensions and more) or has too many points to triangulate.
    """
    return interpolated(samples, 3)


def biharmonic(samples: Samples) -> Float[Tensor, "*grid channels"] | None:
    """Inpaint what no channel knows by scikit-image's ``inpaint_biharmonic``.

    It is None for rows and for more than three axes, for scattered points and means over cells, and where nothing is
    unknown, or more than ``BIHARMONIC_LIMIT`` points.
    """
    from skimage.restoration import inpaint_biharmonic

    picture = torch.zeros(*samples.grid, samples.channels, dtype=torch.float64)
    samples.geometry.put(samples.values.double().cpu(), picture)
    unknown = ~samples.geometry.known(samples.channels).any(-1)
    limit = BIHARMONIC_LIMIT.get(len(samples.grid), 0)
    if int(unknown.sum()) > limit or not bool(unknown.any()) or bool(unknown.all()):
        return None
    filled = inpaint_biharmonic(picture.numpy(), unknown.numpy(), channel_axis=-1)
    return torch.from_numpy(np.asarray(filled)).to(samples.values)


def expected_seconds(samples: Samples, name: str) -> float:
    """Estimate how long "linear", "cubic" or "biharmonic" takes on a lattice, on one core.

    It is 0 for splines of masked rows and where there is no such interpolation, and infinite where it has more points
    than its limit.
    """
    dims, known = len(samples.grid), samples.geometry.known(samples.channels).any(-1)
    if name == "biharmonic":  # one sparse system of the unknown points
        count = int((~known).sum())
        beyond = dims in BIHARMONIC_LIMIT and count > BIHARMONIC_LIMIT[dims]
        return math.inf if beyond else BIHARMONIC_SECONDS.get(dims, 0.0) * count**1.1
    if samples.geometry.filled_axes is not None:
        return SPLINE_SECONDS * math.prod(samples.grid) * samples.channels
    dims = len(_varying(samples))
    if dims == 1 or (name == "cubic" and dims > 2):
        return 0.0
    count = int(known.sum())
    return math.inf if count > TRIANGULATION_LIMIT.get(dims, 0) else count * TRIANGULATION_SECONDS[name]


BASELINES: dict[str, Baseline] = {"nearest": nearest, "linear": linear, "cubic": cubic}


def interpolated(samples: Samples, degree: int, patient: bool = False) -> Float[Tensor, "*grid channels"] | None:
    """Interpolate a lattice axis by axis, in 2-D as ``RectBivariateSpline``, and points by a triangulation.

    Splines may have any odd ``degree``, triangulations 1 and 3; see ``linear`` for where it is None. A grid of one
    node along an axis, such as a picture of one row, is triangulated without this axis.
    """
    varying, weights = _varying(samples), samples.weights
    dims = len(varying)
    axes = samples.geometry.filled_axes
    if axes is not None:
        result = samples.values.double().cpu().numpy()
        for j, (axis, length) in enumerate(zip(axes, samples.grid, strict=True)):
            result = _spline(axis.points().numpy(), result, Axis(length).points().numpy(), degree, j)
        return torch.from_numpy(result).to(samples.values)
    targets = _targets(samples)[:, varying]
    if dims == 1:
        return _by_channel(samples, lambda x, y: _spline(x[:, varying[0]], y, targets[:, 0], degree))
    count = math.prod(samples.values.shape[:-1]) if weights is None else int((weights > 0).any(-1).sum())
    if (degree == 3 and dims > 2) or (count > TRIANGULATION_LIMIT.get(dims, 0) and not patient):
        return None
    method = {1: "linear", 3: "cubic"}[degree]
    return _by_channel(samples, lambda x, y: _triangulated(x[:, varying], y, targets, method))


def _spline(x: np.ndarray, y: np.ndarray, at: np.ndarray, degree: int, axis: int = 0) -> np.ndarray:
    """Interpolate by a spline of this degree, or a lower odd one for few points; outside, the end values are kept."""
    from scipy.interpolate import make_interp_spline

    x, first = np.unique(x, return_index=True)
    y = y.take(first, axis)
    if len(x) == 1:
        return np.repeat(y, len(at), axis)
    degree = min(degree, 2 * (len(x) // 2) - 1)
    return make_interp_spline(x, y, k=degree, axis=axis)(at.clip(x[0], x[-1]))


def _by_channel(samples: Samples, method: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Tensor:
    """Apply a method for scattered points to all channels at once, or to each of them if their masks differ."""
    points, values = samples.geometry.positions(), samples.values.reshape(-1, samples.channels)
    known = samples.geometry.full_weights.reshape(len(values), -1).cpu() > 0
    parts = []
    for c in range(known.shape[1]):
        channels = slice(None) if known.shape[1] == 1 else slice(c, c + 1)
        if not bool(known[:, c].any()):  # as a fit has it
            parts.append(torch.zeros(*samples.grid, 1).to(samples.values))
            continue
        x, y = (t.double().cpu().numpy() for t in (points[known[:, c]], values[known[:, c]][:, channels]))
        parts.append(torch.from_numpy(method(x, y)).to(samples.values).reshape(*samples.grid, -1))
    return torch.cat(parts, dim=-1)


def _varying(samples: Samples) -> list[int]:
    """Return the axes of more than one node, or the first one if there is none."""
    return [j for j, n in enumerate(samples.grid) if n > 1] or [0]


def _targets(samples: Samples) -> np.ndarray:
    return lattice_points(tuple(Axis(n) for n in samples.grid)).flatten(0, -2).numpy()


def _nearest_scattered(x: np.ndarray, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
    from scipy.spatial import KDTree

    return y[KDTree(x).query(targets, workers=-1)[1]]


def _triangulated(x: np.ndarray, y: np.ndarray, targets: np.ndarray, method: str) -> np.ndarray:
    """Apply ``griddata``; take the nearest sample outside the convex hull, or everywhere if there is no triangle."""
    from scipy.interpolate import griddata
    from scipy.spatial import QhullError

    try:
        result = griddata(x, y, targets, method=method)
    except (QhullError, ValueError):  # collinear points, or fewer than a simplex has
        return _nearest_scattered(x, y, targets)
    outside = np.isnan(result).any(1)
    result[outside] = _nearest_scattered(x, y, targets[outside])
    return result
