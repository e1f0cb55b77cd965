"""Kriging: Gaussian processes whose covariance maximizes the restricted likelihood of the samples."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import continue_smoothly
from coordnet.networks.fit_reports import FitReport, KrigingReport
from coordnet.plans.kriged_lattices import (
    DECIDING_SIDES,
    MOST_BLOCKS,
    PREDICTING_SIDES,
    Parts,
    block_likelihood,
    meets_samples,
    predicted_nodes,
    relative_variance,
)
from coordnet.plans.matern import SMOOTHNESSES, covariance, decomposed, restricted_likelihoods
from coordnet.plans.neighborhoods import MOST_DENSE, kriged
from coordnet.plans.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.plans.row_spectra import with_peaks
from coordnet.priors.base import FEW_SAMPLES, Prior, Setting
from coordnet.priors.plates.field import Field, dimensions
from coordnet.priors.plates.prior import CLOSE
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

# Samples whose likelihood is maximized, at most, and such blocks of more than ``MOST_DENSE`` samples; time grows with
# the cube of the first. In 27 clouds of 900 to 4,000 points six blocks gain 0.25 dB in the mean over the middle one,
# and lose 0.2 dB at most. In rows, which have fewer samples, they lose up to 2.7 dB.
MOST_DECIDING, DECIDING_BLOCKS = 200, 6
# Points that are drawn instead of those in the middle, at most. In 120 clouds of 150 to 1,000 points, most of them in
# clusters or tracks or of uneven density, they gain 0.7 dB in the mean, with a standard error of 0.3 dB.
MOST_DRAWN = 400
RELATIVE_SCALES = tuple(2.0**k for k in range(-1, 8))  # scales that are tried, in mean distances of samples
# Variances of a node given the samples around it, relative to the process's, up to which kriging has a share of the
# weight of a lattice's fits, if the process is not rough (its smoothness is above the least), and these shares. Of 128
# fields and crops, on which they were settled, 33 have the first: with a share of 1 they gain as much in the mean, but
# lose three times as much at worst. With the second, twice the share gains 0.15 dB in the place of 0.09 dB on 26
# fields, and loses 0.11 dB in the place of 0.05 dB on the only one of sixteen whole photographs that has it.
KRIGED_SHARES = {2e-3: 0.8, 0.1: 0.15}
# Samples along each axis of the blocks of a whole lattice whose likelihood tells the covariance and the noise, and of
# the parts that nodes are predicted from. With blocks of 10 in the plane smooth fields among noise lose up to 3 dB;
# with 20 none gains, at four times the time. With parts of 24 they lose up to 0.4 dB.
NOISY_BLOCKS, NOISY_PARTS = ByAxes({1: 200, 2: 14, 3: 6}), ByAxes({1: 1000, 2: 32, 3: 10})
FEWEST_ALONG = 6  # samples along each axis of a lattice of which kriging has a share: fewer hardly tell a covariance
# Variances of noise that are tried, relative to the process's, which may be a hundred times that of the samples if its
# scale is longer than their extent.
NUGGETS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Kriging(Prior):
    """A Gaussian process with an unknown constant mean and Matérn's covariance, observed with white noise.

    Parameters that are not given maximize the restricted likelihood of the samples; of the middle ones, if there are
    more than ``MOST_DECIDING``, and of blocks of a whole lattice, of one that skips nodes, or of many points. No sample
    is hidden for them, so that kriging suits few samples. In a row that skips nodes the spectrum has peaks beside
    (``with_peaks``). Far beyond the samples the prediction returns to the mean of the nearest.

    Attributes
    ----------
    smoothness : float, optional
        The smoothness ν: 0.5, 1.5, 2.5, 3.5, or ``math.inf`` for the Gaussian covariance.
    scale : float, optional
        The length scale of the covariance, in nodes of the lattice.
    nugget : float, optional
        The variance of the noise relative to that of the process; with 0 samples are interpolated.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    Stein, "Interpolation of Spatial Data: Some Theory for Kriging" (1999), sections 1.5, 2.7 and 6.4.
    """

    name: ClassVar[str] = "kriging"
    usage: ClassVar[str] = "[:smoothness=1.5,scale=10,nugget=0]"
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True
    smoothness: float | None = None
    scale: float | None = None
    nugget: float | None = None

    def __post_init__(self) -> None:
        if self.smoothness is not None and self.smoothness not in SMOOTHNESSES:
            raise _checks.wrong("smoothness", "0.5, 1.5, 2.5, 3.5 or inf", self.smoothness)
        if self.scale is not None:
            _checks.positive("scale", self.scale)
        if self.nugget is not None:
            _checks.nonnegative("nugget", self.nugget)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        kind, is_lattice = KrigingPlan, geometry.is_whole_lattice and geometry.is_nodal
        if is_lattice and not geometry.is_strided:
            kind = WholeKrigingPlan
        elif is_lattice and self.nugget == 0:
            kind = LatticeKrigingPlan
        return kind(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Kriging, ...]":
        """Return kriging for points, for short rows and lattices with gaps, and for those that skip nodes.

        Samples that skip nodes are interpolated: all neighbors are at the same distance, at which a smooth process with
        noise can hardly be told from a rough one without.
        """
        geometry = setting.geometry
        is_lattice = geometry.is_strided and geometry.is_nodal and dimensions(geometry.grid) <= 3
        has_enough = math.prod(geometry.shape) >= FEW_SAMPLES.start
        has_gaps = setting.is_short_row or setting.has_plain_gaps
        suits = (is_lattice and has_enough) or has_gaps or setting.has_plain_points
        suits = suits and setting.fourier and not setting.robust
        return (cls(nugget=0.0 if geometry.is_strided else None),) if suits else ()

    def covariance(self, r: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return the covariance at distances in nodes; parameters that are not given are 0.5 and 1."""
        return covariance(self.smoothness or SMOOTHNESSES[0], r / (self.scale or 1.0))

    def with_noise(self, sigma: float) -> "Kriging":
        """Return the prior as it is: unless a nugget is given, the samples tell it with the covariance."""
        return self

    @property
    def keeps_samples(self) -> bool:
        """Whether samples are interpolated, since their nugget is 0."""
        return self.nugget == 0

    @property
    def searches(self) -> bool:
        """Whether a parameter is not given, so that a fit chooses it."""
        return None in (self.smoothness, self.scale, self.nugget)

    def settled(self, report: FitReport) -> "Kriging":
        """Return the prior with the parameters that a fit chose."""
        if not isinstance(report, KrigingReport):
            return self
        return Kriging(report.smoothness or math.inf, report.scale, report.nugget)


