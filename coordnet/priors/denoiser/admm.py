"""Plug-and-play: alternating directions between a denoiser, in the place of a prior, and what is known of a signal."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.priors.denoiser.pictures import SYMMETRIES

# Factor on the moves of plug-and-play by denoisers. With it 5 steps enlarge as well as 12 without, 6 do the same for
# mosaics and measurements, and 8 fill gaps as well as 12.
RELAXATION = 1.8

Signal = Float[Tensor, "channels *lattice"]
Clean = Callable[[Tensor, float, int], Tensor]  # a signal, its noise and a symmetry of the square
Nearest = Callable[[Tensor, float], Tensor]  # the best signal by the data near another, with the standard deviation


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

    Parameters
    ----------
    start : (channels, *lattice)
        The signal to begin with.
    sigmas : sequence of float
        The standard deviation s of each step.
    clean : callable
        ``clean(v, s, symmetry)`` is D(v, s).
    nearest : callable
        ``nearest(v, s)`` is the minimum of the data's negative log-likelihood plus |x - v|²/2s².
    relaxation : float
        The factor, above 0 and below 2, on the move from x to what the denoiser makes of it; above 1 fewer steps do.

    Notes
    -----
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
