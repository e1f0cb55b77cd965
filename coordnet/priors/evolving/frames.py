"""Frames of one channel: covariances that are learned from their samples, and the sum of the posterior means."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from coordnet.priors.evolving.bands import Bands, Frames
from coordnet.priors.evolving.learning import Learner
from coordnet.priors.evolving.solve import Mean
from coordnet.priors.evolving.variogram import fit_start
from coordnet.priors.stack.weights import stacked_weights

LEAST_NOISE = 1e-3  # least variance of the noise, relative to the samples'
PATIENCE = 2  # rounds without a lower hidden error after which no other is taken
HOPELESS = 1.5  # hidden error of the start, relative to that of another prior, from which on nothing is learned
KEPT = 0.01  # weight below which a covariance is left out

Mask = Bool[np.ndarray, "frames *space"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Frames with known and hidden entries, in units of the standard deviation of the samples.

    Attributes
    ----------
    scale : float
        That standard deviation, in the units of the signal.
    y : (frames, *space)
        The values, of mean 0; 0 where they are not known.
    known, hidden : (frames, *space)
        Where they are known, and which of these are hidden from what is learned.
    times : (frames,)
        The times of the frames, increasing, in units of the usual distance of frames.
    """

    scale: float
    y: Frames
    known: Mask
    hidden: Mask
    times: Float[np.ndarray, " frames"]

    @classmethod
    def of(cls, y: Frames, known: Mask, hidden: Mask, times: Float[np.ndarray, " frames"]) -> "Problem":
        """Return the problem of values in any units."""
        scale = float(y[known].std()) or 1.0
        return cls(scale, np.where(known, y / scale, 0.0).astype(np.float32), known, hidden & known, times)

    @property
    def shown(self) -> Mask:
        """Where values are known and not hidden."""
        return self.known & ~self.hidden

    def start(self) -> tuple[Learner, Learner]:
        """Return learners from the shown samples, whose bands share their matrices and have their own."""
        shown = self.shown
        y = np.where(shown, self.y, np.float32(0))
        start = fit_start(y, shown, self.times)
        covariance, noise = start.covariance(Bands(y.shape[1:], start.stretch), self.times, LEAST_NOISE)
        pooled, own = (Learner(y, shown, covariance, noise, p, LEAST_NOISE) for p in (True, False))
        return pooled, own

    def errors(self, f: Frames) -> Float[np.ndarray, " hidden"]:
        """Return the errors of an estimate at the hidden samples, in float64."""
        return (f.astype(np.float64) - self.y)[self.hidden]


@dataclass(frozen=True, eq=False)
class Followed:
    """What was learned from shown samples: the learner as its best round left it, and the errors after every round.

    Attributes
    ----------
    best : Learner
        A learner with the covariance and the noise of the round of least hidden error.
    estimate : (frames, *space)
        Its posterior mean given the shown samples.
    errors : list of float
        The root mean square of the hidden errors after every round, from none on.
    """

    best: Learner
    estimate: Frames
    errors: list[float]

    @property
    def rounds(self) -> int:
        """The rounds that were kept."""
        return int(np.argmin(self.errors))


def follow(problem: Problem, learner: Learner, rounds: int, hope: float, update: Callable[[], object]) -> Followed:
    """Learn for some rounds, until ``PATIENCE`` of them have no lower hidden error; all are taken if none is hidden.

    Nothing is learned if the error of the start is ``HOPELESS`` beside ``hope``. ``update`` is called after each solve.
    """
    errors: list[float] = []
    best, estimate = learner, learner.y
    for step in range(rounds + 1):
        found = learner.solve().frames
        update()
        errors.append(_root_mean_square(problem.errors(found)) if problem.hidden.any() else float(-step))
        if errors[-1] == min(errors):
            best, estimate = learner.at(learner.y, learner.known), found
        if step == rounds or step - int(np.argmin(errors)) >= PATIENCE or errors[0] > HOPELESS * hope:
            break
        learner.learn()
        update()
    return Followed(best, estimate, errors)


@dataclass(frozen=True, eq=False)
class Sum:
    """The weighted sum of posterior means under several covariances, with weights that hidden samples give.

    Attributes
    ----------
    scale : float
        The standard deviation of the samples, in whose units the sum is.
    mean : Mean
        The sum given all samples, the most steps of a solve for it, and the largest relative residual.
    shown : (frames, *space)
        The sum given the samples that were not hidden.
    parts : list of Followed
        What was learned for every covariance.
    weights : list of float
        Their weights.
    """

    scale: float
    mean: Mean
    shown: Frames
    parts: list[Followed]
    weights: list[float]


def reconstruct(
    problem: Problem, rounds: int, hope: float = math.inf, update: Callable[[], object] = lambda: None
) -> Sum:
    """Learn covariances without the hidden samples, and return the sum of their posterior means given all samples."""
    pooled, own = problem.start()
    parts = [follow(problem, pooled, rounds, hope, update)]
    own.mean = pooled.mean
    parts.append(follow(problem, own, rounds, hope, update))
    errors = np.stack([problem.errors(part.estimate) for part in parts], 1)
    weights = np.array([1.0, 0.0])
    if len(errors):
        weights = stacked_weights(errors.T @ errors / len(errors), len(errors))
        weights = np.where(weights < KEPT, 0.0, weights)
    weights = (weights / weights.sum()).astype(np.float32)
    used = [(w, part) for w, part in zip(weights, parts, strict=True) if w]
    solved = [part.best.at(problem.y, problem.known).solve(is_last=True) for _, part in used]
    zero = np.zeros_like(problem.y)
    mean = Mean(
        sum((w * m.frames for (w, _), m in zip(used, solved, strict=True)), zero),
        max(m.steps for m in solved),
        max(m.residual for m in solved),
    )
    shown = sum((w * part.estimate for w, part in used), zero)
    return Sum(problem.scale, mean, shown, parts, weights.tolist())


def _root_mean_square(errors: Float[np.ndarray, " hidden"]) -> float:
    return float(np.sqrt(np.square(errors).mean()))
