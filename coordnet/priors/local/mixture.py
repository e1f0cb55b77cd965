"""Mixtures of Gaussian patches: what their classes start from, which count for a patch, and how they are adapted.

The evidence of a patch and its posterior under each class come from one of two: ``gaussians`` takes any mask of each
patch, by one Cholesky factor for each patch and class; ``scale_mixture`` takes few masks or matrices, by one
eigendecomposition for each of them and each shape, which serves all energies and patches.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SLOPES = (1.0, 1.6)  # exponents of isotropic spectra in squared frequency: flat textures and soft edges
ORIENTED_SLOPES = (1.2, 1.75)  # exponents of spectra with a direction
ELONGATIONS = (3.0, 10.0)  # ratios by which oriented spectra are longer along their direction
PERIOD, PERIOD_IN_SPACE = 64, 16  # samples after which covariances repeat, in up to two dimensions and in more
CORNER = 0.7  # frequency below which the spectrum is flat, in periods
LUMA = ((1.0, 1.0, 1.0), (1.0, 0.0, -1.0), (1.0, -2.0, 1.0))  # luma and two differences of colors, not normalized
COLOR_ENERGIES = (1.0, 0.08, 0.03)  # energies of luma and the differences in photographs, relative to luma's
CANDIDATES = 8  # classes that are followed for each patch
MOST_ROUNDS = 2  # rounds of adaptation; a third gains 0.001 dB on masked development crops, 0.005 dB on noisy ones


def directions(dims: int) -> Float[Tensor, "n dims"]:
    """Return unit vectors in half of all directions: 6 in the plane, those to neighbors in space, none on a line."""
    if dims == 1:
        return torch.empty(0, 1, dtype=torch.float64)
    if dims == 2:
        angles = math.pi * torch.arange(6, dtype=torch.float64) / 6
        return torch.stack([angles.cos(), angles.sin()], 1)
    steps = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)] * dims)
    half = steps[len(steps) // 2 + 1 :]  # the others are their negatives
    return half / half.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class Spectra:
    """Power spectra on a periodic lattice, isotropic ones before oriented ones, and their squared frequencies."""

    values: Float[Tensor, "shapes *period"]
    squared_frequency: Float[Tensor, "*period"]

    @classmethod
    def of(cls, shape: tuple[int, ...], device: torch.device | str = "cpu") -> "Spectra":
        """Return the spectra for patches of a shape, on a device."""
        least = PERIOD if len(shape) <= 2 else PERIOD_IN_SPACE
        period = tuple(max(least, 2 * n) for n in shape)
        axes = [torch.fft.fftfreq(n, dtype=torch.float64) for n in period]  # a GPU would take longer to launch them
        f = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        total, corner = f.square().sum(-1), (CORNER / max(period)) ** 2
        spectra = [(total + corner) ** -slope for slope in SLOPES]
        for slope, elongation, direction in itertools.product(ORIENTED_SLOPES, ELONGATIONS, directions(len(shape))):
            along = (f @ direction).square()
            spectra.append((along / elongation + (total - along) * elongation + corner) ** -slope)
        return cls(torch.stack(spectra).to(device), total.to(device))

    def covariances(
        self, shape: tuple[int, ...], ratio: Float[Tensor, "*period"] | float = 1.0
    ) -> Float[Tensor, "shapes size size"]:
        """Return the covariances of patches without their means, for the spectra times a ratio.

        They are divided by the mean variance of an entry under the spectra themselves.
        """
        points = torch.cartesian_prod(*[torch.arange(n, device=self.values.device) for n in shape]).reshape(
            -1, len(shape)
        )
        lags = points.unsqueeze(1) - points
        index = tuple(lags[..., j] % n for j, n in enumerate(self.squared_frequency.shape))
        own, scaled = (self._centered(spectra, index) for spectra in (self.values, self.values * ratio))
        variance = own.diagonal(dim1=1, dim2=2).mean(1)
        return scaled / variance.clamp(min=1e-30)[:, None, None]  # it is 0 in patches of one entry, which is their mean

    def _centered(self, spectra: Tensor, index: tuple[Tensor, ...]) -> Tensor:
        correlation = torch.fft.ifftn(spectra, dim=tuple(range(1, spectra.ndim))).real
        c = correlation[(slice(None), *index)]
        return c - c.mean(1, keepdim=True) - c.mean(2, keepdim=True) + c.mean((1, 2), keepdim=True)


def power_laws(shape: tuple[int, ...], device: torch.device | str = "cpu") -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches without their means, each with the mean variance 1: isotropic, then oriented."""
    return Spectra.of(shape, device).covariances(shape)


@dataclass(frozen=True)
class Channels:
    """Uncorrelated channels, the first of the largest energy: their basis (columns) and relative energies."""

    basis: Float[Tensor, "channels channels"]
    energies: Float[Tensor, " channels"]

    @classmethod
    def of(cls, values: Float[Tensor, "channels *lattice"], known: Bool[Tensor, "#channels *lattice"]) -> "Channels":
        """Return luma and two color differences for three channels, principal components for other numbers."""
        if len(values) == 3:
            basis = torch.tensor(LUMA, dtype=values.dtype, device=values.device).T
            return cls(basis / basis.norm(dim=0), basis.new_tensor(COLOR_ENERGIES))
        mask = known.expand_as(values).flatten(1).to(values)
        y = values.flatten(1) * mask
        covariance = (y @ y.T).double() / (mask @ mask.T).clamp(min=1).double()
        energies, basis = torch.linalg.eigh(covariance)
        floor = 1e-3 * energies[-1:].clamp(min=torch.finfo(values.dtype).tiny)
        energies = torch.maximum(energies, floor).flip(0)
        return cls(basis.flip(1).to(values), (energies / energies[0]).to(values))


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
