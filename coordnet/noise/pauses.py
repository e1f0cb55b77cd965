"""The noise of a row, such as a sound, as its quietest windows have it: where a sound pauses, the noise goes on."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.noise.wiener import WINDOW_SIDES, window_root
from coordnet.sampling.noise_model import NoiseModel

FEWEST_QUIET = 24  # quiet windows from which the spectrum is found
QUIETEST = 0.02  # quantile of the loudness from which on windows are quiet
ALIKE = 0.25  # largest difference in loudness, a mean logarithm of power, between quiet windows
SILENT = 1e-12  # mean power relative to that of all windows up to which a window is digital silence, without noise


def quiet_noise(row: Float[Tensor, "length channels"]) -> NoiseModel:
    """Return the colored noise of a row, whose power at every frequency is that of its quietest windows.

    Quiet windows have about the least mean logarithm of the power over all frequencies. The power of noise is an
    exponential variable of mean P, with the median P log 2: a tone in less than half of the windows hardly changes it.
    A ``ValueError`` is raised for short rows, and if fewer than ``FEWEST_QUIET`` windows are quiet.
    """
    side = WINDOW_SIDES[1]
    if len(row) < side * FEWEST_QUIET // 2:
        raise _checks.wrong("noise", f"white for less than {side * FEWEST_QUIET // 2} samples", "colored")
    tiles = row.detach().double().cpu().mT.unfold(1, side, side // 2)
    modes = torch.fft.fft(tiles * window_root((side,)) / math.sqrt(side), dim=2)
    power = modes.abs().square()
    heard = power.mean((0, 2)) > SILENT * power.mean()
    modes, power = modes[:, heard], power[:, heard]
    loudness = power.clamp(min=torch.finfo(power.dtype).tiny).log().mean((0, 2))
    quiet = loudness <= loudness.quantile(QUIETEST) + ALIKE if len(loudness) else heard[:0]
    if int(quiet.sum()) < FEWEST_QUIET:
        expected = f"white: {int(quiet.sum())} windows of the row are quiet, and {FEWEST_QUIET} show colored noise"
        raise _checks.wrong("noise", expected, "colored")
    modes, power = modes[:, quiet], power[:, quiet]
    spectrum = torch.einsum("iwf,jwf->ijf", modes, modes.conj()).real / modes.shape[1]
    own = (power.median(1).values / math.log(2) / power.mean(1).clamp(min=1e-300)).sqrt()
    return NoiseModel(spectrum * own * own.unsqueeze(1), floor=1.0)
