"""The weight of a second estimate against a first, by the errors of both where the truth is known."""

import math

from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.priors.local.weights import MIN_IMPROVEMENT

SURE = 2.0  # standard errors by which the weighted mean must be better than the first estimate where there is noise
# Multiple of the median error beyond which errors of measured values are outliers. A few low frequencies of Fourier
# samples rule the sum of squares, which left each of five photographs without a denoiser that gains 0.8 to 2.3 dB; with
# 6 medians a terrain loses 0.05 dB, with 5 it loses 0.03 dB, and with 4 photographs gain up to 0.3 dB less.
OUTLYING = 5.0


def least_squares_share(error: Tensor, second: Tensor, most: float = 1.0) -> float:
    """Return the α from 0 to ``most`` of least |e + α (second - e)|²."""
    step = second - error
    energy = float(step.square().sum())
    return min(max(-float((error * step).sum()) / energy, 0.0), most) if energy > 0 else 0.0


def least_squares_weight(
    error: Float[Tensor, " n"], second: Float[Tensor, " n"], least: float = MIN_IMPROVEMENT, most: float = 1.0
) -> float:
    """Return ``least_squares_share``, or 0 unless the sum of squares is a ``least`` share below |e|²."""
    alpha = least_squares_share(error, second, most)
    after = float((error + alpha * (second - error)).square().sum())
    return alpha if after <= (1 - least) * float(error.square().sum()) else 0.0


def sure_share(error: Float[Tensor, " n"], second: Float[Tensor, " n"], channels: int) -> float:
    """Return ``least_squares_share``, or 0 unless the mean of its gains is ``SURE`` standard errors above 0.

    The errors are differences from values with noise; those of the channels of a value are alike.
    """
    share = least_squares_share(error, second)
    gains = squared_gains(error, second, share)
    return share if float(gains.mean()) > SURE * float(gains.std()) * math.sqrt(channels / gains.numel()) else 0.0


def typical(error: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Return which errors are within ``OUTLYING`` times their median in absolute value."""
    sizes = error.abs()
    return sizes <= OUTLYING * sizes.median()


def squared_gains(error: Float[Tensor, " n"], second: Float[Tensor, " n"], share: float) -> Float[Tensor, " n"]:
    """Return by how much each squared error falls with a share of the second estimate."""
    return error.square() - (error + share * (second - error)).square()
