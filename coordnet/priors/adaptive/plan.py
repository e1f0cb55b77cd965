"""The adaptive prior: which spectrum a fit starts from, and how many rounds it is learned from the samples."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.borders import zero_pad
from coordnet.linalg.conjugate_gradients import Solution
from coordnet.linalg.machine import is_tracked
from coordnet.linalg.operators import rotate
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import AdaptiveReport, FitReport, WideHolesReport
from coordnet.plans.gap_depths import are_wide, error_in_gaps
from coordnet.plans.hold_out import HeldOut, middle
from coordnet.plans.plan import Begun, Fitted, Judged, Plan
from coordnet.plans.systems import System, penalized_system
from coordnet.priors.adaptive.measured import MeasuredPlan
from coordnet.priors.adaptive.spectrum import (
    FINEST_TOLERANCE,
    LearnedPlan,
    Problem,
    Spectrum,
    Trail,
    decorrelate,
    negligible_beside,
    negligible_in_learning,
    power_law,
    start_penalty,
)
from coordnet.priors.base import Cleaning, Learned, Prior, Setting
from coordnet.priors.smoothness import Smoothness, modes_of
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.samples import Geometry

# Relative residual of the solves that the spectrum is learned from, by the number of axes. The spectra of rows are so
# steep that a residual which is small for images leaves their solves unfinished.
LEARNING_TOLERANCE = ByAxes({1: 1e-5, 2: 3e-4, 3: 5e-4})
FINALISTS = 2  # starts that are followed beyond their first solve
STRUCTURED_START = Smoothness(1.0, 0.01)  # for holes and scratches: a membrane converges quickly
# Most rounds by the width of gaps. In thin ones one more takes four steps, and gains up to 0.3 dB in enlarged pictures.
STRUCTURED_ROUNDS = {"wide": 2, "thin": 4}
CROP = 2**17  # points of the crop that decides the start for a lattice more than eight times as large
# Factor on the tolerance of the last solve of such a lattice, which begins far from its solution: it gains 0.6 dB of a
# tenth of 1100×1100 nodes of a random field.
COLD = 0.3
TAUGHT = 0.1  # further factor for solves with a spectrum of other blocks, whose error is not known
# Power laws to start from unless others are given, by the number of axes.
_SMOOTH = (Smoothness(2.0, 0.01), Smoothness(2.5, 0.01))
STARTS = ByAxes(
    {
        1: (Smoothness(1.0, 0.01), Smoothness(1.0, 0.1), Smoothness(2.0, 0.1)),
        2: (Smoothness(1.5, 0.01), Smoothness(1.5, 0.03), Smoothness(2.0, 0.003), Smoothness(2.5, 0.003)),
        3: (*_SMOOTH, *(Smoothness(2.0, 0.01, (time, 1.0, 1.0)) for time in (0.3, 3.0))),
        4: _SMOOTH,
    }
)


@dataclass(frozen=True)
class Adaptive(Prior):
    """A Gaussian prior whose variance of every mode is learned from the samples themselves.

    The fit starts from a power law (a ``Smoothness``) and alternates between solving and re-estimating the variances.
    Hidden samples decide which power law to start from and how many rounds to keep, possibly none. A ``ValueError`` is
    raised if ``rounds`` is negative, ``hold_out`` is not in [0, 1), or ``tolerance`` is not positive.
    """

    name: ClassVar[str] = "adaptive"
    usage: ClassVar[str] = "[:rounds=8]"
    cleans_by: ClassVar[Cleaning] = "windows"
    learns: ClassVar[bool] = True
    starts: tuple[Smoothness, ...] = ()  # the power laws to choose from; those of ``STARTS`` if empty
    rounds: int = 8  # the largest number of rounds
    hold_out: float = 0.1  # the fraction of samples to hide; with 0 the first start and all rounds are taken
    rotated: bool = True  # learn a spectrum for each eigenvector of the channels' covariance, not for each channel
    seed: int = 0  # seed of the hidden samples
    spectrum: Spectrum | None = None  # that of other samples of the signal, with which nothing is learned
    tolerance: float | None = None  # relative residual of the solves to learn from; hidden samples refine the default

    def __post_init__(self) -> None:
        _checks.integer("rounds", self.rounds, 0)
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))
        if self.tolerance is not None:
            _checks.positive("tolerance", self.tolerance)
        for start in self.starts:
            if not hasattr(start, "penalty"):
                raise _checks.wrong("starts", "a tuple of Smoothness", repr(start))
        if not 0 <= _checks.nonnegative("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a number of at least 0 and below 1", self.hold_out)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan for measurements, or for other samples."""
        return (AdaptivePlan if geometry.operator is None else MeasuredPlan)(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Adaptive, ...]":
        """Return it for samples with gaps, scattered ones, measurements, and cells of pixels on long axes."""
        suits = setting.sampled != "lattice" or (setting.geometry.footprint == "area" and setting.is_long)
        return (cls(),) if suits else ()

    def settled(self, report: FitReport) -> "Adaptive":
        """Return the prior with the start and the rounds of a fit, where hidden samples chose them."""
        if not isinstance(report, AdaptiveReport) or not report.tried or report.start is None:
            return self
        law = report.start
        anisotropy = tuple(law.anisotropy) if isinstance(law.anisotropy, list) else law.anisotropy
        start = Smoothness(law.power, law.strength, anisotropy)
        return replace(self, starts=(start,), rounds=report.rounds, hold_out=0.0, tolerance=report.tolerance)

    def taught(self, fits: Sequence[Learned]) -> "Adaptive":
        """Return the prior with the mean of the spectra that fits learned; itself if none of them learned one."""
        spectra = [learned for _, learned in fits if "penalty" in learned]
        return replace(self, spectrum=Spectrum.mean(spectra)) if spectra else self

    def starts_in(self, dims: int) -> tuple[Smoothness, ...]:
        """Return the power laws to start from, for a number of axes."""
        return self.starts or STARTS[dims]


