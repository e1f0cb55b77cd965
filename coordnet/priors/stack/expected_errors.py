"""How the errors of candidates fall from a lattice's half to all of its samples, if it samples a known process."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.stats import gmean

from coordnet.encodings import FourierEncoding
from coordnet.plans.matern import Covariance, factorized, predictors
from coordnet.priors.base import Prior
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice

MIDDLE_SIDE = 8  # samples along each axis, at most, of the lattice in whose middle errors are expected
LEAST = 1e-10  # expected squared error, relative to the process's variance, that may be rounding alone


def falls(
    linear: Sequence[Prior], covariance: Covariance, lattice: Lattice, shown: tuple[int, ...]
) -> Float[np.ndarray, " linear_and_kriging"]:
    """Return the factors by which squared errors fall from a lattice's half to all samples, relative to their mean.

    Errors at the half, whose samples are farther apart, tell which fit is best there. A process with the covariance of
    all samples tells how they change with the distance: the smoother it is, the more do fits of a high order gain. The
    expected squared error of the weights w of samples X at a node x is k(x, x) - 2 w k(X, x) + w k(X, X) w. It is taken
    in the mean over the nodes between samples in the middle of a small lattice. The last factor is that of kriging by
    this very covariance. The mean of the factors is geometric.

    - linear: the priors of fits that are linear in the samples
    - lattice: the lattice of the samples
    - shown: the distance of the half's samples along each axis, counted in samples
    """
    sides = tuple(min(n, MIDDLE_SIDE) for n in lattice.shape)
    small = Lattice(tuple(n * step for n, step in zip(sides, shown, strict=True)), shown)
    samples, nodes = (part * 1.0 for part in _places(small))
    errors = []
    for distance in (np.array(lattice.steps) / shown, np.array(lattice.steps)):
        inner = covariance(samples * distance, samples * distance)
        outer, own = covariance(nodes * distance, samples * distance), covariance(nodes[:1], nodes[:1])[0, 0]
        multipliers, means = predictors(factorized(inner.copy()), torch.eye(len(inner), dtype=torch.float64))
        kriged = outer @ multipliers.numpy() + means.numpy()
        w = np.stack([*(_weights(prior, small) for prior in linear), kriged])
        squares = own - 2 * (w * outer).sum(-1) + ((w @ inner) * w).sum(-1)
        errors.append(np.maximum(squares.mean(-1), LEAST * own))
    fallen = errors[0] / errors[1]
    return fallen / gmean(fallen)


def _places(lattice: Lattice) -> tuple[Int[np.ndarray, "samples axes"], Int[np.ndarray, "nodes axes"]]:
    """Return the places of a lattice's samples, and of the nodes between those of its middle cell, in nodes."""
    steps = np.array(lattice.steps)
    cells, within = (np.indices(lengths).reshape(len(steps), -1).T for lengths in (lattice.shape, lattice.steps))
    return cells * steps, (np.array(lattice.shape) - 1) // 2 * steps + within[1:]


@lru_cache
def _weights(prior: Prior, lattice: Lattice) -> Float[np.ndarray, "nodes samples"]:
    """Return the weights that a linear fit gives to samples at the nodes of the middle cell, by fits of impulses."""
    samples, nodes = _places(lattice)
    encoding = FourierEncoding.on(tuple(map(Axis, lattice.grid)))
    impulses = torch.eye(len(samples), dtype=torch.float64).reshape(-1, *lattice.shape, 1)
    fits = prior.plan(encoding, lattice, dtype=torch.float64).fit(impulses).render(lattice.grid, alignment="sample")
    return fits[(slice(None), *map(torch.from_numpy, nodes.T), 0)].T.numpy()
