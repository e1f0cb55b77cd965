"""The local prior: a mixture of Gaussians over the signal's small patches."""

from dataclasses import dataclass, replace
from typing import ClassVar

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.axes import ByAxes

PATCH = ByAxes({1: (48,), 2: (8, 8), 3: (4, 6, 6), 4: (3, 4, 4, 4)})  # lengths of a patch, by the number of axes
MOST_ROUNDS = 50  # rounds of adaptation, each of which takes as long as the first
STRENGTH_BOUNDS = (1e-9, 1e9)  # patches that the starting classes can be worth: beyond, one of the two sides is all
NOISE_BOUNDS = (1e-6, 1e6)  # noise that float32 tells from none, and from more, in units of the signal's range


@dataclass(frozen=True)
class Local:
    """A mixture of Gaussians over overlapping patches, adapted to the very signal that is reconstructed.

    The classes of the mixture start as power laws of several energies and orientations. They are adapted by
    expectation-maximization with the unknown samples integrated out. Hidden samples decide the weight of the result
    against the reconstruction by the ``pilot``; with weight 0 that is what is left, as in holes wider than a patch.
    Pictures are then filled once more, from groups of patches that are similar in the result, again weighed by hidden
    samples; mosaics with a fixed weight.
    Means over the cells of a picture are divided by the classes as they start, weighed by the picture's own half.

    Attributes
    ----------
    patch : tuple of int
        The lengths of a patch; by default 48, 8×8 or 4×6×6, by the number of axes. No longer than the lattice.
    rounds : int
        Rounds of adaptation on mosaics, at most 50, and at most two on other masks and noise; none is taken where the
        known samples form a lattice, whose gaps teach nothing.
    strength : float
        The number of patches that the starting classes are worth against those of the signal, from 1e-9 to 1e9.
    stride : int
        The distance of neighboring patches in the last pass, along each axis.
    noise : float
        The standard deviation of the noise on samples; with 0, known samples stay as they are.
    pilot : Adaptive
        The prior of the first reconstruction. It has the means of patches and the seed of the hidden samples.

    Raises
    ------
    ValueError
        If a number is out of its range, or the pilot is another prior.

    Notes
    -----
    Yu, Sapiro and Mallat, "Solving inverse problems with piecewise linear estimators" (2012), has the mixture and its
    adaptation; Zoran and Weiss, "From learning models of natural image patches to whole image restoration" (2011);
    Aguerrebere et al., "A Bayesian hyperprior approach for joint image denoising and interpolation" (2017).
    """

    name: ClassVar[str] = "local"
    learns: ClassVar[bool] = True  # whether the samples change it
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

    def seeded(self, seed: int) -> "Local":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, pilot=self.pilot.seeded(seed))

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
