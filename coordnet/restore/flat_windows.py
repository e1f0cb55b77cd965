"""The level of white noise on a picture by its flat windows, which most of the frequencies tell."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.restore.noise_windows import Windows

# Frequencies in cycles per pixel by which windows are taken for flat, and the least of those that tell the level: flat
# windows are chosen by other modes than these, and so their mean is not too low.
COARSE, FINE = (0.05, 0.26), 0.3
FEWEST, ENOUGH = 24, 0.1  # windows that are not clipped, and their share of all, from which on they tell the level
UNCLIPPED = 2.0  # standard deviations from an end that clips, beyond which windows count
BINS, IN_BIN = 6, 16  # parts by brightness in which windows are compared, and windows in each at least
# Quantile of the windows' energies, relative to noise alone, that shows too high a level where that is larger by FAR.
LOW, IN_NOISE, FAR = 0.1, 0.8, 1.25
INDEPENDENT = 1 / 8  # of the modes in windows that overlap by a half, beneath a taper
DIFFERENT = 2.0  # standard deviations above the least level of the channels, beyond which one has texture


def flat_level(
    picture: Float[Tensor, "height width channels"], sigma: float, *, ends: tuple[float, float], count: float
) -> float:
    """Return the standard deviation of white noise, by the fine modes of windows that are flat for a first estimate.

    The first estimate ``sigma`` has the weight of ``count`` independent values. It is lowered first where the windows
    of each brightness with the least energy have less than noise would leave there: texture has raised it then. Windows
    near ``ends`` that clipped the values do not count, and where few others are left, the estimate is as it was.
    """
    windows = Windows.of(picture, ends=1.0)
    counted = _unclipped(windows.means, sigma, ends)
    if int(counted.sum()) < max(FEWEST, ENOUGH * len(counted)):
        return sigma
    modes, radius = windows.modes[counted], windows.radius
    parts = torch.stack([(radius > COARSE[0]) & (radius < COARSE[1]), radius > FINE]).to(windows.seen)
    energy = modes.real.square() + modes.imag.square()
    coarse, fine = (energy @ (parts / windows.seen.sum(1) / parts.sum(1, keepdim=True)).mT).unbind(2)
    variance, least = sigma * sigma, _least(fine, windows.means[counted].mean(1))
    if variance > FAR * least:
        variance, count = least, 0.0
    is_flat = (coarse < variance).to(fine)
    number = is_flat.sum(0)
    levels = torch.where(number > 0, (fine * is_flat).sum(0) / number.clamp(min=1), torch.inf)
    values = INDEPENDENT * parts[1].sum() * number
    known = levels < (1 + DIFFERENT * (2 / values.clamp(min=1)).sqrt()) * levels.min().clamp(max=FAR * variance)
    weights = values * known
    total = (weights * torch.where(known, levels, 0.0)).sum() + count * variance
    return float(torch.where(known.any(), total / (weights.sum() + count), variance).sqrt())


def _unclipped(
    means: Float[Tensor, "windows channels"], sigma: float, ends: tuple[float, float]
) -> Bool[Tensor, " windows"]:
    """Return which windows have all means away from the ends that clip, which are infinite where none does."""
    return ((means > ends[0] + UNCLIPPED * sigma) & (means < ends[1] - UNCLIPPED * sigma)).all(1)


def _least(energy: Float[Tensor, "windows channels"], brightness: Float[Tensor, " windows"]) -> float:
    """Return the level that windows with little energy tell, in the median over parts of the range of brightness.

    A camera's noise differs by brightness: its dark windows alone would tell too low a level.
    """
    parts = brightness.argsort().chunk(min(BINS, max(1, len(energy) // IN_BIN)))
    low = torch.stack([energy[part].quantile(LOW, dim=0) for part in parts])
    return float(low.median(0).values.min()) / IN_NOISE
