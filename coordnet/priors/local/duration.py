"""How long fits with the local prior take: estimates from their work on one core, the same on every machine."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.priors.local.parameters import LocalParameters
from coordnet.sampling.samples import Geometry

# Seconds on one core for each point of the lattice, and for what stands beside each number. Measured for pictures of
# one and three channels with 5 to 80 % known at random, for every second pixel, and for clips with an eighth known.
PILOT = 8e-6  # one channel of the adaptive prior before it
CLASSES = 14e-6  # choice of classes
SOLVED = 2e-9  # product in the solves of a patch
SIMILAR = 4e-6  # one channel of the groups of similar patches, in pictures
ON_LATTICE = 1e-5  # strided lattice, all of whose patches share a factorization
WITHIN_CELLS = 3e-6  # means over cells, times the pixels along a side of a cell
DENOISED = 1.5e-5  # sample from which the local prior removes noise
GPU = 10  # times that a graphics processor is taken to be faster; this is an assumption, not a measurement


def local_seconds(
    prior: LocalParameters, geometry: Geometry, channels: int, device: torch.device | str = "cpu"
) -> float:
    """Estimate the seconds of a fit with a local prior on one core, or on a graphics processor."""
    points, weights = math.prod(geometry.grid), geometry.weights
    if geometry.has_cells:
        work = WITHIN_CELLS * math.sqrt(points / math.prod(geometry.shape))
    elif weights is None:
        work = DENOISED * channels if prior.noise else ON_LATTICE
    else:
        patch = prior.patch_on(geometry.grid)
        products = _squared_counts(weights, patch) * math.prod(patch)
        work = PILOT * channels + CLASSES + SOLVED * products / prior.stride ** len(patch)
        work += SIMILAR * channels * (len(patch) == 2)
    return points * work / (1 if torch.device(device).type == "cpu" else GPU)


def _squared_counts(weights: Float[Tensor, "*lattice channels"], patch: tuple[int, ...]) -> float:
    """Return the mean square of the known entries of a patch, with 0 for a patch without an unknown entry.

    Patches side by side stand for all, and a channel for all.
    """
    counts = (weights > 0).float().mean(-1)
    for axis, length in enumerate(patch):
        counts = counts.unfold(axis, length, length).sum(-1)
    return float((counts.square() * (counts < math.prod(patch))).mean())