class AdaptivePlan(LearnedPlan):
    """Minimize Σ w (S f - y)² / s² + Σ |z|² / P over modes z, with the variances P learned from the samples.

    A part of the samples is hidden. Every start is solved once without it; the two best are followed for two rounds,
    and the better one until its hold-out error stops falling. Its spectrum is then learned once more from all samples,
    and the last solve runs to the tolerance. If the unknown points are clustered (holes, scratches, text), the hidden
    points have their shape, and known points are held fixed. Solves end where their residual is negligible beside the
    hidden error (``CONVERGED``), and in thin gaps where the unknown points have settled (``Settling``), unless a
    tolerance is given.

    Gradients flow to the values through the last solve, while the spectrum and the rotation of the channels are held
    fixed. A ``ConvergenceWarning`` is given if the steps did not suffice for the last solve, or for that of a gradient:
    of smooth values without noise it takes thousands of steps, and more than float32 can resolve at random points.
    """

    holds_out = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Adaptive, **options: Any) -> None:
        super().__init__(encoding, geometry, prior, **options)
        self.learning_tolerance = prior.tolerance or LEARNING_TOLERANCE[len(geometry.grid)]
        self.tolerance = min(self.learning_tolerance, self.tolerance)

    def problem(self, values: Float[Tensor, "1 channels *samples"]) -> Problem:
        """Return centered samples in uncorrelated channels, on the padded lattice where holes or scratches are."""
        rotation = None if self.prior.spectrum is None else self.prior.spectrum.rotation
        problem = decorrelate(self.modes, self.measurement, values, rotated=self.prior.rotated, rotation=rotation)
        plain = self.measurement.is_plain_mask and self.measurement.weights.shape[1] == 1
        if plain and self.modes.spans_grid and self.measurement.is_structured_mask:
            return problem.on_padded_grid(thin=not self.has_wide_gaps)
        return problem

    @cached_property
    def has_wide_gaps(self) -> bool:
        """Whether much of what is unknown of a mask is far from all that is known (``are_wide``)."""
        return are_wide(self.measurement.weights[0] > 0)

    def system(self, problem: Problem, penalty: Tensor) -> System:
        """Return the system for draws and gradients: on the lattice, where white right-hand sides converge."""
        if problem.joint or problem.constrained:
            return problem.system(penalty)
        return penalized_system(problem.modes, problem.measurement, penalty)

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        """Return the coefficients of one centered signal, and the estimate of its hidden samples.

        The second is None if no sample was hidden, the samples are no mask, or the prior has a spectrum.
        """
        values, units = self.normalized(values)
        problem = self.problem(values)
        if self.prior.spectrum is not None:
            tolerance = TAUGHT * self.tolerance
            last = Trail(problem, STRUCTURED_START, self.prior.spectrum.penalty.to(values), tolerance)
            return self._fitted(last, self._finish(last, 0, tqdm(disable=True)), units), None
        starts, limit = self.prior.starts_in(len(self.modes.lattice)), self.prior.rounds
        if problem.constrained:
            most = STRUCTURED_ROUNDS["wide" if self.has_wide_gaps else "thin"]
            limit, starts = min(limit, most), self.prior.starts or (STRUCTURED_START,)
        deciding = problem if problem.constrained else self._deciding_problem(problem, values)
        hidden = self._hidden(deciding, values)
        start, kept = starts[0], limit if self.prior.hold_out == 0 else 0
        trails, chosen = [], None
        total = limit + len(starts) + 4
        with tqdm(total=total, desc="learning", leave=None, disable=not self.progress, dynamic_ncols=True) as bar:
            if hidden is not None:
                trails, chosen = self._choose(deciding, starts, hidden, limit, bar)
                start, kept = chosen.start, chosen.best
            last, left = self._trail(problem, start), kept
            if chosen:
                last.expect(chosen.errors[kept])
            if chosen and deciding is problem and chosen.before_best is not None:
                # Only the last round is left to learn from all samples.
                last.penalty, last.z, left = chosen.before_best, chosen.z, min(kept, 1)
                chosen.z = None  # the last solves replace it, in which the memory of a fit is at its peak
                last.negligible = None if self.solver.tolerance else negligible_beside(chosen.errors[kept])
            solution = self._finish(last, left, bar)
        fitted = self._fitted(last, solution, units, kept)
        held_out = None if chosen is None else self._held_out(deciding, chosen.best_z, hidden, values, units)
        tried = [trail.record(float(units)) for trail in trails]
        report: Any = replace(fitted.report, start=power_law(start), tried=tried)
        if chosen is not None and held_out is not None and self.has_wide_gaps:
            report = WideHolesReport(**vars(report), gap_psnr=self._gap_psnr(held_out))
        return replace(fitted, report=report), held_out

    def _fitted(self, last: Trail, solution: Solution, units: Tensor, rounds: int = 0) -> Fitted:
        """Return the coefficients of the last solve, and its spectrum."""
        problem = last.problem
        solution.warn_unless_converged(self.tolerance)
        coefficients = units * rotate(problem.rotation, problem.modes.coefficients(solution.x))
        report = AdaptiveReport(
            method=f"conjugate gradients, adaptive prior, {'constrained' if problem.constrained else 'modes'} form",
            rounds=rounds,
            tolerance=last.tolerance,
            iterations=solution.iterations,
            relative_residual=float(solution.relative_residual.max()),
        )
        return Fitted(coefficients, report, {"penalty": last.penalty, "rotation": problem.rotation})

    def _finish(self, trail: Trail, rounds: int, bar: Any) -> Solution:
        """Learn the spectrum in the remaining rounds, and solve with the last one to the tolerance, or beyond it."""
        bar.total, tolerance = bar.n + rounds + 1, min(trail.tolerance, self.tolerance)
        if trail.z is None and self.prior.hold_out and not self.solver.tolerance:
            tolerance = max(COLD * tolerance, FINEST_TOLERANCE)
        with torch.no_grad():
            for _ in range(rounds):
                trail.advance()
                bar.update()
            solution = trail.advance(tolerance, self.solver.steps)
        bar.update()
        if not is_tracked(trail.problem.values):
            return solution
        # Gradients are solved for in this form, in which their right-hand sides converge too.
        options = {"start": solution.x, "tolerance": self.tolerance, "steps": self.solver.steps}
        return self.system(trail.problem, trail.penalty).solve(trail.problem.values, **options)

    def _trail(self, problem: Problem, start: Smoothness) -> Trail:
        """Return the trail that begins at a start."""
        return Trail(problem, start, start_penalty(problem, start), self.learning_tolerance)

    def _gap_psnr(self, held_out: HeldOut) -> float | None:
        """Return the PSNR to expect in wide gaps, in dB, None where hidden copies of them do not tell it."""
        squared = (held_out.estimate - held_out.values).square()
        error = error_in_gaps(self.measurement.weights[0] > 0, held_out.shown, squared, held_out.hidden)
        return None if error is None else decibels(error)

    def _hidden(self, problem: Problem, values: Tensor) -> Tensor | None:
        """Draw samples of a problem to hide; its padding is unknown, but no part of the mask's shape."""
        generator = torch.Generator().manual_seed(self.prior.seed)
        share = self.prior.hold_out
        if not problem.constrained:
            return problem.measurement.hide(share, generator, problem.values)
        hidden = self.measurement.hide(share, generator, values)
        return None if hidden is None else zero_pad(hidden, problem.modes.lattice)

    def _held_out(
        self, problem: Problem, z: Tensor | None, hidden: Tensor | None, values: Tensor, units: Tensor
    ) -> HeldOut | None:
        if z is None or hidden is None or not self.measurement.is_mask:
            return None
        lattice = self.measurement.operator.domain
        part = tuple(slice(0, n) for n in lattice)
        if not problem.constrained and problem.modes.lattice != lattice:
            part = self._deciding_part
        f = (units * rotate(problem.rotation, problem.modes(z)))[0]
        inside = (..., *(slice(0, s.stop - s.start) for s in part))
        without = hidden[0][inside] > 0
        shown = (self.measurement.weights[0] > 0)[(..., *part)] & ~without
        return HeldOut(part, (units * values)[0][(..., *part)], shown, without, f[inside])

    @property
    def _deciding_part(self) -> tuple[slice, ...]:
        """The middle of a large lattice, which decides for all of it.

        Where areas are unknown in some frames, it has whole frames of eight times as many nodes. Other priors may know
        the values around a part of a frame, and motion leaves it.
        """
        lattice = self.modes.lattice
        if not self.measurement.has_moving_areas:
            return middle(lattice, CROP)
        frames = middle(lattice[:1], 8 * CROP // math.prod(lattice[1:]))
        return *frames, *(slice(0, n) for n in lattice[1:])

    def _deciding_problem(self, problem: Problem, values: Tensor) -> Problem:
        """Return the problem that decides the start and the rounds: the middle of a large lattice, or all of it."""
        size = math.prod(self.modes.lattice)
        if size <= 8 * CROP or not self.measurement.is_mask:
            return problem
        part = self._deciding_part
        weights = self.measurement.weights[(..., *part)]
        if not bool((weights > 0).any()):
            return problem
        axes = tuple(axis.part(s.start, s.stop - s.start) for axis, s in zip(self.geometry.axes, part, strict=True))
        modes = modes_of(self.encoding.for_lattice(axes), axes, dtype=values.dtype, device=values.device)
        return decorrelate(modes, ForwardModel.mask(weights), values[(..., *part)], rotated=self.prior.rotated)

    @torch.no_grad()
    def _choose(
        self, problem: Problem, starts: tuple[Smoothness, ...], hidden: Tensor, limit: int, bar: Any
    ) -> tuple[list[Trail], Trail]:
        """Follow the starts on the samples that are not hidden; return all trails and the best."""
        shown = replace(problem, measurement=problem.measurement.reweighted(1 - hidden))
        trails: list[Trail] = []
        negligible = None if problem.own is None else negligible_in_learning(hidden, problem.values)

        def advance(trail: Trail) -> None:
            solution = trail.advance()
            trail.errors.append(problem.error(solution.x, hidden))
            trail.expect(trail.errors[-1])
            if trail.best == len(trail.errors) - 1:
                trail.best_z, trail.before_best = solution.x, trail.before
            bar.set_postfix_str(f"hold-out error {math.sqrt(min(trail.errors)):.4f}", refresh=False)
            bar.update()

        for start in starts:
            before = trails[-1].z if trails else None
            trails.append(replace(self._trail(shown, start), z=before, negligible=negligible))
            advance(trails[-1])
        finalists = sorted(trails, key=lambda t: t.errors[0])[:FINALISTS]
        for trail, _ in itertools.product(finalists, range(min(2, limit))):
            advance(trail)
        best = min(finalists, key=lambda t: t.errors[t.best])
        while len(best.errors) <= limit and best.is_improving:
            advance(best)
        return trails, best
