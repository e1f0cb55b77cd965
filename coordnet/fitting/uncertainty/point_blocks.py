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
