"""Closed-form fits with the adaptive prior: which spectrum to start from, and how many rounds to learn it."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import Encoding
from coordnet.fitting.hold_out import hide, middle
from coordnet.fitting.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.fitting.smooth import TOLERANCE, modes_of
from coordnet.fitting.spectrum import Problem, Round, decorrelate, rounds, smoothest_modes, start_penalty, update
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.operators import rotate
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import Axis, ByAxes
from coordnet.sampling.measurements import Measurement
from coordnet.sampling.samples import Geometry

# Relative residual of the solves that the spectrum is learned from, by the number of axes. The spectra of rows are so
# steep that a residual which is small for images leaves their solves unfinished.
LEARNING_TOLERANCE = ByAxes({1: 1e-5, 2: 3e-4, 3: 5e-4})
FINALISTS = 2  # starts that are followed beyond their first solve
PATIENCE = 2  # rounds without an improvement by MIN_GAIN after which learning stops
MIN_GAIN = 0.005  # of the hold-out error
STRUCTURED_START = Smoothness(1.0, 0.01)  # for holes and scratches: a membrane converges quickly
STRUCTURED_ROUNDS = 2
CROP = 2**17  # points of the crop that decides the start for a lattice more than eight times as large


@dataclass
class Trail:
    """The rounds that follow one start, on the samples that are not hidden."""

    start: Smoothness
    steps: Iterator[Round]  # further rounds
    errors: list[float] = field(default_factory=list)  # the hold-out error after each round
    penalties: list[Tensor] = field(default_factory=list)
    last: Round | None = None
    modes: Tensor = field(default_factory=lambda: torch.empty(0))  # the solution of the best round

    @property
    def best(self) -> int:
        """The round with the least hold-out error."""
        return min(range(len(self.errors)), key=self.errors.__getitem__)

    @property
    def is_improving(self) -> bool:
        """Whether one of the last rounds was better than all before them."""
        if len(self.errors) <= PATIENCE:
            return True
        return min(self.errors[-PATIENCE:]) < (1 - MIN_GAIN) * min(self.errors[:-PATIENCE])

    def advance(self, problem: Problem, hidden: Tensor) -> None:
        """Take one more round."""
        self.last = next(self.steps)
        self.errors.append(problem.error(self.last.solution.x, hidden))
        self.penalties.append(self.last.penalty)
        if self.best == len(self.errors) - 1:
            self.modes = self.last.solution.x

    def record(self) -> dict[str, Any]:
        """Return the start and the hold-out PSNR of each round, as JSON holds it."""
        psnr = [-10 * math.log10(max(e, 1e-12)) for e in self.errors]
        return {**_power_law(self.start), "hold_out_psnr": psnr}


@dataclass(frozen=True)
class HeldOut:
    """What a fit that did not see some samples makes of a part of the lattice."""

    part: tuple[slice, ...]  # of the lattice
    hidden: Bool[Tensor, "#channels *part"]
    estimate: Float[Tensor, "channels *part"]  # of the centered signal


class AdaptivePlan(Plan):
    """Minimize Σ w (S f - y)² / s² + Σ |z|² / P over modes z, with the variances P learned from the samples.

    A tenth of the samples is hidden. Every start is solved once without it; the two best are followed for two
    rounds, the better of them until its hold-out error stops falling. Its spectrum is then learned once more from
    all samples, and the last solve runs to the tolerance. Where the unknown points are clustered (holes, scratches,
    text), the hidden points have their shape, and known points are held fixed.

    The measurement is how the samples depend on the lattice; the other parameters are those of ``plan``. A
    ``ConvergenceWarning`` is given if the steps did not suffice for the last solve.
    """

    def __init__(
        self,
        encoding: Encoding,
        geometry: Geometry,
        measurement: Measurement,
        prior: Adaptive,
        *,
        solver: ConjugateGradients,
        progress: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(encoding, geometry, **options)
        self.modes = modes_of(self.encoding, geometry.axes, dtype=self.dtype, device=self.device)
        self.measurement, self.prior, self.progress = measurement, prior, progress
        dims = len(geometry.grid)
        self.learning_tolerance = LEARNING_TOLERANCE[dims]
        self.tolerance = min(self.learning_tolerance, solver.tolerance or TOLERANCE[dims])
        self.steps = solver.steps

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own spectrum."""
        return solve_each(lambda signal: self.solve_and_hold_out(signal)[0], values)

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"]) -> tuple[Fitted, HeldOut | None]:
        """Return the coefficients of one centered signal, and what hidden samples are in a fit without them.

        The second is None where none could be hidden, or the samples are no mask.
        """
        problem = decorrelate(self.modes, self.measurement, values, rotated=self.prior.rotated)
        starts, limit = self.prior.candidates(len(self.modes.lattice)), self.prior.rounds
        if self._holds_known_points():
            problem, limit = problem.on_padded_grid(), min(limit, STRUCTURED_ROUNDS)
            starts = self.prior.starts or (STRUCTURED_START,)
        deciding = problem if problem.constrained else self._deciding_problem(problem, values)
        generator = torch.Generator().manual_seed(self.prior.seed)
        hidden = hide(deciding.measurement, deciding.values.shape[2:], self.prior.hold_out, generator)
        total = limit + len(starts) + 4
        with tqdm(total=total, desc="learning", disable=not self.progress, dynamic_ncols=True) as bar:
            trails, chosen = [], Trail(starts[0], iter(()))
            kept = limit if self.prior.hold_out == 0 else 0
            if hidden is not None:
                trails, chosen = self._choose(deciding, starts, hidden, limit, bar)
                kept = chosen.best
            followed = chosen if deciding is problem else Trail(chosen.start, iter(()))
            last = self._finish(problem, followed, kept, bar)
        last.solution.warn_unless_converged(self.tolerance)
        held_out = None if hidden is None else self._held_out(deciding, chosen, hidden)
        return self._fitted(problem, chosen.start, kept, trails, last), held_out

    def _held_out(self, problem: Problem, trail: Trail, hidden: Tensor) -> HeldOut | None:
        if not self.measurement.is_mask:
            return None
        lattice = self.measurement.lattice
        part = tuple(slice(0, n) for n in lattice)
        if not problem.constrained and problem.modes.lattice != lattice:
            part = middle(lattice, CROP)
        f = rotate(problem.rotation, problem.modes(trail.modes))[0]
        inside = tuple(slice(0, s.stop - s.start) for s in part)
        return HeldOut(part, hidden[0][(..., *inside)] > 0, f[(..., *inside)])

    def _holds_known_points(self) -> bool:
        """Whether the unknown points are holes or scratches in a mask that all channels share."""
        shared = self.measurement.weights.shape[1] == 1
        plain = self.modes.spans_grid and shared and self.measurement.is_plain_mask
        return plain and self.measurement.is_structured_mask

    def _deciding_problem(self, problem: Problem, values: Tensor) -> Problem:
        """Return the problem that decides the start and the rounds: the middle of a large lattice, or all of it."""
        size = math.prod(self.modes.lattice)
        if size <= 8 * CROP or not self.measurement.is_mask:
            return problem
        part = middle(self.modes.lattice, CROP)
        weights = self.measurement.weights[(..., *part)]
        if not bool((weights > 0).any()):
            return problem
        axes = tuple(
            Axis(s.stop - s.start, axis.start + s.start * axis.spacing, axis.spacing)
            for axis, s in zip(self.geometry.axes, part, strict=True)
        )
        modes = modes_of(self.encoding.for_lattice(axes), axes, dtype=values.dtype, device=values.device)
        return decorrelate(modes, Measurement.mask(weights), values[(..., *part)], rotated=self.prior.rotated)

    def _choose(
        self, problem: Problem, starts: tuple[Smoothness, ...], hidden: Tensor, limit: int, bar: Any
    ) -> tuple[list[Trail], Trail]:
        """Follow the starts on the samples that are not hidden; return all trails and the best."""
        shown = problem.without(hidden)
        trails: list[Trail] = []

        def advance(trail: Trail) -> None:
            trail.advance(problem, hidden)
            bar.set_postfix_str(f"hold-out error {math.sqrt(min(trail.errors)):.4f}", refresh=False)
            bar.update()

        for start in starts:
            near = trails[-1].last.solution.x if trails and trails[-1].last else None
            trails.append(Trail(start, self._rounds(shown, start_penalty(shown, start), start, near)))
            advance(trails[-1])
        finalists = sorted(trails, key=lambda t: t.errors[0])[:FINALISTS]
        for trail, _ in itertools.product(finalists, range(min(2, limit))):
            advance(trail)
        best = min(finalists, key=lambda t: t.errors[t.best])
        while len(best.errors) <= limit and best.is_improving:
            advance(best)
        return trails, best

    def _rounds(self, problem: Problem, penalty: Tensor, start: Smoothness, z: Tensor | None) -> Iterator[Round]:
        smoothest = smoothest_modes(problem.modes, start.axis_weights(len(problem.modes.lattice)))
        return rounds(problem, penalty, smoothest, tolerance=self.learning_tolerance, start=z)

    def _finish(self, problem: Problem, followed: Trail, kept: int, bar: Any) -> Round:
        """Learn from all samples, only the last round if a trail was followed on the same lattice; then solve."""
        modes, start = problem.modes, followed.start
        smoothest = smoothest_modes(modes, start.axis_weights(len(modes.lattice)))
        penalty, z, left = start_penalty(problem, start), None, kept
        if followed.last is not None:
            penalty, z, left = followed.penalties[max(kept - 1, 0)], followed.last.solution.x, min(kept, 1)
        bar.total = bar.n + left + 1
        for step in itertools.islice(self._rounds(problem, penalty, start, z), left):
            z = step.solution.x
            penalty = update(modes, z, step.penalty, smoothest, problem.measurement.density)
            bar.update()
        system = problem.system(penalty)
        solution = system.solve(problem.values, start=z, tolerance=self.tolerance, steps=self.steps)
        bar.update()
        return Round(kept, penalty, solution)

    def _fitted(self, problem: Problem, start: Smoothness, kept: int, trails: list[Trail], last: Round) -> Fitted:
        form = "constrained" if problem.constrained else "modes"
        report = {
            "method": f"conjugate gradients, adaptive prior, {form} form",
            "start": _power_law(start),
            "rounds": kept,
            "tried": [trail.record() for trail in trails],
            "iterations": last.solution.iterations,
            "relative_residual": float(last.solution.relative_residual.max()),
        }
        coefficients = rotate(problem.rotation, problem.modes.coefficients(last.solution.x))
        return Fitted(coefficients, report, {"penalty": last.penalty, "rotation": problem.rotation})


def _power_law(start: Smoothness) -> dict[str, Any]:
    return {"power": start.power, "strength": start.strength, "anisotropy": start.anisotropy}
