"""Mixtures of Gaussian patches whose classes are shapes times energies: evidence, posterior, and what they learn.

A patch x of shape j and energy e has the distribution N(0, e S_j), and y = A x + noise of variance s² is known of it.
A mask is some rows of the identity. Where few matrices A occur, as on mosaics, noisy lattices and means over cells, the
eigenvalues λ and eigenvectors U of A S_j Aᵀ give the covariance of y as U (eλ + s²) Uᵀ for all energies, so that one
decomposition for each shape and matrix serves all patches:

- with z = Uᵀy, the evidence is -½ Σ z²/(eλ + s²) - ½ Σ log(eλ + s²) - n/2 log 2π;
- the posterior has the mean e S_j Aᵀ U z/(eλ + s²), and variances likewise.

Where every patch has a mask of its own, ``gaussians`` has the same of the likeliest classes, by one Cholesky factor for
each patch and class; all energies are then in the shapes.

Sources: Portilla, Strela, Wainwright and Simoncelli 2003 (scale mixtures); Yu, Sapiro and Mallat 2012 (adaptation).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.linalg.machine import at_once, bound_by_launches, in_threads, runs_in_blocks
from coordnet.priors.local.patches import Estimate, Observed, Patches, PatchPosterior, distinct_masks

CANDIDATES = 8  # classes that are followed for each patch
MIN_PROBABILITY = 0.02  # probability up to which a class of a patch is neglected
EVIDENCE = 2**23  # bytes of the evidence of patches that is held together on a CPU
BLOCK_ON_GPU = 256  # patches of one shape that a GPU takes as a block, all blocks together; a CPU takes shape by shape
DECOMPOSED = 8  # matrices that a thread decomposes at once: one at a time by all threads takes many times as long
WEIGHT_PRIOR = 0.02  # share of equal weights in the weights of the classes
ENERGIES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # variances of a patch, for signals of range 1


@dataclass(frozen=True)
class View:
    """The shapes as they are seen through one matrix A."""

    energies: Float[Tensor, "shapes n"]  # eigenvalues λ
    vectors: Float[Tensor, "shapes n n"]  # eigenvectors U, as columns
    cross: Float[Tensor, "shapes size n"]  # S_j Aᵀ U
    gains: Float[Tensor, "shapes energies n"]  # e / (eλ + s²)
    variances: Float[Tensor, "shapes energies size"]  # the posterior's


@dataclass(frozen=True)
class Alike:
    """Places in a list of classes: those of one shape on a CPU, blocks of one shape each on a GPU.

    A block that is too long repeats its last place.
    """

    shapes: Int[Tensor, " g"] | slice
    places: Int[Tensor, "g m"]
    own: Bool[Tensor, "g m"] | None = None  # false where a place is repeated; None if none is

    def which(self, rows: Float[Tensor, "g energies _"], number: Int[Tensor, "g m"]) -> Float[Tensor, "g m _"]:
        """Return the row of some number for each place, of rows for each block."""
        if len(rows) == 1:
            return rows[0][number]
        return rows[torch.arange(len(rows), device=rows.device).unsqueeze(1), number]

    def add(self, parts: Float[Tensor, "g *_"], onto: Float[Tensor, "shapes *_"]) -> None:
        """Add a part for each block to the sum of its shape."""
        if isinstance(self.shapes, slice):
            onto[self.shapes] += parts
        else:
            onto.index_add_(0, self.shapes, parts)


@dataclass(frozen=True)
class Pairs:
    """Likely pairs of patches and classes, in blocks of one shape each, for patches of one matrix A."""

    alike: Alike
    view: View
    rows: Int[Tensor, "g m"]  # the patches
    probabilities: Float[Tensor, "g m"]
    energies: Float[Tensor, "g m"]
    which: Int[Tensor, "g m"]  # the numbers of the energies
    gains: Float[Tensor, "g m n"]  # e / (eλ + s²)
    filtered: Float[Tensor, "g m n"]  # z, times the gains

    @property
    def means(self) -> Float[Tensor, "g m size"]:
        """The posterior means of the patches."""
        return self.filtered @ self.view.cross[self.alike.shapes].mT

    @property
    def variances(self) -> Float[Tensor, "g m size"]:
        """The posterior variances of the patches."""
        return self.alike.which(self.view.variances[self.alike.shapes], self.which)


@dataclass(frozen=True)
class Mixture:
    """The classes: covariances of mean variance about 1 (shapes), energies, weights, and the variance of the noise."""

    shapes: Float[Tensor, "shapes size size"]
    energies: Float[Tensor, " energies"]
    weights: Float[Tensor, "shapes energies"]
    noise: float

    @classmethod
    def begin(cls, shapes: Float[Tensor, "shapes size size"], energies: tuple[float, ...], noise: float) -> "Mixture":
        """Return classes of equal weight."""
        weights = shapes.new_full((len(shapes), len(energies)), 1 / (len(shapes) * len(energies)))
        return cls(shapes, shapes.new_tensor(energies), weights, noise)

    @property
    def at_once(self) -> int:
        """The patches whose evidence is held in memory together."""
        return at_once(self.weights.numel() * self.weights.element_size(), self.weights.device, EVIDENCE)

    def view(self, matrix: Float[Tensor, "n size"]) -> View:
        """Decompose all shapes for a matrix A, whose products with patches are known."""
        rows = matrix @ self.shapes
        stack = (rows @ matrix.T).double().cpu()  # PyTorch up to 2.11 takes one after another on a GPU, more slowly
        parts = list(in_threads(torch.linalg.eigh, stack.split(DECOMPOSED), stack.device))
        values = torch.cat([part.eigenvalues for part in parts]).to(rows).clamp(min=0)
        # Columns are in memory as LAPACK has them. They are joined and rounded on a GPU that takes them, where the
        # processor would wake all cores: a mosaic takes three quarters of the time on an H100.
        vectors = torch.cat([part.eigenvectors.mT.to(rows.device) for part in parts]).mT.to(rows)
        cross, e = rows.mT @ vectors, self.energies[:, None]
        gains = e / (e * values.unsqueeze(1) + self.noise)
        own = self.shapes.diagonal(dim1=1, dim2=2).unsqueeze(1)
        variances = (e * own - (e * gains) @ cross.square().mT).clamp(min=0)
        return View(values, vectors, cross, gains, variances)

    def evidence(self, y: Float[Tensor, "patches n"], view: View) -> Float[Tensor, "patches shapes energies"]:
        """Return log N(y; 0, e A S_j Aᵀ + s² I) for patches of one matrix."""
        variances = self.energies[:, None] * view.energies.unsqueeze(1) + self.noise
        volumes = variances.log().sum(2) + y.shape[1] * math.log(2 * math.pi)
        result, precisions = y.new_empty(len(y), *self.weights.shape), (1 / variances).mT
        shapes = at_once(y.numel() * y.element_size(), y.device, cached=0)  # one on a CPU, whose cache one fits
        for i in range(0, len(view.vectors), shapes):
            part = slice(i, i + shapes)
            squares = (y @ view.vectors[part]).square_()
            result[:, part] = torch.baddbmm(volumes[part].unsqueeze(1), squares, precisions[part]).movedim(0, 1)
        return result.mul_(-0.5)

    def posterior(
        self, y: Float[Tensor, "patches n"], view: View, moments: "Moments | None" = None
    ) -> tuple[Float[Tensor, "patches size"], Float[Tensor, "patches size"], Int[Tensor, " patches"]]:
        """Return the posterior means and variances of patches of one matrix, and the likeliest class of each.

        A class is its shape times the number of energies, plus its energy. The moments from which the mixture learns
        are added to those given.
        """
        shares = self.evidence(y, view).add_(self.weights.log()).flatten(1).softmax(1)
        p, labels = shares.topk(min(CANDIDATES, shares.shape[1]), 1)
        if moments is not None:
            moments.weights += shares.sum(0).reshape(self.weights.shape)

        def each() -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
            for pairs in self.pairs(y, view, labels, likely(p, MIN_PROBABILITY)):
                if moments is not None:
                    moments.add_pairs(pairs)
                yield pairs.rows, pairs.probabilities, pairs.means, pairs.variances

        mean, variance = mixed(each(), y.new_zeros(len(y), self.shapes.shape[1]))
        return mean, variance, labels[:, 0]

    def pairs(
        self,
        y: Float[Tensor, "patches n"],
        view: View,
        labels: Int[Tensor, "patches candidates"],
        probabilities: Float[Tensor, "patches candidates"],
    ) -> Iterator[Pairs]:
        """Yield the pairs of a patch and a class of positive probability, those of one shape together."""
        patches, columns = probabilities.nonzero(as_tuple=True)
        labels, probabilities = labels[patches, columns], probabilities[patches, columns]
        for alike in self.by_shape(labels):
            which, rows = labels[alike.places] % len(self.energies), patches[alike.places]
            gains = alike.which(view.gains[alike.shapes], which)
            filtered = (y[rows] @ view.vectors[alike.shapes]) * gains
            p = probabilities[alike.places] * (1 if alike.own is None else alike.own)
            yield Pairs(alike, view, rows, p, self.energies[which], which, gains, filtered)

    def by_shape(self, labels: Int[Tensor, " n"]) -> Iterator[Alike]:
        """Yield the places of classes by their shapes, on a GPU in blocks and as many of them as memory allows."""
        labels, order = labels.sort(stable=True)
        shapes, sizes = (labels // len(self.energies)).unique_consecutive(return_counts=True)
        if not bound_by_launches(labels.device):
            for j, places in zip(shapes.tolist(), order.split(sizes.tolist()), strict=True):
                yield Alike(slice(j, j + 1), places.unsqueeze(0))
            return
        run, places, own = runs_in_blocks(sizes, BLOCK_ON_GPU)
        many = at_once(8 * BLOCK_ON_GPU * self.shapes.shape[1] * self.shapes.element_size(), labels.device)
        for part in zip(*(x.split(many) for x in (shapes[run], order[places], own)), strict=True):
            yield Alike(*part)

    def updated(self, moments: "Moments", start: Float[Tensor, "shapes size size"], strength: float) -> "Mixture":
        """Return the classes of the largest posterior density, under an inverse Wishart prior around the start.

        With the ``strength`` ν of the start, the shapes are (ν S_start + Σ p E[xxᵀ]/e) / (ν + Σ p).
        """
        n = moments.counts[:, None, None]
        shapes = (strength * start + n * self.shapes + moments.sums) / (strength + n)
        shapes = (shapes + shapes.mT) / 2
        weights = moments.weights / moments.weights.sum().clamp(min=1e-30)
        weights = (1 - WEIGHT_PRIOR) * weights + WEIGHT_PRIOR / weights.numel()
        return replace(self, shapes=shapes, weights=weights)


@dataclass
class Moments:
    """Sums over patches, weighted by the probabilities of their classes."""

    sums: Float[Tensor, "shapes size size"]  # sums of E[xxᵀ]/e - S, with the present shapes S
    counts: Float[Tensor, " shapes"]
    weights: Float[Tensor, "shapes energies"]

    @classmethod
    def zero(cls, mixture: Mixture) -> "Moments":
        """Return sums over no patches."""
        zeros = torch.zeros_like(mixture.shapes)
        return cls(zeros, zeros[:, 0, 0].clone(), torch.zeros_like(mixture.weights))

    def add(self, other: "Moments") -> None:
        """Add sums over other patches."""
        self.sums += other.sums
        self.counts += other.counts
        self.weights += other.weights

    def add_pairs(self, pairs: Pairs) -> None:
        """Add patches: E[xxᵀ]/e = S + e S Aᵀ (ααᵀ - C⁻¹) A S, in the eigenvectors of each block's shape."""
        p, e = pairs.probabilities.unsqueeze(2), pairs.energies.unsqueeze(2)
        a = pairs.filtered * (p / e).sqrt()
        inner = a.mT @ a
        inner.diagonal(dim1=1, dim2=2).sub_((p * pairs.gains).sum(1))
        cross = pairs.view.cross[pairs.alike.shapes]
        pairs.alike.add(cross @ inner @ cross.mT, self.sums)
        pairs.alike.add(p.sum((1, 2)), self.counts)


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


