"""The search for the parameters of kriging that have the greatest restricted likelihood."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from coordnet import _checks
from coordnet.plans.matern import SMOOTHNESSES, covariance, decomposed, left_out_errors, restricted_likelihoods

RELATIVE_SCALES = tuple(2.0**k for k in range(-1, 8))  # scales that are tried, in mean distances of samples
# Variances of noise that are tried, relative to the process's, which may be a hundred times that of the samples if its
# scale is longer than their extent.
NUGGETS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 10.0, 100.0)
# Gain in log-likelihood for which a scale of its own is taken along an axis, or one between those tried, and for which
# points of a row are taken to have noise.
GAIN = 4.0
BETWEEN = 0.5, 0.25  # octaves by which the scales that are found are refined
# Steps in the binary logarithm of the lengths of a plane, along both of its diagonals. Of 148 clouds of 50 and 200
# points 22 gain 5 dB in the mean, and 2 lose up to 0.8 dB; of 70 others 6 gain 1 dB, and one loses 0.4 dB. On lattices,
# 19 fields at four samplings lose 0.04 dB at most. Of 30 crops of pictures at every second node one loses 1.3 dB.
DIAGONALS = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.5, -0.5], [-0.5, 0.5]])
UNTURNED = 1e-9  # entry beside the diagonal of such a logarithm up to which it is rounding


@dataclass(frozen=True)
class KrigingParameters:
    """The parameters of ``Kriging``, as its plans take them; it says what they are."""

    smoothness: float | None = None
    scale: float | tuple[float, ...] | None = None
    nugget: float | None = None
    angle: float = 0.0

    def __post_init__(self) -> None:
        if self.smoothness is not None and self.smoothness not in SMOOTHNESSES:
            raise _checks.wrong("smoothness", "0.5, 1.5, 2.5, 3.5 or inf", self.smoothness)
        for scale in self.scale if isinstance(self.scale, tuple) else (self.scale,):
            if scale is not None:
                _checks.positive("scale", scale)
        if self.nugget is not None:
            _checks.nonnegative("nugget", self.nugget)
        if _checks.finite("angle", self.angle) and not (isinstance(self.scale, tuple) and len(self.scale) == 2):
            raise _checks.wrong("angle", "0 unless `scale` has two numbers", self.angle)

    def covariance(self, x: Float[np.ndarray, "n axes"], z: Float[np.ndarray, "m axes"]) -> Float[np.ndarray, "n m"]:
        """Return the covariances of places in nodes; parameters that are not given are 0.5 and 1."""
        scale = np.array(self.scale or 1.0)
        if self.angle:
            x, z = x @ self._axes, z @ self._axes
        return covariance(self.smoothness or SMOOTHNESSES[0], cdist(x / scale, z / scale))

    @property
    def _axes(self) -> Float[np.ndarray, "2 2"]:
        """The directions of the scales in a plane, one in each column."""
        cosine, sine = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        return np.array([[cosine, -sine], [sine, cosine]])

    def lengths(self, grid: tuple[int, ...]) -> Float[np.ndarray, "axes axes"]:
        """Return the symmetric matrix L for which distances are those of 2^(-L) x for places x of a grid."""
        lengths = np.diag(np.log2(self.by_axis(grid)))
        return self._axes @ lengths @ self._axes.T if self.angle else lengths

    def by_axis(self, grid: tuple[int, ...]) -> Float[np.ndarray, " axes"]:
        """Return the scale along each axis of a grid, or along each of its turned axes; 1 if none is given."""
        return np.broadcast_to(np.array(self.scale or 1.0), len(grid))

    def mean_scale(self, grid: tuple[int, ...]) -> float:
        """Return the geometric mean of the scales along the axes of more than one node."""
        return float(np.exp(np.log(self.by_axis(grid)[np.array(grid) > 1]).mean()))

    @property
    def searches(self) -> bool:
        """Whether a parameter is not given, so that a fit chooses it."""
        return None in (self.smoothness, self.scale, self.nugget)

    @property
    def nuggets(self) -> Float[np.ndarray, " m"]:
        """The variances of noise that are tried, relative to the process's."""
        return np.array(NUGGETS if self.nugget is None else (self.nugget,))


P = TypeVar("P", bound=KrigingParameters)
Likely = tuple[float, P]  # a log-likelihood, and the parameters that have it
# The places of a block's samples in nodes, its samples of the constant signal 1, and its samples: those of several
# parts of a lattice, whose places are alike.
Block = tuple[Float[np.ndarray, "n axes"], Float[np.ndarray, " n"], Float[np.ndarray, "n parts columns"]]


