"""Gaussians of patches with any unknown entries: evidence, posterior moments, and what the classes learn.

A patch x of class k has the distribution N(0, S_k), and y = x_o + noise of variance s² is known of it, at entries o.
With the covariance C = S_oo + s² I of y and its Cholesky factor, C = LLᵀ:

- the evidence is log N(y; 0, C) = -½|L⁻¹y|² - Σ log L_ii - n/2 log 2π;
- the posterior has the mean S_:o C⁻¹ y and the variances diag(S - S_:o C⁻¹ S_o:);
- the second moments E[xxᵀ | y] are S + S H S, where H has ααᵀ - C⁻¹ with α = C⁻¹y at the known entries and 0 elsewhere.

The last line lets expectation-maximization sum H alone over patches, which are small matrices. Sources: Rasmussen and
Williams 2006, equations 2.25 to 2.30; Yu, Sapiro and Mallat 2012.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.linalg.machine import at_once, bound_by_launches, cholesky, runs_in_blocks
from coordnet.priors.local.patches import distinct_masks

FEW_MASKS = 16  # distinct masks up to which patches with the same mask and class share a factorization
FACTORIZED = 2**19  # bytes of the covariances that are factorized together on a CPU; they fit into a cache
# On a GPU, where launches bound the time, patches are taken together whose numbers of known entries are equal when
# rounded up to a multiple of this, 4 to 32 of 64 for instance in four groups instead of 29.
ROUNDED_ON_GPU = 8
BLOCK_ON_GPU = 64  # pairs of one factorization that a GPU takes as a block, all blocks together


@dataclass(frozen=True)
class Group:
    """Pairs of a patch and a class, as many factorizations (g) as differ, each shared by m pairs."""

    pairs: Int[Tensor, "g m"]  # the number of each pair
    classes: Int[Tensor, " g"]
    index: Int[Tensor, "g n"]  # the known entries of the patches, and behind them others where ``filled`` is 0
    factor: Float[Tensor, "g n n"]  # the Cholesky factor L of their covariance, the identity at the others
    white: Float[Tensor, "g n m channels"]  # L⁻¹y, 0 at the others
    filled: Float[Tensor, "g n"] | None = None  # 1 at known entries, 0 at others; None if there are no others
    own: Bool[Tensor, "g m"] | None = None  # false where a pair is repeated; None if none is

    def of(self, weights: Float[Tensor, " pairs"]) -> Float[Tensor, "g m"]:
        """Return the weights of the group's pairs, 0 where a pair is repeated."""
        return weights[self.pairs] if self.own is None else weights[self.pairs] * self.own

    def only(self, kept: Bool[Tensor, " pairs"]) -> "Group":
        """Return the group without some of the pairs, but blocks as they are."""
        if self.own is not None:
            return self
        kept = kept[self.pairs]
        if len(kept) == 1:
            at = kept[0].nonzero()[:, 0]
            return replace(self, pairs=self.pairs[:, at], white=self.white[:, :, at])
        at = kept[:, 0].nonzero()[:, 0]
        filled = None if self.filled is None else self.filled[at]
        return Group(self.pairs[at], self.classes[at], self.index[at], self.factor[at], self.white[at], filled)


