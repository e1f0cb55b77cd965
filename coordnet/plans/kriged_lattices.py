"""Kriging of regular lattices by parts of equal lengths, whose samples have one covariance matrix."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from torch import Tensor

from coordnet.plans.matern import JITTER, Covariance, factorized, predictors
from coordnet.sampling.axes import ByAxes

# Samples along each axis of the blocks whose likelihood is maximized. Of 121 fields and crops, blocks of 8 to 16 choose
# nearly the same covariances in the plane; time grows with the cube of a block's samples.
DECIDING_SIDES = ByAxes({1: 200, 2: 10, 3: 5})
MOST_BLOCKS = 60  # blocks at most, spread over the lattice
MET = 1e-4  # largest difference from samples, relative to their deviation, of a prediction that interpolates them
# Samples along each axis of the parts from which nodes are predicted.
PREDICTING_SIDES = ByAxes({1: 1000, 2: 24, 3: 10})


@dataclass(frozen=True)
class Parts:
    """Overlapping or adjacent parts of a lattice, all with the same lengths, that together cover it.

    The distances between neighboring parts are equal but for rounding.

    Attributes
    ----------
    shape, steps, offsets : tuple of int
        The number of samples along each axis, their distance in nodes, and the node of the first one.
    side, apart : int
        The samples along each axis of a part, fewer where the lattice has fewer, and between neighboring parts at most.
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    offsets: tuple[int, ...]
    side: int
    apart: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """The samples along each axis of a part."""
        return tuple(min(n, self.side) for n in self.shape)

    @cached_property
    def starts(self) -> list[Int[np.ndarray, " _"]]:
        """The first samples of the parts along each axis."""
        spare = [n - m for n, m in zip(self.shape, self.lengths, strict=True)]
        return [np.linspace(0, s, math.ceil(s / self.apart) + 1).round().astype(int) for s in spare]

    @property
    def places(self) -> Float[np.ndarray, "n axes"]:
        """The places of a part's samples, in nodes from the first one."""
        return np.indices(self.lengths).reshape(len(self.shape), -1).T * np.array(self.steps, float)

    def samples(self, most: int | None = None) -> Int[np.ndarray, "parts n"]:
        """Return the flat numbers of the samples of each part, or of ``most`` parts, spread over the lattice."""
        firsts = np.array(list(itertools.product(*self.starts)))
        if most is not None and len(firsts) > most:
            firsts = firsts[np.linspace(0, len(firsts) - 1, most).round().astype(int)]
        within = np.indices(self.lengths).reshape(len(self.shape), -1)
        return np.asarray(np.ravel_multi_index(tuple(firsts.T[:, :, None] + within[:, None]), self.shape))

    def owners(self, axis: int, nodes: int) -> tuple[Int[np.ndarray, " nodes"], Int[np.ndarray, " nodes"]]:
        """Return for each node along an axis the part with the nearest middle, and the node's place in that part."""
        firsts = self.offsets[axis] + self.steps[axis] * self.starts[axis]
        middles = firsts + self.steps[axis] * (self.lengths[axis] - 1) / 2
        own = np.searchsorted((middles[1:] + middles[:-1]) / 2, np.arange(nodes))
        return own, np.arange(nodes) - firsts[own]


def meets_samples(k: Float[np.ndarray, "n n"], y: Float[np.ndarray, "n blocks channels"]) -> bool:
    """Return whether predictions at samples differ from these by at most ``MET`` of their deviation.

    The difference is J K⁻¹ (y - m), with the variance J that is added to the covariance K so that it has a factor. If
    samples are rougher than K, J is noise to the likelihood, and takes off what is rough.
    """
    columns = y.reshape(len(y), -1)
    left = JITTER * predictors(factorized(k), torch.from_numpy(columns))[0].numpy()
    return bool(np.square(left).mean() <= np.square(MET * (columns - columns.mean(0))).mean())


def relative_variance(covariance: Covariance, parts: Parts) -> float:
    """Return the variance of the prediction of the node farthest from samples, relative to that of the process."""
    node = [(n - 1) // 2 * step + step // 2 for n, step in zip(parts.lengths, parts.steps, strict=True)]
    factor = factorized(covariance(parts.places, parts.places)).numpy()
    white = solve_triangular(factor, covariance(parts.places, np.array([node], float)), lower=True, check_finite=False)
    return max(1 - float(np.square(white).sum()), 0.0)


def predicted_nodes(
    covariance: Covariance,
    parts: Parts,
    values: Float[Tensor, "channels n"],
    grid: tuple[int, ...],
    nugget: float = 0.0,
) -> Float[Tensor, "channels *grid"]:
    """Return the best linear unbiased prediction of each node from the samples of the part around it.

    The ``nugget`` is the variance of the samples' white noise, relative to that of the process.
    """
    y = values[:, torch.from_numpy(parts.samples())].permute(2, 1, 0).flatten(1)
    k = covariance(parts.places, parts.places) + nugget * np.eye(len(parts.places))
    multipliers, means = predictors(factorized(k), y)
    owners = [parts.owners(axis, n) for axis, n in enumerate(grid)]
    local = [np.arange(place.min(), place.max() + 1) for _, place in owners]
    places = np.stack(np.meshgrid(*local, indexing="ij"), -1).reshape(-1, len(grid)).astype(float)
    weights = torch.from_numpy(covariance(places, parts.places))
    f = weights @ multipliers + means
    part = np.ravel_multi_index(np.ix_(*(own for own, _ in owners)), [len(starts) for starts in parts.starts])
    place = np.ravel_multi_index(np.ix_(*(at - at.min() for _, at in owners)), [len(at) for at in local])
    f = f.reshape(len(places), -1, len(values))
    return f[torch.from_numpy(place).flatten(), torch.from_numpy(part).flatten()].T.reshape(-1, *grid)
