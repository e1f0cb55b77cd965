"""White noise on a signal: its standard deviation, estimated from the signal, and its moments where it was clipped."""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtr
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.borders import reflect
from coordnet.linalg.machine import lower_median
from coordnet.linalg.operators import rotate
from coordnet.noise.bound import noise_bounds
from coordnet.noise.drawn import is_drawn, noisy_part, rounding_error
from coordnet.noise.evidence import noise_bands
from coordnet.noise.factors import FEWEST_WINDOWS, factors_of
from coordnet.noise.white_level import white_level
from coordnet.noise.wiener import principal, side_by_side, window_means, window_modes, window_root, window_shape
from coordnet.noise.windows import Windows, quantile_of_mean, with_energy
from coordnet.plans.row_noise import row_noise
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import units_of

CLIPPED = 1e-3  # an end of the range clipped the values if a larger share of them lies exactly there
FEW = 10  # this many samples at an end are no evidence of clipping
NODES = 4097  # number of entries of the tables of moments
NEGLECTED_FROM = 8.0  # standard deviations; the mass of a normal distribution beyond them is neglected
# Fraction of the highest frequency, by the number of axes; modes above it on every axis are taken for noise. Above
# three quarters on three axes are a 32nd of the modes, too few for volumes of 16 to 32 samples a side.
CORNER = {1: 0.75, 2: 0.75, 3: 0.5, 4: 0.5}
TWO_WINDOWS = 16  # least number of samples on an axis that are looked at in windows of at most a half of them
SAME_SIDE = 4.0  # standard deviations of the noise by which neighbors on the same side of an edge differ at most
UNCLIPPING = 20  # iterations at most of the fixed point that undoes the clipping
UNCLIPPED_TO = 1e-3  # relative change of the level below which they end
# Samples of a larger signal from which the level of white noise is told. On three photographs of 3 million pixels it
# differed by 0.3 % from the level by all.
ENOUGH = 2**19
# Least ratio of the level in the median over windows of a volume to that in the flattest ones, of which edges in the
# others are the reason: white noise on 27 parts of brains, fields and clips has 0.98 to 1.44, on two balls 3.
EDGED = 1.6
WHITE = NoiseModel(floor=1.0)  # white noise of variance 1
SCATTER = 3.0  # a sample's standard deviation may be too small by this number of its standard errors

Signal = Float[Tensor, "*grid channels"]


def noise_level(signal: Signal) -> float:
    """Estimate the standard deviation of white noise on a signal from its highest frequencies (see ``seen_level``).

    Rough rows have as much energy there as noise, so that rows tell it by a likelihood (``row_noise``) unless their
    values were clipped. If values were clipped, it is that of the noise before: its variance after clipping, in the
    median over windows, is as seen. In a picture it is told from textures, which have energy there too (see
    ``white_level``), and is at most what the values' distribution leaves (see ``noise_bounds``). A picture that
    ``is_drawn`` has none, nor has one whose rounding explains it (see ``rounding_error``). In clips and volumes most
    windows may have edges (see ``flattest_level``). Bars and captions do not count (see ``noisy_part``).
    """
    signal = noisy_part(signal, ENOUGH)
    if signal.ndim == 3 and is_drawn(signal):
        return 0.0
    units = float(units_of(signal.unsqueeze(0))[0])
    picture, signal = signal, signal / units
    noise = ClippedNoise.on(signal, seen_level(signal))
    if signal.ndim == 2 and not any(noise.clips):
        return units * row_noise(signal.detach().cpu().double().numpy())
    level = level_before(signal, noise)
    if signal.ndim == 3 and level > 0:
        most, peak = (bound / units for bound in noise_bounds(picture, WHITE))
        if most == 0:
            return 0.0
        means = local_means(signal, level := min(level, most))
        level = min(most, white_level(signal, level, lambda sigma: replace(noise, sigma=sigma).variance(means), peak))
        return units * level if units * level > rounding_error(picture) else 0.0
    if signal.ndim == 4 and level > EDGED * (flattest := flattest_level(signal)):
        level = flattest
    return units * level


def flattest_level(signal: Signal) -> float:
    """Return the root of the power at high frequencies in the flattest windows, infinity where windows are few.

    Sharp surfaces cross most windows of some volumes, but hardly all. The flattest ones of much noise have less of it
    than others by chance.
    """
    windows = Windows.of(signal)
    if len(windows.modes) < 2 * FEWEST_WINDOWS:
        return math.inf
    factors = factors_of(windows)
    power = float(noise_bands(windows, factors.spectra[0])[-2:].mean())
    return math.sqrt(power * factors.line.level.floor)


