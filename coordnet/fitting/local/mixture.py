"""Gaussian mixtures of patches with unknown entries: evidence, posterior moments, and the update of the classes.

A patch x of class k has the distribution N(0, S_k), and y = x_o + noise of variance s² is known of it, at entries o.
With the covariance C = S_oo + s² I of y and its Cholesky factor, C = LLᵀ:

- the evidence is log N(y; 0, C) = -½|L⁻¹y|² - Σ log L_ii - n/2 log 2π;
- the posterior has the mean S_:o C⁻¹ y and the variances diag(S - S_:o C⁻¹ S_o:);
- the second moments E[xxᵀ | y] are S + S H S, where H has ααᵀ - C⁻¹ with α = C⁻¹y at the known entries and 0 elsewhere.

The last line lets expectation-maximization sum H alone over patches, which are small matrices. Sources: Rasmussen and
Williams 2006, equations 2.25 to 2.30; Yu, Sapiro and Mallat 2012.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

FEW_MASKS = 16  # distinct masks up to which patches with the same mask and class share a factorization
FLOATS_AT_ONCE = 2**17  # of the covariances of known entries that are factorized together; they fit into a cache


@dataclass(frozen=True)
class Group:
    """Pairs of a patch and a class, as many factorizations (g) as differ, each shared by m pairs."""

    pairs: Int[Tensor, "g m"]  # the number of each pair
    classes: Int[Tensor, " g"]
    index: Int[Tensor, "g n"]  # the known entries of the patches
    factor: Float[Tensor, "g n n"]  # the Cholesky factor of their covariance

    def known(self, y: Float[Tensor, "g m channels size"]) -> Float[Tensor, "g n columns"]:
        """Return the known entries of patches, all of one factorization as columns."""
        g, m, channels, size = y.shape
        entries = y.reshape(g, m * channels, size).mT
        return entries.gather(1, self.index.unsqueeze(-1).expand(-1, -1, m * channels))


@dataclass(frozen=True)
class Gaussians:
    """The classes: covariances of a patch around its mean, and the variance of the noise on its known entries."""

    covariances: Float[Tensor, "classes size size"]
    noise: float

    def groups(
        self, known: Bool[Tensor, "patches size"], rows: Int[Tensor, " pairs"], labels: Int[Tensor, " pairs"]
    ) -> Iterator[Group]:
        """Factorize the covariance of the known entries for pairs of a patch (``rows``) and a class (``labels``).

        Patches with a common mask share one factorization for each class: those without an unknown entry, or all of
        them where there are few masks.
        """
        few = few_masks(known)
        masks, which = (torch.ones_like(known[:1]), known.all(1).long() - 1) if few is None else few
        alike = which[rows] >= 0
        yield from self._shared(masks, which, rows, labels, alike.nonzero()[:, 0])
        yield from self._separate(known, rows, labels, (~alike).nonzero()[:, 0])

    def _separate(self, known: Tensor, rows: Tensor, labels: Tensor, pairs: Tensor) -> Iterator[Group]:
        """Factorize for each of some pairs, those with as many known entries together."""
        counts = known.sum(1)[rows[pairs]]
        order = (counts * len(self.covariances) + labels[pairs]).argsort(stable=True)  # near pairs read the same class
        for alike in pairs[order].split(torch.bincount(counts).tolist()):
            if len(alike):
                n = int(known[rows[alike[0]]].sum())
                for part in alike.split(max(1, FLOATS_AT_ONCE // max(1, n * n))):
                    index = known[rows[part]].nonzero()[:, 1].reshape(len(part), n)
                    yield self._group(part.unsqueeze(1), labels[part], index)

    def _shared(self, masks: Tensor, which: Tensor, rows: Tensor, labels: Tensor, pairs: Tensor) -> Iterator[Group]:
        """Factorize once for each class and mask of some pairs."""
        keys = which[rows[pairs]] * len(self.covariances) + labels[pairs]
        order = keys.argsort(stable=True)
        distinct, counts = keys[order].unique_consecutive(return_counts=True)
        for key, alike in zip(distinct, pairs[order].split(counts.tolist()), strict=True):
            index = masks[key // len(self.covariances)].nonzero().T
            group = self._group(alike[:1].unsqueeze(0), (key % len(self.covariances)).reshape(1), index)
            for part in alike.split(FLOATS_AT_ONCE // self.covariances.shape[-1]):
                yield Group(part.unsqueeze(0), group.classes, index, group.factor)

    def _group(self, pairs: Tensor, classes: Tensor, index: Tensor) -> Group:
        covariance = self.covariances.take(_entries(classes, index, self.covariances.shape[-1]))
        covariance.diagonal(dim1=1, dim2=2).add_(self.noise)
        return Group(pairs, classes, index, torch.linalg.cholesky(covariance))

    def evidence(
        self,
        y: Float[Tensor, "patches channels size"],
        known: Bool[Tensor, "patches size"],
        rows: Int[Tensor, " pairs"],
        labels: Int[Tensor, " pairs"],
        channel_weights: Float[Tensor, " channels"],
    ) -> Float[Tensor, " pairs"]:
        """Return log N(y_o; 0, C) of every pair, a weighted sum over channels."""
        result = y.new_empty(len(rows))
        for group in self.groups(known, rows, labels):
            white = torch.linalg.solve_triangular(group.factor, group.known(y[rows[group.pairs]]), upper=False)
            energy = white.square().sum(1).reshape(*group.pairs.shape, -1) @ channel_weights
            volume = 2 * group.factor.diagonal(dim1=1, dim2=2).log().sum(1, keepdim=True)
            constant = group.index.shape[1] * math.log(2 * math.pi)
            result[group.pairs] = -0.5 * (energy + channel_weights.sum() * (volume + constant))
        return result

    def posterior(
        self,
        y: Float[Tensor, "patches channels size"],
        known: Bool[Tensor, "patches size"],
        rows: Int[Tensor, " pairs"],
        labels: Int[Tensor, " pairs"],
    ) -> Iterator[tuple[Int[Tensor, "g m"], Float[Tensor, "g m channels size"], Float[Tensor, "g 1 1 size"]]]:
        """Yield the numbers of pairs, the mean of their patches, and the variances, which all channels share."""
        for group in self.groups(known, rows, labels):
            half = torch.linalg.solve_triangular(group.factor, self._rows(group), upper=False)
            white = torch.linalg.solve_triangular(group.factor, group.known(y[rows[group.pairs]]), upper=False)
            mean = (white.mT @ half).reshape(*group.pairs.shape, *y.shape[1:])
            variance = self.covariances.diagonal(dim1=1, dim2=2)[group.classes] - half.square().sum(1)
            yield group.pairs, mean, variance.clamp(min=0)[:, None, None]

    def _rows(self, group: Group) -> Float[Tensor, "g n size"]:
        return self.covariances[group.classes.unsqueeze(1), group.index]

    def moments(
        self,
        y: Float[Tensor, "patches channels size"],
        known: Bool[Tensor, "patches size"],
        rows: Int[Tensor, " pairs"],
        labels: Int[Tensor, " pairs"],
        weights: Float[Tensor, " pairs"],
        channel_weights: Float[Tensor, " channels"],
    ) -> Float[Tensor, "classes size size"]:
        """Return the weighted sums of E[xxᵀ | y] - S over the pairs of each class, in a weighted mean over channels."""
        size = self.covariances.shape[-1]
        total = torch.zeros_like(self.covariances)
        for group in self.groups(known, rows, labels):
            a = torch.cholesky_solve(group.known(y[rows[group.pairs]]), group.factor)
            w = weights[group.pairs]
            columns = (w.unsqueeze(-1) * (channel_weights / channel_weights.sum())).flatten(1)
            h = (a * columns.unsqueeze(1)) @ a.mT
            h -= w.sum(1)[:, None, None] * torch.cholesky_inverse(group.factor)
            total.view(-1).index_add_(0, _entries(group.classes, group.index, size).flatten(), h.flatten())
        exact = self.covariances.double()
        return (exact @ total.double() @ exact).to(total)


def _entries(classes: Int[Tensor, " g"], index: Int[Tensor, "g n"], size: int) -> Int[Tensor, "g n n"]:
    """Return the flat indices of rows and columns ``index`` in a stack of square matrices."""
    rows = (classes.unsqueeze(1) * size + index) * size
    return rows.unsqueeze(2) + index.unsqueeze(1)


def few_masks(known: Bool[Tensor, "patches size"]) -> tuple[Tensor, Tensor] | None:
    """Return the distinct masks and the number of each patch's mask; None if there are more than ``FEW_MASKS``."""
    if len(known) > 8 * FEW_MASKS and len(distinct_masks(known[: 8 * FEW_MASKS])[0]) > FEW_MASKS:
        return None
    masks, which = distinct_masks(known)
    return (masks, which) if len(masks) <= FEW_MASKS else None


def distinct_masks(known: Bool[Tensor, "patches size"]) -> tuple[Bool[Tensor, "masks size"], Int[Tensor, " patches"]]:
    """Return the distinct masks and the number of each patch's mask."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(2**44, (known.shape[1],), generator=generator).double()  # their sums are exact in any order
    distinct, which = (known.double() @ whole.to(known.device)).unique(return_inverse=True)
    last = torch.zeros_like(distinct, dtype=torch.long).scatter_(0, which, torch.arange(len(which)).to(which))
    return known[last], which
