"""Sine and square: shifted waves, whose encoding matrices have a stable rank of about 2."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings.encoders.base import Parameter, Scale
from coordnet.encodings.encoders.shifted import ShiftedBasis, straight_through
from coordnet.sampling.axes import Axes


class ShiftedWave(ShiftedBasis):
    """A periodic φ of frequency f, in cycles over the unit interval."""

    scales = (Parameter("frequency", "frequency", 1.0, "cycles over the unit interval"),)
    frequency: Scale

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "ShiftedBasis":
        """Put the nodes on the samples of an axis, and let the waves go on beyond them."""
        return super().for_axes(axes, features, **{"last": None, "reflect": False, **arguments})


class Sine(ShiftedWave):
    """φ(u) = sin(2πfu), f in cycles over the unit interval; see ``ShiftedBasis`` for the other arguments.

    Source: Zheng et al. (ECCV 2022), section 4, with the angular frequency 2πf: the matrix has rank 2.
    """

    name = "sine"
    summary = "a sine shifted to each node"

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        return torch.sin(2 * math.pi * self.frequency * distance)

    def bump_mean(self, distance: Float[Tensor, "*shape"], width: float | Tensor) -> Float[Tensor, "*shape"]:
        """φ times sinc(fw)."""
        return self.bump(distance) * _sinc(self.frequency, width)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = cos 2πfδ, the integral taken over whole periods."""
        return torch.cos(2 * math.pi * self.frequency * delta)

    def stable_rank(self, samples: int) -> float:
        """At most 2, by the Gram matrices of both factors of sin(a - b) = sin a cos b - cos a sin b; 2 for whole f."""
        w = 4 * math.pi * self.scale("frequency")  # the Gram matrices follow from ∫₀¹ cos wx and ∫₀¹ sin wx
        c, s = math.sin(w) / w, (1 - math.cos(w)) / w
        gram = 0.5 * torch.tensor([[1 + c, s], [s, 1 - c]], dtype=torch.float64)
        turned = 0.5 * torch.tensor([[1 - c, -s], [-s, 1 + c]], dtype=torch.float64)
        squares = torch.linalg.eigvals(gram @ turned).real
        return min(float(samples), float(squares.sum() / squares.max()))


def _sinc(frequency: Scale, width: float | Tensor) -> Tensor:
    return torch.sinc(torch.as_tensor(frequency, dtype=torch.float64) * width)


class Square(ShiftedWave):
    """φ(u) = sgn(sin 2πfu), f in cycles over the unit interval; see ``ShiftedBasis`` for the other arguments.

    Its derivative in f is zero almost everywhere; a learnable f is trained by the derivative of tanh(4 sin 2πfu).

    Source: Zheng et al. (ECCV 2022), section 4.
    """

    name = "square"
    summary = "a square wave shifted to each node"

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        wave = torch.sin(2 * math.pi * self.frequency * distance)
        return straight_through(wave.sign(), torch.tanh(4 * wave)) if self.learnable else wave.sign()

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 - 2|δ| for |δ| ≤ 1 in units of half a period, continued with period 2; over whole periods."""
        halves = (2 * self.frequency * delta.abs()) % 2
        return 1 - 2 * torch.minimum(halves, 2 - halves)

    def stable_rank(self, samples: int) -> float:
        """π²/4 for whole f, and close to it for others above 1; the paper only says that it is near the sine's 2.

        The first harmonic has 8/π² of the energy, in two equal singular values.
        """
        return min(float(samples), math.pi**2 / 4)