def level_before(signal: Signal, noise: "ClippedNoise") -> float:
    """Return the standard deviation of noise before clipping whose variance, in the median over windows, is as seen.

    ``noise`` has the standard deviation that is seen, which is returned where nothing was clipped.
    """
    seen = level = noise.sigma
    if level > 0 and any(noise.clips):
        values = signal.movedim(-1, 0).unsqueeze(0)
        mean = values.mean(tuple(range(2, values.ndim)), keepdim=True)
        means, rotation = local_means(signal, level).movedim(-1, 0).unsqueeze(0), principal(values - mean)[0]
        for _ in range(UNCLIPPING):
            variance = rotate(rotation.mT.square(), window_means(replace(noise, sigma=level).variance(means)))
            clipped = float(lower_median(variance.flatten(2)).min().sqrt())
            if not clipped > 0:  # nearly all values are at the ends and say nothing about the noise before clipping
                return seen
            level *= seen / clipped
            if abs(seen / clipped - 1) < UNCLIPPED_TO:
                break
    return level


def local_means(signal: Signal, sigma: float) -> Signal:
    """Return the mean over each sample and its neighbors, 3 along each axis, as an estimate of the signal there.

    Neighbors that differ by more than ``SAME_SIDE`` standard deviations of the noise are beyond an edge, and left out
    (Lee, "Digital image smoothing and the sigma filter", 1983). The variance of clipped noise is looked up at these
    means and then averaged over a window: where a window is partly clipped, that is less than the variance at the
    window's own mean.
    """
    grid, ones = tuple(signal.shape[:-1]), (1,) * (signal.ndim - 1)
    values = signal.movedim(-1, 0).unsqueeze(0)
    around, total, count = reflect(values, ones, ones), torch.zeros_like(values), torch.zeros_like(values)
    for shift in itertools.product(range(3), repeat=len(grid)):
        neighbor = around[(..., *(slice(s, s + n) for s, n in zip(shift, grid, strict=True)))]
        is_beside = (neighbor - values).abs() <= SAME_SIDE * sigma
        total += torch.where(is_beside, neighbor, 0.0)
        count += is_beside
    return (total / count)[0].movedim(0, -1)


