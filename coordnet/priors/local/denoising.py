"""Noisy lattices with the local prior: posterior means of patches, then groups of similar patches."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import LocalReport
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.local.group_filter import SIDES, Roots, filter_groups
from coordnet.priors.local.mixture import ENERGIES, MOST_ROUNDS, Mixture, Moments, SharedPatches
from coordnet.priors.local.parameters import NOISE_BOUNDS, LocalParameters
from coordnet.priors.local.patches import Estimate, Observed, Patches
from coordnet.priors.local.spectra import Channels, gray_shapes, joint_shapes
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import Geometry

COLORFULNESS = ((0.1, 0.005),)  # noise hides what further kinds of colorfulness would tell
STRIDE = 4  # distance of patches
STRENGTH = 2.5  # strength of the starting shapes relative to the prior's
DEVIATIONS = 4.0  # range of a signal in its standard deviations

Signal = Float[Tensor, "channels *lattice"]


def white(means: Signal) -> Signal:
    """Return the variance 1 wherever the means of the values are."""
    return torch.ones_like(means)


@dataclass(frozen=True)
class Cleaned:
    """A signal without its noise, and how it was found."""

    f: Signal
    spread: Signal  # the posterior variance of the patches, before groups were filtered
    learned: dict[str, Tensor]
    method: str


@dataclass(frozen=True)
class LocalDenoiser:
    """The local prior's estimate of a signal with white noise on all of its samples.

    The three channels of a picture are colors, whose patches are treated jointly; other channels are uncorrelated
    first. In pictures, clips and volumes, groups of similar patches are then found on the result, and filtered, twice.
    """

    prior: LocalParameters
    # The variance of the noise, relative to the prior's, for the means of values (channels, *lattice). Each patch and
    # each group takes its mean.
    variance: Callable[[Signal], Signal] = field(default=white)
    progress: bool = False  # whether a bar shows the stages
    model: NoiseModel = NoiseModel()  # the noise's spectrum; it is white if not given, or without one

    def __call__(self, noisy: Signal) -> Cleaned:
        """Return the estimate of a signal (channels, *lattice)."""
        lattice = tuple(noisy.shape[1:])
        mean = noisy.flatten(1).mean(1).reshape(-1, *(1,) * len(lattice))
        # The squares of more noise than that overflow.
        level = min(self.prior.noise, NOISE_BOUNDS[1] * (float(noisy.abs().max()) or 1.0))
        energy = float((noisy - mean).double().square().mean()) - level**2
        span = max(DEVIATIONS * math.sqrt(max(energy, 0.0)), level)
        y, noise = (noisy - mean) / span, self.prior.noise_in(span)

        def variance(f: Signal) -> Float[Tensor, "1 *lattice"]:
            return noise**2 * self.variance(span * f + mean).mean(0, keepdim=True)

        joint = len(y) == 3 and len(lattice) == 2
        patches = SIDES.get(len(lattice), ())
        grouped = patches if all(p <= n for patch in patches for p, n in zip(patch, lattice, strict=True)) else ()
        total = (1 if joint else len(y)) * (1 + self._rounds) + len(grouped)
        with tqdm(total=total, desc="patches", disable=not self.progress, leave=None, dynamic_ncols=True) as bar:
            f, spread, estimates = self._posterior(y, variance(smoothed(y)), noise, joint, bar)
            for patch in grouped:
                f = filter_groups(y, f, variance(f)[0], patch, self._roots(patch, y))
                bar.update()
        method = "posterior means of patches, local prior" + bool(grouped) * ", then groups of similar patches"
        learned = estimates[0].learned(span)
        return Cleaned(span * f + mean, span**2 * spread, learned, method)

    @property
    def _rounds(self) -> int:
        return min(MOST_ROUNDS, self.prior.rounds)

    def _posterior(
        self, noisy: Signal, variance: Tensor, noise: float, joint: bool, bar: tqdm
    ) -> tuple[Signal, Signal, list[Estimate]]:
        """Return posterior means, their variances, and the estimates: one of all colors, or one of each channel."""
        shape = self.prior.patch_on(tuple(noisy.shape[1:]))
        if joint:
            root = self._roots(shape, noisy)
            estimate = self._estimate(
                noisy, variance, noise, joint_shapes(shape, COLORFULNESS, noisy.device), root, bar
            )
            return estimate.f, estimate.spread, [estimate]
        channels = Channels.of(noisy, torch.ones_like(noisy[:1], dtype=torch.bool))
        parts = torch.tensordot(channels.basis.T, noisy, 1).split(1)
        estimates = [
            self._estimate(
                part, variance, noise, gray_shapes(shape, part.device), self._roots(shape, part, vector), bar
            )
            for part, vector in zip(parts, channels.basis.mT, strict=True)
        ]
        f, spread = (torch.cat(parts) for parts in zip(*((e.f, e.spread) for e in estimates), strict=True))
        return (torch.tensordot(channels.basis, f, 1), torch.tensordot(channels.basis.square(), spread, 1), estimates)

    def _roots(self, patch: tuple[int, ...], like: Tensor, vector: Tensor | None = None) -> Roots | None:
        """Return the root of the noise's covariance in a patch of all channels, and its inverse; None if white.

        With a ``vector`` they are those of the channels' sum with these weights.
        """
        if self.model.spectrum is None:
            return None
        root, whitener = self.model.roots(patch, vector)
        return root.to(like), whitener.to(like)

    def _estimate(
        self,
        noisy: Float[Tensor, "columns *lattice"],
        variance: Tensor,
        noise: float,
        start: Tensor,
        roots: Roots | None,
        bar: tqdm,
    ) -> Estimate:
        """Adapt classes to a signal of which all channels are treated jointly, then return its estimate."""
        start, lattice, device = start.to(noisy), tuple(noisy.shape[1:]), noisy.device
        shape = self.prior.patch_on(lattice)
        mixture, pilot = Mixture.begin(start, ENERGIES, noise**2), noisy
        known = torch.ones_like(noisy[:1], dtype=torch.bool)
        patches, whitener = Patches.every(STRIDE, lattice, shape, device), None if roots is None else roots[1]

        def seen(pilot: Signal) -> SharedPatches:
            return SharedPatches(Observed(noisy, known, pilot), patches, variance, whitener)

        for _ in range(self._rounds):
            moments = Moments.zero(mixture)
            pilot = seen(pilot).estimate(mixture, moments).f
            mixture = mixture.updated(moments, start, STRENGTH * self.prior.strength)
            bar.update()
        estimate = seen(pilot).estimate(mixture)
        bar.update()
        return estimate


class LocalNoisePlan(Plan):
    """Remove white noise from a full lattice by the posterior means of patches under classes that it adapts itself.

    ``LocalDenoiser`` has the method. The parameters are those of ``plan``; the prior has the standard deviation of the
    noise.
    """

    def __init__(self, encoding: FourierEncoding, geometry: Geometry, prior: LocalParameters, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.shape = prior.patch_on(geometry.shape)
        self.denoiser = LocalDenoiser(prior, progress=self.progress)

    def _solve(self, values: Float[Tensor, "1 channels *lattice"]) -> Fitted:
        cleaned = self.denoiser(values[0])
        report = LocalReport(method=cleaned.method, patch=list(self.shape), noise=self.denoiser.prior.noise)
        return Fitted(make_periodic(cleaned.f.unsqueeze(0), self.encoding.shape), report, cleaned.learned)


def smoothed(f: Signal) -> Signal:
    """Return means over four neighbors along each axis that is as long, of reflected signals at the ends."""
    for axis, length in enumerate(f.shape[1:], start=1):
        if length >= 4:
            longer = torch.cat([f.narrow(axis, 0, 2).flip(axis), f, f.narrow(axis, length - 2, 2).flip(axis)], axis)
            f = longer.unfold(axis, 4, 1).mean(-1).narrow(axis, 0, length)
    return f
