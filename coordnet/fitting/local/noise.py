"""Noisy lattices with the local prior: posterior means of patches, then groups of similar patches."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.fitting.local.classes import Channels, Estimate, Observed
from coordnet.fitting.local.color_classes import ENERGIES, SharedPatches, gray_shapes, joint_shapes
from coordnet.fitting.local.patches import Patches
from coordnet.fitting.local.scale_mixture import Moments, ScaleMixture
from coordnet.fitting.local.similar_patches import filter_groups
from coordnet.fitting.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.linalg.borders import make_periodic
from coordnet.priors.local import Local
from coordnet.sampling.samples import Geometry

COLORFULNESS = ((0.1, 0.005),)  # noise hides what further kinds of colorfulness would tell
STRIDE, LEARNED_STRIDE = 3, 4  # distance of patches, and of those that adapt the classes
ROUNDS = 3  # of adaptation, at most
STRENGTH = 2.5  # of the starting shapes relative to the prior's
SIDES = (5, 6)  # of the similar patches, in one filter after the other
DEVIATIONS = 4.0  # range of a signal in its standard deviations


class LocalNoisePlan(Plan):
    """Remove white noise from a whole lattice by the posterior means of patches under classes that it adapts itself.

    In pictures, groups of similar patches are then found on the result, and filtered, twice. The three channels of a
    picture are colors, whose patches are treated jointly; other channels are uncorrelated first.

    The parameters are those of ``plan``; the prior has the standard deviation of the noise.
    """

    def __init__(self, encoding: FourierEncoding, geometry: Geometry, prior: Local, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.prior, self.padded, self.shape = prior, encoding.shape, prior.patch_on(geometry.shape)

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own classes."""
        return solve_each(self._solve, values)

    def _solve(self, values: Float[Tensor, "1 channels *lattice"]) -> Fitted:
        energy = float(values.square().mean()) - self.prior.noise**2
        span = max(DEVIATIONS * math.sqrt(max(energy, 0.0)), self.prior.noise)
        noisy, noise = values[0] / span, self.prior.noise / span
        f, estimates = self._posterior(noisy, noise)
        grouped = noisy.ndim == 3 and min(noisy.shape[1:]) >= max(SIDES)
        for side in SIDES if grouped else ():
            f = filter_groups(noisy, f, noise, side)
        report = {
            "method": "posterior means of patches, local prior" + grouped * ", then groups of similar patches",
            "patch": list(self.shape),
            "noise": self.prior.noise,
            "iterations": 0,
            "relative_residual": 0.0,
        }
        coefficients = make_periodic(span * f.unsqueeze(0), self.padded)
        return Fitted(coefficients, report, estimates[0].learned(span))

    def _posterior(
        self, noisy: Float[Tensor, "channels *lattice"], noise: float
    ) -> tuple[Float[Tensor, "channels *lattice"], list[Estimate]]:
        """Return the posterior mean and the estimates that it comes from: one of all colors, or one of each channel."""
        if len(noisy) == 3 and noisy.ndim == 3:
            estimates = [self._estimate(noisy, joint_shapes(self.shape, COLORFULNESS), noise)]
            return estimates[0].f, estimates
        channels = Channels.of(noisy, torch.ones_like(noisy[:1], dtype=torch.bool))
        parts = torch.tensordot(channels.basis.T, noisy, 1).split(1)
        estimates = [self._estimate(part, gray_shapes(self.shape), noise) for part in parts]
        return torch.tensordot(channels.basis, torch.cat([estimate.f for estimate in estimates]), 1), estimates

    def _estimate(self, noisy: Float[Tensor, "columns *lattice"], start: Tensor, noise: float) -> Estimate:
        """Adapt classes to a signal of which all channels are treated jointly, then return its estimate."""
        start, lattice, device = start.to(noisy), tuple(noisy.shape[1:]), noisy.device
        mixture, pilot = ScaleMixture.begin(start, ENERGIES, noise**2), noisy
        known = torch.ones_like(noisy[:1], dtype=torch.bool)
        learned = Patches.every(LEARNED_STRIDE, lattice, self.shape, device)
        for _ in tqdm(range(min(ROUNDS, self.prior.rounds)), desc="patches", disable=not self.progress):
            moments = Moments.zero(mixture)
            pilot = SharedPatches(Observed(noisy, known, pilot), learned).estimate(mixture, moments).f
            mixture = mixture.updated(moments, start, STRENGTH * self.prior.strength)
        patches = Patches.every(STRIDE, lattice, self.shape, device)
        return SharedPatches(Observed(noisy, known, pilot), patches).estimate(mixture)
