"""Closed-form fits with the adaptive prior of what a linear operator measures, by maximum likelihood."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import Encoding
from coordnet.fitting.plan import CenteredValues, Fitted, solve_each
from coordnet.fitting.smooth import IteratedPlan
from coordnet.fitting.spectrum import PENALTY_FLOOR, SMOOTHING_WIDTH, Problem, decorrelate, start_penalty
from coordnet.fitting.systems import MeasuredSystem, largest_gain
from coordnet.linalg.conjugate_gradients import Solution
from coordnet.linalg.operators import rotate
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

START_NOISE = 1e-4  # the noise variance to start from, relative to the values' mean square
LEAST_NOISE = 1e-10  # the least noise variance, relative to the values' mean square
# Relative residual of the solves that the spectrum is learned from. At 1e-3 the rounds diverge on blurred pictures.
LEARNING_TOLERANCE = ByAxes({1: 1e-5, 2: 2e-4, 3: 5e-4})


@dataclass
class Learning:
    """The variances P of the modes and s² of the noise, and the solutions by which they are improved.

    The problem holds the values twice: the second time they give way to ``simulated`` ones. The ``draw`` has the modes
    of white noise on the lattice, (1, channels, *modes), and ``noise`` normal errors of the values.
    """

    problem: Problem
    gain: float
    variance: Float[Tensor, "1 channels *modes"]
    noise_variance: float
    draw: Tensor
    noise: Float[Tensor, "1 channels *samples"]
    least_noise: float
    tolerance: float
    z: Tensor | None = None  # the modes of the values' and of the simulated values' solution

    @property
    def penalty(self) -> Float[Tensor, "1 channels *modes"]:
        """The noise's variance over the signal's variance, of every mode."""
        return self.noise_variance / self.variance

    def solve(self, values: Tensor, tolerance: float, steps: int) -> Solution:
        """Solve for the modes of some values, from the present solution of as many signals on."""
        problem = self.problem
        system = MeasuredSystem(problem.modes, problem.measurement, self.penalty, joint=problem.joint, gain=self.gain)
        start = None if self.z is None else self.z[: len(values)]
        return system.solve(values, start=start, tolerance=tolerance, steps=steps)

    def improve(self, *, keep_noise: bool) -> None:
        """Take one round of expectation-maximization."""
        modes, measurement, values = self.problem.modes, self.problem.measurement, self.problem.values[:1]
        drawn = self.draw * self.variance.sqrt()
        simulated = measurement(modes(drawn)) + self.noise_variance**0.5 * self.noise
        self.z = self.solve(torch.cat([values, simulated]), self.tolerance, 500).x
        z, error = self.z[:1], drawn - self.z[1:]
        energy = z.abs().square() + error.abs().square()
        ratio = modes.smooth(energy / self.variance, SMOOTHING_WIDTH[len(modes.lattice)])
        self.variance = self.variance * ratio.clamp(min=PENALTY_FLOOR)
        if not keep_noise:
            squares = (measurement(modes(z)) - values).square() + measurement(modes(error)).square()
            self.noise_variance = max(_weighted_mean(measurement.weights, squares), self.least_noise)


class MeasuredPlan(IteratedPlan):
    """Minimize Σ w (S f - y)² / s² + Σ |z|² / P over modes z, with P and s² of the greatest likelihood.

    Each round of expectation-maximization solves for the modes z of the values, and for those of values simulated from
    a signal and noise that are drawn from the present variances. The error e of the second solution is a draw from the
    posterior, whatever the operator. The variance P of a mode becomes |z|² + |e|², whose ratio to the present one is
    smoothed over neighboring modes, and s² the mean of w ((S f - y)² + (S e)²), unless the geometry says ``sigma``. The
    prior's first power law is the start, and its ``rounds`` are all taken; nothing is hidden.

    A ``ConvergenceWarning`` is given if the steps did not suffice for the last solve. The report has the ``sigma`` s.

    Notes
    -----
    Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm" (1977); Papandreou and
    Yuille, "Gaussian sampling by local perturbations" (2010).
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Adaptive, **options: Any) -> None:
        super().__init__(encoding, geometry, prior, **options)
        self.gain = largest_gain(self.modes, self.measurement)
        self.learning_tolerance = max(self.tolerance, LEARNING_TOLERANCE[len(geometry.grid)])

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own spectrum."""
        return solve_each(self._solve, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        values, units = self.normalized(values)
        learning, sigma = self._start(values, float(units)), self.geometry.sigma
        for _ in tqdm(range(self.prior.rounds), "learning", disable=not self.progress, dynamic_ncols=True):
            learning.improve(keep_noise=sigma is not None)
        problem = learning.problem
        solution = learning.solve(problem.values[:1], self.tolerance, self.solver.steps)
        solution.warn_unless_converged(self.tolerance)
        report = {
            "method": "conjugate gradients, adaptive prior by maximum likelihood, modes form",
            "rounds": self.prior.rounds,
            "sigma": learning.noise_variance**0.5 * float(units),
            "iterations": solution.iterations,
            "relative_residual": float(solution.relative_residual.max()),
        }
        rotation = problem.rotation[:1]
        coefficients = units * rotate(rotation, problem.modes.coefficients(solution.x))
        return Fitted(coefficients, report, {"penalty": learning.penalty, "rotation": rotation})

    def _start(self, values: Float[Tensor, "1 channels *samples"], units: float) -> Learning:
        """Return the power law of the values' energy, the noise that is given or a guess, and random draws."""
        twice = values.expand(2, *values.shape[1:])
        problem = decorrelate(self.modes, self.measurement, twice, rotated=self.prior.rotated)
        penalty = start_penalty(problem, self.prior.candidates(len(self.modes.lattice))[0])[:1]
        shape = 1 / penalty.clamp(min=float(penalty[penalty > 0].min()))
        generator = torch.Generator().manual_seed(self.prior.seed)

        def normal(*size: int) -> Tensor:
            return torch.randn(1, values.shape[1], *size, dtype=values.dtype, generator=generator).to(values.device)

        lattice, weights = self.modes.on_padded_grid(), self.measurement.weights
        draw = lattice.adjoint(normal(*lattice.lattice))
        noise = torch.where(weights > 0, normal(*values.shape[2:]) / weights.clamp(min=1e-30).sqrt(), 0.0)
        power = _weighted_mean(weights, values.square())
        drawn = _weighted_mean(weights, problem.measurement(self.modes(draw * shape.sqrt())).square())
        guess = START_NOISE * power if self.geometry.sigma is None else (self.geometry.sigma / units) ** 2
        tiny = torch.finfo(values.dtype).tiny
        variance = shape * (max(power, tiny) / max(drawn, tiny))
        return Learning(problem, self.gain, variance, max(guess, tiny), draw, noise, max(LEAST_NOISE * power, tiny), self.learning_tolerance)


def _weighted_mean(weights: Tensor, squares: Float[Tensor, "signals channels *samples"]) -> float:
    """Return the mean of weighted squares over all values with a positive weight."""
    return float((weights * squares).sum()) / int((weights > 0).expand_as(squares).sum())
