"""The parameters of the evolving prior."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from coordnet import _checks
from coordnet.priors.evolving.frames import FrameStatistics


@dataclass(frozen=True)
class EvolvingParameters:
    """The parameters of ``Evolving``, as its plan takes them; it says what they are."""

    times: tuple[float, ...] = ()
    rounds: int = 6
    hold_out: float = 0.1
    seed: int = 0
    statistics: tuple[FrameStatistics, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))
        for time in self.times:
            _checks.finite("times", time)
        if any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise _checks.wrong("times", "increasing numbers, each once", self.times)
        _checks.integer("rounds", self.rounds, 0)
        if not 0 <= _checks.nonnegative("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a share in [0, 1)", self.hold_out)

    def in_frames(self, count: int) -> Float[np.ndarray, " frames"]:
        """Return the times of frames in units of their median distance, from 0 on.

        A ``ValueError`` is raised if there are times of another number of frames.
        """
        if not self.times:
            return np.arange(float(count))
        if len(self.times) != count:
            raise _checks.wrong("times", f"{count} numbers, one for each frame", len(self.times))
        times = np.array(self.times)
        return (times - times[0]) / np.median(np.diff(times)) if count > 1 else np.zeros(1)