class KrigingPlan(Plan):
    """The best linear unbiased prediction of all nodes, by a dense linear system of all samples.

    The encoding is replaced by that of the signal's grid. Gradients flow to the values; the parameters of the prior are
    held fixed. A ``ValueError`` is raised if the encoding is not Fourier's, the samples are no values at points, or
    channels have masks of their own.
    """

    has_gradient = True
    method = "kriging, dense"

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Kriging, **options: Any) -> None:
        if encoding.axis_encoders:
            raise _checks.wrong("encoding", "a FourierEncoding for kriging", type(encoding).__name__)
        if geometry.weights is not None and geometry.weights.shape[-1] > 1:
            raise _checks.wrong("prior", "cn.Adaptive() for channels with masks of their own", "cn.Kriging")
        geometry.check_point_values("prior", "cn.Smoothness or cn.Adaptive", "cn.Kriging")
        if getattr(encoding, "axes", geometry.pixels) != geometry.pixels:
            encoding = FourierEncoding.on(geometry.pixels)
        super().__init__(encoding, geometry, **options)
        self.is_plain_row = dimensions(geometry.grid) == 1 and not geometry.is_laid
        self.by_likelihood = geometry.is_nodal and self.is_plain_row and not geometry.is_strided
        self.prior = prior

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether a stationary prior is the best of those that were tried, or close, on a lattice with gaps."""
        if self.geometry.is_laid or self.is_plain_row:
            return True
        stationary = [error for prior, error in errors.items() if prior.stationary == prior]
        return bool(stationary) and min(stationary) <= CLOSE * min(errors.values())

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values; parameters are chosen for each signal."""
        return solve_each(self._solve, values)

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Kriging:
        return most_likely(self.prior, self.geometry, values)

    def _predicted(self, prior: Kriging, values: Float[Tensor, "channels *samples"]) -> Float[Tensor, "channels *grid"]:
        return predicted(prior, self.geometry, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        numbers: Any = self._most_likely(values[0].detach())
        f = self._predicted(numbers, values[0])
        shape: Any = self.encoding.shape
        report = KrigingReport(
            method=self.method,
            device="cpu",
            smoothness=None if numbers.smoothness == math.inf else numbers.smoothness,
            scale=numbers.scale,
            nugget=numbers.nugget,
        )
        return Fitted(continue_smoothly(f[None], shape, 2).to(values), report)


class WholeKrigingPlan(KrigingPlan):
    """The best linear unbiased prediction of all nodes of a lattice from the noisy samples of a part around each.

    The covariance and the noise maximize the likelihood of blocks of samples, which have one variance: with one for
    each, rows whose nature changes lose up to 10 dB. The time grows with the number of samples.
    """

    method = "kriging, by parts"

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Kriging:
        parts = self._parts(NOISY_BLOCKS)
        between, ones = cdist(parts.places, parts.places), np.ones(len(parts.places))
        y = values.cpu().double().flatten(1).numpy()[:, parts.samples(MOST_BLOCKS)].transpose(1, 2, 0)
        nuggets, found = tried_nuggets(self.prior), {}
        for tried in tried_covariances(self.prior, 1.0):
            k = decomposed(tried.covariance(between))
            likelihoods = restricted_likelihoods([(k, block, ones) for block in y], nuggets)[0].sum(0)
            found[replace(tried, nugget=float(nuggets[likelihoods.argmax()]))] = float(likelihoods.max())
        return max(found, key=found.__getitem__)

    def _predicted(self, prior: Kriging, values: Float[Tensor, "channels *samples"]) -> Float[Tensor, "channels *grid"]:
        parts, y = self._parts(NOISY_PARTS, overlap=2), values.cpu().double().flatten(1)
        return predicted_nodes(prior.covariance, parts, y, self.geometry.grid, prior.nugget or 0.0)

    def _parts(self, sides: Mapping[int, int], overlap: int = 1) -> Parts:
        grid = self.geometry.grid
        side = sides[dimensions(grid)]
        return Parts(grid, (1,) * len(grid), (0,) * len(grid), side, side // overlap)


class LatticeKrigingPlan(KrigingPlan):
    """The best linear unbiased prediction of each node from the samples of a lattice around it, without noise.

    The covariance maximizes the likelihood of blocks of samples, among those that meet the samples. The time grows with
    the number of samples.
    """

    method = "kriging, by parts"

    def share(self, values: Float[Tensor, "1 channels *samples"]) -> float:
        """Return 1 for rows, and what ``KRIGED_SHARES`` says of lattices by how much nodes vary, given the samples.

        The lattice's own half, at twice the distance, says little of smooth signals. Photographs are mostly rough. In
        320 rows a share of 1 gains 0.4 dB in the mean, if gains and losses are cut at 10 dB; those of photographs lose
        0.02 dB.
        """
        shape = [n for n, nodes in zip(self.geometry.shape, self.geometry.grid, strict=True) if nodes > 1]
        if len(shape) < 2 or min(shape) < FEWEST_ALONG:
            return float(len(shape) < 2)
        numbers = self._most_likely(values[0].detach())
        is_rough = numbers.smoothness == SMOOTHNESSES[0]
        variance = math.inf if is_rough else relative_variance(numbers.covariance, self._parts(DECIDING_SIDES))
        return next((share for most, share in KRIGED_SHARES.items() if variance <= most), 0.0)

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return False: the lattice's own half is not fitted."""
        return False

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Kriging:
        """Return the likeliest covariance that meets the samples, or the likeliest.

        The Gaussian covariance is tried in rows alone. In planes and volumes it is too sure of values between samples
        if the axes differ or the signal has a step: of 57 volumes with every second node, five were 5 to 11 dB below
        splines with it, and two are without, by up to 5 dB; of 108 planes some gain up to 15 dB. Analytic fields lose
        up to 31 dB, and stay 12 dB above splines or more.
        """
        parts, y = self._blocks(values)
        between, dims = cdist(parts.places, parts.places), dimensions(self.geometry.grid)
        tried = list(tried_covariances(self.prior, math.prod(parts.steps) ** (1 / dims)))
        if dims > 1 and self.prior.smoothness is None:
            tried = [prior for prior in tried if prior.smoothness != math.inf]
        tried.sort(key=lambda prior: block_likelihood(prior.covariance, between, y), reverse=True)
        return next((prior for prior in tried if meets_samples(prior.covariance, between, y)), tried[0])

    def _predicted(self, prior: Kriging, values: Float[Tensor, "channels *samples"]) -> Float[Tensor, "channels *grid"]:
        parts, covariance = self._parts(PREDICTING_SIDES, overlap=2), prior.covariance
        if self.prior.searches and dimensions(self.geometry.grid) == 1:
            covariance = with_peaks(covariance, *self._blocks(values.detach()))
        return predicted_nodes(covariance, parts, values.cpu().double().flatten(1), self.geometry.grid)

    def _blocks(
        self, values: Float[Tensor, "channels *samples"]
    ) -> tuple[Parts, Float[np.ndarray, "n blocks channels"]]:
        """Return the blocks of samples that tell the covariance, and their values."""
        parts = self._parts(DECIDING_SIDES)
        return parts, values.cpu().double().flatten(1).numpy()[:, parts.samples(MOST_BLOCKS)].transpose(2, 1, 0)

    def _parts(self, sides: Mapping[int, int], overlap: int = 1) -> Parts:
        geometry: Any = self.geometry
        side = sides[dimensions(geometry.grid)]
        return Parts(geometry.shape, geometry.steps, geometry.offsets, side, side // overlap)


def tried_covariances(prior: Kriging, distance: float) -> Iterator[Kriging]:
    """Yield the prior with each covariance that is tried, for samples at a mean distance in nodes."""
    smoothnesses = SMOOTHNESSES if prior.smoothness is None else (prior.smoothness,)
    scales = [distance * s for s in RELATIVE_SCALES] if prior.scale is None else [prior.scale]
    for smoothness, scale in itertools.product(smoothnesses, scales):
        yield replace(prior, smoothness=smoothness, scale=scale)


def predicted(
    prior: Kriging, geometry: Geometry, values: Float[Tensor, "channels *samples"]
) -> Float[Tensor, "channels *grid"]:
    """Return the best linear unbiased prediction of all nodes, in float64 on the CPU; see ``kriged``."""
    known, x, weights = _places(geometry)
    y = values.cpu().double().flatten(1)[:, known]
    return kriged(prior.covariance, (prior.nugget or 0.0) / weights, x, y, geometry.grid)


def most_likely(prior: Kriging, geometry: Geometry, values: Float[Tensor, "channels *samples"]) -> Kriging:
    """Return the prior with the parameters of greatest restricted likelihood, among those that are tried.

    The likelihood is that of blocks of the samples, which are taken to be independent, each with a variance of its own.
    After each block the less likely half of the covariances is left out.
    """
    known, x, weights = _places(geometry)
    y = values.cpu().double().flatten(1)[:, known].T.numpy()
    distance = float(np.prod(np.ptp(x, axis=0) + 1) / len(x)) ** (1 / dimensions(geometry.grid))
    nuggets = tried_nuggets(prior)
    totals = {tried: np.zeros(len(nuggets)) for tried in tried_covariances(prior, distance)}
    for near in _blocks(x, is_laid=geometry.is_laid):
        r, root = cdist(x[near], x[near]), np.sqrt(weights[near])
        for tried, total in totals.items():
            k = decomposed(root[:, None] * tried.covariance(r) * root)
            total += restricted_likelihoods([(k, root[:, None] * y[near], root)], nuggets)[0].sum(0)
        likely = sorted(totals, key=lambda tried: -totals[tried].max())
        totals = {tried: totals[tried] for tried in likely[: math.ceil(len(totals) / 2)]}
    best = next(iter(totals))
    return replace(best, nugget=float(nuggets[totals[best].argmax()]))


def tried_nuggets(prior: Kriging) -> Float[np.ndarray, " m"]:
    """Return the variances of noise that are tried for a prior."""
    return np.array(NUGGETS if prior.nugget is None else (prior.nugget,))


def _blocks(x: Float[np.ndarray, "n axes"], *, is_laid: bool) -> list[Int[np.ndarray, " _"]]:
    """Return the ``MOST_DECIDING`` samples in the middle, or nearest to several of more than ``MOST_DENSE`` samples.

    These are spread along the longest axis. Of up to ``MOST_DENSE`` points on nodes that were ``laid`` for them,
    ``MOST_DRAWN`` are drawn at random instead: those in the middle may be of one cluster, which says nothing of others.
    """
    if is_laid and len(x) <= MOST_DENSE:
        return [np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_DRAWN])]
    middles = np.median(x, axis=0)[None]
    if len(x) > MOST_DENSE:
        along = np.argsort(x[:, np.ptp(x, axis=0).argmax()], kind="stable")
        middles = x[along[(2 * np.arange(DECIDING_BLOCKS) + 1) * len(x) // (2 * DECIDING_BLOCKS)]]
    return [np.sort(np.abs(x - middle).sum(1).argsort()[:MOST_DECIDING]) for middle in middles]


def _places(geometry: Geometry) -> tuple[Tensor, Float[np.ndarray, "n axes"], Float[np.ndarray, " n"]]:
    """Return which samples are known, their places in nodes of the lattice, and the weights of their squared errors."""
    known = (geometry.full_weights[..., 0] > 0).flatten().cpu()
    field = Field.of(geometry, torch.zeros(1, *geometry.shape))
    return known, field.positions, field.weights
