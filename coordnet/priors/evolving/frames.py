"""Frames of one channel: how long their covariance is learned from the samples, and what other frames taught."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.priors.evolving.covariance import Covariance
from coordnet.priors.evolving.frequency_bands import Bands, Frames
from coordnet.priors.evolving.learning import Learner
from coordnet.priors.evolving.variogram import fit_start
from coordnet.sampling.moving_gaps import are_areas

START_NOISE = 1e-3  # least variance of the noise at the start, relative to the samples'
# Least variance of the noise that is learned, relative to the samples'. Less of it makes values under areas that are
# unknown worse, since their errors are those of the covariance: 0.40 in the place of 0.37 on air temperatures.
LEAST_NOISE, LEAST_UNDER_AREAS = 3e-5, 1e-3
NOISE_ROUNDS = 2  # rounds that learn the noise alone
PATIENCE = 2  # rounds without a lower hidden error after which no other is taken
HOPELESS = 1.5  # hidden error of the start, relative to that of another prior, from which on nothing is learned
KEPT_NAMES = ("stretch", "matrices", "tilt", "noise")  # names of what is kept of a channel

Mask = Bool[np.ndarray, "frames *space"]


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
    learner, errors = problem.start(), list[float]()
    for _ in range(NOISE_ROUNDS if rounds and problem.has_areas else 0):
        learner.solve()
        learner.learn(is_of_noise=True)
        update()
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
