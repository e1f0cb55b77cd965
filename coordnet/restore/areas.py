"""Pixels as areas: splines whose means over the pixels are the picture, smoothed as much as its noise asks for."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import BSpline
from coordnet.fitting.closed_form import plan
from coordnet.linalg.kronecker import outer_sum
from coordnet.linalg.transforms import cosines, inverse_cosines
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.plan import Plan
from coordnet.priors.local.areas import DEGREE, INTERPOLATION
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.halves import Pictures, center, enlarged_psnr, halved
from coordnet.restore.noise_level import seen_level
from coordnet.sampling.grids import AreaLattice

NOISE_POWER = 1.5  # exponent p of the smoothness prior that removes noise
STRENGTHS = (0.0, *(10 ** (k / 4) for k in range(-12, 9)))  # candidates λ for that prior, without a unit
NOISE_SIDE = 512  # largest side in pixels of the middle part in which the noise is measured
QUIET = 0.1  # this quantile of the noise in windows of a picture is taken for that of the picture


def area_plan(
    grid: tuple[int, ...],
    strength: float = 0.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Plan:
    """Return the plan of splines, one at each pixel of a grid, whose means over the pixels are the values.

    With a ``strength`` λ above 0 the values are smoothed by ``Smoothness`` before.
    """
    geometry = AreaLattice(grid)
    encoding = ComplexEncoding.like(BSpline, geometry, degree=DEGREE)
    prior = Smoothness(NOISE_POWER, strength) if strength > 0 else INTERPOLATION
    return plan(encoding, geometry, prior, dtype=dtype, device=device)


def fitted_areas(values: Pictures, strength: float = 0.0) -> Reconstruction:
    """Fit splines whose means over the pixels are the values of pictures; see ``area_plan``."""
    return area_plan(tuple(values.shape[-3:-1]), strength, dtype=values.dtype, device=values.device).fit(values)


def choose_strength(values: Pictures) -> tuple[dict[str, Any], float | None]:
    """Return the smoothing that suits the noise of pictures, and how well it enlarges them from their halves.

    The noise is that of the middle ``NOISE_SIDE`` pixels a side, where it is low: fine texture looks like noise.

    Returns
    -------
    dict
        The estimated standard deviation of the ``noise``, and the ``strength`` λ that suits it by ``stein_strength``.
    float or None
        The PSNR in dB of the middle enlarged from its half; None for small or constant pictures.
    """
    part = center(values, NOISE_SIDE)
    halves = halved(part)
    if halves is None:
        return {"noise": 0.0, "strength": 0.0}, None
    pictures, (small, truth) = part.reshape(-1, *part.shape[-3:]).double(), halves
    noise = math.sqrt(sum(seen_level(picture, QUIET) ** 2 for picture in pictures) / len(pictures))
    half = fitted_areas(small, stein_strength(small, noise / 2))
    return {"noise": noise, "strength": stein_strength(part, noise)}, enlarged_psnr(half, truth)


def stein_strength(pictures: Pictures, noise: float) -> float:
    """Return the strength λ among ``STRENGTHS`` that minimizes Stein's unbiased estimate of the squared error.

    It is Σ (1 - g)² z² + 2 σ² Σ g for noise of a standard deviation σ and modes z that are multiplied by
    g = 1 / (1 + λ ρ^p).

    Notes
    -----
    Stein, "Estimation of the mean of a multivariate normal distribution" (Annals of Statistics, 1981).
    """
    if noise == 0:
        return 0.0
    z = cosines(pictures.movedim(-1, -3).double(), 2)
    energy, signals = z.square().flatten(0, -3).sum(0), z.shape[:-2].numel()
    rho = _roughness(energy)

    def expected_error(strength: float) -> float:
        gain = 1 / (1 + strength * rho)
        return float(((1 - gain).square() * energy).sum()) + 2 * noise**2 * signals * float(gain.sum())

    return min(STRENGTHS, key=expected_error)


def smoothed(picture: Pictures, strength: float) -> Pictures:
    """Return a picture whose cosine modes are multiplied by 1 / (1 + λ ρ^p); see ``stein_strength``."""
    z = cosines(picture.movedim(-1, -3), 2)
    return inverse_cosines(z / (1 + strength * _roughness(z)).to(z), 2).movedim(-3, -1)


def _roughness(z: Float[Tensor, "*signals height width"]) -> Float[Tensor, "height width"]:
    """Return ρ^p of the cosine modes of pictures, in float64."""
    axes = [torch.arange(n, dtype=torch.float64, device=z.device) / n for n in z.shape[-2:]]
    return outer_sum([2 - 2 * torch.cos(math.pi * k) for k in axes]) ** NOISE_POWER
