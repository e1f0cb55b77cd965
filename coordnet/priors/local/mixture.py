"""Mixtures of Gaussian patches: which classes of a patch count, its moments under them, and how classes are adapted.

The evidence of a patch and its posterior under each class come from one of two: ``gaussians`` takes any mask of each
patch, by one Cholesky factor for each patch and class; ``scale_mixture`` takes few masks or matrices, by one
eigendecomposition for each of them and each shape, which serves all energies and patches.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

CANDIDATES = 8  # classes that are followed for each patch
MOST_ROUNDS = 2  # rounds of adaptation; a third gains 0.001 dB on masked development crops, 0.005 dB on noisy ones


def likely(p: Float[Tensor, "patches classes"], least: float) -> Float[Tensor, "patches classes"]:
    """Return probabilities, in descending order, with those of at most ``least`` but the first set to 0, of sum 1."""
    kept = p * (p > least)
    kept[:, 0] = p[:, 0]
    return kept / kept.sum(1, keepdim=True)


def mixed(
    parts: Iterable[tuple[Tensor, Tensor, Tensor, Tensor]], zero: Float[Tensor, "patches *entries"]
) -> tuple[Float[Tensor, "patches *entries"], Float[Tensor, "patches *entries"]]:
    """Return the means and variances of patches under all of their classes, from those under each.

    A part has the numbers of patches, the probabilities of a class for each, and the means and variances under it. The
    dimensions of the numbers come first in the other three. ``zero`` are the patches' entries before any is added.
    """
    mean, second = torch.zeros_like(zero), torch.zeros_like(zero)
    for rows, p, x, variance in parts:
        p = p.reshape(*rows.shape, *(1,) * (x.ndim - rows.ndim))
        mean.index_add_(0, rows.flatten(), (p * x).flatten(0, rows.ndim - 1))
        second.index_add_(0, rows.flatten(), (p * (x.square() + variance)).flatten(0, rows.ndim - 1))
    return mean, (second - mean.square()).clamp(min=0)


def most_probable(
    start: Float[Tensor, "classes size size"],
    strength: float,
    present: Float[Tensor, "classes size size"],
    sums: Float[Tensor, "classes size size"],
    counts: Float[Tensor, " classes"],
) -> Float[Tensor, "classes size size"]:
    """Return covariances (ν S_start + Σ p E[xxᵀ]) / (ν + Σ p), the mode under an inverse Wishart prior.

    ν is the ``strength`` of the start, Σ p are the ``counts``, and the ``sums`` are Σ p (E[xxᵀ] - S) with the
    ``present`` covariances S.
    """
    n = counts[:, None, None]
    covariances = (strength * start + n * present + sums) / (strength + n)
    return (covariances + covariances.mT) / 2