def searched(
    prior: P,
    distance: float,
    grid: tuple[int, ...],
    likeliest: Callable[[Iterable[P]], Likely[P]],
    error: Callable[[P], float],
) -> P:
    """Return the likeliest parameters of those that are tried, with a scale for each axis where that is better.

    First all axes have one scale. Then the scale along one axis after another, or along a diagonal of a plane, is
    doubled or halved, and all covariances are tried once more with the ratios of scales that are found. Last, all
    scales are multiplied or divided by factors ``BETWEEN``, as smooth signals have a scale that is sharply told. A step
    is taken if it gains ``GAIN`` in log-likelihood and lowers the ``error``: the likelihood alone is sure of wrong
    scales where signals have edges.

    Parameters
    ----------
    prior : KrigingParameters
        The parameters; those that are given are kept.
    distance : float
        The mean distance of samples, in nodes.
    grid : tuple of int
        The lengths of the signal's own grid.
    likeliest : function
        It returns the likeliest of some covariances, with its nugget.
    error : function
        It returns the mean squared error of each sample's prediction from the others.
    """
    best = likeliest(covariances(prior, distance))
    if prior.scale is not None or sum(n > 1 for n in grid) < 2:
        return best[1]

    def is_better(tried: Likely[P]) -> bool:
        return tried[0] > best[0] + GAIN and error(tried[1]) < error(best[1])

    while True:
        start = best
        while is_better(tried := likeliest(stretched(best[1], grid))):
            best = tried
        if best is start:
            break
        ratios = best[1].by_axis(grid) / best[1].mean_scale(grid)
        if not is_better(tried := likeliest(covariances(prior, distance * ratios, best[1].angle))):
            break
        best = tried
    for octaves in BETWEEN:
        if is_better(tried := likeliest(finer(best[1], grid, octaves))):
            best = tried
    return best[1]


def likeliest(
    blocks: Sequence[Block], nuggets: Float[np.ndarray, " m"], tried: Iterable[P], doubt: float = 0.0
) -> Likely[P]:
    """Return the likeliest of some covariances, with its nugget, for blocks with a variance for each.

    Blocks are taken to be independent. After each block the less likely half of the covariances is left out. From the
    log-likelihood of noise, that of nuggets above 0, a ``doubt`` is subtracted.
    """
    totals = {one: np.where(nuggets > 0, -doubt, 0.0) for one in tried}
    for x, ones, y in blocks:
        for one, total in totals.items():
            k = decomposed(np.outer(ones, ones) * one.covariance(x, x))
            total += restricted_likelihoods(k, y, nuggets, ones)[0].sum(0)
        likely = sorted(totals, key=lambda one: -totals[one].max())
        totals = {one: totals[one] for one in likely[: math.ceil(len(totals) / 2)]}
    best, total = next(iter(totals.items()))
    return float(total.max()), replace(best, nugget=float(nuggets[total.argmax()]))


def left_out_error(blocks: Sequence[Block], tried: KrigingParameters) -> float:
    """Return the mean squared error of each sample's prediction by the others of its block."""
    each = []
    for x, ones, y in blocks:
        k = np.outer(ones, ones) * tried.covariance(x, x) + (tried.nugget or 0.0) * np.eye(len(x))
        each.append(left_out_errors(k, y.reshape(len(y), -1), ones))
    return float(np.square(np.concatenate(each)).mean())


def covariances(prior: P, distance: float | Float[np.ndarray, " axes"], angle: float = 0.0) -> Iterator[P]:
    """Yield the prior with each covariance that is tried, for a mean distance of samples in nodes, or one by axis.

    The axes of a plane may be turned by an ``angle``, unless the prior has a scale.
    """
    smoothnesses = SMOOTHNESSES if prior.smoothness is None else (prior.smoothness,)
    scales = [_plain(distance * s) for s in RELATIVE_SCALES] if prior.scale is None else [prior.scale]
    for smoothness, scale in itertools.product(smoothnesses, scales):
        yield replace(prior, smoothness=smoothness, scale=scale, angle=prior.angle or angle)


def stretched(prior: P, grid: tuple[int, ...], octaves: float = 1.0) -> Iterator[P]:
    """Yield the prior with lengths increased, and decreased, by octaves along each axis of more than one node.

    In a plane they are so along both diagonals as well. Steps along axes and diagonals together lead to any direction.
    """
    axes = np.flatnonzero(np.array(grid) > 1)
    steps = [np.diag(np.eye(len(grid))[axis]) for axis in axes] + list(DIAGONALS if len(grid) == len(axes) == 2 else ())
    for step, sign in itertools.product(steps, (octaves, -octaves)):
        yield with_lengths(prior, prior.lengths(grid) + sign * step)


def finer(prior: P, grid: tuple[int, ...], octaves: float) -> Iterator[P]:
    """Yield the prior with all scales increased, and decreased, by octaves; if they differ, with each of them, too."""
    scale = prior.by_axis(grid) if isinstance(prior.scale, tuple) else prior.mean_scale(grid)
    for sign in (octaves, -octaves):
        yield replace(prior, scale=_plain(scale * 2**sign))
    if isinstance(prior.scale, tuple):
        yield from stretched(prior, grid, octaves)


def with_lengths(prior: P, lengths: Float[np.ndarray, "axes axes"]) -> P:
    """Return the prior with the scales, and the angle of their directions, that have these ``lengths``."""
    if np.abs(lengths - np.diag(lengths.diagonal())).max() < UNTURNED:
        return replace(prior, scale=_plain(np.exp2(lengths.diagonal())), angle=0.0)
    sizes, axes = np.linalg.eigh(lengths)
    return replace(prior, scale=_plain(np.exp2(sizes)), angle=math.degrees(math.atan2(axes[1, 0], axes[0, 0])) % 180)


def _plain(scale: float | Float[np.ndarray, " axes"]) -> float | tuple[float, ...]:
    """Return a scale as a parameter, which can be compared."""
    return tuple(scale.tolist()) if isinstance(scale, np.ndarray) else scale
