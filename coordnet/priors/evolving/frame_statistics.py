"""The covariance and the noise of frames that some blocks of a signal have, for all blocks of the same lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.priors.evolving.bands import Bands
from coordnet.priors.evolving.covariance import Covariance
from coordnet.priors.evolving.frames import Followed, Problem
from coordnet.priors.evolving.learning import Learner

PARTS = ("stretch", "matrices", "tilt", "noise")  # names of what is kept of a channel


@dataclass(frozen=True, eq=False)
class FrameStatistics:
    """Statistics of the frames of one channel that a fit learned, in the units of the signal.

    Attributes
    ----------
    stretch : (axes,)
        The factors of the frequencies along each axis by which bands are elliptic.
    matrices : (bands, frames, frames)
        The covariances of the modes of every band over the frames.
    tilt : (modes,)
        The variance of a mode relative to others of its band.
    noise : ()
        The variance of the noise.
    """

    stretch: Float[np.ndarray, " axes"]
    matrices: Float[np.ndarray, "bands frames frames"]
    tilt: Float[np.ndarray, " modes"]
    noise: Float[np.ndarray, ""]

    @classmethod
    def of(cls, problem: Problem, learner: Learner) -> "FrameStatistics":
        """Return what a learner has."""
        units, covariance = problem.scale**2, learner.covariance
        stretch, noise = np.array(learner.bands.stretch), np.array(units * learner.noise)
        return cls(stretch, units * covariance.matrices, covariance.tilt, noise)

    @classmethod
    def mean(cls, fits: Sequence[Mapping[str, Tensor]]) -> "tuple[FrameStatistics, ...]":
        """Return the mean of what fits learned of every channel, over those that have the bands of the first one."""
        found, channel = [], 0
        while f"stretch_{channel}" in fits[0]:
            each = [[learned[f"{name}_{channel}"].cpu().double().numpy() for name in PARTS] for learned in fits]
            alike = [parts for parts in each if np.array_equal(parts[0], each[0][0])]
            found.append(cls(*(np.asarray(np.mean(parts, axis=0)) for parts in zip(*alike, strict=True))))
            channel += 1
        return tuple(found)

    def tensors(self, channel: int) -> dict[str, Tensor]:
        """Return all parts by their names and the number of the channel."""
        return {f"{name}_{channel}": torch.from_numpy(np.asarray(getattr(self, name))) for name in PARTS}

    def followed(self, problem: Problem) -> Followed:
        """Return what other frames taught, for a problem of which nothing is to be learned."""
        units = problem.scale**2
        bands = Bands(problem.y.shape[1:], tuple(self.stretch.tolist()))
        covariance = Covariance.of(bands, self.matrices / units, self.tilt)
        noise = float(self.noise) / units
        return Followed(Learner(problem.y, problem.known, covariance, noise, noise), problem.y, [], 0)
