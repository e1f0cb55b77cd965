"""The level of white noise on a picture by its flat windows, which most of the frequencies tell."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.restore.noise_windows import Windows, expected_energy

# Frequencies in cycles per pixel by which windows are taken for flat, and the least of those that tell the level: flat
# windows are chosen by other modes than these, and so their mean is not too low.
COARSE, FINE = (0.05, 0.26), 0.3
FEWEST, ENOUGH = 24, 0.1  # windows that are not clipped, and their share of all, from which on they tell the level
UNCLIPPED = 0.5  # least variance in a window relative to that before clipping, from which on it counts
ROUNDS = 3  # times that the noise in windows that were clipped is found from the level, and this from the windows
BINS, IN_BIN = 6, 16  # parts by brightness in which windows are compared, and windows in each at least
# Quantile of the windows' energies, relative to noise alone, that shows too high a level where that is larger by FAR.
LOW, IN_NOISE, FAR = 0.1, 0.8, 1.25
INDEPENDENT = 1 / 8  # of the modes in windows that overlap by a half, beneath a taper
DIFFERENT = 2.0  # standard deviations above the least level of the channels, beyond which one has texture


def flat_level(
    picture: Float[Tensor, "height width channels"],
    sigma: float,
    variance: Callable[[float], Float[Tensor, "height width channels"]],
    *,
    count: float,
) -> float:
    """Return the standard deviation of white noise, by the fine modes of windows that are flat for a first estimate.

    The ``variance`` of the noise at every pixel follows from its standard deviation, and is less where values were
    clipped: the energies of each window are relative to it. The first estimate ``sigma`` says which windows are flat in
    all rounds, as noise that depends on the signal would be less in every one otherwise, and has the weight of
    ``count`` independent values. It is lowered first where the windows of each brightness with the least energy have
    less than noise would leave there: texture has raised it then. Windows that are mostly clipped do not count, and
    where few others are left, the estimate is as it was.
    """
    windows = Windows.of(picture, ends=1.0)
    bands = torch.stack([(windows.radius > COARSE[0]) & (windows.radius < COARSE[1]), windows.radius > FINE])
    bands = bands.to(windows.seen)
    energy = windows.modes.real.square() + windows.modes.imag.square()
    energy = energy @ (bands / windows.seen.sum(1) / bands.sum(1, keepdim=True)).mT
    first = None
    for _ in range(ROUNDS):
        share = expected_energy(variance(sigma), windows.shape) @ windows.rotation.square() / sigma**2
        counted = (share > UNCLIPPED).all(1)
        if int(counted.sum()) < max(FEWEST, ENOUGH * len(counted)):
            break
        coarse, fine = (energy[counted] / share[counted].unsqueeze(2)).unbind(2)
        if first is None:
            first, least = sigma * sigma, _least(fine, windows.means[counted].mean(1))
            first, count = (least, 0.0) if first > FAR * least else (first, count)
            sigma = math.sqrt(first)
        sigma = _told(coarse, fine, first, INDEPENDENT * float(bands[1].sum()), first * count, count)
    return sigma


def _told(
    coarse: Float[Tensor, "windows channels"],
    fine: Float[Tensor, "windows channels"],
    variance: float,
    modes: float,
    total: float,
    count: float,
) -> float:
    """Return the level that the fine modes of windows tell, of which the coarse ones have less than a variance.

    Each window has a number of independent ``modes``. The first estimate adds a ``total`` of some ``count``.
    """
    is_flat = (coarse < variance).to(fine)
    number = is_flat.sum(0)
    levels = torch.where(number > 0, (fine * is_flat).sum(0) / number.clamp(min=1), torch.inf)
    values = modes * number
    known = levels < (1 + DIFFERENT * (2 / values.clamp(min=1)).sqrt()) * levels.min().clamp(max=FAR * variance)
    if not bool(known.any()):
        return math.sqrt(variance)
    return math.sqrt((float((values * levels)[known].sum()) + total) / (float(values[known].sum()) + count))


def _least(energy: Float[Tensor, "windows channels"], brightness: Float[Tensor, " windows"]) -> float:
    """Return the level that windows with little energy tell, in the median over parts of the range of brightness.

    A camera's noise differs by brightness: its dark windows alone would tell too low a level.
    """
    parts = brightness.argsort().chunk(min(BINS, max(1, len(energy) // IN_BIN)))
    low = torch.stack([energy[part].quantile(LOW, dim=0) for part in parts])
    return float(low.median(0).values.min()) / IN_NOISE
