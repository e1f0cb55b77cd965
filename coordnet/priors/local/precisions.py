"""Gaussians of patches with few unknown entries: what ``gaussians`` gives, from matrices of the unknown entries alone.

With the precision K = (S + s²I)⁻¹ of all entries of a patch and the Cholesky factor of its part at the unknown entries
u, K_uu = LLᵀ, and any guess of these entries beside the known ones, v, with h = L⁻¹K_u: and w = h v,

- the evidence is that of v under N(0, K⁻¹), plus ½|w|² - Σ log L_ii + |u|/2 log 2π;
- the entries are completed by v_u - L⁻ᵀw, and the posterior mean is v̂ - s² K v̂ of the completed patch v̂;
- the posterior variances are diag(K_uu⁻¹) - s² at unknown entries, and s² - s⁴ diag(K - hᵀh) at known ones;
- C⁻¹ is K - hᵀh, and α is K v̂ = K v - hᵀw.

A guess near the truth keeps the rounding small. Source: Rue and Held, "Gaussian Markov random fields" (2005), 2.2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.linalg.machine import at_once, cholesky

FACTORIZED = 2**20  # bytes of the rows of precisions that are gathered together on a CPU; they fit into a cache


@dataclass(frozen=True)
class Precisions:
    """The precisions of classes of patches with noise of a variance s², and the logarithms of their determinants."""

    matrices: Float[Tensor, "classes size size"]
    volumes: Float[Tensor, " classes"]
    noise: float

    @classmethod
    def of(cls, covariances: Float[Tensor, "classes size size"], noise: float) -> "Precisions":
        """Return the precisions of covariances S, found in float64."""
        factors = cholesky(covariances.double() + noise * torch.eye(covariances.shape[1]).to(covariances).double())
        volumes = -2 * factors.diagonal(dim1=1, dim2=2).log().sum(1)
        return cls(torch.cholesky_inverse(factors).to(covariances), volumes.to(covariances), noise)

    def groups(
        self,
        guess: Float[Tensor, "patches channels size"],
        unknown: Bool[Tensor, "patches size"],
        labels: Int[Tensor, "patches candidates"],
        chosen: Bool[Tensor, " patches"],
    ) -> "Iterator[Completed]":
        """Factorize for each of the chosen patches and classes, those with as many unknown entries together."""
        candidates, size = labels.shape[1], guess.shape[2]
        counts = unknown.sum(1)
        order = torch.where(chosen, counts, 0).argsort(stable=True)[int((~chosen).sum()) :]
        entries = unknown.to(torch.uint8).argsort(dim=1, descending=True, stable=True)  # the unknown ones come first
        for u, alike in enumerate(order.split(torch.bincount(counts[order]).tolist())):
            each = guess.element_size() * candidates * max(1, u * size)
            for part in alike.split(at_once(each, guess.device, FACTORIZED)) if len(alike) else ():
                pairs = (part.unsqueeze(1) * candidates + torch.arange(candidates, device=part.device)).flatten()
                classes, which = labels[part].flatten().sort()
                rows = part.repeat_interleave(candidates)[which]
                yield self._completed(pairs[which].unsqueeze(1), classes, entries[rows, :u], guess[rows])

    def _completed(self, pairs: Tensor, classes: Tensor, index: Tensor, guess: Tensor) -> "Completed":
        """Return pairs in the order of their classes."""
        distinct, counts = classes.unique_consecutive(return_counts=True)
        alike = zip(distinct.tolist(), guess.split(counts.tolist()), strict=True)
        product = torch.cat([part @ self.matrices[k] for k, part in alike])
        entries = (classes.unsqueeze(1) * guess.shape[2] + index).unsqueeze(2) * guess.shape[2] + index.unsqueeze(1)
        factor = cholesky(self.matrices.flatten().index_select(0, entries.flatten()).view_as(entries))
        steps = product.mT.gather(1, index.unsqueeze(2).expand(-1, -1, guess.shape[1]))
        white = torch.linalg.solve_triangular(factor, steps, upper=False)
        return Completed(self, pairs, classes, index, factor, white, guess, product)


@dataclass(frozen=True)
class Completed:
    """Pairs of a patch and a class, with as many unknown entries, in the order of the classes."""

    of: Precisions
    pairs: Int[Tensor, "g 1"]  # the number of each pair
    classes: Int[Tensor, " g"]
    index: Int[Tensor, "g u"]  # the unknown entries of the patches
    factor: Float[Tensor, "g u u"]  # the Cholesky factor L of their precision
    white: Float[Tensor, "g u channels"]  # w
    guess: Float[Tensor, "g channels size"]  # v
    product: Float[Tensor, "g channels size"]  # K v

    @cached_property
    def rows(self) -> Float[Tensor, "g u size"]:
        """The rows h."""
        at = self.classes.unsqueeze(1) * self.guess.shape[2] + self.index
        rows = self.of.matrices.flatten(0, 1).index_select(0, at.flatten()).view(*at.shape, self.guess.shape[2])
        return torch.linalg.solve_triangular(self.factor.mT, rows.mT, upper=True, left=False).mT  # needs no copies

    @property
    def alpha(self) -> Float[Tensor, "g channels size"]:
        """C⁻¹y at known entries, 0 at others."""
        return self.product - self.white.mT @ self.rows

    def only(self, kept: Bool[Tensor, " pairs"]) -> "Completed":
        """Return the group without some of the pairs."""
        at = kept[self.pairs[:, 0]].nonzero()[:, 0]
        return Completed(self.of, *(getattr(self, field.name)[at] for field in fields(self)[1:]))

    def evidence(self, channel_weights: Float[Tensor, " channels"]) -> Float[Tensor, "g 1"]:
        """Return log N(y; 0, C) of the pairs, a weighted sum over channels."""
        energy = (self.guess * self.product).sum(2) - self.white.square().sum(1)
        volume = 2 * self.factor.diagonal(dim1=1, dim2=2).log().sum(1) - self.of.volumes[self.classes]
        constant = (self.guess.shape[2] - self.index.shape[1]) * math.log(2 * math.pi)
        return -0.5 * (energy @ channel_weights + channel_weights.sum() * (volume + constant)).unsqueeze(1)

    def posterior(self) -> tuple[Float[Tensor, "g 1 channels size"], Float[Tensor, "g 1 1 size"]]:
        """Return the means of the patches, and the variances, which all channels share."""
        identity = torch.eye(self.index.shape[1]).to(self.factor).expand_as(self.factor)
        inverse = torch.linalg.solve_triangular(self.factor, identity, upper=False)
        at = self.index.unsqueeze(1)
        mean = self.guess - self.of.noise * self.alpha
        mean.scatter_add_(2, at.expand(-1, mean.shape[1], -1), -(self.white.mT @ inverse))
        precision = self.of.matrices.diagonal(dim1=1, dim2=2)[self.classes] - self.rows.square().sum(1)
        variance = (self.of.noise - self.of.noise**2 * precision).unsqueeze(1)
        variance.scatter_add_(2, at, (inverse.square().sum(1) - 2 * self.of.noise).unsqueeze(1))
        return mean.unsqueeze(1), variance.clamp(min=0).unsqueeze(1)

    def add_moments(self, weights: Float[Tensor, "g 1"], shares: Float[Tensor, " channels"], total: Tensor) -> None:
        """Add the weighted sums of ααᵀ - C⁻¹ over the pairs of each class, in a weighted mean over channels."""
        sides = torch.cat([self.alpha * shares.sqrt().unsqueeze(1), self.rows], 1) * weights.sqrt().unsqueeze(2)
        counts = weights.new_zeros(len(total)).index_add_(0, self.classes, weights[:, 0])
        total.index_add_(0, self.classes, sides.mT @ sides).sub_(counts[:, None, None] * self.of.matrices)
