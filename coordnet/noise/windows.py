"""Overlapping windows of a signal in which noise is looked for: their Fourier modes beneath a taper."""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor

from coordnet.linalg.kronecker import outer_product
from coordnet.priors.adaptive.spectrum import PENALTY_FLOOR

SIDES = {1: 256, 2: 16, 3: 8, 4: 4}  # samples along each axis of a window, by the number of axes
MOST_WINDOWS = 6144  # windows that are looked at; they lie further apart on larger signals
BANDS = 6  # number of parts of the modes; the first has the lowest frequencies, where signals have most
ROUNDING = 3e-3  # standard deviation in the signal's units of noise that may come from rounding to 8 bits
# Standard deviation in the signal's units below which noise that is colored or shared by channels is not told from
# fine texture.
FAINTEST = 8e-3
SIGNALS_UP_TO = 0.1  # cycles per sample up to which signals have too much power for noise to be told
STRONG = 0.05  # power of noise relative to the largest, above which a mode counts
# Shares of a window's values at the lower and the upper end of the range, above which they may have been clipped.
ENDS = (0.1, 0.1)


@dataclass(frozen=True)
class Windows:
    """The modes of windows without their means, under a taper of squared sum 1, in channels rotated to uncorrelated."""

    modes: Complex[Tensor, "windows rotated modes"]  # all but that of frequency 0
    means: Float[Tensor, "windows channels"]  # in the signal's own channels
    rotation: Float[Tensor, "channels rotated"]  # columns by ascending variance of the signal; none without energy
    seen: Float[Tensor, "modes frequencies"]  # mean energy of each mode for a power of 1 at each frequency
    shape: tuple[int, ...]

    @classmethod
    def of(cls, signal: Float[Tensor, "*grid channels"], ends: tuple[float, float] = ENDS) -> "Windows":
        """Return the windows of a signal that have few values at the ends of its range.

        Their shares there, each relative to that of ``ends``, add up to at most 1.
        """
        values = signal.detach().double().cpu().movedim(-1, 0)
        shape = tuple(min(SIDES[values.ndim - 1], n) for n in values.shape[1:])
        axes = tuple(range(2, values.ndim + 1))
        tiles = _tiles(values, shape)
        low = tiles == values.min()
        high = (tiles == values.max()) & ~low  # a constant's values are at one end alone
        shares = [part.flatten(1).double().mean(1) / most for part, most in zip((low, high), ends, strict=True)]
        tiles = tiles[sum(shares) <= 1]
        centered = values.flatten(1) - values.flatten(1).mean(1, keepdim=True)
        variance, rotation = torch.linalg.eigh(centered @ centered.mT / centered.shape[1])
        rotation = rotation[:, with_energy(variance, len(shape))]
        taper = _taper(shape)
        means = (tiles * taper).sum(axes, keepdim=True) / taper.sum()
        tapered = (tiles - means) * taper
        modes = (torch.fft.fftn(tapered, dim=axes) if len(tiles) else tapered + 0j).flatten(2)[..., 1:]
        rotated = torch.einsum("wck,cd->wdk", modes, rotation.to(modes))
        return cls(rotated, means.flatten(1), rotation, seen_through_taper(shape), shape)

    @property
    def frequency(self) -> Float[Tensor, " frequencies"]:
        """The length of each frequency in cycles per sample, that of ``seen``; at least half of the smallest one."""
        return squared_frequencies(doubled(self.shape)).sum(1).sqrt().clamp(min=0.25 / max(self.shape))

    @property
    def radius(self) -> Float[Tensor, " modes"]:
        """The length of the frequency of each mode in cycles per sample."""
        return squared_frequencies(self.shape)[1:].sum(1).sqrt()

    @property
    def bands(self) -> list[Int[Tensor, " part"]]:
        """The numbers of the modes in ``BANDS`` parts by the length of their frequency, the lowest first."""
        return list(self.radius.argsort().chunk(BANDS))


def quantile_of_mean(share: float, count: float) -> float:
    """Return the quantile of the mean of a number of exponential variables of mean 1, as the energies of noise are.

    Wilson and Hilferty, "The distribution of chi-square" (1931).
    """
    return (1 - 1 / (9 * count) + NormalDist().inv_cdf(share) / math.sqrt(9 * count)) ** 3


