"""Mixtures of Gaussians whose classes are shapes times energies, of patches that few matrices observe.

A patch x of shape j and energy e has the distribution N(0, e S_j), and y = A x + noise of variance s² is known of it. A
mask is some rows of the identity. With the eigenvalues λ and eigenvectors U of A S_j Aᵀ, the covariance of y is
U (eλ + s²) Uᵀ for all energies, so that one decomposition for each shape and matrix serves all patches:

- with z = Uᵀy, the evidence is -½ Σ z²/(eλ + s²) - ½ Σ log(eλ + s²) - n/2 log 2π;
- the posterior has the mean e S_j Aᵀ U z/(eλ + s²), and variances likewise.

Sources: Portilla, Strela, Wainwright and Simoncelli 2003 (scale mixtures); Yu, Sapiro and Mallat 2012 (adaptation).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

MIN_PROBABILITY = 0.02  # below which a class of a patch is neglected
CANDIDATES = 8  # classes of a patch that are followed
WEIGHT_PRIOR = 0.02  # share of equal weights in the weights of the classes


@dataclass(frozen=True)
class View:
    """The shapes as one matrix lets them be seen."""

    energies: Float[Tensor, "shapes n"]  # eigenvalues λ
    vectors: Float[Tensor, "shapes n n"]  # eigenvectors U, as columns
    cross: Float[Tensor, "shapes size n"]  # S_j Aᵀ U


@dataclass(frozen=True)
class Pairs:
    """Likely pairs of patches and classes that have the same shape and matrix."""

    shape: int
    view: View
    rows: Int[Tensor, " pairs"]  # the patches
    probabilities: Float[Tensor, " pairs"]
    energies: Float[Tensor, " pairs"]
    gains: Float[Tensor, "pairs n"]  # e / (eλ + s²)
    z: Float[Tensor, "pairs n"]

    @property
    def means(self) -> Float[Tensor, "pairs size"]:
        """The posterior means of the patches."""
        return (self.z * self.gains) @ self.view.cross[self.shape].T

    def variances(self, own: Float[Tensor, " size"]) -> Float[Tensor, "pairs size"]:
        """Return the posterior variances, for the variances ``own`` of the shape."""
        energies, which = self.energies.unique(return_inverse=True)
        first = torch.zeros_like(energies, dtype=torch.long).scatter_(0, which, torch.arange(len(which)).to(which))
        removed = (energies.unsqueeze(1) * self.gains[first]) @ self.view.cross[self.shape].square().T
        return (energies.unsqueeze(1) * own - removed).clamp(min=0)[which]

    def add(self, own: Float[Tensor, " size"], mean: Tensor, second: Tensor) -> None:
        """Add the first and second moments of the patches, times their probabilities, to sums (patches, size)."""
        x, p = self.means, self.probabilities.unsqueeze(1)
        mean.index_add_(0, self.rows, p * x)
        second.index_add_(0, self.rows, p * (x.square() + self.variances(own)))


@dataclass(frozen=True)
class Assigned:
    """Patches of one matrix with their classes."""

    likeliest: Int[Tensor, " patches"]  # shape times the number of energies, plus energy
    pairs: Iterator[Pairs]
    weights: Float[Tensor, "shapes energies"]  # the sum over patches of the probabilities of every class


@dataclass(frozen=True)
class ScaleMixture:
    """The classes: covariances of mean variance about 1 (shapes), energies, weights, and the variance of the noise."""

    shapes: Float[Tensor, "shapes size size"]
    energies: Float[Tensor, " energies"]
    weights: Float[Tensor, "shapes energies"]
    noise: float

    @classmethod
    def begin(
        cls, shapes: Float[Tensor, "shapes size size"], energies: tuple[float, ...], noise: float
    ) -> "ScaleMixture":
        """Return classes of equal weight."""
        weights = shapes.new_full((len(shapes), len(energies)), 1 / (len(shapes) * len(energies)))
        return cls(shapes, shapes.new_tensor(energies), weights, noise)

    def view(self, matrix: Float[Tensor, "n size"]) -> View:
        """Decompose all shapes for a matrix, of which the products with patches are known."""
        rows = matrix @ self.shapes
        values, vectors = torch.linalg.eigh((rows @ matrix.T).double())
        vectors = vectors.to(rows)
        return View(values.clamp(min=0).to(rows), vectors, rows.mT @ vectors)

    def evidence(self, y: Float[Tensor, "patches n"], view: View) -> Float[Tensor, "patches shapes energies"]:
        """Return log N(y; 0, e A S_j Aᵀ + s² I) for patches of one matrix."""
        variances = self.energies[:, None] * view.energies.unsqueeze(1) + self.noise
        volumes = variances.log().sum(2) + y.shape[1] * math.log(2 * math.pi)
        result = y.new_empty(len(y), *self.weights.shape)
        for j, vectors in enumerate(view.vectors):
            torch.addmm(volumes[j], (y @ vectors).square_(), (1 / variances[j]).T, out=result[:, j])
        return result.mul_(-0.5)

    def assign(self, y: Float[Tensor, "patches n"], view: View, rows: Int[Tensor, " patches"]) -> "Assigned":
        """Return the likely classes of patches of one matrix; ``rows`` are the numbers that name the patches."""
        shares = self.evidence(y, view).add_(self.weights.log()).flatten(1).softmax(1)
        p, labels = shares.topk(min(CANDIDATES, shares.shape[1]), 1)
        likely = p * (p > MIN_PROBABILITY)
        likely[:, 0] = p[:, 0]
        likely = likely / likely.sum(1, keepdim=True)
        patches, columns = likely.nonzero(as_tuple=True)
        pairs = self._by_shape(y, view, rows, patches, labels[patches, columns], likely[patches, columns])
        return Assigned(labels[:, 0], pairs, shares.sum(0).reshape(self.weights.shape))

    def _by_shape(
        self, y: Tensor, view: View, rows: Tensor, patches: Tensor, labels: Tensor, p: Tensor
    ) -> Iterator[Pairs]:
        count = len(self.energies)
        order = labels.argsort(stable=True)
        shapes, sizes = (labels[order] // count).unique_consecutive(return_counts=True)
        for j, part in zip(shapes.tolist(), order.split(sizes.tolist()), strict=True):
            e = self.energies[labels[part] % count]
            gains = e.unsqueeze(1) / (e.unsqueeze(1) * view.energies[j] + self.noise)
            z = y[patches[part]] @ view.vectors[j]
            yield Pairs(j, view, rows[patches[part]], p[part], e, gains, z)

    def updated(self, moments: "Moments", start: Float[Tensor, "shapes size size"], strength: float) -> "ScaleMixture":
        """Return the classes of the largest posterior density, under an inverse Wishart prior around the start."""
        n = moments.counts[:, None, None]
        shapes = (strength * start + n * self.shapes + moments.sums) / (strength + n)
        weights = moments.weights / moments.weights.sum().clamp(min=1e-30)
        weights = (1 - WEIGHT_PRIOR) * weights + WEIGHT_PRIOR / weights.numel()
        return replace(self, shapes=(shapes + shapes.mT) / 2, weights=weights)


@dataclass
class Moments:
    """Sums over patches, weighted by the probabilities of their classes."""

    sums: Float[Tensor, "shapes size size"]  # of E[xxᵀ]/e - S
    counts: Float[Tensor, " shapes"]
    weights: Float[Tensor, "shapes energies"]

    @classmethod
    def zero(cls, mixture: ScaleMixture) -> "Moments":
        """Return sums over no patches."""
        zeros = torch.zeros_like(mixture.shapes)
        return cls(zeros, zeros[:, 0, 0].clone(), torch.zeros_like(mixture.weights))

    def add(self, pairs: Pairs) -> None:
        """Add the patches of one shape: E[xxᵀ]/e = S + e S Aᵀ (ααᵀ - C⁻¹) A S, in the eigenvectors of the shape."""
        p, e = pairs.probabilities.unsqueeze(1), pairs.energies.unsqueeze(1)
        a = pairs.z * pairs.gains * (p / e).sqrt()
        inner = a.T @ a
        inner.diagonal().sub_((p * pairs.gains).sum(0))
        cross = pairs.view.cross[pairs.shape]
        self.sums[pairs.shape] += cross @ inner @ cross.T
        self.counts[pairs.shape] += p.sum()
