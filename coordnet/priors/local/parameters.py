"""The parameters of the local prior, and the seconds that its fits take by an estimate from their work on one core."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

PATCH = ByAxes({1: (48,), 2: (8, 8), 3: (4, 6, 6), 4: (3, 4, 4, 4)})  # lengths of a patch, by the number of axes
MOST_ROUNDS = 50  # rounds of adaptation, each of which takes as long as the first
# Rounds on masks and noise at most. A third gains 0.001 dB on masked development crops, and 0.005 dB on noisy ones.
USEFUL_ROUNDS = 2
STRENGTH_BOUNDS = (1e-9, 1e9)  # patches that the starting classes can be worth: beyond, one of the two sides is all
NOISE_BOUNDS = (1e-6, 1e6)  # noise that float32 tells from none, and from more, in units of the signal's range

# Seconds on one core for each point of the lattice, and for what stands beside each number. Measured for pictures of
# one and three channels with 5 to 80 % known at random, for every second pixel, and for clips with an eighth known.
PILOT = 8e-6  # one channel of the adaptive prior before it
CLASSES = 14e-6  # choice of classes
SOLVED = 2e-9  # product in the solves of a patch
SIMILAR = 4e-6  # one channel of a pass of groups of similar patches, in pictures: of clips the others tell enough
ON_LATTICE = 1e-5  # strided lattice, all of whose patches share a factorization
WITHIN_CELLS = 1e-5  # pixel of means over cells of 2×2 or 3×3
DENOISED = 1.5e-5  # sample from which the local prior removes noise
GPU = 10  # times that a graphics processor is taken to be faster; this is an assumption, not a measurement


@dataclass(frozen=True)
class LocalParameters:
    """The parameters of ``Local``, as its plans take them; it says what they are."""

    patch: tuple[int, ...] = ()
    rounds: int = 4
    strength: float = 40.0
    stride: int = 2
    noise: float = 0.0
    pilot: Adaptive = Adaptive()

    def __post_init__(self) -> None:
        _checks.lengths("patch", self.patch, fewest=0)
        if _checks.integer("rounds", self.rounds, 0) > MOST_ROUNDS:
            raise _checks.wrong("rounds", f"an integer of at most {MOST_ROUNDS}", self.rounds)
        _checks.between("strength", self.strength, *STRENGTH_BOUNDS)
        _checks.integer("stride", self.stride, 1)
        _checks.nonnegative("noise", self.noise)
        _checks.instance("pilot", self.pilot, Adaptive, "a prior such as cn.Adaptive()")

    @property
    def useful_rounds(self) -> int:
        """The rounds of adaptation on masks and noise, at most ``USEFUL_ROUNDS``."""
        return min(USEFUL_ROUNDS, self.rounds)

    def noise_in(self, units: float) -> float:
        """Return the standard deviation of the noise in units of a signal's range, 0 or within ``NOISE_BOUNDS``."""
        return self.noise and min(max(self.noise / units, NOISE_BOUNDS[0]), NOISE_BOUNDS[1])

    def patch_on(self, lattice: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lengths of a patch on a lattice.

        Raises
        ------
        ValueError
            If the patch has another number of axes than the lattice.
        """
        patch = self.patch or PATCH[len(lattice)]
        if len(patch) != len(lattice):
            raise _checks.wrong("patch", f"{len(lattice)} lengths, one per axis", self.patch)
        return tuple(min(p, n) for p, n in zip(patch, lattice, strict=True))


def local_seconds(
    prior: LocalParameters, geometry: Geometry, channels: int, device: torch.device | str = "cpu"
) -> float:
    """Estimate the seconds of a fit with a local prior on one core, or on a graphics processor."""
    points, weights = math.prod(geometry.grid), geometry.weights
    if geometry.footprint == "area":
        work = WITHIN_CELLS
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
