"""How the errors of candidates fall from a lattice's half to all of its samples, if it samples a known process."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float

from coordnet.encodings import FourierEncoding
from coordnet.plans.kriged_lattices import Covariance
from coordnet.plans.matern import factorized, predictors
from coordnet.priors.base import Prior
from coordnet.sampling.axes import Axis, ByAxes
from coordnet.sampling.grids import Lattice

MIDDLE_SIDES = ByAxes({1: 24, 2: 8, 3: 5})  # samples along each axis of the lattice in whose middle errors are expected
LEAST = 1e-10  # expected squared error, relative to the process's variance, that may be rounding alone


def falls(
    linear: Sequence[Prior], covariance: Covariance, steps: tuple[int, ...], shown: tuple[int, ...]
) -> Float[np.ndarray, " candidates"]:
    """Return the factors by which squared errors fall from a lattice's half to all samples: of linear fits and kriging.

    Errors at the half, whose samples are farther apart, tell which candidate is best there. A process with the
    covariance of all samples tells how they change with the distance: the smoother it is, the more do fits of a high
    order gain. The expected squared error of the weights w of samples X at a node x is k(x, x) - 2 w k(X, x) +
    w k(X, X) w. Its mean is taken over the nodes between samples in the middle of a small lattice. The last factor is
    that of kriging by this very covariance. Only ratios of factors tell something.

    - linear: candidates whose fits are linear in the samples
    - steps: the distance of samples along each axis, in nodes
    - shown: the distance of samples of the half, in samples
    """
    samples, nodes = (part * 1.0 for part in _places(shown))
    errors = []
    for distance in (np.array(steps) / shown, np.array(steps)):
        inner = covariance(samples * distance, samples * distance)
        outer, own = covariance(nodes * distance, samples * distance), covariance(nodes[:1], nodes[:1])[0, 0]
        multipliers, means = predictors(factorized(inner.copy()), torch.eye(len(inner), dtype=torch.float64))
        kriged = outer @ multipliers.numpy() + means.numpy()
        weights = np.stack([*(_weights(prior, shown) for prior in linear), kriged])
        squares = own - 2 * (weights * outer).sum(-1) + ((weights @ inner) * weights).sum(-1)
        errors.append(np.maximum(squares.mean(-1), LEAST * own))
    return errors[0] / errors[1]


def _places(steps: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of samples, and of the nodes between those of the middle cell, in nodes of a small lattice.

    Samples have these distances, in nodes.
    """
    shape = _lattice(steps).shape
    samples = np.indices(shape).reshape(len(steps), -1).T * np.array(steps)
    middle = np.array([(n - 1) // 2 for n in shape]) * steps
    return samples, middle + np.indices(steps).reshape(len(steps), -1).T[1:]


def _lattice(steps: tuple[int, ...]) -> Lattice:
    return Lattice(tuple(MIDDLE_SIDES[len(steps)] * step for step in steps), steps)


@lru_cache
def _weights(prior: Prior, steps: tuple[int, ...]) -> Float[np.ndarray, "nodes samples"]:
    """Return the weights that a linear fit gives to samples at the nodes of the middle cell, by fits of impulses."""
    lattice, (samples, nodes) = _lattice(steps), _places(steps)
    encoding = FourierEncoding.on(tuple(map(Axis, lattice.grid)))
    impulses = torch.eye(len(samples), dtype=torch.float64).reshape(-1, *lattice.shape, 1)
    fits = prior.plan(encoding, lattice, dtype=torch.float64).fit(impulses).render(lattice.grid, alignment="sample")
    return fits[(slice(None), *map(torch.from_numpy, nodes.T), 0)].T.numpy()
