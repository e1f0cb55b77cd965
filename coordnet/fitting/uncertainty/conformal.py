"""Cross-conformal intervals: the local scale of errors, times a quantile of errors at hidden samples."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude
from scipy.optimize import minimize_scalar
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.uncertainty.folds import Folded, FoldErrors, SampleTable
from coordnet.sampling.axes import ByAxes

GROUPS = 5  # groups of hidden samples with similar scales; each group has its own quantile
BEYOND_QUANTILE = 10  # least number of hidden samples beyond the quantile in a group
# Squared errors fall as this power of the number of samples: the mean over six pictures of scikit-image with 10, 25 and
# 50 % of their pixels known. Single pictures had powers from 0.5 to 1.3.
POWER = 0.8
# Quantiles of the distances of points that were hidden without their block. Up to the first one, intervals take the
# quantile of these points' errors, beyond the second one that of all errors, and a mean of both in between.
NEAR_POINTS = 0.8, 0.9
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
        own = [np.log(of_own_fit + floor), *columns[1:]]
        rows = np.stack([np.ones_like(size), *own, np.nanmean(hidden, axis=1)], -1)
        fitted = np.linalg.lstsq(rows, np.log(size + OWN * floor), rcond=LEAST_VARIED)[0]
        start, slopes, power = fitted[0], fitted[1:-1], fitted[-1]

        def scale(parts: list[Nodes], apart: np.ndarray) -> np.ndarray:
            return np.exp(start + np.stack(parts, -1) @ slopes)[:, None] * np.exp(power * apart)

        features = (np.log(everywhere + floor), log_slope, log_deviation)
        # Features are kept to the range that hidden samples have: beyond it the slopes of few would lead anywhere.
        nodes = [f.clip(told.min(), told.max()) for f, told in zip(features, columns, strict=True)]
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


@dataclass(frozen=True)
class Calibration:
    """How large the errors of a fit are at every node of its lattice, from errors at hidden samples."""

    errors: FoldErrors  # at five folds
    scale: LocalScale
    # The distance of every node to the nearest sample, in the mean over the fits without a fold.
    distances: Float[np.ndarray, "nodes channels"]
    # True where there is no sample; at the known nodes of a masked lattice the interval is the sample itself.
    sought: Bool[np.ndarray, "nodes channels"]
    # True at the nodes by which the mean error is expected: those without a sample, within the convex hull of points.
    counted: Bool[np.ndarray, "nodes channels"]
    # The factor of squared errors from a fit of some samples to a fit of all. They fall as a power of the number of
    # samples. The fit with the fewest samples tells it, though uncertainly, so that the mean with ``POWER`` is taken.
    # The power is ``POWER`` for gaps that move, such as clouds, and 0 for other folds in the shape of what is unknown:
    # more samples elsewhere bring none nearer.
    growth: float
    alike: float = 1.0  # the number of hidden samples whose errors count as one; see ``Folded``
    # True where a sample was hidden without its block; None where no blocks are hidden.
    alone: Bool[np.ndarray, " n"] | None = None

    @classmethod
    def of(cls, table: SampleTable, folded: Folded, render: Float[Tensor, "*grid channels"]) -> "Calibration":
        """Learn the scale from the errors in folds, and how errors fall with the number of samples."""
        signal = render.detach().cpu().double().numpy()
        known = table.samples.geometry.known(table.samples.channels)
        sought = ~known.flatten(0, -2).numpy()
        within = table.samples.geometry.within_hull
        counted = sought if within is None or not within.any() else sought & within[:, None]
        fewer = folded.single.shown / float(table.known.sum())
        inside = POWER if table.has_moving_gaps else 0.0
        growth = fewer ** (inside if folded.in_shape else max(_power(folded) + POWER, 0) / 2)
        scale = LocalScale.learn(folded, signal)
        return cls(folded.single, scale, folded.distance, sought, counted, growth, folded.alike, folded.alone)

    def half_width(self, level: float) -> Float[np.ndarray, "nodes channels"]:
        """Return half of the width of intervals that cover a share ``level`` of the errors; 0 at known nodes."""
        columns = [self._half_width(channel, level) for channel in range(self.sought.shape[1])]
        return np.where(self.sought, math.sqrt(self.growth) * np.stack(columns, -1), 0.0)

    def _half_width(self, channel: int, level: float) -> Float[np.ndarray, " nodes"]:
        """Return the scale of every node times the quantile of relative errors, which follows the scale."""
        error = np.abs(self.errors.error[:, channel])
        there = ~np.isnan(error)
        scale = self.scale.of_errors[there, channel]
        relative, logs = error[there] / scale, np.log(scale)
        # Where a few parts are all there is, the largest error is taken.
        alike = max(1.0, min(self.alike, 0.999 * len(relative) * (1 - level) / level))
        groups = max(1, min(GROUPS, math.floor(len(relative) * (1 - level) / (BEYOND_QUANTILE * alike))))
        parts = np.array_split(np.argsort(logs, kind="stable"), groups)
        quantiles = [conformal_quantile(relative[part], level, alike) for part in parts]
        at = self.scale.of_nodes[:, channel]
        quantile = np.interp(np.log(at), [logs[part].mean() for part in parts], quantiles)
        return at * (
            quantile if self.alone is None else self._near_points(quantile, self.alone & there, channel, level)
        )

    def _near_points(
        self, quantiles: Float[np.ndarray, " nodes"], alone: Bool[np.ndarray, " n"], channel: int, level: float
    ) -> Float[np.ndarray, " nodes"]:
        """Return the quantiles of relative errors at nodes, near points that of the errors at points hidden ``alone``.

        Relative errors in blocks are larger, as the scale does not follow errors all the way. Where too few points were
        hidden alone for the level, the quantiles stay as they are.
        """
        relative = np.abs(self.errors.error[alone, channel]) / self.scale.of_errors[alone, channel]
        if math.ceil((len(relative) + 1) * level) > len(relative):
            return quantiles
        ends = np.quantile(self.errors.distance[alone, channel], NEAR_POINTS)
        share = np.interp(self.distances[:, channel], ends, (0.0, 1.0))
        return share * quantiles + (1 - share) * conformal_quantile(relative, level)

    @cached_property
    def std(self) -> Float[np.ndarray, "nodes channels"]:
        """The standard deviation of the errors: the scale, times a factor for each channel; 0 at known nodes.

        The mean of its square over the counted nodes is the mean squared error expected there by hidden samples.
        """
        columns = []
        for channel, scale in enumerate(self.scale.of_nodes.T):
            error, counted = self.errors.error[:, channel], self.counted[:, channel]
            there = ~np.isnan(error)
            if not counted.any():
                columns.append(np.zeros_like(scale))
                continue
            square, apart = error[there] ** 2, self.errors.distance[there, channel]
            distances = self.distances[counted, channel]
            expected = self.growth * _at_distances(square, apart, distances)
            relative = scale / (np.sqrt(np.square(scale[counted] / scale.max()).mean()) * scale.max())
            columns.append(relative * math.sqrt(expected))
        return np.where(self.sought, np.stack(columns, -1), 0.0)

    @property
    def mean_squared_error(self) -> float:
        """The mean squared error to expect at the counted nodes."""
        return float(np.square(self.std[self.counted]).mean())


def conformal_quantile(scores: Float[np.ndarray, " n"], level: float, alike: float = 1.0) -> float:
    """Return the ⌈(n + 1) level⌉-th smallest score, which a further exchangeable score exceeds with 1 - level at most.

    Scores may be ``alike``, as those of a block are: so many count as one, and it is the ⌈(n + alike) level⌉-th then.
    A ``ValueError`` is raised if there are too few scores for the level.

    Vovk, "Cross-conformal predictors" (2015); Papadopoulos, Vovk and Gammerman, "Regression conformal prediction with
    nearest neighbours" (2011), for scores relative to a scale; Dunn, Wasserman and Ramdas, "Distribution-free
    prediction sets for two-layer hierarchical models" (2023), for groups of scores.
    """
    rank = math.ceil((len(scores) + alike) * level)
    if rank > len(scores):
        raise _checks.wrong("level", f"at most {len(scores) / (len(scores) + alike):.4g} for so few samples", level)
    return float(np.partition(scores, rank - 1)[rank - 1])


def _power(folded: Folded) -> float:
    """Return the power of the number of samples with which squared errors fall; ``POWER`` if no fit tells it."""
    if folded.together is None:
        return POWER
    fewer, fewest = (float(np.nanmean(np.square(part.error))) for part in (folded.pair, folded.together))
    if min(fewer, fewest) <= 0:
        return 0.0
    return math.log(fewest / fewer) / math.log(folded.pair.shown / folded.together.shown)


def _at_distances(square: np.ndarray, apart: np.ndarray, distances: np.ndarray) -> float:
    """Return the mean of squared errors at hidden samples, moved to other distances from the nearest sample."""
    power = power_of_distance(square, apart)
    apart, distances = (np.maximum(d, NEAREST) ** power for d in (apart, distances))
    return float(square.sum() / apart.sum() * distances.mean())
