"""Posteriors under a stationary prior: draws of the deviations of the signal from its fit."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.conjugate_gradients import conjugate_gradients
from coordnet.linalg.operators import rotate
from coordnet.plans.modes import Modes
from coordnet.plans.systems import System

# Relative residuals at which draws stop if no solver gives one: on the lattice, and in the modes, where small residuals
# hide larger errors of smooth modes.
LATTICE_TOLERANCE, MODES_TOLERANCE = 1e-3, 1e-4


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


def draw_tolerance(in_modes: bool) -> float:
    """Return the relative residual of draws, by whether their unknowns are modes or points of the lattice."""
    return MODES_TOLERANCE if in_modes else LATTICE_TOLERANCE
