"""What mixtures begin with: uncorrelated channels, and covariances of patches by power laws, in gray and in color."""

import itertools
import math
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
# The energy of color differences relative to luma's at low and at high frequency: three kinds of colorfulness.
COLORFULNESS = ((0.02, 0.0015), (0.1, 0.005), (0.3, 0.03))
CROSSOVER, STEEPNESS = 0.07, 4  # frequency in cycles per sample between low and high, and the power of the transition
COLOR_ENERGIES = (1.0, 0.08, 0.03)  # energies of luma and the differences in photographs, relative to luma's
SECOND_DIFFERENCE = 0.6  # energy of the second difference of colors, relative to the first
MEAN_ERRORS = (0.1, 0.02, 0.02)  # variances of the pilot's patch means in luma and the differences, relative to energy


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


def joint_shapes(
    shape: tuple[int, ...],
    colorfulness: tuple[tuple[float, float], ...] = COLORFULNESS,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "shapes columns columns"]:
    """Return covariances of patches of three colors, color after color, for luma of mean variance 3.

    Each shape of luma comes with every colorfulness.
    """
    spectra = Spectra.of(shape, device)
    luma = spectra.covariances(shape)
    transition = 1 / (1 + (spectra.squared_frequency.sqrt() / CROSSOVER) ** STEEPNESS)
    basis = torch.tensor(LUMA, dtype=torch.float64, device=device).T
    basis = basis / basis.norm(dim=0)
    shapes = []
    for low, high in colorfulness:
        difference = spectra.covariances(shape, high + (low - high) * transition)
        parts = torch.stack([luma, difference, SECOND_DIFFERENCE * difference])
        parts = parts + torch.tensor(MEAN_ERRORS, dtype=parts.dtype, device=device)[:, None, None, None]
        size = len(basis) * parts.shape[-1]
        shapes.append(3 * torch.einsum("ac,bc,csij->saibj", basis, basis, parts).reshape(-1, size, size))
    return torch.cat(shapes)


def gray_shapes(shape: tuple[int, ...], device: torch.device | str = "cpu") -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches of one channel, of mean variance 1."""
    return Spectra.of(shape, device).covariances(shape) + MEAN_ERRORS[0]
