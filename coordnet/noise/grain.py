"""Noise that a Gaussian filter made of white noise, as grain is, told from a channel's patches by their likelihood.

A patch is a sum of the grain, which all patches share, and of a signal: of one of the local prior's classes, or of a
texture with the grain's own spectrum and a variance of its own, as foliage or gravel has. Grain is where a floor under
all variances is much likelier than none, and the flattest patches differ no more in their energy than noise does.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from coordnet.noise.evidence import is_gaussian
from coordnet.noise.likelihood import FEWEST_PATCHES, least_level, log_likelihood, unclipped
from coordnet.noise.windows import SIDES, Windows, quantile_of_mean
from coordnet.priors.local.classes import gray_shapes
from coordnet.priors.local.mixture import ENERGIES, Mixture, View
from coordnet.sampling.noise_model import NoiseModel

# Deviations in pixels of the filter: none for white noise, or others, between which it is the likeliest.
FILTERS = (0.0, 0.5, 0.7, 1.0, 1.4, 2.0)
LOOKED_AT = 800  # patches that are looked at
TEXTURES = tuple(2.0**k / 2**20 for k in range(17))  # variances of textures, for signals of range 1
NO_GRAIN = 1e-3  # standard deviation that a patch without grain has
BOUNDS, TOLERANCE = (2e-3, 0.25), 0.02  # range of the deviation of grain, and error of its logarithm
# Least logarithm of the ratio of the likelihoods with and without grain for each patch, and largest ratio between two
# low quantiles of the roots of the patches' energies, relative to that of noise. In 35 crops and fields without grain
# there are four photographs of textures that gain more than 1.2, with ratios of 1.25 and more. With grain ratios are
# 0.97 to 1.13, unless there are such textures.
GAIN, QUANTILES, SPREAD = 0.9, (0.02, 0.1), 1.15
STRONG = 0.1  # variance of a component of the grain in a patch, relative to the largest, above which it counts


def filtered_power(width: float) -> Float[Tensor, "height width"]:
    """Return the power spectrum of white noise filtered by a Gaussian, of mean 1, at a window's doubled frequencies."""
    f = torch.fft.fftfreq(2 * SIDES[2], dtype=torch.float64)
    along = torch.exp(-((2 * math.pi * width * f) ** 2))
    along = along / along.mean()
    return torch.outer(along, along)


@dataclass(frozen=True)
class Filtered:
    """Patches of a channel, less their means, and grain of one width that they may have."""

    y: Float[Tensor, "patches n"]
    width: float
    shape: tuple[int, ...]

    @cached_property
    def model(self) -> NoiseModel:
        """The grain of variance 1; white grain has one frequency."""
        power = filtered_power(self.width) if self.width else torch.ones(1, 1, dtype=torch.float64)
        return NoiseModel(power[None, None], floor=1.0)

    @cached_property
    def seen(self) -> tuple[Float[Tensor, "patches n"], Mixture, View, float]:
        """The patches in units in which the grain is white, the classes there, and the units' logarithmic volume."""
        whitener = self.model.roots(self.shape)[1]
        mixture = Mixture.begin(gray_shapes(self.shape).float(), ENERGIES, 1.0)
        view = mixture.view(whitener.float())
        return self.y @ whitener.float().mT, mixture, view, float(torch.linalg.slogdet(whitener)[1])

    def likelihood(self, level: float, textures: bool) -> float:
        """Return the logarithm of the likelihood of grain of some deviation, in the mean over patches.

        Patches may have ``textures`` in place of a signal of the local prior's classes.
        """
        y, mixture, view, volume = self.seen
        densities = replace(mixture, noise=level * level).evidence(y, view).flatten(1).double()
        if textures:
            variance = torch.tensor(TEXTURES, dtype=torch.float64) + level * level
            squares = y.double().square().sum(1, keepdim=True)
            own = -0.5 * (squares / variance + y.shape[1] * (2 * math.pi * variance).log())
            densities = torch.cat([densities, own], 1)
        return log_likelihood(densities) / len(y) + volume

    def fit(self, textures: bool) -> tuple[float, float]:
        """Return the likeliest level, and the logarithm of the likelihood there."""
        found: Any = minimize_scalar(
            lambda level: -self.likelihood(math.exp(level), textures),
            bounds=[math.log(level) for level in BOUNDS],
            method="bounded",
            options={"xatol": TOLERANCE},
        )
        return math.exp(found.x), -float(found.fun)

    @property
    def spread(self) -> float:
        """The ratio of two low quantiles of the patches' energies where the grain is strong, relative to noise."""
        size = self.y.shape[1]
        mean_free = torch.eye(size, dtype=torch.float64) - 1 / size
        values, vectors = torch.linalg.eigh(mean_free @ self.model.covariance(self.shape).double() @ mean_free)
        strong = values > STRONG * values[-1]
        energy = ((self.y.double() @ vectors[:, strong]).square() / values[strong]).mean(1)
        low, high = energy.quantile(torch.tensor(QUANTILES, dtype=torch.float64)).tolist()
        expected = [quantile_of_mean(share, float(strong.sum()) / 2) for share in QUANTILES]
        return math.sqrt(high * expected[0] / (low * expected[1])) if low > 0 else math.inf


def grain_of(picture: Float[Tensor, "height width channels"], weights: Float[Tensor, " channels"]) -> NoiseModel | None:
    """Return the grain of a sum of a picture's channels with some weights, None where anything leaves doubt.

    Textures do, and few patches without values that were clipped, and filtered noise does where all may be a Gaussian
    field; see ``is_gaussian``.
    """
    patches = unclipped(picture.movedim(-1, 0), LOOKED_AT)
    if len(patches) < FEWEST_PATCHES:
        return None
    values = patches.of((picture @ weights).unsqueeze(0))
    y = (values - values.mean(2, keepdim=True)).flatten(1).float()
    white, *others = (-Filtered(y, width, patches.shape).fit(textures=False)[1] for width in FILTERS)
    best = Filtered(y, least_level(FILTERS[1:], others) if min(others) < white else 0.0, patches.shape)
    level, likelihood = best.fit(textures=True)
    gain = likelihood - best.likelihood(NO_GRAIN, textures=True)
    if gain < GAIN or best.spread > SPREAD:
        return None
    if best.width and is_gaussian(Windows.of((picture @ weights).unsqueeze(2))):
        return None
    return replace(best.model, floor=level * level)
