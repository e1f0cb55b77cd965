"""Closed-form fits with the adaptive prior of what a linear operator measures, by maximum likelihood."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.conjugate_gradients import Solution
from coordnet.linalg.operators import rotate
from coordnet.networks.fit_reports import AdaptiveReport
from coordnet.plans.plan import Fitted
from coordnet.plans.systems import MeasuredSystem, largest_gain
from coordnet.priors.adaptive.spectrum import (
    PENALTY_FLOOR,
    SMOOTHING_WIDTH,
    LearnedPlan,
    Problem,
    decorrelate,
    growth,
    start_penalty,
)
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

MAX_LOG_RATIO = 5.0  # largest change of the logarithm of a variance in a round
POWER_LAWS = 4  # first rounds in which the variances remain a power law of the roughness
START_NOISE = 1e-4  # the noise variance to start from, relative to the values' mean square
LEAST_NOISE = 1e-10  # the least noise variance, relative to the values' mean square
# Relative residual of the solves that the spectrum is learned from. At 1e-3 the rounds diverge on blurred pictures.
LEARNING_TOLERANCE = ByAxes({1: 1e-5, 2: 2e-4, 3: 5e-4})


@dataclass
class Learning:
    """The variances P of the modes and s² of the noise, and the solutions by which they are improved.

    The ``draw`` has the modes of white noise on the lattice, (1, channels, *modes), without a mean, as values are
    centered; ``noise`` has normal errors of the values. The solution ``z`` is that of the values and of simulated ones,
    (2, channels, *modes).
    """

    problem: Problem
    gain: float
    variance: Float[Tensor, "1 channels *modes"]
    noise_variance: float
    draw: Tensor
    noise: Float[Tensor, "1 channels *samples"]
    least_noise: float
    tolerance: float
    z: Tensor | None = None

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

    def improve(self, *, keep_noise: bool, as_power_law: bool) -> None:
        """Take one round; see ``MeasuredPlan``."""
        modes, measurement, values = self.problem.modes, self.problem.measurement, self.problem.values
        drawn = self.draw * self.variance.sqrt()
        simulated = measurement(modes(drawn)) + self.noise_variance**0.5 * self.noise
        both = torch.cat([values, simulated])
        self.z = self.solve(both, self.tolerance, 500).x
        relative = growth(modes, self.z.abs().square(), self.variance)
        tiny = torch.finfo(relative.dtype).tiny  # instead of 0, for channels that are 0
        ours, expected = relative[:1].clamp(min=tiny), relative[1:].clamp(PENALTY_FLOOR, 1.0)
        if as_power_law:
            self.variance = self.variance * self._power_of_roughness((ours / expected).log(), expected)
        else:
            self.variance = self.variance * (1 + ours - expected).clamp(min=PENALTY_FLOOR)
        if not keep_noise:
            residual = (measurement(modes(self.z)) - both).square()
            observed, simulated = (_weighted_mean(measurement.weights, part) for part in residual.split(1))
            self.noise_variance = max(self.noise_variance * observed / simulated, self.least_noise)

    def _power_of_roughness(self, log_ratio: Tensor, weights: Tensor) -> Tensor:
        """Return the power law of the roughness that is nearest to a ratio, by weighted least squares of logarithms."""
        modes = self.problem.modes
        rough = modes.roughness((1.0,) * len(modes.lattice))
        rough = rough.clamp(min=float(rough[rough > 0].min())).log().expand_as(log_ratio)
        # It is smoothed as the ratio is, in which the first modes alone do not show: their variances would run away.
        rough = modes.smooth(rough, SMOOTHING_WIDTH[len(modes.lattice)])
        weights = weights / weights.sum((0, *range(2, weights.ndim)), keepdim=True)

        def mean(x: Tensor) -> Tensor:
            return (weights * x).sum((0, *range(2, x.ndim)), keepdim=True)

        rough = rough - mean(rough)
        slope = mean(rough * log_ratio) / mean(rough.square())
        return (mean(log_ratio) + slope * rough).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


class MeasuredPlan(LearnedPlan):
    """Minimize Σ w (S f - y)² / s² + Σ |z|² / P over modes z, with P and s² of the greatest likelihood.

    Each round solves for the modes z of the values, and for the modes x of values that are simulated from a signal and
    noise drawn from the present variances. If those are right, the two solutions have the same energy in every mode,
    and their residuals the same energy: at the greatest likelihood they have in the mean, whatever the operator. In the
    first ``POWER_LAWS`` rounds P remains a power law of the roughness, which is fitted to the ratio of energies. In
    later ones P becomes P (1 + |z|²/P - |x|²/P), smoothed over neighboring modes: the step of expectation-maximization,
    in which P - |x|² stands for the posterior variance. s² is multiplied by the ratio of the residuals' energies,
    unless the geometry says ``sigma``. The prior's first power law is the start, and all of its ``rounds`` are taken. A
    prior with a ``spectrum`` learns nothing.

    Gradients flow to the values through the last solve, while P, s² and the rotation of the channels are held fixed. A
    ``ConvergenceWarning`` is given if the steps did not suffice for the last solve. The report has the ``sigma`` s. A
    lattice of one node, which has no roughness, raises a ``ValueError``.

    Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm" (1977); MacKay, "Bayesian
    interpolation" (1992), for ratios in the place of sums; Papandreou and Yuille, "Gaussian sampling by local
    perturbations" (2010), for the simulated values.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Any, **options: Any) -> None:
        if math.prod(geometry.grid) == 1:
            raise _checks.wrong("grid", "more than one node for an adaptive prior", geometry.grid)
        super().__init__(encoding, geometry, prior, **options)
        self.gain = largest_gain(self.modes, self.measurement)
        self.learning_tolerance = max(self.tolerance, LEARNING_TOLERANCE[len(geometry.grid)])

    def problem(self, values: Float[Tensor, "1 channels *samples"]) -> Problem:
        rotation = None if self.prior.spectrum is None else self.prior.spectrum.rotation
        return decorrelate(self.modes, self.measurement, values, rotated=self.prior.rotated, rotation=rotation)

    def system(self, problem: Problem, penalty: Tensor) -> MeasuredSystem:
        return MeasuredSystem(problem.modes, problem.measurement, penalty, joint=problem.joint, gain=self.gain)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        values, units = self.normalized(values)
        problem, spectrum = self.problem(values), self.prior.spectrum
        if spectrum is None:
            with torch.no_grad():
                learning = self._learn(problem, values, float(units))
            solution = learning.solve(problem.values, self.tolerance, self.solver.steps)
            penalty, sigma = learning.penalty, learning.noise_variance**0.5 * float(units)
        else:
            penalty, sigma = spectrum.penalty.to(values), self.geometry.sigma
            system = self.system(problem, penalty)
            solution = system.solve(problem.values, tolerance=self.tolerance, steps=self.solver.steps)
        solution.warn_unless_converged(self.tolerance)
        report = AdaptiveReport(
            method="conjugate gradients, adaptive prior by maximum likelihood, modes form",
            rounds=self.prior.rounds if spectrum is None else 0,
            sigma=sigma,
            iterations=solution.iterations,
            relative_residual=float(solution.relative_residual.max()),
        )
        coefficients = units * rotate(problem.rotation, problem.modes.coefficients(solution.x))
        return Fitted(coefficients, report, {"penalty": penalty, "rotation": problem.rotation})

    def _learn(self, problem: Problem, values: Float[Tensor, "1 channels *samples"], units: float) -> Learning:
        """Take all rounds from the start."""
        learning, sigma = self._start(problem, values, units), self.geometry.sigma
        for step in tqdm(range(self.prior.rounds), "learning", disable=not self.progress, dynamic_ncols=True):
            learning.improve(keep_noise=sigma is not None, as_power_law=step < POWER_LAWS)
        return learning

    def _start(self, problem: Problem, values: Float[Tensor, "1 channels *samples"], units: float) -> Learning:
        """Return the power law of the values' energy, the noise that is given or a guess, and random draws."""
        penalty = start_penalty(problem, self.prior.starts_in(len(self.modes.lattice))[0])
        shape = 1 / penalty.clamp(min=float(penalty[penalty > 0].min()))
        generator = torch.Generator().manual_seed(self.prior.seed)

        def normal(*size: int) -> Tensor:
            return torch.randn(1, values.shape[1], *size, dtype=values.dtype, generator=generator).to(values.device)

        lattice, weights = self.modes.on_padded_grid(), self.measurement.weights
        white = normal(*lattice.lattice)
        draw = lattice.adjoint(white - white.mean(tuple(range(2, white.ndim)), keepdim=True))
        noise = torch.where(weights > 0, normal(*values.shape[2:]) / weights.clamp(min=1e-30).sqrt(), 0.0)
        power = _weighted_mean(weights, values.square()) or 1.0  # for values that are all 0
        drawn = _weighted_mean(weights, problem.measurement(self.modes(draw * shape.sqrt())).square())
        guess = START_NOISE * power if self.geometry.sigma is None else (self.geometry.sigma / units) ** 2
        tiny = torch.finfo(values.dtype).tiny
        variance = shape * (max(power, tiny) / max(drawn, tiny))
        least = max(LEAST_NOISE * power, tiny)
        guess = max(guess, tiny)
        return Learning(problem, self.gain, variance, guess, draw, noise, least, self.learning_tolerance)


def _weighted_mean(weights: Tensor, squares: Float[Tensor, "signals channels *samples"]) -> float:
    """Return the mean of weighted squares over all values with a positive weight."""
    return float((weights * squares).sum()) / int((weights > 0).expand_as(squares).sum())