@dataclass(frozen=True)
class SharedPatches:
    """The patches of a signal whose known entries have few masks, under a mixture.

    Where the variance of the noise differs by place, a patch is divided by the root of its mean variance relative to
    the mixture's. That only moves the patch to another energy. Noise of covariance v N in a patch, on a signal that is
    known everywhere, becomes white by the inverse R⁻¹ of the root of N: the mixture sees such a patch through R⁻¹.
    """

    observed: Observed
    patches: Patches
    variance: Float[Tensor, "1 *lattice"] | None = None  # the noise's; the mixture's if not given
    whitener: Float[Tensor, "columns columns"] | None = None  # R⁻¹, for the channels of a patch one after another

    def estimate(self, mixture: Mixture, moments: Moments | None = None) -> Estimate:
        """Return the mean of overlapping patches, each entry weighted by its posterior precision.

        The moments from which the mixture learns are added to those given. Where all entries are known, the posterior
        variance is that of the noise times the derivative of the estimate by its own sample (Robbins, "An empirical
        Bayes approach to statistics", 1956). Stein's estimate of the risk is the sum of these.
        """
        views: dict[bytes, View] = {}

        def posterior(part: Patches) -> PatchPosterior:
            means = part.of(self.observed.pilot).mean(2, keepdim=True)
            scale = self._relative_variance(part, mixture)
            y = (part.of(self.observed.values) - means) / scale.sqrt()
            mean, variance, classes = self._posterior(y.flatten(1), part, mixture, views, moments)
            mean, variance = mean.reshape(y.shape), variance.reshape(y.shape)
            return PatchPosterior(part, mean * scale.sqrt() + means, variance * scale, classes, scale * mixture.noise)

        return Estimate.of(map(posterior, self.patches.split(mixture.at_once)), self.observed.pilot)

    def _relative_variance(self, part: Patches, mixture: Mixture) -> Float[Tensor, "#patches 1 1"]:
        if self.variance is None:
            return self.observed.values.new_ones(1, 1, 1)
        return part.of(self.variance).mean(2, keepdim=True) / mixture.noise

    def _posterior(
        self,
        y: Float[Tensor, "patches columns"],
        part: Patches,
        mixture: Mixture,
        views: dict[bytes, View],
        moments: Moments | None,
    ) -> tuple[Float[Tensor, "patches columns"], Float[Tensor, "patches columns"], Int[Tensor, " patches"]]:
        """Return the means and the variances of the entries y of some patches, and their classes; views are kept."""
        if self.whitener is not None:
            views[b""] = views.get(b"") or mixture.view(self.whitener)
            return mixture.posterior(y @ self.whitener.mT, views[b""], moments)
        mean, variance = torch.empty_like(y), torch.empty_like(y)
        classes = torch.empty(len(y), dtype=torch.long, device=y.device)
        known = part.of(self.observed.known).expand(-1, len(self.observed.values), -1).flatten(1)
        masks, which = distinct_masks(known)
        for i, mask in enumerate(masks):
            rows, key = (which == i).nonzero()[:, 0], mask.cpu().numpy().tobytes()
            if key not in views:
                views[key] = mixture.view(torch.eye(len(mask), dtype=y.dtype, device=y.device)[mask])
            mean[rows], variance[rows], classes[rows] = mixture.posterior(y[rows][:, mask], views[key], moments)
        return mean, variance, classes
