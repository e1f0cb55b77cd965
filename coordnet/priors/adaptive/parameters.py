"""The adaptive prior: the variance of every mode is learned from the samples."""

from dataclasses import dataclass

from coordnet import _checks
from coordnet.priors.adaptive.shared import Spectrum
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import ByAxes


@dataclass(frozen=True)
class AdaptiveParameters:
    """The parameters of ``Adaptive``, as its plans take them; it says what they are."""

    starts: tuple[Smoothness, ...] = ()  # the power laws to choose from; those of ``STARTS`` if empty
    rounds: int = 8  # the largest number of rounds
    hold_out: float = 0.1  # the fraction of samples to hide; with 0 the first start and all rounds are taken
    rotated: bool = True  # learn a spectrum for each eigenvector of the channels' covariance, not for each channel
    seed: int = 0  # seed of the hidden samples
    spectrum: Spectrum | None = None  # that of other samples of the signal, with which nothing is learned

    def __post_init__(self) -> None:
        _checks.integer("rounds", self.rounds, 0)
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))
        for start in self.starts:
            if not hasattr(start, "penalty"):
                raise _checks.wrong("starts", "a tuple of Smoothness", repr(start))
        if not 0 <= _checks.nonnegative("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a number of at least 0 and below 1", self.hold_out)

    def starts_in(self, dims: int) -> tuple[Smoothness, ...]:
        """Return the power laws to start from, for a number of axes."""
        return self.starts or STARTS[dims]


_SMOOTH = (Smoothness(2.0, 0.01), Smoothness(2.5, 0.01))
STARTS = ByAxes(
    {
        1: (Smoothness(1.0, 0.01), Smoothness(1.0, 0.1), Smoothness(2.0, 0.1)),
        2: (Smoothness(1.5, 0.01), Smoothness(1.5, 0.03), Smoothness(2.0, 0.003), Smoothness(2.5, 0.003)),
        3: (*_SMOOTH, *(Smoothness(2.0, 0.01, (time, 1.0, 1.0)) for time in (0.3, 3.0))),
        4: _SMOOTH,
    }
)
