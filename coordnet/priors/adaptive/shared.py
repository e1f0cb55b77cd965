"""The spectrum that some blocks of a signal have, for all blocks of the same lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

LEAST_PENALTY = 1e-6  # penalties are raised to it, since those of constants are 0 and variances their inverse


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A penalty for every mode of rotated channels, as a fit under the adaptive prior learned it.

    Attributes
    ----------
    penalty : (1, channels, *modes)
        The variance of the noise over that of the signal.
    rotation : (1, channels, channels)
        The map from the rotated channels to the signal's own.
    """

    penalty: Float[Tensor, "1 channels *modes"]
    rotation: Float[Tensor, "1 channels channels"]

    @classmethod
    def mean(cls, fits: Sequence[Mapping[str, Tensor]]) -> "Spectrum":
        """Return the mean of the variances that fits learned, along the rotated channels of the first one."""
        rotation, variance = fits[0]["rotation"], torch.zeros_like(fits[0]["penalty"])
        for learned in fits:
            shares = (rotation.mT @ learned["rotation"]).square()
            variance += torch.einsum("sij,sj...->si...", shares, 1 / learned["penalty"].clamp(min=LEAST_PENALTY))
        return cls(len(fits) / variance, rotation)
