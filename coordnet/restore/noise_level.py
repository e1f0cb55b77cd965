"""The standard deviation of white noise on a signal, estimated from the signal."""

import itertools
import math
from dataclasses import replace
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import lower_median
from coordnet.linalg.operators import rotate
from coordnet.priors.adaptive.spectrum import PENALTY_FLOOR
from coordnet.restore.clipping import ClippedNoise
from coordnet.restore.windows import principal, side_by_side, window_means, window_modes, window_root, window_shape
from coordnet.sampling.samples import units_of

CORNER = 0.75  # fraction of the highest frequency; modes above it on every axis are taken for noise
UNCLIPPING = 20  # iterations of the fixed point that undoes the clipping
SCATTER = 3.0  # a sample's standard deviation may be too small by this number of its standard errors


def noise_level(signal: Float[Tensor, "*grid channels"]) -> float:
    """Estimate the standard deviation of white noise on a signal from its highest frequencies.

    If values were clipped, it is that of the noise before: the one whose variance after clipping, in the median over
    windows, is as seen.
    """
    units = units_of(signal.unsqueeze(0))[0]
    return float(units) * _noise_level(signal / units)


def _noise_level(signal: Float[Tensor, "*grid channels"]) -> float:
    seen = level = seen_level(signal)
    noise = ClippedNoise.on(signal, level)
    if level > 0 and any(noise.clips):
        values = signal.movedim(-1, 0).unsqueeze(0)
        mean = values.mean(tuple(range(2, values.ndim)), keepdim=True)
        means, rotation = window_means(values), principal(values - mean)[0]
        for _ in range(UNCLIPPING):
            variance = rotate(rotation.mT.square(), replace(noise, sigma=level).variance(means))
            clipped = float(lower_median(variance.flatten(2)).min().sqrt())
            if not clipped > 0:  # nearly all values are at the ends and say nothing about the noise before clipping
                return seen
            level *= seen / clipped
    return level


def clipped_noise(signal: Float[Tensor, "*grid channels"], sigma: float, *, given: bool) -> ClippedNoise:
    """Return noise of standard deviation ``sigma`` on a signal; if it is not ``given``, with the variance as seen."""
    noise = ClippedNoise.on(signal, sigma)
    if given:
        return noise
    return replace(noise, most=seen_level(signal) ** 2 or math.inf) if any(noise.clips) else noise


def seen_level(signal: Float[Tensor, "*grid channels"], share: float = 0.5) -> float:
    """Return the root of the noise's variance at the highest frequencies, where it was least clipped.

    It is the median over windows of the mean energy of the modes above ``CORNER`` of the highest frequency on every
    axis, averaged over the rotated channels where it is least: details of color are seldom as fine as a pixel. With
    another ``share`` than a half it follows from that quantile instead; a lower one is less misled by fine texture.
    """
    values = (signal - signal.mean(tuple(range(signal.ndim - 1)))).movedim(-1, 0).unsqueeze(0)
    rotation, variance = principal(values)
    lattice = tuple(values.shape[2:])
    shape = window_shape(lattice)
    kept = int((variance[0] > PENALTY_FLOOR * variance.max()).sum())  # channels that have any energy
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
    high = [torch.minimum(k, b - k) >= CORNER * (b // 2) for k, b in zip(indices, shape, strict=True)]
    energy = z.abs().square()[..., torch.stack(torch.meshgrid(*high, indexing="ij")).all(0)]
    count = energy.shape[-1] / float(taper.pow(4).mean())  # effective number of modes: the taper couples neighbors
    deviations = NormalDist().inv_cdf(share)
    # The quantile of a mean of exponential variables is approximated as by Wilson and Hilferty (1931).
    quantile = (1 - 1 / (9 * count) + deviations / math.sqrt(9 * count)) ** 3
    level = energy.mean(-1).quantile(share, dim=0, interpolation="lower") / quantile
    spread = 4 / math.sqrt(energy.shape[0] * energy.shape[-1])  # three standard deviations of a median of means
    return float(level[level <= (1 + spread) * level.min()].mean().sqrt())


def refuse_more_than(signal: Float[Tensor, "*grid channels"], sigma: float) -> None:
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
