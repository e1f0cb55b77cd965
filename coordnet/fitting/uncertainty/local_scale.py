"""The local scale of a fit's errors, learned from errors at hidden samples."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude
from scipy.optimize import minimize_scalar

from coordnet.fitting.uncertainty.folds import Folded
from coordnet.sampling.axes import ByAxes

# Standard deviation, in spacings, of the Gaussian mean of errors around a node, by the number of axes. Each has the
# weight of about a hundred nodes.
NEIGHBORHOOD = ByAxes({1: 32.0, 2: 3.0, 3: 1.4, 4: 0.9})
GRADIENT = 1.5  # standard deviation, in spacings, of the Gaussian whose derivatives are the gradient
ADDED_SHARE = 0.1  # share of the mean error or gradient that is added before the logarithm
OWN = 0.3  # share of that floor that is added to the error to be predicted
PRIOR_WEIGHT = 0.1  # weight of the overall mean error in the mean around a node, in samples
NEAREST = 0.5  # lower bound of distances to samples, in spacings
# Singular value of the features, relative to the largest, below which they do not vary: where a plate is a polynomial,
# its gradient is constant but for rounding.
LEAST_VARIED = 1e-6
STEEPEST = 4.0  # upper bound of the power of the distance with which squared errors grow

Nodes = Float[np.ndarray, " nodes"]


@dataclass(frozen=True)
class LocalScale:
    """The scale s = exp(a + b · features) of errors at nodes and at hidden samples.

    The features are the logarithms of the mean error at hidden samples around a node (around a hidden sample without
    its own), of the gradient's magnitude, of the posterior deviation under a local prior, and of the distance to the
    nearest sample. Their slopes are those of a linear regression of the logarithm of the errors' mean over channels.
    For the slopes, the errors around a sample are taken from its own fit alone. Fits that saw the sample err nearby if
    it is unlike its surroundings, so that their errors tell its own; at a node without a sample nothing does. Where
    folds have the shape of what is unknown, errors are alike in each of their parts, and inside of what is unknown
    there are none. Around a sample they are then those of the other folds beyond its own one.
    """

    of_nodes: Float[np.ndarray, "nodes channels"]
    of_errors: Float[np.ndarray, "n channels"]

    @classmethod
    def learn(cls, folded: Folded, render: Float[np.ndarray, "*grid channels"]) -> "LocalScale":
        """Learn the scale from errors at hidden samples and the render of all samples."""
        errors = folded.single
        size = np.nanmean(np.abs(errors.error), axis=1)
        floor = ADDED_SHARE * size.mean() or np.finfo(float).tiny
        grid = render.shape[:-1]
        everywhere, without_own = _around(errors.node, size, grid, size.mean())
        of_own_fit = np.empty_like(size)
        for fit in np.unique(errors.fit):
            part = errors.fit == fit
            if folded.in_shape:
                of_own_fit[part] = _beyond(errors.node, size, part, grid)
            else:
                of_own_fit[part] = _around(errors.node[part], size[part], grid, size.mean())[1]
        without_own = of_own_fit if folded.in_shape else without_own
        log_slope, log_deviation = (_log(f, f.mean()) for f in (gradient(render).ravel(), folded.deviation))
        apart = np.log(np.maximum(errors.distance, NEAREST))
        hidden = np.where(np.isnan(errors.error), np.nan, apart)
        hidden_deviation = _log(errors.deviation, folded.deviation.mean())
        columns = [np.log(without_own + floor), log_slope[errors.node], hidden_deviation]
        told = [np.log(of_own_fit + floor), *columns[1:]]
        rows = np.stack([np.ones_like(size), *told, np.nanmean(hidden, axis=1)], -1)
        fitted = np.linalg.lstsq(rows, np.log(size + OWN * floor), rcond=LEAST_VARIED)[0]
        start, slopes, power = fitted[0], fitted[1:-1], fitted[-1]

        def scale(parts: list[Nodes], apart: np.ndarray) -> np.ndarray:
            return np.exp(start + np.stack(parts, -1) @ slopes)[:, None] * np.exp(power * apart)

        nodes = [np.log(everywhere + floor), log_slope, log_deviation]
        return cls(scale(nodes, np.log(np.maximum(folded.distance, NEAREST))), scale(columns, apart))


def _log(feature: Float[np.ndarray, " n"], mean: float) -> Float[np.ndarray, " n"]:
    return np.log(feature + (ADDED_SHARE * mean or np.finfo(float).tiny))


def gradient(signal: Float[np.ndarray, "*grid channels"]) -> Float[np.ndarray, "*grid"]:
    """Return the root mean square over channels of the gradient's magnitude."""
    channels = [gaussian_gradient_magnitude(c, GRADIENT, mode="nearest") for c in np.moveaxis(signal, -1, 0)]
    return np.sqrt(np.mean(np.square(channels), axis=0))


def _around(
    node: Int[np.ndarray, " n"], size: Float[np.ndarray, " n"], grid: tuple[int, ...], usual: float
) -> tuple[Nodes, Float[np.ndarray, " n"]]:
    """Return the Gaussian mean of sizes at hidden samples around every node, and around each sample without its node's.

    It is shrunk to the ``usual`` size, which counts as ``PRIOR_WEIGHT`` samples at the node itself.
    """
    width, cells = NEIGHBORHOOD[len(grid)], math.prod(grid)
    count = np.bincount(node, minlength=cells)
    total = np.bincount(node, size, minlength=cells)
    center = (width * math.sqrt(2 * math.pi)) ** -len(grid)  # the weight of the node itself
    near, sums = (
        gaussian_filter(x.reshape(grid).astype(float), width, mode="constant").ravel() for x in (count, total)
    )
    kept = PRIOR_WEIGHT * center

    def mean(sums: np.ndarray, near: np.ndarray) -> np.ndarray:
        return (sums.clip(min=0) + kept * usual) / (near.clip(min=0) + kept)

    return mean(sums, near), mean((sums - center * total)[node], (near - center * count)[node])


def _beyond(
    node: Int[np.ndarray, " n"], size: Float[np.ndarray, " n"], part: Bool[np.ndarray, " n"], grid: tuple[int, ...]
) -> Float[np.ndarray, " part"]:
    """Return the Gaussian mean of sizes around each sample of a part, of all at nodes that the part has not."""
    others = ~np.isin(node, node[part])
    return _around(node[others], size[others], grid, size.mean())[0][node[part]]


def power_of_distance(size: Float[np.ndarray, " n"], distance: Float[np.ndarray, " n"]) -> float:
    """Return the b ≥ 0 for which E[size] = a distance^b has the greatest quasi-likelihood, that of Poisson."""
    logs = np.log(np.maximum(distance, NEAREST))
    total, moment = size.sum(), (size * logs).sum()
    optimum = minimize_scalar(
        lambda b: total * np.log(np.exp(b * logs).sum()) - b * moment, bounds=(0.0, STEEPEST), method="bounded"
    )
    return float(optimum.x)  # type: ignore[attr-defined]
