"""Inpainting: the unknown part of a signal by the adaptive prior, the known part as it is."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.priors.adaptive import Adaptive
from coordnet.restore.restored import Restored
from coordnet.sampling.patterns import Pattern, sample


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
    chosen: dict[str, Any] = {"known": float(kept.double().mean()), "prior": "adaptive"}
    return Restored(filled, fit, chosen | fit.report, max(scores, default=None))
