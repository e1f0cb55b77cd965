"""Draws from the posterior under a stationary prior: the deviations of the signal from its fit."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.conjugate_gradients import conjugate_gradients
from coordnet.linalg.operators import rotate
from coordnet.linalg.precision import full_precision
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.modes import Modes
from coordnet.plans.plan import Plan
from coordnet.plans.systems import System
from coordnet.priors.adaptive.measured import MeasuredPlan
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.smoothness.plan import SmoothLatticePlan, SmoothPlan
from coordnet.sampling.samples import units_of

# Relative residuals at which draws stop if no solver gives one: on the lattice, and in the modes, where small residuals
# hide larger errors of smooth modes.
TOLERANCE, MODES_TOLERANCE = 1e-3, 1e-4

Learned = dict[str, Tensor]


class Posterior(ABC):
    """The normal distribution of a lattice signal, given samples y = S f + noise, under a penalty Σ penalty |z|².

    The penalty is the noise's variance s² over the variance of every mode z. s² is that of the greatest likelihood, the
    least value of Σ w (S f - y)² + Σ penalty |z|² divided by the number of samples.
    """

    modes: Modes

    @abstractmethod
    def deviations(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the encoding's coefficients of the signal minus its mean, (count, channels, *features)."""

    def white(self, count: int, channels: int, like: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the modes of white noise on the lattice."""
        lattice = self.modes.on_padded_grid()
        return lattice.adjoint(normal((count, channels, *lattice.lattice), like, generator))


@dataclass(frozen=True)
class LatticePosterior(Posterior):
    """The posterior for a whole lattice, whose modes are independent: their variances are s² / (1 + penalty)."""

    modes: Modes
    penalty: Float[Tensor, "*modes"]
    values: Float[Tensor, "1 channels *lattice"]  # centered

    def deviations(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw every mode on its own."""
        gain = 1 / (1 + self.penalty)
        lattice = tuple(range(2, self.values.ndim))
        explained = (gain * self.modes.adjoint(self.values).square()).sum(lattice, keepdim=True)
        variance = (self.values.square().sum(lattice, keepdim=True) - explained) / self.values[0, 0].numel()
        white = self.white(count, self.values.shape[1], self.values, generator)
        return self.modes.coefficients(white * (variance.clamp(min=0) * gain).sqrt())


@dataclass(frozen=True)
class PerturbedPosterior(Posterior):
    """The posterior for any samples, by solves with a random right-hand side: one batch for all draws.

    With the system's matrix A = BᵀSᵀWSB + diag(penalty) and standard normal ξ, the deviations
    A⁻¹ (penalty^½ ξ₁ + BᵀSᵀW^½ ξ₂) have the covariance A⁻¹ of the posterior, in units of s². This is a draw from the
    prior minus the fit of samples simulated from it, without their difference of large numbers. Where known points are
    held fixed, the unknown ones take the first part alone.

    Notes
    -----
    Papandreou and Yuille, "Gaussian sampling by local perturbations" (2010); Wilson et al., "Pathwise conditioning of
    Gaussian processes" (2021), for the same by Matheron's rule.
    """

    system: System
    values: Float[Tensor, "1 channels *samples"]  # centered, 0 where unknown, of the system's own channels
    tolerance: float
    steps: int
    rotation: Float[Tensor, "1 channels channels"] | None = None  # from the system's channels to the signal's
    has_noise: bool = True

    @property
    def modes(self) -> Modes:  # type: ignore[override]
        """The modes of the system."""
        return self.system.modes

    def deviations(self, count: int, generator: torch.Generator) -> Tensor:
        """Solve for all right-hand sides, beside that of the samples themselves, which gives s."""
        system, values = self.system, self.values
        weights = system.measurement.weights
        white = self.white(count, values.shape[1], values, generator)
        b = system.unknowns(white * system.penalty.sqrt())
        if self.has_noise:
            noise = normal((count, *values.shape[1:]), values, generator)
            scale = torch.where(weights > 0, weights.clamp(min=torch.finfo(weights.dtype).tiny).rsqrt(), 0.0)
            b = b + system.right_hand_side(noise * scale)
        both = torch.cat([system.right_hand_side(values), b])
        solution = conjugate_gradients(system, both, tolerance=self.tolerance, steps=self.steps)
        solution.warn_unless_converged(self.tolerance)
        sigma = self._sigma(system.modes_of(solution.x[:1], values))
        drawn = system.modes_of(solution.x[1:], torch.zeros_like(values))
        coefficients = self.modes.coefficients(sigma * drawn)
        return coefficients if self.rotation is None else rotate(self.rotation, coefficients)

    def _sigma(self, z: Tensor) -> Tensor:
        """Return s for each channel, or for all where the samples mix them, from the modes (1, channels, *modes)."""
        weights = self.system.measurement.weights
        residual = weights * (self.system.measurement(self.modes(z)) - self.values).square()
        energy = residual.flatten(2).sum(-1) * self.has_noise
        energy = energy + self.modes.inner(z, self.system.penalty * z).reshape(energy.shape)
        count = (weights > 0).expand_as(residual).flatten(2).sum(-1)
        if getattr(self.system, "joint", False):
            energy, count = energy.sum(1, keepdim=True), count.sum(1, keepdim=True)
        return (energy / count).sqrt().reshape(*energy.shape, *(1,) * len(self.modes.lattice))


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw standard normal numbers of a tensor's dtype, on its device."""
    return torch.randn(shape, dtype=like.dtype, generator=generator, device=generator.device).to(like.device)


@singledispatch
def posterior_of(plan: Plan, values: Float[Tensor, "1 channels *samples"], learned: Learned) -> Posterior:
    """Return the posterior that a plan's prior has for centered values, with what the fit learned."""
    raise _checks.wrong("prior", "a smooth prior of squared errors, or an adaptive or local one, to draw", plan.assumed)


@posterior_of.register
def _(plan: SmoothLatticePlan, values: Tensor, learned: Learned) -> Posterior:
    return LatticePosterior(plan.modes, plan.penalty, values)


@posterior_of.register
def _(plan: SmoothPlan, values: Tensor, learned: Learned) -> Posterior:
    if plan.assumed == "none":
        raise _checks.wrong("prior", "one with a penalty, to draw", plan.assumed)
    if plan.prior.loss != "squared":
        raise _checks.wrong("prior", "squared errors, whose posterior is normal", plan.prior.loss)
    exact = plan.form == "constrained"
    in_modes = exact or plan.measurement.is_general
    options: dict[str, Any] = {"tolerance": plan.solver.tolerance or (MODES_TOLERANCE if in_modes else TOLERANCE)}
    known = torch.where(plan.measurement.weights > 0, values, 0.0)
    return PerturbedPosterior(plan.system, known, **options, steps=plan.solver.steps, has_noise=not exact)


@posterior_of.register(AdaptivePlan)
@posterior_of.register(MeasuredPlan)
def _(plan: AdaptivePlan | MeasuredPlan, values: Tensor, learned: Learned) -> Posterior:
    if "penalty" not in learned:
        raise _checks.wrong("prior", "a fit that learned a spectrum, to draw from it", "none, as for strided lattices")
    problem = plan.problem(torch.where(plan.measurement.weights > 0, values, 0.0))
    system = plan.system(problem, learned["penalty"].to(values))
    in_modes = problem.joint or problem.constrained or problem.measurement.is_general
    options: dict[str, Any] = {"tolerance": plan.solver.tolerance or (MODES_TOLERANCE if in_modes else TOLERANCE)}
    options |= {"steps": plan.solver.steps, "rotation": problem.rotation, "has_noise": not problem.constrained}
    return PerturbedPosterior(system, problem.values, **options)


def deviations(
    plan: Plan, samples: Tensor, fit: Reconstruction, count: int, generator: torch.Generator
) -> Reconstruction:
    """Draw deviations from a fit of samples as a batch of ``count`` signals, on the fit's device and in its dtype."""
    values = plan.centered(samples).subtracted()
    units = units_of(values)
    posterior = posterior_of(plan, values / units, fit.learned)
    with full_precision():
        drawn = posterior.deviations(count, generator)
    weight = (float(units) * drawn).flatten(0, 1).to(fit.offset).contiguous()
    network = CoordinateNetwork(
        fit.network.encoding, Linear(), len(weight), weight=weight, blending=fit.network.blending
    )
    offset = torch.zeros_like(fit.offset).expand(count, -1)
    coordinates = fit.lattice and fit.lattice.coordinates
    return Reconstruction(network, offset, fit.grid, (count,), footprint=fit.footprint, coordinates=coordinates)
