"""A picture of half the size, whose lowest frequencies replace those of an estimate where noise is coarse.

Patches hardly tell the signal from noise that is coarser than they are; patches of the smaller picture do. Only the
lowest frequencies are replaced, since those near the highest of the smaller picture are worse (Facciolo, Pierazzo and
Morel, "Conservative scale recomposition for multiscale denoising", 2017).
"""

from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.transforms import cosines, inverse_cosines
from coordnet.sampling.noise_model import NoiseModel

# Largest share of the noise's power in fine detail with which it counts as coarse: noise filtered by 1 pixel has up to
# 0.05. Demosaiced noise has 0.4, and 0.2 dB would be lost.
COARSE = 0.1
# Share of the smaller picture's frequencies on each axis that are taken. On 128×128 pixels of kodim03, 05, 09 and 13
# with noise filtered by 1 pixel the gain is 0.15 dB in the mean, and 0.1 dB with 0.4; below 0.3 more blotches stay.
REPLACED = 0.3
HALVED_FROM = 64  # pixels along each axis of a picture whose half is large enough for patches to be learned from

Picture = Float[Tensor, "channels height width"]


def is_coarse(model: NoiseModel, lattice: tuple[int, ...]) -> bool:
    """Return whether a signal is a picture large enough to be halved, of noise with hardly any fine detail."""
    is_large = len(lattice) == 2 and min(lattice) >= HALVED_FROM
    return is_large and model.spectrum is not None and model.fine_share < COARSE


def halved(picture: Picture) -> Picture:
    """Return a picture of half the height and width, which has the lowest frequencies of its cosine transform."""
    height, width = (n // 2 for n in picture.shape[1:])
    return inverse_cosines(cosines(picture, 2)[:, :height, :width] / 2, 2)


def joined(fine: Picture, coarse: Picture) -> Picture:
    """Return a picture with its lowest frequencies from one of half its height and width."""
    height, width = (int(REPLACED * n) for n in coarse.shape[1:])
    modes = cosines(fine, 2)
    modes[:, :height, :width] = 2 * cosines(coarse, 2)[:, :height, :width]
    return inverse_cosines(modes, 2)
