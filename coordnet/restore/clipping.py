"""White noise on values that were clipped: a censored normal distribution at every sample."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

CLIPPED = 1e-3  # an end of the range clipped the values if a larger share of them lies exactly there
FEW = 10  # this many samples at an end are no evidence of clipping
NODES = 4097  # number of entries of the tables of moments
FAR = 8.0  # standard deviations; the mass of a normal distribution beyond them is neglected


@dataclass(frozen=True)
class ClippedNoise:
    """Noise of standard deviation ``sigma`` on values from ``low`` to ``high``, which are clipped at some of the ends.

    A value μ becomes y = clip(μ + σn) for a standard normal n. Its mean m(μ) and variance v(μ) are those of a censored
    normal distribution (Tobin, "Estimation of relationships for limited dependent variables", 1958). Functions of the
    mean take y's mean, m(μ), and interpolate in a table over μ.
    """

    sigma: float
    low: float
    high: float
    clips: tuple[bool, bool]  # whether values are clipped at ``low``, and at ``high``
    most: float = math.inf  # the variance as seen, in the median: at the smooth means of an estimate, v is larger

    @classmethod
    def on(cls, signal: Tensor, sigma: float) -> "ClippedNoise":
        """Return the noise on a signal, clipped at the ends of its range that hold many samples."""
        low, high = float(signal.min()), float(signal.max())
        many = max(FEW, CLIPPED * signal.numel())
        clips = [low < high and int((signal == end).sum()) > many for end in (low, high)]
        return cls(sigma, low, high, (clips[0], clips[1]))

    def variance(self, mean: Tensor) -> Tensor:
        """Return v(μ), with a median of at most ``most``."""
        if not any(self.clips):
            return torch.full_like(mean, self.sigma**2)
        variance = self._at(mean, 2)
        return variance * min(1.0, self.most / max(float(variance.median()), 1e-30))

    def gain(self, mean: Tensor) -> Tensor:
        """Return (dμ/dm)², by which ``unclipped`` multiplies small squared errors; it is 0 beyond the ends.

        dm/dμ is the probability that μ + σn is not clipped.
        """
        return self._at(mean, 3, beyond=0.0) if any(self.clips) else torch.ones_like(mean)

    def unclipped(self, mean: Tensor) -> Tensor:
        """Return μ, or the end that is nearest to it."""
        return self._at(mean, 0) if any(self.clips) else mean

    def _at(self, mean: Tensor, row: int, beyond: float | None = None) -> Tensor:
        seen, column = (torch.from_numpy(self._table[i]).to(mean.device) for i in (1, row))
        x = mean.double()
        left = (torch.searchsorted(seen, x.contiguous(), right=True) - 1).clamp(0, NODES - 2)
        share = (x.clamp(seen[0], seen[-1]) - seen[left]) / (seen[left + 1] - seen[left])
        found = column[left] + share * (column[left + 1] - column[left])
        if beyond is not None:
            found = torch.where((x < seen[0]) | (x > seen[-1]), beyond, found)
        return found.to(mean)

    @cached_property
    def _table(self) -> np.ndarray:
        """The values μ, and m, v and (dμ/dm)² there, (4, nodes)."""
        room = FAR * self.sigma
        first, last = self.low - room * (not self.clips[0]), self.high + room * (not self.clips[1])
        value = np.linspace(first, last, NODES)
        a = (self.low - value) / self.sigma if self.clips[0] else np.full(NODES, -2 * FAR)
        b = (self.high - value) / self.sigma if self.clips[1] else np.full(NODES, 2 * FAR)
        inside = ndtr(b) - ndtr(a)
        density_a, density_b = (np.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        # These are the moments of clip(n, a, b) for a standard normal n.
        first_moment = a * ndtr(a) + b * ndtr(-b) + density_a - density_b
        second_moment = a * a * ndtr(a) + b * b * ndtr(-b) + inside + a * density_a - b * density_b
        variance = self.sigma**2 * (second_moment - first_moment**2)
        return np.stack([value, value + self.sigma * first_moment, variance, 1 / inside**2])
