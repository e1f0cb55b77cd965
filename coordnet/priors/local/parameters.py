"""The local prior: a mixture of Gaussians over the signal's small patches."""

from dataclasses import dataclass

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.axes import ByAxes

PATCH = ByAxes({1: (48,), 2: (8, 8), 3: (4, 6, 6), 4: (3, 4, 4, 4)})  # lengths of a patch, by the number of axes
MOST_ROUNDS = 50  # rounds of adaptation, each of which takes as long as the first
STRENGTH_BOUNDS = (1e-9, 1e9)  # patches that the starting classes can be worth: beyond, one of the two sides is all
NOISE_BOUNDS = (1e-6, 1e6)  # noise that float32 tells from none, and from more, in units of the signal's range


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
