"""Inpainting: the unknown part of a signal by the adaptive prior, the known part as it is."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.fit.closed_form import fit_closed_form
from coordnet.priors.adaptive import Adaptive
from coordnet.restore.restored import Restored
from coordnet.sampling.patterns import Pattern, sample
from coordnet.sampling.samples import Lattice


def inpaint(
    signal: Float[Tensor, "*grid channels"], known: str | Pattern | Tensor, *, seed: int = 0, progress: bool = False
) -> Restored:
    """Fill what is unknown of a signal; what is known stays as it is, to the bit.

    Parameters
    ----------
    signal : (*grid, channels)
        A picture, a video or another signal of one to four axes. NaN is unknown too.
    known : (*grid,) or (*grid, channels), or a sampling pattern
        Not zero where the signal is known; see ``sample`` for patterns.
    seed : int
        Seed of the hidden samples that decide the prior.
    progress : bool
        Show a bar.

    Returns
    -------
    Restored
        Its ``expected_psnr`` is the PSNR at hidden samples, ``chosen["known"]`` the share that is known, and
        ``fit.report`` has the prior that was learned.

    Raises
    ------
    ValueError
        If the mask has another shape than the signal, or nothing is known.
    """
    samples = sample(signal, known)
    encoding = FourierEncoding.like(samples)
    fit = fit_closed_form(encoding, samples, prior=Adaptive(seed=seed), progress=progress)
    assert isinstance(samples.geometry, Lattice)
    kept = samples.geometry.known(samples.channels).to(signal.device)
    filled = torch.where(kept, signal, fit.render(alignment="sample").to(signal.dtype))
    chosen = {"known": float(kept.double().mean()), "prior": "adaptive"}
    return Restored(filled, fit, _hold_out_psnr(fit.report), chosen)


def _hold_out_psnr(report: dict[str, Any]) -> float | None:
    """The best PSNR at hidden samples of all that an adaptive fit tried; None where none were hidden."""
    scores = [score for tried in report.get("tried", []) for score in tried["hold_out_psnr"]]
    return max(scores, default=None)
