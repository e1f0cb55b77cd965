"""Learning the covariance of frames from their samples by expectation-maximization, and how many rounds are taken."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from torch import Tensor

from coordnet.priors.evolving.covariance import Bands, Covariance, FramePosterior, Frames, Mean, Modes, Padded
from coordnet.priors.evolving.variogram import fit_start
from coordnet.sampling.gap_copies import are_areas

SMOOTHED_BANDS = 1.0  # standard deviation, in bands, of the Gaussian that smooths what is learned of each
MOST_COUNTED = 50  # modes of a band beyond which it has no more weight among its neighbors
PRIOR = 10.0  # modes for each frame that the absence of correlations along the eigenvectors of a band is worth
TILT_WIDTH = 4.0  # standard deviation, in modes along each axis, of the Gaussian that smooths the tilt
MOST_TILT = 1e3  # largest variance of a mode relative to those of its band, and the inverse of the least
SMOOTHING = 0.1, 1.0  # width of the smoothing over eigenvectors, in shares of the frames, and its upper bound
NOISE_STEP = 2.0  # power of the factor by which expectation-maximization, which is slow there, changes the noise
LEARNING = 30, 2e-4  # steps and relative residual of solves that are learned from
FINAL = 80, 5e-5  # steps and relative residual of the last solve
START_NOISE = 1e-3  # least variance of the noise at the start, relative to the samples'
# Least variance of the noise that is learned, relative to the samples'. Less of it makes values under areas that are
# unknown worse, since their errors are those of the covariance: 0.40 in the place of 0.37 on air temperatures.
LEAST_NOISE, LEAST_UNDER_AREAS = 3e-5, 1e-3
NOISE_ROUNDS = 2  # rounds that learn the noise alone
PATIENCE = 2  # rounds without a lower hidden error after which no other is taken
HOPELESS = 1.5  # hidden error of the start, relative to that of another prior, from which on nothing is learned
# Share of the samples that is hidden at most before all are learned from once more. Under clouds a fifth is hidden:
# that gains 0.3 dB in the mean of twelve cubes of 24 frames, and 1.9 dB at most on others. Of other masks a tenth is
# hidden, where it would lose up to 0.4 dB.
MOST_HIDDEN = 0.16
KEPT_NAMES = ("stretch", "matrices", "tilt", "noise")  # names of what is kept of a channel

Mask = Bool[np.ndarray, "frames *space"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the posterior of the modes, for every band."""

    # The mean of u uᵀ over the modes of a band, for coefficients u along its eigenvectors in units of their standard
    # deviations.
    relative: Float[np.ndarray, "bands frames frames"]
    # The mean over the eigenvectors of the variance of a mode, relative to what was assumed.
    ratios: Float[np.ndarray, " modes"]

    @classmethod
    def of(cls, covariance: Covariance, mean: Modes, deviation: Modes) -> "Moments":
        """Return the moments of a posterior mean and of one draw of the deviations from it."""
        deviations = np.sqrt(covariance.variances, dtype=np.float64)
        scaled = [covariance.along(x.astype(np.float64)) / deviations for x in (mean, deviation)]
        parts = covariance.bands.parts
        relative = np.stack([sum(x[:, p] @ x[:, p].T for x in scaled) / (p.stop - p.start) for p in parts])
        return cls(relative, np.square(np.stack(scaled)).mean(1).sum(0))


@dataclass(eq=False)
class Learner:
    """Frames with a covariance and noise that are improved round by round."""

    # The values, 0 where they are not known, and where they are.
    y: Frames
    known: Mask
    covariance: Covariance  # the present covariance
    noise: float  # the present variance of the noise
    least_noise: float  # its least value
    seed: int = 0  # the seed of the draws
    mean: Padded | None = None  # the last posterior mean, on the padded lattice
    _deviation: Padded | None = field(default=None, repr=False)

    @property
    def bands(self) -> Bands:
        """The bands."""
        return self.covariance.bands

    def solve(self, *, is_last: bool = False) -> Mean:
        """Return the posterior mean without padding, from the last one on."""
        steps, tolerance = FINAL if is_last else LEARNING
        steps = steps if self.mean is not None else max(steps, FINAL[0])
        posterior = FramePosterior(self.covariance, self.known, self.noise)
        posterior_mean = posterior.mean(self.y, self.mean, steps, tolerance)
        self.mean = posterior_mean.frames
        return posterior_mean._replace(frames=self.bands.cropped(posterior_mean.frames))

    def learn(self, *, is_of_noise: bool = False) -> None:
        """Improve the covariance and the noise, or the noise alone, by the posterior mean and one posterior draw.

        The draw is one from the prior minus the posterior mean of values that are simulated from it, with the same
        random numbers in each round.
        """
        assert self.mean is not None, "a solved learner"
        level, generator = self.bands.levels[0], np.random.default_rng(self.seed)
        white = generator.standard_normal(self.covariance.variances.shape, dtype=np.float32)
        drawn = level.frames(self.covariance.across(white * np.sqrt(self.covariance.variances)))
        noise = generator.standard_normal(self.y.shape, dtype=np.float32) * np.float32(self.noise**0.5)
        simulated = np.where(self.known, -self.bands.cropped(drawn) - noise, np.float32(0))
        posterior = FramePosterior(self.covariance, self.known, self.noise)
        self._deviation = posterior.mean(simulated, self._deviation, *LEARNING).frames
        deviation = drawn + self._deviation
        residual = (self.y - self.bands.cropped(self.mean) - self.bands.cropped(deviation))[self.known]
        growth = float(np.square(residual, dtype=np.float64).mean()) / self.noise
        self.noise = max(self.noise * growth**NOISE_STEP, self.least_noise)
        if not is_of_noise:
            moments = Moments.of(self.covariance, level.modes(self.mean), level.modes(deviation))
            matrices, tilt = _matrices(self.covariance, moments), _tilted(self.covariance, moments.ratios)
            self.covariance = Covariance.of(self.bands, (matrices + matrices.transpose(0, 2, 1)) / 2, tilt)

    def at(self, y: Frames, known: Mask) -> "Learner":
        """Return a learner of other samples of the same frames, with the present covariance, noise and mean."""
        return replace(self, y=y, known=known, _deviation=None)


