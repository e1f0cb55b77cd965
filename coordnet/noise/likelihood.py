"""Patches of a picture without clipped values, and the level of noise at which they are likeliest."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.parabola import least_of_parabola
from coordnet.noise.white import CLIPPED, FEW
from coordnet.priors.local.patches import Patches

SIDE, SHIFTS = 8, ((2, 1), (5, 2), (3, 7))  # side of patches in pixels, and shifts by which they have every phase
FEWEST_PATCHES = 32  # number of patches that tell the noise
LEVEL_STEP = math.sqrt(2)
LEVELS = tuple(LEVEL_STEP**k / 512 for k in range(15))  # standard deviations of the noise relative to the range
UPDATES = 6  # expectation maximizations of the probabilities of the classes


def unclipped(values: Float[Tensor, "channels height width"], most: int) -> Patches:
    """Return at most some patches, in which no value is at an end of the range that clipped some."""
    lattice = tuple(values.shape[1:])
    shape = tuple(min(n, SIDE) for n in lattice)
    patches = Patches.shifted(SIDE, SHIFTS, lattice, shape, values.device)
    at_ends = torch.zeros_like(values, dtype=torch.bool)
    for end in (values.min(), values.max()):
        if int((values == end).sum()) > max(FEW, CLIPPED * values.numel()):
            at_ends |= values == end
    kept = ~patches.of(at_ends).flatten(1).any(1)
    return Patches(lattice, shape, patches.corners[kept]).thinned(most)


def log_likelihood(densities: Float[Tensor, "patches classes"]) -> float:
    """Return the logarithm of the likelihood of all patches, with probabilities of the classes that make it largest.

    The logarithms of their densities in each class are given.
    """
    densities = densities.double()
    probability = torch.full_like(densities[0], 1 / densities.shape[1])
    for _ in range(UPDATES):
        probability = (densities + probability.log()).softmax(1).mean(0)
    return float((densities + probability.log()).logsumexp(1).sum())


def least_level(levels: Sequence[float], values: Sequence[float]) -> float:
    """Return the level at which a function is least, by a parabola if others are on both sides."""
    at = min(range(len(values)), key=values.__getitem__)
    if not 0 < at < len(levels) - 1:
        return levels[at]
    near = slice(at - 1, at + 2)
    return least_of_parabola(levels[near], values[near])
