"""Oriented power laws: the covariances of patches from which the classes of a local prior start."""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

SLOPES = (1.0, 1.6)  # exponents of isotropic spectra in squared frequency: flat textures and soft edges
ORIENTED_SLOPES = (1.2, 1.75)  # exponents of spectra with a direction
ELONGATIONS = (3.0, 10.0)  # of oriented spectra along their direction
PERIOD = 64  # samples after which the covariances repeat: several patches
CORNER = 0.7  # frequency below which the spectrum is flat, in periods


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


def power_laws(shape: tuple[int, ...]) -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches without their means, each with the mean variance 1: isotropic, then oriented."""
    period = tuple(max(PERIOD, 2 * n) for n in shape) if len(shape) <= 2 else (max(16, 2 * max(shape)),) * len(shape)
    f = torch.stack(torch.meshgrid(*[torch.fft.fftfreq(n, dtype=torch.float64) for n in period], indexing="ij"), -1)
    total, corner = f.square().sum(-1), (CORNER / max(period)) ** 2
    spectra = [(total + corner) ** -slope for slope in SLOPES]
    for slope, elongation, direction in itertools.product(ORIENTED_SLOPES, ELONGATIONS, directions(len(shape))):
        along = (f @ direction).square()
        spectra.append((along / elongation + (total - along) * elongation + corner) ** -slope)
    return torch.stack([_covariance(spectrum, shape) for spectrum in spectra])


def _covariance(spectrum: Float[Tensor, "*period"], shape: tuple[int, ...]) -> Float[Tensor, "size size"]:
    """Return the covariance of a patch's entries around their mean, for a power spectrum."""
    correlation = torch.fft.ifftn(spectrum).real
    points = torch.cartesian_prod(*[torch.arange(n) for n in shape]).reshape(-1, len(shape))
    lags = points.unsqueeze(1) - points
    index = [lags[..., j] % n for j, n in enumerate(correlation.shape)]
    covariance = correlation[tuple(index)]
    centered = covariance - covariance.mean(0) - covariance.mean(1, keepdim=True) + covariance.mean()
    return centered / centered.diagonal().mean()
