"""Noise that correlates between the channels of a picture, such as the grain of a film scanned in color."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.noise.factors import FEWEST_WINDOWS, SHARES
from coordnet.noise.grain import grain_of
from coordnet.noise.white import noise_level
from coordnet.noise.wiener import principal
from coordnet.noise.windows import FAINTEST, SIGNALS_UP_TO, STRONG, Windows
from coordnet.sampling.noise_model import NoiseModel

STRONGER = 1.5  # least ratio of the deviation in the channel with most of the signal to what explains it otherwise
# Largest such ratio to the other channels that noise of each color's own explains: demosaiced noise has 2.3.
LOUDER = 2.0


def shared_noise(picture: Float[Tensor, "height width channels"], found: NoiseModel | None) -> NoiseModel | None:
    """Return noise that channels share in part, None where what was ``found`` explains it, or it is in doubt.

    The channels are rotated to uncorrelated ones. The last of them, the brightness, has most of the noise that all
    colors share: if it has grain, the noise has its spectrum (see ``grain_of``), and the covariance of the channels
    that its flattest windows have. What was found explains no more than ``LOUDER`` times the noise of the other
    channels, which are differences of colors. Without any, these may have white noise, beside which there is no
    filtered grain, and what is white in the brightness is no more than its ``noise_level``.
    """
    picture = picture.detach().cpu().double()  # where its windows are
    rotation = _rotation(picture)
    grain = grain_of(picture, rotation[:, -1])
    if grain is None or grain.spectrum is None:
        return None
    level, is_white = math.sqrt(grain.floor), grain.is_white_in_space
    *others, last = (picture @ rotation).split(1, dim=2)
    own = [noise_level(other) for other in others] if found is None or is_white else []
    level = min(level, noise_level(last)) if is_white else level
    explained = min(own) if found is None else _explained(found, picture, rotation)
    if level < max(STRONGER * explained, FAINTEST * math.sqrt(len(rotation))):
        return None
    if is_white:
        covariance = rotation * torch.tensor([*own, level], dtype=torch.float64).square() @ rotation.mT
        return NoiseModel(covariance[:, :, None, None], floor=1.0)
    if found is None and explained > FAINTEST:
        return None
    power = level * level * grain.spectrum
    return NoiseModel(channel_covariance(picture, power[0, 0])[:, :, None, None] * power, floor=1.0)


def _explained(found: NoiseModel, picture: Tensor, rotation: Float[Tensor, "channels channels"]) -> float:
    """Return the deviation that noise which was found explains in the brightness."""
    *differences, total = (_deviation(found, picture, vector) for vector in rotation.mT)
    return min(total, LOUDER * max(differences))


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
