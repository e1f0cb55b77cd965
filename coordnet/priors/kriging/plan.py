"""Kriging by a dense linear system of all samples, or of the nearest ones."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import continue_smoothly
from coordnet.networks.fit_reports import FitReport, KrigingReport
from coordnet.plans.matern import MOST_DENSE, kriged
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.kriging.scale_search import GAIN, KrigingParameters, P, left_out_error, likeliest, searched
from coordnet.priors.plates.field import Field, dimensions
from coordnet.priors.plates.prior import CLOSE
from coordnet.sampling.samples import Geometry

# Largest number of samples in a block whose likelihood is maximized, and the number of blocks where there are more than
# ``MOST_DENSE`` samples; time grows with the cube of the first. In 27 clouds of 900 to 4,000 points six blocks gain
# 0.25 dB in the mean over the middle one alone, and lose 0.2 dB at most. In rows, which have fewer samples, they lose
# up to 2.7 dB.
MOST_DECIDING, DECIDING_BLOCKS = 200, 6
# Largest number of points that are drawn at random in place of those in the middle. In 120 clouds of 150 to 1,000
# points, most of them in clusters or tracks or of uneven density, they gain 0.7 dB in the mean (standard error 0.3 dB).
MOST_DRAWN = 400
# Known nodes up to which kriging is tried in any case, as it takes no longer than the comparison of the other priors.
# Where that comparison decided, a few misleading windows cost a volume 6 dB; 54 other fields and crops stay as they
# are.
FEW_KRIGED = 2**12
# The weight of kriging among the fits to points of a row, beside the one that hidden points give: these are few. On 73
# rows of 30 to 150 points it gains 0.10 dB in the mean, if gains and losses are cut at 1 dB.
POINTS_SHARE = 0.5


class KrigingPlan(Plan):
    """The best linear unbiased prediction of all nodes, by a dense linear system of all samples.

    The encoding is replaced by that of the signal's grid; points depend on it by quintic blends, unless their geometry
    names others. Gradients flow to the values; the parameters of the prior are held fixed. A ``ValueError`` is raised
    if the encoding is not Fourier's, the samples are no values at points, or channels have masks of their own.
    """

    has_gradient = True
    method = "kriging, dense"

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Any, **options: Any) -> None:
        if encoding.axis_encoders:
            raise _checks.wrong("encoding", "a FourierEncoding for kriging", type(encoding).__name__)
        if geometry.weights is not None and geometry.weights.shape[-1] > 1:
            raise _checks.wrong("prior", "cn.Adaptive() for channels with masks of their own", "cn.Kriging")
        geometry.check_point_values("prior", "cn.Smoothness or cn.Adaptive", "cn.Kriging")
        if getattr(encoding, "axes", geometry.pixels) != geometry.pixels:
            encoding = FourierEncoding.on(geometry.pixels)
        geometry = geometry.blended("quintic")
        super().__init__(encoding, geometry, **options)
        self.is_plain_row = dimensions(geometry.grid) == 1 and not _are_points(geometry)
        self.by_likelihood = geometry.is_nodal and self.is_plain_row and not geometry.is_strided
        self.prior = prior

    def share(self, values: Float[Tensor, "1 channels *samples"]) -> float | None:
        """Return ``POINTS_SHARE`` for points of a row, whose likelihood counts all of them, and None for others."""
        return POINTS_SHARE if _are_points(self.geometry) and dimensions(self.geometry.grid) == 1 else None

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether samples are points or few, or a stationary prior is the best of those tried, or close."""
        known = self.geometry.density * math.prod(self.geometry.grid)
        if _are_points(self.geometry) or self.is_plain_row or known <= FEW_KRIGED:
            return True
        stationary = [error for prior, error in errors.items() if prior.stationary == prior]
        return bool(stationary) and min(stationary) <= CLOSE * min(errors.values())

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> KrigingParameters:
        return most_likely(self.prior, self.geometry, values)

    def _predicted(
        self, prior: KrigingParameters, values: Float[Tensor, "channels *samples"]
    ) -> Float[Tensor, "channels *grid"]:
        return predicted(prior, self.geometry, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        numbers = self._most_likely(values[0].detach())
        shape: Any = self.encoding.shape
        f = continue_smoothly(self._predicted(numbers, values[0])[None], shape, 2)
        return Fitted(f.to(values), self._report(numbers))

    def _report(self, numbers: Any) -> FitReport:
        return KrigingReport(
            method=self.method,
            device="cpu",
            smoothness=None if numbers.smoothness == math.inf else numbers.smoothness,
            scale=list(numbers.scale) if isinstance(numbers.scale, tuple) else numbers.scale,
            nugget=numbers.nugget,
            angle=numbers.angle,
        )


def predicted(
    prior: KrigingParameters, geometry: Geometry, values: Float[Tensor, "channels *samples"]
) -> Float[Tensor, "channels *grid"]:
    """Return the best linear unbiased prediction of all nodes, in float64 on the CPU; see ``kriged``."""
    known, x, weights = _places(geometry)
    y = values.cpu().double().flatten(1)[:, known]
    return kriged(prior.covariance, (prior.nugget or 0.0) / weights, x, y, geometry.grid)


def most_likely(prior: P, geometry: Geometry, values: Float[Tensor, "channels *samples"]) -> P:
    """Return the prior with the parameters of greatest restricted likelihood, among those that are tried.

    The likelihood is that of blocks of the samples (``likeliest``). Points of a row are taken to have noise only where
    that gains ``GAIN``: a rough row looks like a smooth one with noise, but its points are to be interpolated. Fits of
    points of 62 rows gain 0.12 dB by that, and 0.14 dB of 63 that were held out, if gains and losses are cut at 3 dB.
    """
    known, x, weights = _places(geometry)
    roots = np.sqrt(weights)
    y = values.cpu().double().flatten(1)[:, known].T.numpy() * roots[:, None]
    distance = float(np.prod(np.ptp(x, axis=0) + 1) / len(x)) ** (1 / dimensions(geometry.grid))
    are_points = _are_points(geometry)
    blocks = [(x[near], roots[near], y[near, None]) for near in _blocks(x, are_points=are_points)]
    doubt = GAIN if are_points and dimensions(geometry.grid) == 1 else 0.0
    tried, error = partial(likeliest, blocks, prior.nuggets, doubt=doubt), partial(left_out_error, blocks)
    return searched(prior, distance, geometry.grid, tried, error)


def _blocks(x: Float[np.ndarray, "n axes"], *, are_points: bool) -> list[Int[np.ndarray, " _"]]:
    """Return the ``MOST_DECIDING`` samples in the middle, or nearest to several of more than ``MOST_DENSE`` samples.

    These are spread along the longest axis. Of up to ``MOST_DENSE`` points between nodes ``MOST_DRAWN`` are drawn at
    random instead: those in the middle may be of one cluster, which says nothing of others.
    """
    if are_points and len(x) <= MOST_DENSE:
        return [np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_DRAWN])]
    middles = np.median(x, axis=0)[None]
    if len(x) > MOST_DENSE:
        along = np.argsort(x[:, np.ptp(x, axis=0).argmax()], kind="stable")
        middles = x[along[(2 * np.arange(DECIDING_BLOCKS) + 1) * len(x) // (2 * DECIDING_BLOCKS)]]
    return [np.sort(np.abs(x - middle).sum(1).argsort()[:MOST_DECIDING]) for middle in middles]


def _are_points(geometry: Geometry) -> bool:
    """Whether samples are points between nodes, anywhere."""
    return geometry.closed_form_blend is not None


def _places(geometry: Geometry) -> tuple[Tensor, Float[np.ndarray, "n axes"], Float[np.ndarray, " n"]]:
    """Return which samples are known, their places in nodes of the lattice, and the weights of their squared errors."""
    known = (geometry.full_weights[..., 0] > 0).flatten().cpu()
    field = Field.of(geometry, torch.zeros(1, *geometry.shape))
    return known, field.positions, field.weights