def _tilted(covariance: Covariance, ratios: Float[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"]:
    """Return the variances of modes relative to others of their bands, of mean 1, by smoothed ratios."""
    bands = covariance.bands
    level = bands.levels[0]
    spread = np.empty_like(ratios)
    spread[level.order] = ratios
    spread = gaussian_filter(spread.reshape(level.lattice), TILT_WIDTH, mode="mirror").ravel()
    tilt = np.clip(covariance.tilt * spread[level.order], 1 / MOST_TILT, MOST_TILT)
    for part in bands.parts:
        tilt[part] /= tilt[part].mean()
    return tilt


def _near(counts: Int[np.ndarray, " bands"], x: Float[np.ndarray, "bands *_"]) -> Float[np.ndarray, "bands *_"]:
    """Return geometric means over neighboring bands, weighed by their modes."""
    number = np.arange(len(counts))
    weights = np.exp(-0.5 * ((number[:, None] - number) / SMOOTHED_BANDS) ** 2) * np.minimum(counts, MOST_COUNTED)
    weights /= weights.sum(1, keepdims=True)
    return np.exp(np.tensordot(weights, np.log(x), 1))


def _matrices(covariance: Covariance, moments: Moments) -> Float[np.ndarray, "bands frames frames"]:
    """Return the matrices, with correlations along the present eigenvectors that are drawn to 0.

    The variances along the eigenvectors, relative to the present ones, are smoothed over neighbors.
    """
    counts, matrices = covariance.bands.counts, np.empty_like(covariance.matrices)
    frames = matrices.shape[1]
    share, bound = SMOOTHING
    growth = _near(counts, np.diagonal(moments.relative, axis1=1, axis2=2))
    growth = np.exp(gaussian_filter1d(np.log(growth), min(bound, share * frames), axis=1))
    for b, (matrix, relative) in enumerate(zip(covariance.matrices, moments.relative, strict=True)):
        scale = 1 / np.sqrt(np.diag(relative))
        shape = relative * np.outer(scale, scale) * (counts[b] / (counts[b] + PRIOR * frames))
        np.fill_diagonal(shape, 1.0)
        values, basis = np.linalg.eigh(matrix)
        deviation = np.sqrt(np.maximum(values, 1e-6 * values[-1]) * growth[b])
        matrices[b] = basis @ (deviation[:, None] * shape * deviation) @ basis.T
    return matrices


@dataclass(frozen=True, eq=False)
class Problem:
    """Frames with known and hidden entries, in units of the standard deviation of the samples."""

    scale: float  # that standard deviation, in the units of the signal
    y: Frames  # the values, of mean 0; 0 where they are not known
    # Where they are known, and which of these are hidden from what is learned.
    known: Mask
    hidden: Mask
    times: Float[np.ndarray, " frames"]  # the times of the frames, increasing, in units of the usual distance of frames

    @classmethod
    def of(cls, y: Frames, known: Mask, hidden: Mask, times: Float[np.ndarray, " frames"]) -> "Problem":
        """Return the problem of values in any units."""
        scale = float(y[known].std()) or 1.0
        return cls(scale, np.where(known, y / scale, 0.0).astype(np.float32), known, hidden & known, times)

    @property
    def shown(self) -> Mask:
        """Where values are known and not hidden."""
        return self.known & ~self.hidden

    @cached_property
    def has_areas(self) -> bool:
        """Whether values are unknown in areas, as under clouds."""
        return are_areas(torch.from_numpy(self.known).unsqueeze(0))

    def start(self) -> Learner:
        """Return a learner from the shown samples."""
        shown = self.shown
        y = np.where(shown, self.y, np.float32(0))
        start = fit_start(y, shown, self.times)
        covariance, noise = start.covariance(Bands(y.shape[1:], start.stretch), self.times, START_NOISE)
        return Learner(y, shown, covariance, noise, LEAST_UNDER_AREAS if self.has_areas else LEAST_NOISE)

    def errors(self, f: Frames) -> Float[np.ndarray, " hidden"]:
        """Return the errors of an estimate at the hidden samples, in float64."""
        return (f.astype(np.float64) - self.y)[self.hidden]


@dataclass(frozen=True, eq=False)
class Followed:
    """The covariance and the estimate that the best round learned from shown samples."""

    learner: Learner  # a learner with the covariance and the noise of that round
    estimate: Frames  # its posterior mean given the shown samples
    # The root mean square of the hidden errors after every round, from none on; none if nothing is hidden.
    errors: list[float]
    rounds: int  # the rounds that were kept


def follow(problem: Problem, rounds: int, hope: float = math.inf, update: Callable[[], object] = int) -> Followed:
    """Learn for some rounds, until ``PATIENCE`` of them have no lower hidden error; all are taken if none is hidden.

    Where areas are unknown the noise is learned before, whatever the errors are then: hidden areas say little of the
    errors near known values, which depend on it. Nothing else is learned if the error is then ``HOPELESS`` beside
    ``hope``. ``update`` is called after each solve.
    """
    learner, errors = _started(problem, rounds, update), list[float]()
    best = Followed(learner, learner.y, errors, 0)
    for step in range(rounds + 1):
        frames = learner.solve().frames
        update()
        if problem.hidden.any():
            errors.append(float(np.sqrt(np.square(problem.errors(frames)).mean())))
        if not errors or errors[-1] <= min(errors):
            best = Followed(learner.at(learner.y, learner.known), frames, errors, step)
        if step == rounds or step - best.rounds >= PATIENCE or (errors and errors[0] > HOPELESS * hope):
            break
        learner.learn()
        update()
    return best


def learned_from_all(problem: Problem, followed: Followed, rounds: int, update: Callable[[], object] = int) -> Followed:
    """Return what was learned, with a learner that took as many rounds from all samples, the hidden ones too.

    Nothing is learned anew unless more than ``MOST_HIDDEN`` of the samples is hidden.
    """
    if problem.hidden.sum() <= MOST_HIDDEN * problem.known.sum():
        return followed
    learner = _started(replace(problem, hidden=np.zeros_like(problem.hidden)), rounds, update)
    for _ in range(followed.rounds):
        learner.solve()
        learner.learn()
        update()
    return replace(followed, learner=learner)


def _started(problem: Problem, rounds: int, update: Callable[[], object]) -> Learner:
    """Return a learner from the shown samples, with the noise that it learns if there are rounds and unknown areas."""
    learner = problem.start()
    for _ in range(NOISE_ROUNDS if rounds and problem.has_areas else 0):
        learner.solve()
        learner.learn(is_of_noise=True)
        update()
    return learner


@dataclass(frozen=True, eq=False)
class FrameStatistics:
    """Statistics of the frames of one channel that a fit learned, in the units of the signal."""

    stretch: Float[np.ndarray, " axes"]  # the factors of the frequencies along each axis by which bands are elliptic
    matrices: Float[np.ndarray, "bands frames frames"]  # the covariances of the modes of every band over the frames
    tilt: Float[np.ndarray, " modes"]  # the variance of a mode relative to others of its band
    noise: Float[np.ndarray, ""]  # the variance of the noise

    @classmethod
    def of(cls, problem: Problem, learner: Learner) -> "FrameStatistics":
        """Return what a learner has."""
        units, covariance = problem.scale**2, learner.covariance
        stretch, noise = np.array(learner.bands.stretch), np.array(units * learner.noise)
        return cls(stretch, units * covariance.matrices, covariance.tilt, noise)

    @classmethod
    def mean(cls, fits: Sequence[Mapping[str, Tensor]]) -> "tuple[FrameStatistics, ...]":
        """Return the mean of what fits learned of every channel, over those that have the bands of the first one."""
        statistics, channel = [], 0
        while f"stretch_{channel}" in fits[0]:
            each = [[learned[f"{name}_{channel}"].cpu().double().numpy() for name in KEPT_NAMES] for learned in fits]
            alike = [parts for parts in each if np.array_equal(parts[0], each[0][0])]
            statistics.append(cls(*(np.asarray(np.mean(parts, axis=0)) for parts in zip(*alike, strict=True))))
            channel += 1
        return tuple(statistics)

    def tensors(self, channel: int) -> dict[str, Tensor]:
        """Return all parts by their names and the number of the channel."""
        return {f"{name}_{channel}": torch.from_numpy(np.asarray(getattr(self, name))) for name in KEPT_NAMES}

    def followed(self, problem: Problem) -> Followed:
        """Return what other frames taught, for a problem of which nothing is to be learned."""
        units = problem.scale**2
        bands = Bands(problem.y.shape[1:], tuple(self.stretch.tolist()))
        covariance = Covariance.of(bands, self.matrices / units, self.tilt)
        noise = float(self.noise) / units
        return Followed(Learner(problem.y, problem.known, covariance, noise, noise), problem.y, [], 0)
