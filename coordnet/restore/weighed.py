"""Noise removed by a denoiser, with a weight that noise which is added gives against the result without it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.noise.white import ClippedNoise, local_means
from coordnet.plans.hold_out import middle
from coordnet.priors.denoiser.parameters import DenoiserParameters
from coordnet.priors.denoiser.pictures import LatticeDenoiser
from coordnet.priors.denoiser.plug_and_play import Scale
from coordnet.priors.denoiser.trust import LEAST_WEIGHT
from coordnet.priors.local.weights import (
    ADDED,
    GROWTH,
    least_squares_share,
    recorrupted,
    share_deviation,
    squared_gains,
)
from coordnet.sampling.noise_model import NoiseModel

WEIGHED_POINTS = 2**15  # points of the middle of a signal on which noise is added
# Relative error of the estimated standard deviation, times the number of points: it is 0.18, 0.14, 0.04 and 0.03 in the
# root mean square for 24, 32, 48 and 64 gray pixels a side.
LEVEL_ERROR = 100.0
# Standard deviations of a weight that are added to it. On 42 and 39 crops of 64² to 176² pixels they gain 0.02 and
# 0.01 dB more in the mean than w (2 - w) for a weight w, and on nine others 0.04 dB. On the second panel w alone gains
# 0.02 dB less, and loses up to 1.1 dB against the mean of the denoiser, instead of 0.4 dB.
ADDED_DEVIATIONS = 0.5
# Least error to expect, relative to the range, of pictures for which layers multiply bfloat16. On 87 noisy pictures
# that costs 0.00 dB in the mean above 0.03 and 0.02 at most, 0.03 from 0.014 to 0.02 and up to 0.24 dB below 0.01.
ROUNDED_ABOVE = 0.03

BEYOND = 0.01  # with a larger share of its values outside [0, 1], an estimate has its own span as range

Signal = Float[Tensor, "*grid channels"]
Filter = Callable[[Tensor, NoiseModel], Tensor]  # a signal with the noise of a model to its estimate


@dataclass(frozen=True)
class Weighed:
    """The weight of a denoiser, and the ratio of the squared errors with it and without it."""

    weight: float
    ratio: float


@dataclass(frozen=True)
class Stabilized:
    """The transform of values x whose noise has the variance σ² + bx to 2/b (bx + σ²)^½, or x/σ without a gain b.

    The noise of the transformed values is white, with the standard deviation 1.

    Mäkitalo and Foi, "Optimal inversion of the generalized Anscombe transformation for Poisson-Gaussian noise" (2013).
    """

    model: NoiseModel

    def into(self, x: Tensor) -> Tensor:
        """Return the transformed values."""
        gain, floor = self.model.gain, self.model.floor
        return 2 / gain * (gain * x + floor).clamp(min=0).sqrt() if gain else x / math.sqrt(floor)

    def back(self, mean: Tensor) -> Tensor:
        """Return the means of values of which the transformed ones have a mean; it is 2/b s - b/4s for s² = bx + σ²."""
        gain, floor = self.model.gain, self.model.floor
        if not gain:
            return mean * math.sqrt(floor)
        half = gain / 2 * mean
        return (((half + (half.square() + gain**2 / 2).sqrt()) / 2).square() - floor) / gain


def by_denoiser(
    prior: DenoiserParameters, noisy: Signal, pilot: Signal, model: NoiseModel, one: float, error: float | None
) -> Signal:
    """Return the mean of what a denoiser makes of the eight symmetric pictures, freed from the effect of clipping.

    The range of the picture is from 0 to ``one``, or that of the pilot, an estimate without noise, where it is beyond.
    The denoiser sees it ``Stabilized``, where its noise is white. Layers are rounded for a mean squared ``error`` to
    expect that hides it, not for one that is unknown (None).
    """
    level, transform = _level(model, pilot), Stabilized(model)
    is_picture = is_within(pilot, level, one) and level < float(pilot.max())
    scale = Scale(0.0, one) if is_picture else Scale.of(pilot)
    rounds = error is not None and error > (ROUNDED_ABOVE * scale.span) ** 2
    denoiser = LatticeDenoiser(prior, noisy.device, rounded_from=0.0 if rounds else math.inf)
    ends = transform.into(torch.tensor([scale.low, scale.low + scale.span], dtype=torch.float64)).tolist()
    scale = Scale(ends[0], ends[1] - ends[0])
    clean = denoiser.mean(scale.into(transform.into(noisy)).movedim(-1, 0), 1 / scale.span)
    return _clipped(noisy, model).unclipped(transform.back(scale.back(clean).movedim(0, -1)))


def weigh(
    prior: DenoiserParameters, without: Filter, noisy: Signal, model: NoiseModel, one: float, seed: int
) -> Weighed:
    """Return the weight of a denoiser against another filter, ``without``, for noise of a model without a spectrum.

    The weight is least squares for ``recorrupted`` values, whose further noise has less variance where values were
    clipped, as their own has. It is 0 unless it is above ``LEAST_WEIGHT`` by its standard deviation, to which the error
    of the noise's level contributes; otherwise ``ADDED_DEVIATIONS`` of that are added. The noise is to be the estimated
    one, as a wrong one misleads the weight.
    """
    part = noisy[middle(tuple(noisy.shape[:-1]), WEIGHED_POINTS)]
    level = _level(model, part)
    deviation = _clipped(noisy, model).variance(local_means(part, level)).sqrt()
    generator = torch.Generator().manual_seed(seed)
    noise = deviation * torch.randn(part.shape, generator=generator, dtype=torch.float32).to(part)
    noisier, target = recorrupted(part, noise)
    more = replace(model, floor=GROWTH**2 * model.floor, gain=GROWTH**2 * model.gain)
    first = without(noisier, more)
    other = by_denoiser(prior, noisier, first, more, one, math.inf)  # rounding hardly changes the weight
    error, second = ((f - target).double().flatten() for f in (first, other))
    share = least_squares_share(error, second)
    doubt = LEVEL_ERROR / math.prod(noisy.shape[:-1]) * _slope(noise.double().flatten(), second - error)
    spread = math.hypot(share_deviation(error, second, share), doubt)
    if share - spread < LEAST_WEIGHT:
        return Weighed(0.0, 1.0)
    weight = min(share + ADDED_DEVIATIONS * spread, 1.0)
    gain = float(squared_gains(error, second, weight).mean())
    variance = float(deviation.double().square().mean())
    before = max(float(error.square().mean()) - variance * (1 + ADDED**-2), gain)
    return Weighed(weight, 1 - gain / before)


def is_within(estimate: Signal, level: float, one: float) -> bool:
    """Return whether nearly all of an estimate is from 0 to ``one``, but for the noise's standard deviation."""
    return float(((estimate < -level) | (estimate > one + level)).double().mean()) < BEYOND


def _level(model: NoiseModel, values: Signal) -> float:
    """Return the standard deviation of the noise in the mean over a signal with some values."""
    return math.sqrt(float(model.variance(values).double().mean()))


def _clipped(noisy: Signal, model: NoiseModel) -> ClippedNoise:
    """Return the noise of a signal, as it was clipped."""
    return ClippedNoise.on(noisy, math.sqrt(model.floor), given=model.gain > 0, slope=model.gain)


def _slope(noise: Float[Tensor, " n"], step: Float[Tensor, " n"]) -> float:
    """Return by how much the weight changes with the standard deviation of the noise that is assumed, relative to it.

    With a wrong one the noises of the two signals correlate, by the difference of the variances, and so do the latter
    signal and the ``step`` between the estimates, by the share of the added noise that is in the step.
    """
    energy = float(step.square().sum())
    return 2 * float((step * noise).sum()) / (ADDED * energy) if energy > 0 else 0.0
