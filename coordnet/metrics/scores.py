"""Scores of a reconstruction against its signal: PSNR and the signal-to-noise ratio in decibels, and SSIM."""

import math
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks


def mean_squared_error(
    estimate: Float[Tensor, "*shape"], truth: Float[Tensor, "*shape"], mask: Bool[Tensor, "..."] | None = None
) -> float:
    """Mean of (estimate - truth)² in float64, over all entries or those where ``mask`` is true; NaN over none.

    The mask has the shape (*grid,) or (*grid, channels).
    """
    error = (estimate.double() - truth.double()).square()
    if mask is not None:
        error = error[mask]
    return float(error.mean()) if error.numel() else math.nan


def psnr(
    estimate: Float[Tensor, "*shape"],
    truth: Float[Tensor, "*shape"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    data_range: float = 1.0,
    clip: bool = True,
) -> float:
    """Peak signal-to-noise ratio, 10 log10(range² / mean squared error), in dB; infinite if the two agree.

    The mask is true at the points (*grid,) or the entries (*grid, channels) to average over, such as the held-out ones;
    the mean over none is NaN. The ``data_range`` is the span of possible values, which must be positive. With ``clip``
    the estimate is first clipped to [0, data_range], as a display would.
    """
    _checks.positive("data_range", data_range)
    estimate = estimate.clamp(0, data_range) if clip else estimate
    error = mean_squared_error(estimate, truth, mask)
    return math.inf if error == 0 else 10 * math.log10(data_range**2 / error)


def value_range(signal: Float[Tensor, "..."]) -> tuple[float, bool]:
    """Return the data range for the PSNR of a signal's estimates, and whether they are clipped to it.

    A signal in [0, 1] has the range 1, with clipping. Any other signal has its own span as the range, or its magnitude
    if it is constant, without clipping.
    """
    low, high = float(signal.min()), float(signal.max())
    return (1.0, True) if low >= 0 and high <= 1 else (high - low or abs(high), False)


def snr(
    estimate: Float[Tensor, "*shape"], truth: Float[Tensor, "*shape"], mask: Bool[Tensor, "..."] | None = None
) -> float:
    """Signal-to-noise ratio, 10 log10(mean truth² / mean squared error), in dB, for signals without a peak."""
    power = mean_squared_error(truth, torch.zeros_like(truth), mask)
    error = mean_squared_error(estimate, truth, mask)
    if error == 0:
        return math.inf
    return -math.inf if power == 0 else 10 * math.log10(power / error)


def ssim(estimate: Float[Tensor, "*grid channels"], truth: Float[Tensor, "*grid channels"]) -> float | None:
    """Structural similarity of two signals in [0, 1], by scikit-image, with windows of seven samples along each axis.

    It is None if an axis is shorter than a window.
    """
    from skimage.metrics import structural_similarity  # half a second to import

    if min(truth.shape[:-1]) < 7:
        return None
    a, b = (x.detach().clamp(0, 1).double().cpu().numpy() for x in (estimate, truth))
    return float(cast(float, structural_similarity(a, b, channel_axis=-1, data_range=1.0)))
