"""Noise that correlates between the channels of a picture, such as the grain of a film scanned in color."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.noise.factors import FEWEST_WINDOWS, SHARES
from coordnet.noise.white import noise_level, seen_level
from coordnet.noise.wiener import principal
from coordnet.noise.windows import FAINTEST, SIGNALS_UP_TO, STRONG, Windows
from coordnet.sampling.noise_model import NoiseModel

STRONGER = 1.5  # least ratio of the deviation in the channel with most of the signal to what explains it otherwise
# Largest such ratio to the other channels that noise of each color's own explains: demosaiced noise has 2.3.
LOUDER = 2.0


def shared_noise(
    picture: Float[Tensor, "height width channels"],
    found: NoiseModel | None,
    alone: NoiseModel | None = None,
    *,
    is_compressed: bool = False,
) -> NoiseModel | None:
    """Return noise that channels share in part, None where what was ``found`` explains it, or it is in doubt.

    The channels are rotated to uncorrelated ones. The last of them, the ``brightness``, has most of the noise that all
    colors share. Colored noise is that of the brightness ``alone``, as of a gray picture, with the covariance of the
    channels that its flattest windows have. Without any, white noise is looked for: the other channels are differences
    of colors, and the deviation in each is that on a gray picture. Since they do not tell noise from texture in the
    last, noise must surely be there. What was found explains no more than ``LOUDER`` times the noise of the others, but
    in a compressed picture, where JPEG removed noise of colors.
    """
    picture = picture.detach().cpu()  # where its windows are
    rotation = _rotation(picture)
    *others, last = (picture.double() @ rotation).split(1, dim=2)
    explained = 0.0
    if found is not None:
        *differences, total = (_deviation(found, picture, vector) for vector in rotation.mT)
        explained = total if is_compressed else min(total, LOUDER * max(differences))
    least = max(STRONGER * explained, FAINTEST * math.sqrt(len(rotation)))
    if alone is not None and alone.spectrum is not None:
        variance = float(alone.variance(last).mean())
        power = variance * alone.spectrum
        made = NoiseModel(channel_covariance(picture, power[0, 0])[:, :, None, None] * power, floor=1.0)
        return made if math.sqrt(variance) >= least else None
    if seen_level(last) < STRONGER * max(explained, min(map(seen_level, others))):
        return None
    levels = [*map(noise_level, others), noise_level(last, surely=True)]
    if levels[-1] < max(STRONGER * min(levels[:-1]), least):
        return None
    covariance = rotation * torch.tensor(levels, dtype=torch.float64).square() @ rotation.mT
    return NoiseModel(covariance[:, :, None, None], floor=1.0)


def brightness(picture: Float[Tensor, "height width channels"]) -> Float[Tensor, "height width 1"]:
    """Return the sum of a picture's channels, with weights of squared sum 1, that varies most."""
    return picture.double() @ _rotation(picture)[:, -1:]


def _rotation(picture: Float[Tensor, "height width channels"]) -> Float[Tensor, "channels channels"]:
    """Return the weights of uncorrelated sums of a picture's channels, by ascending variance, of sum ≥ 0."""
    values = picture.double().movedim(-1, 0)
    rotation = principal((values - values.mean((1, 2), keepdim=True)).unsqueeze(0))[0][0]
    return rotation * torch.where(rotation.sum(0) < 0, -1.0, 1.0)


def channel_covariance(
    picture: Tensor, brightness_power: Float[Tensor, "height width"]
) -> Float[Tensor, "channels channels"]:
    """Return the covariance of channels relative to the variance of the brightness, of whose noise a power is given.

    It is that in the windows where the brightness is flattest, at the frequencies where its noise has most power. Since
    they were selected by the brightness, what depends on it is replaced (Pearson, "On the influence of natural
    selection on the variability and correlation of organs", 1903).
    """
    windows = Windows.of(picture)
    power = (windows.seen @ brightness_power.flatten()).where(windows.radius > SIGNALS_UP_TO, 0.0)
    strong = power > STRONG * power.max()
    modes = windows.modes[..., strong] / power[strong].sqrt()
    energy = modes[:, -1].abs().square().mean(1)
    flattest = modes[energy.argsort()[: max(FEWEST_WINDOWS, int(SHARES[0] * len(energy)))]]
    covariance = torch.einsum("wim,wjm->ij", flattest, flattest.conj()).real / flattest[:, 0].numel()
    slope = covariance[-1] / covariance[-1, -1]
    covariance = covariance + (1 - covariance[-1, -1]) * torch.outer(slope, slope)
    return windows.rotation @ covariance @ windows.rotation.mT


def _deviation(model: NoiseModel, picture: Tensor, vector: Float[Tensor, " channels"]) -> float:
    """Return the standard deviation of the noise of a model in a channel that is a sum of a picture's with weights."""
    share = 1.0 if model.spectrum is None else max(0.0, float(vector @ model.autocovariance[:, :, 0, 0] @ vector))
    return math.sqrt(share * float(model.variance(picture).mean()))