def expected_energy(variance: Float[Tensor, "*grid channels"], shape: tuple[int, ...]) -> Float[Tensor, "windows c"]:
    """Return the mean energy that white noise leaves in the modes of each window, for its variance at every sample."""
    tiles = _tiles(variance.detach().double().cpu().movedim(-1, 0), shape)
    return (tiles * _taper(shape).square()).flatten(2).sum(2)


def misfit(relative: Float[Tensor, "windows modes"]) -> float:
    """Return how much energies, relative to their expected ones, differ within a window, in the median over windows.

    It is the logarithm of the ratio of their arithmetic to their geometric mean: of the exponential variables that
    noise has it is 0.577, Euler's constant, at most.
    """
    return float((relative.mean(1).log() - relative.clamp(min=1e-12).log().mean(1)).median())


def with_energy(variance: Float[Tensor, " channels"], axes: int) -> Bool[Tensor, " channels"]:
    """Return which rotated channels have energy, by ascending variance in the signal's units and its number of axes.

    Those of pictures have more than rounding to 8 bits leaves, but for the last: a toned picture is a gray one.
    """
    has_more = variance > (ROUNDING**2 if axes == 2 else 0.0)
    has_more[-1] = True
    return has_more & (variance > PENALTY_FLOOR * variance[-1])


def symmetric(spectrum: Float[Tensor, " modes"], shape: tuple[int, ...]) -> Float[Tensor, " modes"]:
    """Return the power that a spectrum has in two of four directions at least: the second smallest.

    The directions are those of a frequency and its mirror images: by the axes, and of pictures by their diagonal too.
    Textures have most of their energy in one of them, or along both diagonals, and those that move on a plane of
    frequencies that their velocity tilts; noise seldom differs by direction.
    """
    full = torch.cat([spectrum.max().reshape(1), spectrum]).reshape(shape)
    axes = range(1 if len(shape) == 2 else len(shape))  # the images by both axes of a picture are the same
    same = [full, *(full.flip(axis).roll(1, axis) for axis in axes)]
    same += [image.mT for image in same] if len(shape) == 2 and shape[0] == shape[1] else []
    return torch.stack(same).sort(0).values[1].flatten()[1:]


def doubled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of the lattice of frequencies, twice as fine as a window's."""
    return tuple(2 * n if n > 1 else 1 for n in shape)


def squared_frequencies(shape: tuple[int, ...]) -> Float[Tensor, "frequencies axes"]:
    """Return the squares of the frequencies of a lattice along each axis, in cycles per sample."""
    lines = [torch.fft.fftfreq(n, dtype=torch.float64).square() for n in shape]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).flatten(0, -2)


@cache
def seen_through_taper(shape: tuple[int, ...]) -> Float[Tensor, "modes frequencies"]:
    """Return the mean energy of a tapered window's modes for noise of power 1 at one of the ``doubled`` frequencies.

    The mean under the taper is subtracted from the window first. For white noise the energies add up to 1, but near
    frequency 0, which the mean takes with it.
    """
    taper, axes, size = _taper(shape).flatten(), tuple(range(1, len(shape) + 1)), math.prod(shape)
    phases = torch.fft.fftn(torch.eye(size, dtype=torch.float64).reshape(size, *shape), dim=axes).reshape(size, size)
    rows = taper * phases.mT
    rows = rows - rows.sum(1, keepdim=True) * (taper / taper.sum())
    through = torch.fft.fftn(rows.reshape(size, *shape), s=doubled(shape), dim=axes)
    return through.abs().square().flatten(1)[1:] / math.prod(doubled(shape))


def _taper(shape: tuple[int, ...]) -> Float[Tensor, "*window"]:
    """Return a Hann window of squared sum 1."""
    phases = [2 * torch.pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n for n in shape]
    taper = outer_product([1 - torch.cos(p) if len(p) > 1 else torch.ones_like(p) for p in phases])
    return taper / taper.square().sum().sqrt()


def _tiles(values: Float[Tensor, "channels *grid"], shape: tuple[int, ...]) -> Float[Tensor, "windows channels ..."]:
    """Return windows that overlap by a half, or lie further apart where they would be too many."""
    hops, grid = [max(1, n // 2) for n in shape], values.shape[1:]

    def count() -> int:
        return math.prod((g - n) // h + 1 for g, n, h in zip(grid, shape, hops, strict=True))

    while count() > MOST_WINDOWS:
        hops = [h + max(1, h // 8) for h in hops]
    for axis, (n, h) in enumerate(zip(shape, hops, strict=True), start=1):
        values = values.unfold(axis, n, h)
    return values.flatten(1, len(shape)).movedim(0, 1)
