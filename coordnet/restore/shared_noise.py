"""White noise that correlates between the channels of a picture, such as the grain of a film scanned in color."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.restore.noise import noise_level, seen_level
from coordnet.restore.noise_windows import FAINTEST
from coordnet.restore.wiener import principal
from coordnet.sampling.noise_model import NoiseModel

STRONGER = 1.5  # least ratio of the deviation in the channel with most of the signal to what explains it otherwise


def shared_noise(picture: Float[Tensor, "height width channels"], found: NoiseModel | None) -> NoiseModel | None:
    """Return white noise that channels share in part, None where what was ``found`` explains it, or it is in doubt.

    The channels are rotated to uncorrelated ones. The last of them, with most of the signal, is nearly the brightness,
    and has most of the noise that all colors share; the others are differences of colors. The deviation in each is that
    on a gray picture. Since the others do not tell noise from texture in the last, noise must surely be there.
    """
    values = picture.double().movedim(-1, 0)
    rotation = principal((values - values.mean((1, 2), keepdim=True)).unsqueeze(0))[0][0]
    *others, last = (picture.double() @ rotation).split(1, dim=2)
    explained = 0.0 if found is None else _deviation(found, picture, rotation[:, -1])
    if seen_level(last) < STRONGER * max(explained, min(map(seen_level, others))):
        return None
    levels = [*map(noise_level, others), noise_level(last, surely=True)]
    if levels[-1] < max(STRONGER * max(explained, min(levels[:-1])), FAINTEST * math.sqrt(len(levels))):
        return None
    covariance = rotation * torch.tensor(levels, dtype=torch.float64).square() @ rotation.mT
    return NoiseModel(covariance[:, :, None, None], floor=1.0)


def _deviation(model: NoiseModel, picture: Tensor, vector: Float[Tensor, " channels"]) -> float:
    """Return the standard deviation of the noise of a model in a channel that is a sum of a picture's with weights."""
    share = 1.0 if model.spectrum is None else float(vector @ model.autocovariance[:, :, 0, 0] @ vector)
    return math.sqrt(share * float(model.variance(picture).mean()))
