"""Inpainting: the unknown part of a signal by the adaptive prior, the known part as it is."""

import math
import statistics
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.restore.restored import Restored
from coordnet.restore.tiles import Tiles, fit_tiles
from coordnet.sampling.patterns import Pattern, sample
from coordnet.sampling.samples import Samples


def inpaint(
    signal: Float[Tensor, "*grid channels"],
    known: str | Pattern | Tensor,
    *,
    seed: int = 0,
    largest: int | None = None,
    progress: bool = False,
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
    largest : int
        Points of the largest signal that is filled as a whole, 4 million if not given; others are filled in
        overlapping ``Tiles``, each with a prior of its own.

    Returns
    -------
    Restored
        Its ``expected_psnr`` is the best PSNR at hidden samples, ``chosen["known"]`` the share that is known, and
        ``fit.report`` has the prior that was learned.

    Raises
    ------
    ValueError
        If the mask has another shape than the signal, or nothing is known.
    """
    samples = sample(signal, known)
    tiles = Tiles(samples.grid, largest)
    kept = samples.geometry.known(samples.channels).to(signal.device)
    chosen = {"known": int(kept.sum()) / kept.numel(), "prior": "adaptive"}

    def fit(part: Samples) -> Reconstruction:
        return fit_closed_form(FourierEncoding.like(part), part, prior=Adaptive(seed=seed), progress=progress)

    if len(tiles) == 1:
        model = fit(samples)
        made, expected = model.render(alignment="sample"), _hold_out_psnr([model.report])
    else:
        model, chosen = None, chosen | tiles.report()
        made, reports = fit_tiles(tiles, samples, fit, progress=progress)
        expected = _hold_out_psnr(reports)
    return Restored(torch.where(kept, signal, made.to(signal.dtype)), model, expected, chosen)


def _hold_out_psnr(reports: list[dict[str, Any]]) -> float | None:
    """Return the best PSNR at hidden samples, over the mean squared errors of several fits."""
    scores = [[score for tried in r.get("tried", []) for score in tried["hold_out_psnr"]] for r in reports]
    errors = [10 ** (-max(found) / 10) for found in scores if found]
    return -10 * math.log10(statistics.fmean(errors)) if errors else None
