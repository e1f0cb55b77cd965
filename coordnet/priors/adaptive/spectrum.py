"""Learning the variance of every mode from the samples, by rounds of expectation-maximization, and plans that do."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.borders import zero_pad
from coordnet.linalg.conjugate_gradients import Solution, StepRecorder
from coordnet.linalg.machine import lower_median
from coordnet.linalg.operators import ChannelRotation, rotate
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import PowerLaw
from coordnet.plans.hold_out import hidden_error
from coordnet.plans.modes import Modes
from coordnet.plans.posterior import PerturbedPosterior, Posterior, draw_tolerance
from coordnet.plans.systems import ConstrainedSystem, ModesSystem, System, effective_density, penalized_system
from coordnet.priors.smoothness import IteratedPlan, Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.forward import ForwardModel

# Standard deviation of the Gaussian that smooths the ratio of spectra, in modes, by the number of axes.
SMOOTHING_WIDTH = ByAxes({1: 10.0, 2: 4.0, 3: 1.5, 4: 1.0})
DETERMINED = 0.05  # the fraction of smoothest modes that the samples determine without a prior
PENALTY_FLOOR = 1e-6  # lower bound of penalties and of smoothed ratios, which are divided by
# The least fraction of samples with both channels of a pair known from which their covariance is estimated directly.
MIN_PAIRS = 1e-3
COVARIANCE_PRIOR = Smoothness(1.5, 0.01)
PATIENCE = 2  # rounds without an improvement by MIN_GAIN after which learning stops
MIN_GAIN = 0.005  # relative fall of the hold-out error that counts as an improvement
SETTLING_STEPS = 2  # steps of a solve in thin gaps whose change is looked at; see ``Settling``
# The root mean square of the change in these steps at which a solve ends, relative to that of the error to expect.
# Half as much again loses up to 0.04 dB in fifteen pictures, and two thirds of it takes a sixth more steps.
SETTLED_CHANGE = 0.03
LEARNING_CHANGE = 0.1  # the same bound for solves that a spectrum is learned from; half of it takes 7 % more steps
# The relative residual that ends such a solve too, as a share of the usual tolerance. Smooth fields reach it first, and
# lose 10 dB in scratches with the usual tolerance.
SETTLING_TOLERANCE = 1 / 3
# The relative residual that ends a solve, as a share of the error to expect of it relative to the signal, and the least
# one by it. Errors of smooth fields and stationary textures are so small that a residual which is small for photographs
# leaves solves unfinished. With 60 % of the nodes known a texture, a field whose power falls with the sixth power of
# the frequency, and a sum of waves have 38, 68 and 60 dB without this bound, and 84, 88 and 92 dB with it. The
# texture has 45 dB with a share of 1e-3; photographs take up to a fifth more time with 5e-4.
CONVERGED, FINEST_TOLERANCE = 7e-4, 1e-6

OnLattice = Float[Tensor, "signals channels *lattice"]
Negligible = Callable[[OnLattice], float]  # from a solution to the mean squared change of it that is negligible


@dataclass(frozen=True)
class Problem:
    """Centered samples in uncorrelated channels.

    If all channels share a mask, the samples themselves are rotated and the channels are solved independently.
    Otherwise the measurement maps the rotated lattice signal to the samples of the signal's own channels.
    """

    modes: Modes
    measurement: ForwardModel
    values: Tensor  # (signals, channels, *samples)
    rotation: Tensor  # (signals, channels, channels), from the rotated channels to the signal's own
    variance: Tensor  # (signals, channels, 1, …), of the rotated channels
    joint: bool  # whether masks differ by channel, so that the rotated channels are solved together
    constrained: bool = False  # whether known points are held fixed and the unknown ones solved for
    own: Bool[Tensor, "*lattice"] | None = None  # the nodes that are no padding, in constrained form with thin gaps
    recorder: StepRecorder = field(default_factory=StepRecorder)  # all solves share it

    def error(self, z: Tensor, hidden: Tensor) -> float:
        """Return the weighted mean squared error at hidden samples."""
        return hidden_error(self.measurement, self.modes(z), self.values, hidden)

    @cached_property
    def energy(self) -> float:
        """The mean square of the samples."""
        return float(self.variance.mean())

    def on_padded_grid(self, *, thin: bool) -> "Problem":
        """Return the problem in constrained form on the padded lattice, with unknown padding, and thin gaps or not."""
        modes = self.modes.on_padded_grid()
        own = zero_pad(torch.ones_like(self.measurement.weights), modes.lattice)[0, 0] > 0 if thin else None
        measurement = ForwardModel.mask(zero_pad(self.measurement.weights, modes.lattice))
        values = zero_pad(self.values, modes.lattice)
        return replace(self, modes=modes, measurement=measurement, values=values, constrained=True, own=own)

    def system(self, penalty: Tensor) -> System:
        """Return the linear system for the penalty (noise variance over signal variance) of every mode."""
        if self.constrained:
            return ConstrainedSystem(self.modes, self.measurement, penalty, thin=self.own is not None)
        return ModesSystem(self.modes, self.measurement, penalty, joint=self.joint)


def decorrelate(
    modes: Modes,
    measurement: ForwardModel,
    values: Float[Tensor, "signals channels *samples"],
    *,
    rotated: bool = True,
    rotation: Tensor | None = None,
) -> Problem:
    """Rotate channels to the eigenvectors of their covariance, estimated from samples with both channels known.

    The measurement is that of the signal's own channels; without ``rotated`` they are only sorted by variance. A
    ``rotation`` that is given is taken in the place of the eigenvectors. Gradients flow to the values, while the
    rotation is held fixed.
    """
    weights = measurement.weights.expand_as(values).flatten(2).double()
    y = weights * values.detach().flatten(2)
    pairs = weights @ weights.mT
    covariance = (y @ y.mT) / pairs.clamp(min=1)
    if not rotated:
        covariance = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
    elif bool((pairs < MIN_PAIRS * weights.shape[-1]).any()):
        covariance = _covariance_of_solutions(modes, measurement, values.detach())
    variance, eigenvectors = torch.linalg.eigh(covariance)
    variance = variance.clamp(min=0).to(values).reshape(*values.shape[:2], *(1,) * len(modes.lattice))
    rotation = (eigenvectors if rotation is None else rotation).to(values)
    if measurement.weights.shape[1] == 1:
        return Problem(modes, measurement, rotate(rotation.mT, values), rotation, variance, False)
    rotated_back = measurement.operator @ ChannelRotation(rotation, modes.lattice)
    return Problem(modes, replace(measurement, operator=rotated_back), values, rotation, variance, True)


def _covariance_of_solutions(
    modes: Modes, measurement: ForwardModel, values: Float[Tensor, "signals channels *samples"]
) -> Float[Tensor, "signals channels channels"]:
    """Return the covariance of channels that are never known together (a mosaic's), each solved independently."""
    system = penalized_system(modes, measurement, COVARIANCE_PRIOR.penalty(modes))
    f = modes(system.solve(values, tolerance=1e-2).x).flatten(2).double()
    return f @ f.mT / f.shape[-1]


def start_penalty(problem: Problem, start: Smoothness) -> Float[Tensor, "signals channels *modes"]:
    """Return λρ of every mode, in inverse proportion to the channel's variance relative to the largest."""
    variance = problem.variance.clamp(min=torch.finfo(problem.variance.dtype).tiny)  # not 0, for zero signals
    largest = variance.amax(1, keepdim=True)
    return start.penalty(problem.modes) * (largest / variance.maximum(PENALTY_FLOOR * largest))


def growth(modes: Modes, moments: Tensor, variance: Tensor) -> Tensor:
    """Return the factor by which expectation-maximization multiplies the modes' variances P: E|z|²/P, smoothed.

    The posterior second ``moments`` E|z|² are |E z|² + v, with the posterior variance v. The smoothing over neighboring
    modes stands for the assumption that P is smooth beside the present one.
    """
    return modes.smooth(moments / variance, SMOOTHING_WIDTH[len(modes.lattice)])


def update(modes: Modes, z: Tensor, penalty: Tensor, smoothest: Tensor, density: float) -> Tensor:
    """Return the penalty after one step of expectation-maximization for the modes' variances P, given their solution z.

    With noise variance s² and density q, the posterior variance of a mode under random sampling is
    v = 1 / (1/τ + 1/P), where τ = s²/q + (1 - q)/q mean(v) is the effective noise that missing samples add: it is
    s²/q* with the ``effective_density`` q*. P is multiplied by its ``growth``. The scale of P relative to s² comes from
    the ``smoothest`` modes, which the samples determine without a prior.
    """
    shape = 1 / penalty.clamp(min=PENALTY_FLOOR)
    energy = z.real.square() + z.imag.square() if z.is_complex() else z.square()
    energies = lower_median((energy / shape)[..., smoothest])
    noise = energies.amax(1) / 0.7  # the median of an exponential variable of mean one
    noise = noise.clamp(min=1e-12).reshape(-1, *(1,) * (z.ndim - 1))
    spectrum = noise * shape
    effective = effective_density(modes.subsample(penalty.clamp(min=PENALTY_FLOOR)), density)
    tau = noise / effective.reshape(*effective.shape[:2], *(1,) * len(modes.lattice))
    moments = energy.add_(spectrum * tau / (spectrum + tau))
    return penalty / growth(modes, moments, spectrum).clamp(min=PENALTY_FLOOR)


def smoothest_modes(modes: Modes, anisotropy: tuple[float, ...]) -> Tensor:
    """Return a mask of the smoothest modes, a fraction ``DETERMINED`` of all."""
    roughness = modes.roughness(anisotropy)
    count = max(2, int(DETERMINED * roughness.numel()))
    return roughness <= roughness.flatten().topk(min(count, roughness.numel()), largest=False).values.max()


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A penalty for every mode of rotated channels, as a fit under the adaptive prior learned it."""

    penalty: Float[Tensor, "1 channels *modes"]  # the variance of the noise over that of the signal
    rotation: Float[Tensor, "1 channels channels"]  # the map from the rotated channels to the signal's own

    @classmethod
    def mean(cls, fits: Sequence[Mapping[str, Tensor]]) -> "Spectrum":
        """Return the mean of the variances that fits learned, along the rotated channels of the first one."""
        rotation, variance = fits[0]["rotation"], torch.zeros_like(fits[0]["penalty"])
        for learned in fits:
            shares = (rotation.mT @ learned["rotation"]).square()
            variance += torch.einsum("sij,sj...->si...", shares, 1 / learned["penalty"].clamp(min=PENALTY_FLOOR))
        return cls(len(fits) / variance, rotation)


class Settling:
    """A callback of conjugate gradients that ends a solve whose error is that of the prior, and not of the iteration.

    - seen: the unknown points that are looked at. Those in the padding, which is a wide gap, converge last.
    - negligible: the mean squared change at these points that is small beside the error to expect of the solution
    """

    def __init__(self, seen: Bool[Tensor, "*lattice"], negligible: Negligible) -> None:
        self.seen, self.negligible = _places(seen), negligible
        self.step, self.before = 0, torch.tensor(torch.inf)

    def __call__(self, step: int, residual: float, x: OnLattice) -> bool:
        """Return whether the last ``SETTLING_STEPS`` changed x by what is negligible."""
        if step - self.step < SETTLING_STEPS:
            return False
        now = x.flatten(2)[..., self.seen]
        change = float((now - self.before).square().mean())
        self.step, self.before = step, now
        return change <= self.negligible(x)


def negligible_beside(error: float) -> Negligible:
    """Return the change that is negligible beside an expected mean squared error."""
    return lambda x: SETTLED_CHANGE**2 * error


def negligible_in_learning(hidden: Float[Tensor, "1 1 *lattice"], values: OnLattice) -> Negligible:
    """Return the change that is negligible beside a solution's error at hidden nodes, where a spectrum is learned."""
    places = _places(hidden[0, 0] > 0)
    truth = values.flatten(2)[..., places]
    return lambda x: LEARNING_CHANGE**2 * float((x.flatten(2)[..., places] - truth).square().mean())


def _places(nodes: Bool[Tensor, "*lattice"]) -> Int[Tensor, " n"]:
    return nodes.flatten().nonzero().squeeze(1)


@dataclass
class Trail:
    """The rounds that follow one start on some samples: solves, each with the spectrum learned from the one before."""

    problem: Problem
    start: Smoothness
    penalty: Tensor  # noise variance over signal variance of every mode, for the next round
    tolerance: float  # the relative residual of its solves
    z: Tensor | None = None  # the solution of the last round
    errors: list[float] = field(default_factory=list)  # the hold-out error after each round
    before: Tensor | None = (
        None  # the penalty from which that of the last round was learned, or that of the first round
    )
    best_z: Tensor | None = None  # the solution of the best round
    before_best: Tensor | None = None  # the penalty before that of the best round
    negligible: Negligible | None = None  # the change that ends a solve in thin gaps; see ``Settling``

    @cached_property
    def smoothest(self) -> Tensor:
        """A mask of the smoothest modes, in the sense of the start."""
        return smoothest_modes(self.problem.modes, self.start.axis_weights(len(self.problem.modes.lattice)))

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

    def expect(self, error: float) -> None:
        """Refine the tolerance of later solves to what is negligible beside a mean squared error."""
        if error < self.problem.energy:
            least = CONVERGED * math.sqrt(error / self.problem.energy)
            self.tolerance = min(self.tolerance, max(least, FINEST_TOLERANCE))

    def advance(self, tolerance: float | None = None, steps: int = 500) -> Solution:
        """Take one more round, to a tolerance other than the usual one if it is given."""
        problem, tolerance, last = self.problem, tolerance or self.tolerance, self.penalty
        if self.z is not None and self.before is not None:
            self.penalty = update(problem.modes, self.z, self.penalty, self.smoothest, problem.measurement.density)
        system = problem.system(self.penalty)
        options: dict[str, Any] = {"tolerance": tolerance, "steps": steps, "recorder": problem.recorder}
        if problem.own is not None and self.negligible is not None:
            seen = problem.own & (problem.measurement.weights[0, 0] == 0)
            options |= {"tolerance": SETTLING_TOLERANCE * tolerance, "callback": Settling(seen, self.negligible)}
        solution = system.solve(problem.values, start=self.z, **options)
        self.z, self.before = solution.x, last
        return solution

    def record(self, units: float) -> PowerLaw:
        """Return the start and the hold-out PSNR of each round, of a signal in some units."""
        return replace(power_law(self.start), hold_out_psnr=[decibels(e, 1 / units) for e in self.errors])


def power_law(start: Smoothness) -> PowerLaw:
    """Return a power law as reports have it."""
    anisotropy = list(start.anisotropy) if isinstance(start.anisotropy, tuple) else start.anisotropy
    return PowerLaw(power=start.power, strength=start.strength, anisotropy=anisotropy)


class LearnedPlan(IteratedPlan):
    """A plan that learns the penalty of every mode from the samples."""

    has_gradient = True

    @abstractmethod
    def problem(self, values: Float[Tensor, "1 channels *samples"]) -> Problem:
        """Return centered samples in uncorrelated channels."""

    @abstractmethod
    def system(self, problem: Problem, penalty: Tensor) -> System:
        """Return the linear system of a problem for the penalty of every mode."""

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return the posterior with the spectrum that a fit learned; ``ValueError`` if it learned none."""
        if "penalty" not in learned:
            expected = "a fit that learned a spectrum, to draw from it"
            raise _checks.wrong("prior", expected, "none, as for strided lattices")
        problem = self.problem(torch.where(self.measurement.weights > 0, values, 0.0))
        system = self.system(problem, learned["penalty"].to(values))
        in_modes = problem.joint or problem.constrained or problem.measurement.is_general
        options: dict[str, Any] = {"tolerance": self.solver.tolerance or draw_tolerance(in_modes)}
        options |= {"steps": self.solver.steps, "rotation": problem.rotation, "has_noise": not problem.constrained}
        return PerturbedPosterior(system, problem.values, **options)
