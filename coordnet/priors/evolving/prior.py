"""The evolving prior: when it suits samples, and its plan."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet.encodings import Encoding
from coordnet.plans.plan import Plan
from coordnet.priors.base import Learned, Prior, Setting
from coordnet.priors.evolving.frames import FrameStatistics
from coordnet.priors.evolving.plan import EvolvingParameters, EvolvingPlan
from coordnet.sampling.samples import Geometry

FRAMES = 3, 400  # fewest and most frames for which it is taken unasked
SECONDS = 2e-5  # time of one core for a channel of a node
SECONDS_BY_FRAMES = 3e-7  # time of one core for a channel of a node and each of its frames


@dataclass(frozen=True)
class Evolving(EvolvingParameters, Prior):
    """A Gaussian prior of frames in time, with a covariance over the frames for every band of spatial frequencies.

    The first axis is time. What is large may so persist for long and what is small for a short time, which one spectrum
    of space and time cannot say: it suits fields under clouds. The covariances are learned from the samples.

    Attributes
    ----------
    times : tuple of float
        The times of the frames, in any unit; equally far apart if not given.
    rounds : int
        Rounds of learning at most.
    hold_out : float
        The share of the samples that is hidden to choose the rounds, where no gaps of other frames can be laid over a
        frame.
    seed : int
        The seed of the hidden samples.
    statistics : tuple of FrameStatistics
        Those of other blocks of the signal, one for each channel; nothing is learned then.

    Raises
    ------
    ValueError
        If the times do not increase, the rounds are negative, or the share is not in [0, 1).

    Notes
    -----
    Cressie and Huang, "Classes of nonseparable, spatio-temporal stationary covariance functions" (1999), for
    covariances in time by spatial frequency; Dempster, Laird and Rubin (1977), for how they are learned.
    """

    name: ClassVar[str] = "evolving"
    usage: ClassVar[str] = " (frames in time)"
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        return EvolvingPlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Evolving, ...]":
        """Return it for masked lattices of three axes or more, of which the first has 3 to 400 frames.

        Something is known of each channel.
        """
        geometry = setting.geometry
        is_mask = geometry.weights is not None and geometry.is_nodal
        if not is_mask or not setting.fourier or setting.robust or len(geometry.grid) < 3:
            return ()
        if not bool((geometry.full_weights > 0).flatten(0, -2).any(0).all()):
            return ()
        suits = geometry.is_binary and geometry.shape == geometry.grid and FRAMES[0] <= geometry.grid[0] <= FRAMES[1]
        return (cls(),) if suits else ()

    def seconds(self, setting: Setting) -> float:
        """Estimate the seconds of a fit on one core."""
        grid = setting.geometry.grid
        return math.prod(grid) * setting.channels * (SECONDS + SECONDS_BY_FRAMES * grid[0])

    def taught(self, fits: Sequence[Learned]) -> "Evolving":
        """Return the prior with the mean of the covariances that fits learned."""
        return replace(self, statistics=FrameStatistics.mean([learned for _, learned in fits]))

    @property
    def keeps_samples(self) -> bool:
        """Whether noise stays: its variance is learned, and removed."""
        return False

    def seeded(self, seed: int) -> "Evolving":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, seed=seed)

    def in_time(self, times: tuple[float, ...]) -> "Evolving":
        """Return the prior with the times of the frames, unless it has some."""
        return self if self.times else replace(self, times=times)

    @property
    def text(self) -> str:
        """The prior as the command line reads it, without the times of the frames."""
        return replace(self, times=()).text if self.times else super().text
