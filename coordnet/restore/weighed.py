"""Noise removed by a denoiser, with a weight that noise which is added gives against the result without it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

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

Signal = Float[Tensor, "*grid channels"]
Filter = Callable[[Tensor, float], Tensor]  # a signal with noise of a standard deviation to its estimate


@dataclass(frozen=True)
class Weighed:
    """The weight of a denoiser, and the ratio of the squared errors with it and without it."""

    weight: float
    ratio: float


def by_denoiser(
    prior: DenoiserParameters, noisy: Signal, pilot: Signal, level: float, one: float, error: float | None
) -> Signal:
    """Return the mean of what a denoiser makes of the eight symmetric pictures, freed from the effect of clipping.

    The range of the picture is from 0 to ``one``, or that of the pilot, an estimate without noise, where it is beyond.
    Layers are rounded for a mean squared ``error`` to expect that hides it, not for one that is unknown (None).
    """
    scale, clipped = Scale.of_noisy(pilot, level, one), ClippedNoise.on(noisy, level, given=False)
    rounds = error is not None and error > (ROUNDED_ABOVE * scale.span) ** 2
    denoiser = LatticeDenoiser(prior, noisy.device, rounded_from=0.0 if rounds else math.inf)
    clean = denoiser.mean(scale.into(noisy).movedim(-1, 0), level / scale.span)
    return clipped.unclipped(scale.back(clean).movedim(0, -1))


def weigh(prior: DenoiserParameters, without: Filter, noisy: Signal, level: float, one: float, seed: int) -> Weighed:
    """Return the weight of a denoiser against another filter, ``without``, for white noise of a standard deviation.

    The weight is least squares for ``recorrupted`` values, whose further noise has less variance where values were
    clipped, as their own has. It is 0 unless it is above ``LEAST_WEIGHT`` by its standard deviation, to which the error
    of the noise's ``level`` contributes; otherwise ``ADDED_DEVIATIONS`` of that are added. The level is to be the
    estimated one, as a wrong one misleads the weight.
    """
    part = noisy[middle(tuple(noisy.shape[:-1]), WEIGHED_POINTS)]
    deviation = ClippedNoise.on(noisy, level, given=False).variance(local_means(part, level)).sqrt()
    generator = torch.Generator().manual_seed(seed)
    noise = deviation * torch.randn(part.shape, generator=generator, dtype=torch.float32).to(part)
    (noisier, target), more = recorrupted(part, noise), GROWTH * level
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
    before = max(float(error.square().mean()) - level**2 * (1 + ADDED**-2), gain)
    return Weighed(weight, 1 - gain / before)


def _slope(noise: Float[Tensor, " n"], step: Float[Tensor, " n"]) -> float:
    """Return by how much the weight changes with the standard deviation of the noise that is assumed, relative to it.

    With a wrong one the noises of the two signals correlate, by the difference of the variances, and so do the latter
    signal and the ``step`` between the estimates, by the share of the added noise that is in the step.
    """
    energy = float(step.square().sum())
    return 2 * float((step * noise).sum()) / (ADDED * energy) if energy > 0 else 0.0
