"""Closed-form fits with the adaptive prior: which spectrum to start from, and how many rounds to learn it."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.fit.centred import Centred
from coordnet.fit.hold_out import hide
from coordnet.fit.plan import Plan, Solved, apart
from coordnet.fit.smooth import is_plain, is_structured, modes_of
from coordnet.fit.spectrum import (
    Problem,
    Round,
    decorrelate,
    hold_known,
    rounds,
    smoothest_modes,
    start_penalty,
    update,
)
from coordnet.priors.priors import Adaptive, Smoothness
from coordnet.sampling.axes import Axis, ByAxes
from coordnet.sampling.measurements import Masked, Observation, rotate
from coordnet.sampling.samples import Geometry

# Relative residual of the solves that the spectrum is learned from, by the number of axes: rows of samples have spectra
# so steep that a residual which is small for pictures leaves them unfinished.
LEARNING = ByAxes({1: 1e-5, 2: 3e-4, 3: 5e-4})
FINALISTS = 2  # starts that are followed beyond their first solve
PATIENCE = 2  # rounds without a hold-out error lower by GAIN after which learning stops
CLUSTERED = Smoothness(1.0, 0.01)  # where to start from holes and scratches: a membrane is soon solved
GAIN = 0.005
CROP = 2**17  # points of the part that decides the start of a lattice eight times as large


@dataclass
class Trail:
    """A start followed over rounds on the samples that are not hidden."""

    start: Smoothness
    steps: Any
    errors: list[float]
    penalties: list[Tensor]
    last: Round | None = None

    @property
    def best(self) -> int:
        """The round of the least hold-out error."""
        return min(range(len(self.errors)), key=self.errors.__getitem__)

    @property
    def improving(self) -> bool:
        """Whether one of the last rounds was better than all before it."""
        if len(self.errors) <= PATIENCE:
            return True
        return min(self.errors[-PATIENCE:]) < (1 - GAIN) * min(self.errors[:-PATIENCE])

    def follow(self, problem: Problem, hidden: Tensor) -> None:
        """Take one more round."""
        self.last = next(self.steps)
        self.errors.append(problem.error(self.last.solution.x, hidden))
        self.penalties.append(self.last.penalty)


class AdaptivePlan(Plan):
    """Minimise Σ w (S f - y)² / s² + Σ |z|² / P over modes z, with the variances P learned from the samples.

    A tenth of the samples is hidden. Every start is solved once without it; the two best are followed for two
    rounds, the better of them until its hold-out error stops falling. Its spectrum is then learned once more from
    all samples, and the last solve runs to ``tolerance``. Where the unknown points cluster (holes, scratches, text)
    what is hidden is shaped like them, and known points are held in precision form.

    Parameters
    ----------
    encoding, geometry, center
        See ``Plan``.
    observation : Observation, optional
        How the samples depend on the lattice; none for a whole lattice.
    prior : Adaptive
        Starts, rounds, hold-out.
    rcond : float, optional
        Relative cut of singular values, for an encoding other than Fourier's.
    tolerance, steps
        Of conjugate gradients.
    progress : bool
        Show a bar over the solves.
    dtype, device
        Of the values to come.

    Warns
    -----
    ConvergenceWarning
        Where the steps did not suffice for the last solve.
    """

    def __init__(
        self,
        encoding: ComplexEncoding | FourierEncoding,
        geometry: Geometry,
        observation: Observation | None,
        prior: Adaptive,
        *,
        rcond: float | None = None,
        center: bool = True,
        tolerance: float = 3e-4,
        steps: int = 500,
        progress: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center, dtype=dtype)
        self.modes = modes_of(self.encoding, geometry.axes, rcond=rcond, dtype=dtype, device=device)
        self.observation = observation or Masked(
            torch.ones(1, 1, *geometry.shape, dtype=dtype, device=device)
        )
        self.prior, self.progress = prior, progress
        self.learning = LEARNING[len(self.modes.lattice)]
        self.tolerance = min(self.learning, _checks.positive("tolerance", tolerance))
        self.steps = _checks.integer("steps", steps, 1)

    def solve(self, values: Centred) -> Solved:
        """Return the weights of centred values, with what was tried, chosen and learned: for each signal apart."""
        return apart(self._solve, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Solved:
        problem = decorrelate(self.modes, self.observation, values, rotated=self.prior.rotated)
        starts, limit = self.prior.candidates(len(self.modes.lattice)), self.prior.rounds
        if self._clustered():
            problem, starts, limit = hold_known(problem), self.prior.starts or (CLUSTERED,), min(limit, 2)
        decided = problem if problem.held else self._deciding(problem, values)
        generator = torch.Generator().manual_seed(self.prior.seed)
        hidden = hide(decided.observation, decided.values.shape[2:], self.prior.hold_out, generator)
        total = limit + len(starts) + 4
        with tqdm(total=total, desc="learning", disable=not self.progress, dynamic_ncols=True) as bar:
            if hidden is None:
                kept = limit if self.prior.hold_out == 0 else 0
                trails, start, learned = [], starts[0], None
            else:
                trails, chosen = self._choose(decided, starts, hidden, limit, bar)
                start, kept = chosen.start, chosen.best
                learned = chosen if decided is problem else None
            last = self._finish(problem, start, kept, learned, bar)
        last.solution.warn_unless_converged(self.tolerance)
        return self._solved(problem, start, kept, trails, last)

    def _clustered(self) -> bool:
        """Whether the unknown points are holes or scratches in a mask that all channels share."""
        observation = self.observation
        if not isinstance(observation, Masked) or not self.modes.complete or observation.weights.shape[1] > 1:
            return False
        return is_plain(observation.weights) and is_structured(observation.weights)

    def _deciding(self, problem: Problem, values: Tensor) -> Problem:
        """What decides the start and the rounds: the problem itself, or its middle where it is large."""
        size = math.prod(self.modes.lattice)
        if size <= 8 * CROP or not isinstance(self.observation, Masked):
            return problem
        scale = (CROP / size) ** (1 / len(self.modes.lattice))
        lengths = tuple(min(n, max(16, round(n * scale))) for n in self.modes.lattice)
        corners = [(n - m) // 2 for n, m in zip(self.modes.lattice, lengths, strict=True)]
        middle = (..., *(slice(c, c + m) for c, m in zip(corners, lengths, strict=True)))
        axes = tuple(
            Axis(m, axis.start + c * axis.spacing, axis.spacing)
            for axis, c, m in zip(self.geometry.axes, corners, lengths, strict=True)
        )
        encoding = FourierEncoding.on(axes) if isinstance(self.encoding, FourierEncoding) else self.encoding
        modes = modes_of(encoding, axes, dtype=values.dtype, device=values.device)
        weights = self.observation.weights[middle]
        if not bool((weights > 0).any()):
            return problem
        return decorrelate(modes, Masked(weights), values[middle], rotated=self.prior.rotated)

    def _choose(
        self, problem: Problem, starts: tuple[Smoothness, ...], hidden: Tensor, limit: int, bar: Any
    ) -> tuple[list[Trail], Trail]:
        shown = problem.without(hidden)
        trails: list[Trail] = []

        def follow(trail: Trail) -> None:
            trail.follow(problem, hidden)
            bar.set_postfix_str(f"hold-out error {math.sqrt(min(trail.errors)):.4f}", refresh=False)
            bar.update()

        for start in starts:
            penalty = start_penalty(shown, start)
            smoothest = smoothest_modes(problem.modes, _weights(start, problem.modes))
            near = trails[-1].last.solution.x if trails and trails[-1].last else None
            steps = rounds(shown, penalty, smoothest, tolerance=self.learning, start=near)
            trails.append(Trail(start, steps, [], []))
            follow(trails[-1])
        finalists = sorted(trails, key=lambda t: t.errors[0])[:FINALISTS]
        for trail, _ in itertools.product(finalists, range(min(2, limit))):
            follow(trail)
        best = min(finalists, key=lambda t: t.errors[t.best])
        while len(best.errors) <= limit and best.improving:
            follow(best)
        return trails, best

    def _finish(
        self, problem: Problem, start: Smoothness, kept: int, chosen: Trail | None, bar: Any
    ) -> Round:
        """Learn from all samples, only the last of the rounds where the trail went over the same lattice; solve."""
        modes = problem.modes
        smoothest = smoothest_modes(modes, _weights(start, modes))
        penalty, z, left = start_penalty(problem, start), None, kept
        if chosen is not None and chosen.last is not None:
            penalty, z, left = chosen.penalties[max(kept - 1, 0)], chosen.last.solution.x, min(kept, 1)
        bar.total = bar.n + left + 1
        for step in itertools.islice(
            rounds(problem, penalty, smoothest, tolerance=self.learning, start=z), left
        ):
            z = step.solution.x
            penalty = update(modes, z, step.penalty, smoothest, problem.observation.density)
            bar.update()
        final = rounds(problem, penalty, smoothest, tolerance=self.tolerance, steps=self.steps, start=z)
        last = next(final)
        bar.update()
        return Round(kept, penalty, last.solution)

    def _solved(
        self, problem: Problem, start: Smoothness, kept: int, trails: list[Trail], last: Round
    ) -> Solved:
        report = {
            "method": f"conjugate gradients, adaptive prior, {'precision' if problem.held else 'modes'} form",
            "start": {"power": start.power, "strength": start.strength, "anisotropy": start.anisotropy},
            "rounds": kept,
            "tried": [
                {
                    "power": t.start.power,
                    "strength": t.start.strength,
                    "anisotropy": t.start.anisotropy,
                    "hold_out_psnr": [-10 * math.log10(max(e, 1e-12)) for e in t.errors],
                }
                for t in trails
            ],
            "iterations": last.solution.iterations,
            "relative_residual": float(last.solution.relative_residual.max()),
        }
        weights = rotate(problem.rotation, problem.modes.weights(last.solution.x))
        learned = {"precision": last.penalty, "rotation": problem.rotation}
        return Solved(weights, report, learned)


def _weights(start: Smoothness, modes: Any) -> tuple[float, ...]:
    dims = len(modes.lattice)
    return start.anisotropy if isinstance(start.anisotropy, tuple) else (float(start.anisotropy),) * dims
