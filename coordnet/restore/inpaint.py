"""Inpainting: the unknown part of a signal by the adaptive prior, the known part as it is."""

import math
import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet._checks import CoordnetWarning
from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.metrics.scores import value_range
from coordnet.priors.adaptive import Adaptive
from coordnet.restore.restored import Restored
from coordnet.sampling.patterns import Pattern, sample

# The mean PSNR in dB of photographs of which a share is known at random is 30.0 + 5.2 log10(share) from 2 to 25 %.
# Holes are harder, so that no more is expected of more known pixels; single photographs are up to 5 dB below the mean.
TYPICAL = (30.0, 5.2)
MARGIN = 12.0  # dB


def inpaint(
    signal: Float[Tensor, "*grid channels"], known: str | Pattern | Tensor, *, seed: int = 0, progress: bool = False
) -> Restored:
    """Fill the unknown samples of a signal; the known ones stay as they are, to the bit.

    Parameters
    ----------
    signal : (*grid, channels)
        A picture, a video or another signal of one to four axes. NaN is unknown too.
    known : (*grid,) or (*grid, channels), or a sampling pattern
        Not zero where the signal is known; see ``sample`` for patterns.
    seed : int
        Seed of the hidden samples that decide the prior.

    Returns
    -------
    Restored
        Its ``expected_psnr`` is the best PSNR at hidden samples, ``report["known"]`` the share that is known, and the
        ``report`` has the prior that was learned.

    Raises
    ------
    ValueError
        If the mask has another shape than the signal, or nothing is known.
    """
    samples = sample(signal, known)
    fit = fit_closed_form(FourierEncoding.like(samples), samples, prior=Adaptive(seed=seed), progress=progress)
    kept = samples.geometry.known(samples.channels).to(signal.device)
    filled = torch.where(kept, signal, fit.render(alignment="sample").to(signal.dtype))
    scores = [score for tried in fit.report.get("tried", []) for score in tried["hold_out_psnr"]]
    expected = _expected(max(scores, default=None), signal, kept)
    chosen: dict[str, Any] = {"known": float(kept.double().mean()), "prior": "adaptive"}
    return Restored(filled, fit, chosen | fit.report, expected)


def _expected(psnr: float | None, signal: Tensor, known: Tensor) -> float | None:
    """Return a hold-out PSNR against the range of the known values; warn where it is far below that of photographs."""
    if psnr is None:
        return None
    values, share = signal[known & ~signal.isnan()], float(known.double().mean())
    span, bounded = value_range(values)
    least = TYPICAL[0] + TYPICAL[1] * min(math.log10(share), math.log10(0.25)) - MARGIN
    if bounded and psnr < least:
        usual = f"the hold-out PSNR of {psnr:.1f} dB is far below that of photographs with {100 * share:.3g} % known"
        warnings.warn(f"{usual}: is the mask right, and not inverted?", CoordnetWarning, stacklevel=3)
    return psnr + 20 * math.log10(span)
