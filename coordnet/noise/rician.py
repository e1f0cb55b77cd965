"""Rician noise: that of the magnitudes of complex numbers with white noise on both of their parts."""

import math
from functools import cached_property
from statistics import NormalDist

import numpy as np
from jaxtyping import Float
from scipy.special import ive
from torch import Tensor

from coordnet import _checks
from coordnet.noise.white import NEGLECTED_FROM, NODES, SCATTER, ClippedNoise, level_before, seen_level
from coordnet.noise.wiener import window_means
from coordnet.sampling.samples import units_of

# Least derivative of the mean of noisy values by the value, by which an error is divided: near 0, where it falls to 0,
# the error is about that of the value 0 itself.
LEAST_SLOPE = 0.5
# Largest root of half the mean square in a window without signal, relative to the level that the frequencies tell: that
# is too low by up to a quarter where there is no signal, since the variance hardly depends on small magnitudes.
DARK = 1.4
DARKEST = 0.2  # quantile of the dark windows that tells the level: weak signals raise the median more
SIEVED = 5  # number of times that windows with a weak signal are left out
EMPTY = 0.02  # share of such windows from which on they are taken for the background


class RicianNoise(ClippedNoise):
    """Noise of a standard deviation σ on both parts of a complex number, of which the magnitude is known.

    A magnitude μ becomes y = |μ + σ(n + im)| for standard normal n and m. With t = μ²/2σ², its mean is
    m(μ) = σ (π/2)^½ e^(-t/2) ((1 + t) I₀(t/2) + t I₁(t/2)), and its variance 2σ² + μ² - m(μ)² (Rice, "Mathematical
    analysis of random noise", 1944). The names are those of ``ClippedNoise``.
    """

    @classmethod
    def of(cls, signal: Float[Tensor, "*grid channels"], sigma: float) -> "RicianNoise":
        """Return the noise on a signal."""
        return cls(sigma, 0.0, float(signal.max()), (True, False))

    @cached_property
    def table(self) -> np.ndarray:
        sigma = max(self.sigma, 1e-6 * self.high)
        value = np.linspace(0, self.high + NEGLECTED_FROM * sigma, NODES)
        t = (value / sigma) ** 2 / 2
        mean = sigma * math.sqrt(math.pi / 2) * ((1 + t) * ive(0, t / 2) + t * ive(1, t / 2))
        slope = np.maximum(np.gradient(mean, value), LEAST_SLOPE)
        variance = np.maximum(2 * sigma**2 + value**2 - mean**2, 0.0)
        return np.stack([value, np.maximum.accumulate(mean), variance, 1 / slope**2])


def rician_level(signal: Float[Tensor, "*grid channels"]) -> float:
    """Estimate the standard deviation of Rician noise on a signal from its highest frequencies.

    The mean square of noise without signal is 2σ²: windows that are about as dark as the frequencies say have none, and
    tell σ better. In windows of n samples it has the relative deviation n^(-1/2). A low quantile of the windows tells
    it; those far above have a weak signal, and are left out. A ``ValueError`` is raised for negative values, which are
    no magnitudes.
    """
    check_magnitudes(signal)
    units = units_of(signal.unsqueeze(0))[0]
    signal = signal / units
    level = level_before(signal, RicianNoise.of(signal, seen_level(signal)))
    halves = window_means(signal.square().movedim(-1, 0).unsqueeze(0)).flatten() / 2
    dark = halves[halves < (DARK * level) ** 2]
    if len(dark) > EMPTY * len(halves):
        deviation = math.sqrt(len(halves) / signal.numel())
        expected = 1 + NormalDist().inv_cdf(DARKEST) * deviation
        for _ in range(SIEVED):
            square = dark.quantile(DARKEST) / expected
            dark = dark[dark <= (1 + SCATTER * deviation) * square]
        level = math.sqrt(float(square))
    return float(units) * level


def check_magnitudes(signal: Float[Tensor, "*grid channels"]) -> None:
    """Refuse a signal with negative values with a ``ValueError``."""
    if float(signal.min()) < 0:
        raise _checks.wrong("signal", "magnitudes, of at least 0, for Rician noise", f"{float(signal.min()):.3g}")
