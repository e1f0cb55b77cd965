"""Scores of a reconstruction against its signal: PSNR and the signal-to-noise ratio in decibels, and SSIM."""

import math
import sys
import warnings
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.metrics.baselines import biharmonic, cubic, expected_seconds, linear
from coordnet.sampling.arrays import Array, as_tensor, scaled
from coordnet.sampling.samples import Samples

BLOCK = 2**22  # entries that are scored at once, in float64
SSIM_WINDOW = 7  # samples of SSIM's window along an axis
INTERPOLATIONS = {"linear": linear, "cubic": cubic, "biharmonic": biharmonic}
AFFORDED = 2.0  # seconds that a peer may always take
LEAST_PEAK = 1 / 65535  # greatest value of the darkest picture, one step of 16 bits, that is not black


def mean_squared_error(
    estimate: Float[Tensor, "*shape"],
    truth: Float[Tensor, "*shape"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    unit: float = 1.0,
) -> float:
    """Mean of ((estimate - truth) / unit)² in float64, over all entries or those where ``mask`` is true; NaN over none.

    The mask has the shape (*grid,) or (*grid, channels). Values that are not finite raise a ``ValueError``, as do two
    shapes that differ.
    """
    for name, values in (("estimate", estimate), ("truth", truth)):
        if not isinstance(values, Tensor) or values.is_complex():
            raise _checks.wrong(name, "real numbers in a tensor", getattr(values, "dtype", type(values).__name__))
    if estimate.shape != truth.shape:
        raise _checks.wrong("estimate", f"shape {tuple(truth.shape)}, the truth's", tuple(estimate.shape))
    total, count = 0.0, 0
    step = max(1, BLOCK * len(truth) // max(1, truth.numel()))
    for i in range(0, len(truth), step):
        error = ((estimate[i : i + step].double() - truth[i : i + step].double()) / unit).square()
        error = error if mask is None else error[mask[i : i + step]]
        total, count = total + float(error.sum()), count + error.numel()
    if not math.isfinite(total):
        raise _checks.wrong("estimate", "finite values, as of the truth", "NaN, infinity or an overflow")
    return total / count if count else math.nan


def psnr(
    estimate: Array,
    truth: Array,
    mask: Array | None = None,
    *,
    data_range: float | None = None,
    clip: bool | None = None,
) -> float:
    """Peak signal-to-noise ratio, 10 log10(range² / mean squared error), in dB; infinite if the two agree.

    Pictures need no range: unsigned integers of 8 and 16 bits, and a truth in [0, 1], with which the estimate is
    clipped to [0, 1] as a display would. A truth in [0, 1] that is too small for a picture has its own span, see
    ``value_range``. For other signals the range is to be given.

    Parameters
    ----------
    estimate, truth : NumPy arrays or tensors of one shape
        Unsigned integers of 8 and 16 bits are scaled to [0, 1], the range of floating-point estimates of them.
    mask : bool, (*grid,) or (*grid, channels), optional
        True at the points, or the entries, to average over, such as the held-out ones; NaN over none.
    data_range : float, optional
        The span of possible values, which must be positive. It is that of the arrays as they were given.
    clip : bool, optional
        Whether the estimate is clipped to [0, ``data_range``] first: not if a range is given and this is not.

    Raises
    ------
    ValueError
        If the shapes differ, numbers are complex, or the range is not given for a truth beyond [0, 1].
    """
    a, b = as_tensor(estimate, "estimate"), as_tensor(truth, "truth").to(getattr(estimate, "device", "cpu"))
    for name, values in (("estimate", a), ("truth", b)):
        if values.is_complex():
            raise _checks.wrong(name, "real numbers", values.dtype)
    if a.shape != b.shape:
        raise _checks.wrong("estimate", f"shape {tuple(b.shape)}, the truth's", tuple(a.shape))
    where = None if mask is None else as_tensor(mask, "mask").to(a.device)
    if where is not None and (where.dtype != torch.bool or tuple(where.shape) != tuple(b.shape[: where.ndim])):
        expected = f"bool of shape {tuple(b.shape)} or {tuple(b.shape[:-1])}"
        raise _checks.wrong("mask", expected, f"{where.dtype} of shape {tuple(where.shape)}")
    if data_range is None:
        a, b = scaled(a), scaled(b)
        if bool(((b < 0) | (b > 1)).any()):
            found = f"values from {float(b.min()):.3g} to {float(b.max()):.3g}"
            raise _checks.wrong("data_range", "a number, for a truth that is not in [0, 1]", f"None and {found}")
        data_range, bounded = value_range(b)
        clip = bounded and clip is not False
    _checks.positive("data_range", data_range)
    error = mean_squared_error(a.clamp(0, data_range) if clip else a, b, where, unit=data_range)
    return math.inf if error == 0 else decibels(error)


def decibels(error: float, data_range: float = 1.0) -> float:
    """Return the PSNR of a mean squared error, in dB: about 3000 for none, as reports hold no infinity."""
    return 20 * math.log10(data_range) - 10 * math.log10(max(error, sys.float_info.min))


def value_range(signal: Float[Tensor, "..."]) -> tuple[float, bool]:
    """Return the data range for the PSNR of a signal's estimates, and whether they are clipped to it.

    A signal in [0, 1] has the range 1, with clipping, unless all of it is below ``LEAST_PEAK`` and not zero: it is no
    picture then. Any other signal has its own span as the range, or its magnitude if it is constant, without clipping.
    """
    low, high = float(signal.min()), float(signal.max())
    has_other_span = low < 0 or high > 1 or 0 < high < LEAST_PEAK
    return (high - low or abs(high), False) if has_other_span else (1.0, True)


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

    It is None if an axis is shorter than a window. See ``mean_squared_error`` for errors.
    """
    mean_squared_error(estimate, truth)
    from skimage.metrics import structural_similarity  # half a second to import

    if min(truth.shape[:-1]) < SSIM_WINDOW:
        return None
    length, step = len(truth), max(SSIM_WINDOW, BLOCK * len(truth) // truth.numel())
    total = 0.0  # scikit-image's mean leaves out the border, half a window, so that blocks meet where windows overlap
    for i in range(0, length - SSIM_WINDOW + 1, step):
        rows = slice(i, min(i + step + SSIM_WINDOW - 1, length))
        a, b = (x[rows].detach().clamp(0, 1).double().cpu().numpy() for x in (estimate, truth))
        mean = structural_similarity(a, b, win_size=SSIM_WINDOW, channel_axis=-1, data_range=1.0)
        total += float(cast(float, mean)) * (rows.stop - rows.start - SSIM_WINDOW + 1)
    return total / (length - SSIM_WINDOW + 1)


class Scoring:
    """The scores of estimates of a signal from samples; its NaN entries are unknown: PSNR and SNR exclude them."""

    def __init__(self, signal: Float[Tensor, "*grid channels"], samples: Samples) -> None:
        self.signal, self.samples, self.present = signal, samples, ~torch.isnan(signal)
        self.truth = signal if bool(self.present.all()) else signal.nan_to_num()  # a large one is not copied
        present = signal if self.truth is signal else signal[self.present]
        self.span, self.bounded = value_range(present)  # the range for the PSNR; see ``value_range``
        self.known = samples.geometry.known(signal.shape[-1])
        self.held_out = ~self.known & self.present
        self.ranked_by = "held_out" if bool(self.held_out.any()) else "fitted"  # the PSNR that ranks estimates

    def peers(self, seconds: float) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return the held-out PSNR of the ``INTERPOLATIONS``, and the expected seconds of those that are left out.

        A peer is left out if it is expected to take longer than ``seconds`` and ``AFFORDED``. The PSNR is None for it,
        and where there is no such interpolation or nothing was held out.
        """
        scores: dict[str, float | None] = dict.fromkeys(INTERPOLATIONS)
        left_out: dict[str, float] = {}
        for name, interpolate in INTERPOLATIONS.items() if self.ranked_by == "held_out" else ():
            needed = expected_seconds(self.samples, name)
            if needed > max(seconds, AFFORDED):
                left_out[name] = needed
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                estimate = interpolate(self.samples)
            if estimate is not None:
                scores[name] = self.scores(estimate.cpu())["psnr"]["held_out"]
        return scores, left_out

    def scores(self, estimate: Float[Tensor, "*grid channels"]) -> dict[str, Any]:
        """Return the PSNR over held-out, fitted and all entries, the SNR and the SSIM, for a record.

        A score that is infinite or has no entries is None. The SNR is over held-out entries. Only pictures in [0, 1]
        have an SSIM; see ``value_range`` for the data range.
        """
        masks = {"held_out": self.held_out, "fitted": self.known & self.present, "all": self.present}
        ratios = {
            k: psnr(estimate, self.truth, mask, data_range=self.span, clip=self.bounded) for k, mask in masks.items()
        }
        picture = self.bounded and self.signal.ndim == 3
        return {
            "psnr": {name: ratio if math.isfinite(ratio) else None for name, ratio in ratios.items()},
            "snr": ratio if math.isfinite(ratio := snr(estimate, self.truth, self.held_out)) else None,
            "ssim": ssim(estimate, self.truth) if picture else None,
        }

    def coverage(self, lower: Float[Tensor, "*grid channels"], upper: Float[Tensor, "*grid channels"]) -> float | None:
        """Return the share of the held-out entries that are within intervals; None if nothing was held out."""
        covered = ((self.truth >= lower) & (self.truth <= upper))[self.held_out]
        return float(covered.double().mean()) if len(covered) else None