@dataclass(frozen=True)
class Gaussians:
    """The classes: covariances of a patch around its mean, and the variance of the noise on its known entries."""

    covariances: Float[Tensor, "classes size size"]
    noise: float

    def groups(
        self,
        y: Float[Tensor, "patches channels size"],
        known: Bool[Tensor, "patches size"],
        labels: Int[Tensor, "patches candidates"],
    ) -> Iterator[Group]:
        """Factorize the covariance of the known entries of every patch, for each of the classes it may belong to.

        Patches with a common mask share one factorization for each class: those without an unknown entry, or all of
        them where there are few masks.
        """
        few = few_masks(known)
        masks, which = (torch.ones_like(known[:1]), known.all(1).long() - 1) if few is None else few
        yield from self._shared(y, masks, which, labels)
        yield from self._separate(y, known, labels, which < 0)

    def _separate(self, y: Tensor, known: Tensor, labels: Tensor, chosen: Tensor) -> Iterator[Group]:
        """Factorize for each of the chosen patches, those with as many known entries (or nearly) together."""
        candidates, own = labels.shape[1], known.sum(1)
        step = ROUNDED_ON_GPU if bound_by_launches(y.device) else 1
        counts = ((own + step - 1) // step * step).clamp(max=known.shape[1])
        keys = torch.where(chosen, counts * len(self.covariances) + labels[:, 0], -1)
        order = keys.argsort()[int((~chosen).sum()) :]  # near patches read the same class
        entries = known.to(torch.uint8).argsort(dim=1, descending=True, stable=True)  # the known ones come first
        for n, alike in enumerate(order.split(torch.bincount(counts[order]).tolist())):
            if not len(alike):
                continue
            each = y.element_size() * candidates * max(1, n * n)
            for part in alike.split(at_once(each, y.device, FACTORIZED)):
                index = entries[part, :n]
                columns = y[part].gather(2, index.unsqueeze(1).expand(-1, y.shape[1], -1)).mT
                pairs = (part.unsqueeze(1) * candidates + torch.arange(candidates, device=part.device)).reshape(-1, 1)
                filled = None
                if step > 1:
                    filled = (torch.arange(n, device=part.device) < own[part].unsqueeze(1)).to(y)
                    columns = columns * filled.unsqueeze(2)
                    filled = filled.repeat_interleave(candidates, 0)
                index, columns = (f.repeat_interleave(candidates, 0) for f in (index, columns))
                yield self._group(pairs, labels[part].flatten(), index, columns.unsqueeze(2), filled)

    def _shared(self, y: Tensor, masks: Tensor, which: Tensor, labels: Tensor) -> Iterator[Group]:
        """Factorize once for each mask and class of the patches that have one of some masks."""
        count = len(self.covariances)
        keys = torch.where(which >= 0, which * count, -count).unsqueeze(1) + labels
        pairs = (keys >= 0).flatten().nonzero()[:, 0]
        keys, order = keys.flatten()[pairs].sort()
        distinct, counts = keys.unique_consecutive(return_counts=True)
        patches, order = pairs[order] // labels.shape[1], pairs[order]
        if bound_by_launches(y.device):
            yield from self._in_blocks(y, masks, patches, order, distinct, counts)
            return
        entries, classes, start = [mask.nonzero().T for mask in masks], distinct % count, 0
        for i, (key, size) in enumerate(zip(distinct.tolist(), counts.tolist(), strict=True)):
            part, index = slice(start, start + size), entries[key // count]
            columns = y[patches[part]][..., index[0]].movedim(2, 0).unsqueeze(0)
            yield self._group(order[part].unsqueeze(0), classes[i : i + 1], index, columns)
            start += size

    def _in_blocks(
        self, y: Tensor, masks: Tensor, patches: Tensor, pairs: Tensor, keys: Tensor, counts: Tensor
    ) -> Iterator[Group]:
        """Factorize once for each key, a mask and a class, and yield the pairs of all keys in blocks."""
        which, classes = keys // len(self.covariances), keys % len(self.covariances)
        known = masks.sum(1)
        n = int(known.max())
        index = masks.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[which, :n]
        filled = (torch.arange(n, device=y.device) < known[which].unsqueeze(1)).to(y)
        factor = self._factor(classes, index, filled)
        blocks = runs_in_blocks(counts, BLOCK_ON_GPU)
        each = n * (2 * n + 4 * BLOCK_ON_GPU * y.shape[1]) * y.element_size()
        for run, places, own in zip(*(x.split(at_once(each, y.device)) for x in blocks), strict=True):
            block, at = (torch.arange(k, device=y.device) for k in (len(run), BLOCK_ON_GPU))
            columns = y[patches[places]].movedim(3, 1)[block[:, None, None], index[run].unsqueeze(2), at]
            columns = columns * filled[run][:, :, None, None]
            white = torch.linalg.solve_triangular(factor[run], columns.flatten(2), upper=False).reshape(columns.shape)
            yield Group(pairs[places], classes[run], index[run], factor[run], white, filled[run], own)

    def _group(
        self,
        pairs: Tensor,
        classes: Tensor,
        index: Tensor,
        known: Float[Tensor, "g n m channels"],
        filled: Tensor | None = None,
    ) -> Group:
        factor = self._factor(classes, index, filled)
        white = torch.linalg.solve_triangular(factor, known.flatten(2), upper=False).reshape(known.shape)
        return Group(pairs, classes, index, factor, white, filled)

    def _factor(self, classes: Tensor, index: Tensor, filled: Tensor | None) -> Float[Tensor, "g n n"]:
        entries = _entries(classes, index, self.covariances.shape[-1])
        covariance = self.covariances.flatten().index_select(0, entries.flatten()).view_as(entries)
        if filled is not None:
            covariance *= filled.unsqueeze(1) * filled.unsqueeze(2)
        noise = self.noise if filled is None else self.noise * filled + (1 - filled)
        covariance.diagonal(dim1=1, dim2=2).add_(noise)
        return cholesky(covariance)

    def posterior(self, group: Group) -> tuple[Float[Tensor, "g m channels size"], Float[Tensor, "g 1 1 size"]]:
        """Return the means of the patches of a group, and the variances, which all channels share."""
        size = self.covariances.shape[-1]
        index = group.classes.unsqueeze(1) * size + group.index
        rows = self.covariances.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, size)
        if group.filled is not None:
            rows *= group.filled.unsqueeze(2)
        half = torch.linalg.solve_triangular(group.factor.mT, rows.mT, upper=True, left=False).mT  # needs no copies
        mean = (group.white.flatten(2).mT @ half).unflatten(1, group.white.shape[2:])
        variance = self.covariances.diagonal(dim1=1, dim2=2)[group.classes] - half.square().sum(1)
        return mean, variance.clamp(min=0)[:, None, None]

    def moments(
        self, groups: Iterable[Group], weights: Float[Tensor, " pairs"], channel_weights: Float[Tensor, " channels"]
    ) -> Float[Tensor, "classes size size"]:
        """Return the weighted sums of E[xxᵀ | y] - S over the pairs of each class, in a weighted mean over channels.

        These are S H S for a sum H, which is 0 for classes without pairs: few of the 324 classes of the patches of a
        color clip have one. H is summed in double precision: α is y/s² where a class misses a patch, as at an edge in a
        still scene, and the rounding of ααᵀ in single precision would make the covariances indefinite.
        """
        size = self.covariances.shape[-1]
        total = torch.zeros_like(self.covariances, dtype=torch.float64)
        has_pairs = torch.zeros(len(total), dtype=torch.bool, device=total.device)
        for group in groups:
            a = torch.linalg.solve_triangular(group.factor.mT, group.white.flatten(2), upper=True)
            w = group.of(weights)
            columns = (w.unsqueeze(-1) * (channel_weights / channel_weights.sum())).flatten(1)
            h = (a * columns.unsqueeze(1)).double() @ a.double().mT
            inverse = torch.cholesky_inverse(group.factor)
            if group.filled is not None:
                inverse.diagonal(dim1=1, dim2=2).mul_(group.filled)
            h -= w.sum(1)[:, None, None] * inverse
            total.view(-1).index_add_(0, _entries(group.classes, group.index, size).flatten(), h.flatten())
            has_pairs[group.classes] = True
        result, chosen = torch.zeros_like(self.covariances), has_pairs.nonzero()[:, 0]
        exact = self.covariances[chosen].double()
        result[chosen] = (exact @ total[chosen] @ exact).to(result)
        return result


def evidence(groups: Iterable[Group], channel_weights: Float[Tensor, " channels"], count: int) -> Float[Tensor, " n"]:
    """Return log N(y_o; 0, C) of as many pairs as there are, ``count``, a weighted sum over channels."""
    result = channel_weights.new_empty(count)
    for group in groups:
        energy = group.white.square().sum(1) @ channel_weights
        volume = 2 * group.factor.diagonal(dim1=1, dim2=2).log().sum(1, keepdim=True)
        n = group.index.shape[1] if group.filled is None else group.filled.sum(1, keepdim=True)
        constant = n * math.log(2 * math.pi)
        result[group.pairs] = -0.5 * (energy + channel_weights.sum() * (volume + constant))
    return result


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
