"""Plug-and-play: alternating directions between a denoiser, in the place of a prior, and what is known of a signal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.linalg.conjugate_gradients import Places, conjugate_gradients
from coordnet.priors.denoiser.pictures import SYMMETRIES
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import CellMeans

# Relative residual and number of steps at which the signal nearest to another is taken: its error is an error of this
# part of the denoiser's, which the next step of plug-and-play corrects.
NEAREST_TOLERANCE, MOST_STEPS = 1e-2, 50
# Factor on the moves of plug-and-play by denoisers. With it 5 steps enlarge as well as 12 without, 6 do the same for
# mosaics and measurements, and 8 fill gaps as well as 12.
RELAXATION = 1.8
# The share of the variance of the noise on samples that counts in the steps; another method has 0.23 (Zhang et al.
# 2021, in ``Denoiser``). With all of it a random quarter of twelve photographs with noise of 0.03 and 0.1 gains 0.3 and
# 0.6 dB less, with a quarter of it 0.1 and 0.8 dB less. With all of it gray pictures, whose texture is taken for noise,
# gain 0.07 dB less when they are enlarged, and colors 0.01 dB less; blurs and projections of 64² crops gain 0.1 to
# 1.1 dB less in the means of panels of five to twelve.
NOISE_SHARE = 0.5

Signal = Float[Tensor, "channels *lattice"]
Nearest = Callable[[Tensor, float], Tensor]
Clean = Callable[[Tensor, float, int], Tensor]  # a signal, its noise and a symmetry of the square


@dataclass(frozen=True)
class Scale:
    """The least value of a signal and its span, which become 0 and 1; of channels without their means, all these."""

    low: float | Tensor
    span: float

    @classmethod
    def of(cls, known: Tensor, means: float | Tensor = 0.0) -> "Scale":
        """Return the scale of some values without the means of their channels; of one value alone the span is 1."""
        low, high = (float(end) for end in (known + means).aminmax())
        return cls(low - means, high - low or 1.0)

    def into(self, f: Tensor) -> Tensor:
        """Return values in units of the span, from the least one on."""
        return (f - self.low) / self.span

    def back(self, f: Tensor) -> Tensor:
        """Invert ``into``."""
        return f * self.span + self.low


def entries(values: Signal, known: Bool[Tensor, "#channels *lattice"], noise: float | Tensor = 0.0) -> Nearest:
    """Return the map for known entries of a lattice, with noise of a standard deviation: they take their places."""

    def nearest(v: Tensor, s: float) -> Tensor:
        share = noise**2 / (noise**2 + s**2)
        return torch.where(known, values + share * (v - values), v)

    return nearest


def cell_means(values: Float[Tensor, "channels *cells"], cells: tuple[int, ...], noise: float = 0.0) -> Nearest:
    """Return the map for means over cells, with noise of a standard deviation: each pixel takes its cell's error."""
    size = math.prod(cells)

    def nearest(v: Tensor, s: float) -> Tensor:
        means, share = CellMeans(tuple(v.shape[1:]), cells), s**2 / (s**2 + size * noise**2) if noise else 1.0
        return v + size * share * means.adjoint(values - means(v))

    return nearest


@dataclass(frozen=True)
class _Nearest:
    """The system SᵀWS + r of one signal, whose channels have their own steps."""

    measurement: ForwardModel
    ratio: float

    def operator(self, x: Tensor) -> Tensor:
        return self.measurement.normal(x).add_(x, alpha=self.ratio)

    def preconditioner(self, r: Tensor) -> Tensor:
        return r.clone()

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(2).sum(-1).reshape(*a.shape[:2], *(1,) * (a.ndim - 2))

    def select(self, kept: Places) -> "_Nearest":
        return _Nearest(self.measurement.select(kept), self.ratio)


def measured(
    values: Float[Tensor, "channels *samples"],
    measurement: ForwardModel,
    noise: float,
    tolerance: float = NEAREST_TOLERANCE,
) -> Nearest:
    """Return the map for values of any operator S with weights W and noise of a standard deviation, above 0.

    It solves (SᵀWS + σ²/s²) (x - v) = SᵀW (y - S v) by conjugate gradients up to a relative residual.
    """

    def nearest(v: Tensor, s: float) -> Tensor:
        error = measurement.backproject(values - measurement(v.unsqueeze(0)))
        system = _Nearest(measurement, (noise / s) ** 2)
        return v + conjugate_gradients(system, error, tolerance=tolerance, steps=MOST_STEPS).x[0]

    return nearest


def falling(first: float, last: float, count: int) -> list[float]:
    """Return standard deviations that fall by a constant factor."""
    return np.geomspace(first, last, count).tolist()


def plug_and_play(
    start: Signal, sigmas: Sequence[float], clean: Clean, nearest: Nearest, relaxation: float = 1.0
) -> Signal:
    """Return the signal that suits both a denoiser and the data, for noise that falls from step to step.

    With D(v, s) the minimum of -log p(z) + |z - v|²/2s² for a density p, at a constant s this is the alternating
    direction method of multipliers for the signal of the greatest posterior density. The dual variable is rescaled
    where s changes, and each step takes another symmetry of the square.

    - start: the signal to begin with
    - sigmas: the standard deviation s of each step
    - clean: ``clean(v, s, symmetry)`` is D(v, s)
    - nearest: ``nearest(v, s)`` is the minimum of the data's negative log-likelihood plus |x - v|²/2s²
    - relaxation: the factor, above 0 and below 2, on the move from x to what the denoiser makes of it; above 1 fewer
      steps do

    Venkatakrishnan, Bouman and Wohlberg, "Plug-and-play priors for model based reconstruction" (2013); Eckstein and
    Bertsekas, "On the Douglas-Rachford splitting method" (1992), has the relaxation.
    """
    x = nearest(start, sigmas[0])
    end, dual, before = x, x.new_zeros(()), sigmas[0]
    for i, s in enumerate(sigmas):
        dual = dual * (s / before) ** 2
        z = clean(x + dual, s, SYMMETRIES[i % len(SYMMETRIES)])
        moved, end = torch.lerp(x, z, relaxation), z - dual
        x = nearest(moved - dual, s)
        dual, before = dual + x - moved, s
    return nearest(end, before)
