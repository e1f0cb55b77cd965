"""The score of a fit of scattered points by cross-validation: blocks of points are hidden in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from coordnet import _checks
from coordnet.fitting.uncertainty.point_blocks import beyond_ends, folds_by_blocks
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import Samples


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
    samples: Samples, refit: Callable[[Samples], Reconstruction], size: float | Sequence[float] | None, folds: int
) -> Score:
    """Return the score of fits that each do not see a part of the blocks of points.

    Points of a row before the first or after the last that a fit sees do not count, as the fit extrapolates there.

    Parameters
    ----------
    samples : Samples
        Values at scattered points.
    refit : callable
        The fit as a function of samples.
    size : number or sequence, optional
        The lengths of a block in the units of the points' coordinates; a part of their extent if not given.
    folds : int
        The number of parts, at least 2.

    Raises
    ------
    ValueError
        If the samples are no scattered points, the sizes are not positive, or there are fewer blocks than folds, or
        none between others.
    """
    geometry = samples.geometry
    geometry.check_blocks("samples", "scattered points (cn.points) for a score by blocks")
    _checks.integer("folds", folds, 2)
    fold, count = folds_by_blocks(geometry, size, folds)
    weights = geometry.full_weights.to(samples.values).expand_as(samples.values).cpu().double().numpy().copy()
    values, errors = samples.values.detach().cpu().double().numpy(), np.zeros(samples.values.shape)
    for part in range(folds):
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