def seen_level(signal: Signal, share: float = 0.5) -> float:
    """Return the root of the noise's variance at the highest frequencies, where it was least clipped.

    It is the median over windows of the mean energy of the modes above ``CORNER`` of the highest frequency on every
    axis, averaged over the rotated channels where it is least: details of color are seldom as fine as a pixel. With
    another ``share`` than a half it follows from that quantile instead; a lower one is less misled by fine texture.
    """
    values = (signal - signal.mean(tuple(range(signal.ndim - 1)))).movedim(-1, 0).unsqueeze(0)
    rotation, variance = principal(values)
    lattice = tuple(values.shape[2:])
    shape = window_shape(tuple(n // 2 if n >= TWO_WINDOWS else n for n in lattice))
    kept = int(with_energy(variance[0], len(lattice)).sum())
    if not kept or max(shape) == 1:
        return 0.0
    rotated = rotate(rotation.mT, values)[:, -kept:]
    axes = zip(lattice, shape, strict=True)
    shifts = itertools.product(*(sorted({s for s in (0, b // 2) if n - s >= b}) for n, b in axes))
    tiles = torch.cat([side_by_side(rotated, shape, s).flatten(0, -len(shape) - 2) for s in shifts])
    taper = window_root(shape).square().to(tiles)  # keeps smooth signals from leaking into the highest modes
    taper = taper / taper.square().mean().sqrt()
    modes = window_modes(tiles)
    z = modes.adjoint(tiles * taper)
    indices = [torch.arange(n, device=signal.device) for n in z.shape[2:]]
    high = [torch.minimum(k, b - k) >= CORNER[len(lattice)] * (b // 2) for k, b in zip(indices, shape, strict=True)]
    energy = z.abs().square()[..., torch.stack(torch.meshgrid(*high, indexing="ij")).all(0)]
    count = energy.shape[-1] / float(taper.pow(4).mean())  # effective number of modes: the taper couples neighbors
    level = energy.mean(-1).quantile(share, dim=0, interpolation="lower") / quantile_of_mean(share, count)
    spread = 4 / math.sqrt(energy.shape[0] * energy.shape[-1])  # three standard deviations of a median of means
    return float(level[level <= (1 + spread) * level.min()].mean().sqrt())


def refuse_more_than(signal: Signal, sigma: float) -> None:
    """Raise a ``ValueError`` for a standard deviation of noise that is above the signal's own.

    Noise that leaves a share p of the samples at the ends of the values' range, where they may have been clipped, has a
    standard deviation of at least (1 - p) σ there (Cacoullos, "On upper and lower bounds for the variance of a function
    of a random variable", 1982).
    """
    share = float(((signal == signal.min()) | (signal == signal.max())).double().mean())
    centered = (signal - signal.mean(tuple(range(signal.ndim - 1)))).double()
    deviation = float(centered.square().mean().sqrt())
    most = deviation + SCATTER * sigma / math.sqrt(2 * signal.numel())
    if (1 - share) * sigma > most:
        hint = f"; did you mean {sigma:g}/255 = {sigma / 255:.3g}?" if sigma > 1 and sigma / 255 <= deviation else ""
        expected = f"at most the signal's own standard deviation, {deviation:.3g}"
        raise _checks.wrong("sigma", expected, f"{sigma:g}{hint}")


@dataclass(frozen=True)
class ClippedNoise:
    """Noise of variance σ² + bμ on values from ``low`` to ``high``, which are clipped at some of the ends.

    A value μ becomes y = clip(μ + (σ² + bμ)^½ n) for a standard normal n, with the gain b of a ``NoiseModel`` where μ
    is positive. Its mean m(μ) and variance v(μ) are those of a censored normal distribution (Tobin, "Estimation of
    relationships for limited dependent variables", 1958). Functions of the mean take y's mean, m(μ), and interpolate in
    a table over μ.
    """

    sigma: float
    low: float
    high: float
    clips: tuple[bool, bool]  # whether values are clipped at ``low``, and at ``high``
    most: float = math.inf  # the variance as seen, in the median: at the smooth means of an estimate, v is larger
    slope: float = 0.0  # b

    @classmethod
    def on(
        cls, signal: Signal, sigma: float, *, given: bool = True, slope: float = 0.0, share: float = CLIPPED
    ) -> "ClippedNoise":
        """Return the noise on a signal, clipped at the ends of its range that hold more than a share of the samples.

        Its variance is that as seen if ``sigma`` was not ``given``.
        """
        low, high = float(signal.min()), float(signal.max())
        many = max(FEW, share * signal.numel())
        at_low, at_high = (low < high and int((signal == end).sum()) > many for end in (low, high))
        most = math.inf if given or not (at_low or at_high) else seen_level(noisy_part(signal)) ** 2 or math.inf
        return cls(sigma, low, high, (at_low, at_high), most, slope)

    def variance(self, mean: Tensor) -> Tensor:
        """Return v(μ), with a median of at most ``most``."""
        if not any(self.clips):
            return self.sigma**2 + self.slope * mean.clamp(min=0)
        variance = self._at(mean, 2)
        return variance * min(1.0, self.most / max(float(variance.median()), 1e-30))

    def gain(self, mean: Tensor) -> Tensor:
        """Return (dμ/dm)², by which ``unclipped`` multiplies small squared errors; it is 0 beyond the ends.

        dm/dμ is the probability that the value is not clipped, where the noise's variance changes slowly.
        """
        return self._at(mean, 3, beyond=0.0) if any(self.clips) else torch.ones_like(mean)

    def unclipped(self, mean: Tensor) -> Tensor:
        """Return μ, or the end that is nearest to it."""
        return self._at(mean, 0) if any(self.clips) else mean

    def _at(self, mean: Tensor, row: int, beyond: float | None = None) -> Tensor:
        seen, column = (torch.from_numpy(self.table[i]).to(mean.device) for i in (1, row))
        x = mean.double()
        left = (torch.searchsorted(seen, x.contiguous(), right=True) - 1).clamp(0, NODES - 2)
        share = (x.clamp(seen[0], seen[-1]) - seen[left]) / (seen[left + 1] - seen[left])
        entry = column[left] + share * (column[left + 1] - column[left])
        if beyond is not None:
            entry = torch.where((x < seen[0]) | (x > seen[-1]), beyond, entry)
        return entry.to(mean)

    @cached_property
    def table(self) -> np.ndarray:
        """The values μ, and m, v and (dμ/dm)² there, (4, nodes)."""
        below, above = NEGLECTED_FROM * self._deviation(np.array([self.low, self.high]))
        first, last = self.low - below * (not self.clips[0]), self.high + above * (not self.clips[1])
        value = np.linspace(first, last, NODES)
        sigma = self._deviation(value)
        a = (self.low - value) / sigma if self.clips[0] else np.full(NODES, -2 * NEGLECTED_FROM)
        b = (self.high - value) / sigma if self.clips[1] else np.full(NODES, 2 * NEGLECTED_FROM)
        inside = ndtr(b) - ndtr(a)
        density_a, density_b = (np.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        # These are the moments of clip(n, a, b) for a standard normal n.
        first_moment = a * ndtr(a) + b * ndtr(-b) + density_a - density_b
        second_moment = a * a * ndtr(a) + b * b * ndtr(-b) + inside + a * density_a - b * density_b
        variance = sigma**2 * (second_moment - first_moment**2)
        return np.stack([value, np.maximum.accumulate(value + sigma * first_moment), variance, 1 / inside**2])

    def _deviation(self, value: np.ndarray) -> np.ndarray:
        """Return the standard deviation of the noise on some values, at least a thousandth of that in their middle."""
        least = 1e-6 * (self.sigma**2 + self.slope * max((self.low + self.high) / 2, 0.0))
        return np.sqrt(np.maximum(self.sigma**2 + self.slope * np.maximum(value, 0), least))
