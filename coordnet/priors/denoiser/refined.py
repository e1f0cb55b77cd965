"""Estimates that a denoiser refines where no samples can be hidden: means over cells, mosaics and measurements."""

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.encodings.blending import measure
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import DenoiserReport
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.priors.base import Prior
from coordnet.priors.denoiser.parameters import PilotedPrior
from coordnet.priors.denoiser.pictures import LatticeDenoiser
from coordnet.priors.denoiser.plug_and_play import (
    NOISE_SHARE,
    RELAXATION,
    Nearest,
    Scale,
    entries,
    falling,
    measured,
    plug_and_play,
)
from coordnet.priors.denoiser.trust import LEAST_WEIGHT
from coordnet.priors.local import Local
from coordnet.priors.local.weights import (
    GROWTH,
    SURE,
    least_squares_share,
    least_squares_weight,
    recorrupted,
    share_deviation,
    sure_share,
    typical,
)
from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.samples import Geometry

Signal = Float[Tensor, "channels *lattice"]
# Pixels of the middle of a picture whose mosaic of another phase gives the weight. On three 128² crops 2**15 pixels
# change the result by -0.03, 0.00 and +0.04 dB and take a third longer.
WEIGHED_PIXELS = 2**13
# Rows and columns by which a mosaic's pattern is moved. Bayer's moved by a column hides all measured values; moved by a
# row, too, it keeps the greens, and on 40 crops of 128² pixels demosaicnet gains 0.56 dB instead of 0.73, FFDNet 0.36
# dB instead of 0.40.
SHIFTS = (0, 1), (1, 0)
# Rounds in which the local prior adapts to a mosaic with more noise. With all four, photographs gain the same in the
# mean over 27 crops and levels, and weights take 1.6 times as long.
WEIGHED_ROUNDS = 1
LEFT_OUT = 0.1  # share of the measured values that are hidden for the weight
# The first and the last standard deviation of the steps that remove the noise of a mosaic, relative to it, and their
# number. What is missing of a mosaic without noise is added to the first. On the middle 96² of five photographs with
# noise of 0.01 to 0.1, steps to 0.5 gain 0.03 dB less, four steps 0.26 dB less, and steps from 3 on 0.1 dB less.
NOISE_STEPS, MISSING = (2.0, 0.7, 6), 0.02
RELATIVE_NOISE = 1e-4  # least standard deviation of the noise that is reckoned with, relative to the signal's range


class RefinedPlan(Plan):
    """Refine the pilot's estimate by plug-and-play, with a weight from a smaller case of which the truth is known.

    The result is the pilot's, to the bit, where the weight is 0. The parameters are those of ``plan``; the encoding is
    the pilot's.
    """

    method = "plug-and-play"
    means: Tensor | float = 0.0  # (channels, 1, …), those of the channels of a lattice signal, which estimates lack
    rounded_from = math.inf  # on two photographs, 0.03 loses 0.1 dB of projections

    def __init__(
        self, encoding: FourierEncoding, geometry: Geometry, prior: PilotedPrior, pilot: Prior, **options: Any
    ) -> None:
        self.prior: Any = prior
        self.pilot = pilot
        self.start = pilot.plan(encoding, geometry, **options)
        super().__init__(self.start.encoding, geometry, **options)

    @cached_property
    def denoiser(self) -> LatticeDenoiser:
        """The denoiser on the device of the plan."""
        return LatticeDenoiser(self.prior, self.device, rounded_from=self.rounded_from)

    @abstractmethod
    def weighed(self, values: Tensor, estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight of the refined estimate of centered values against the pilot's, from 0 on, and its steps.

        These are standard deviations, relative to the range of the pilot's estimate.
        """

    @abstractmethod
    def nearest(self, values: Tensor, scale: Scale) -> Nearest:
        """Return the data term of values, in units of a scale."""

    def noise(self, scale: Scale) -> float:
        """Return the standard deviation of the noise that counts in the steps, in units of a scale."""
        return math.sqrt(NOISE_SHARE) * self.prior.noise / scale.span

    def after(self, fitted: Fitted) -> "RefinedPlan":
        """Return the plan with what the pilot's fit learned; by default the plan itself."""
        return self

    def scale(self, start: Signal) -> Scale:
        """Return the scale of a start with the means of its channels: denoisers know the colors of pictures."""
        return Scale.of(start, self.means)

    def solve(self, values: CenteredValues) -> Fitted:
        shape = (-1, *(1,) * len(self.geometry.grid))
        plans = (self._with_means(means.reshape(shape)) for means in values.means)
        return solve_each(lambda signal: next(plans)._solve(signal), values)

    def like(self, encoding: Any, geometry: Geometry, noise: float | None = None) -> Any:
        """Return the plan for other samples of the same signal, whose noise is as there if not given."""
        prior, pilot = self.prior, self.pilot
        if noise is not None:
            prior, pilot = prior.with_noise(noise), pilot.with_noise(noise)
        plan = type(self)(encoding, geometry, prior, pilot, dtype=self.dtype, device=self.device)
        return plan._with_means(self.means)

    def _with_means(self, means: Tensor | float) -> "RefinedPlan":
        plan = copy.copy(self)
        plan.means = means
        return plan

    @torch.no_grad()
    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        fitted = self.start.solve(CenteredValues.of(values))
        f = fitted.signal(self.geometry.grid)[0]
        plan = self.after(fitted)
        weight, sigmas = plan.weighed(values[0], f)
        if not weight:
            return replace(fitted, report=replace(fitted.report, prior=repr(self.pilot)))
        f = f + weight * (plan.refined(f, values[0], sigmas) - f)
        psnr, prior = fitted.report.hold_out_psnr, self.prior
        report = DenoiserReport.of(fitted.report, prior.label, weight, psnr, method=self.method, kind=prior.name)
        return Fitted(make_periodic(f.unsqueeze(0), self.encoding.shape), report, fitted.learned)

    def refined(self, start: Signal, values: Tensor, sigmas: Sequence[float]) -> Signal:
        """Return the estimate of centered values by plug-and-play from a start, with a standard deviation each step."""
        scale = self.scale(start)
        nearest = self.nearest(values, scale)
        return scale.back(plug_and_play(scale.into(start), sigmas, self.denoiser, nearest, RELAXATION))


class DenoisedMosaicPlan(RefinedPlan):
    """Fill the colors that a mosaic lacks by plug-and-play from the pilot's estimate; see ``RefinedPlan``.

    The pilot's estimate, which keeps the measured values, stands for the truth: the weight is that which suits its
    mosaic with the pattern moved by one of ``SHIFTS``, that which hides most measured values. It is mostly less than
    what suits the picture, since the pilot makes the values in between as smooth as it can reproduce.
    """

    sigmas = falling(0.04, 0.006, 6)

    def nearest(self, values: Signal, scale: Scale) -> Nearest:
        return entries(scale.into(values), self._known)

    @property
    def _known(self) -> Tensor:
        return self.geometry.full_weights.movedim(-1, 0).to(self.device) > 0

    def weighed(
        self, values: Float[Tensor, "channels height width"], estimate: Signal
    ) -> tuple[float, Sequence[float]]:
        """Return the weight that suits a mosaic of another phase."""
        part = (..., *middle(tuple(values.shape[1:]), WEIGHED_PIXELS))
        moved = (self._known.roll(shift, (1, 2)) for shift in SHIFTS)
        known = min(moved, key=lambda mask: int((mask & self._known).sum()))[part]
        geometry = MaskedLattice(tuple(known.shape[1:]), weights=known.movedim(0, -1).to(self.dtype))
        other = self.like(FourierEncoding.like(geometry), geometry)
        return other.weight_for(estimate[part]), self.sigmas

    def weight_for(self, truth: Signal) -> float:
        """Return the weight that suits the mosaic of a picture that is known."""
        mosaic = torch.where(self._known, truth, 0.0)
        pilot = self.start.fit(mosaic.movedim(0, -1)).render(alignment="sample").movedim(-1, 0)
        both = (pilot - truth, self.refined(pilot, mosaic, self.sigmas) - truth)
        error, second = (f[~self._known].double() for f in both)
        return least_squares_weight(error, second, len(truth) - 1)  # every pixel lacks two of three colors


class DenoisedNoisePlan(RefinedPlan):
    """Remove the noise of a mosaic by plug-and-play from the pilot's estimate, or that of a whole lattice at once.

    The weight is that which suits ``recorrupted`` values, in the middle of a large signal. See ``RefinedPlan``.
    """

    def nearest(self, values: Signal, scale: Scale) -> Nearest:
        weights = self.geometry.full_weights.movedim(-1, 0).to(values)
        return entries(scale.into(values), weights > 0, self.noise(scale) * inverse_root(weights))

    def refined(self, start: Signal, values: Signal, sigmas: Sequence[float]) -> Signal:
        """Return what plug-and-play makes, or where all is known the mean over the eight symmetric signals."""
        if not bool((self.geometry.full_weights > 0).all()):
            return super().refined(start, values, sigmas)
        scale = self.scale(start)
        return scale.back(self.denoiser.mean(scale.into(values), self.prior.noise / scale.span))

    def weighed(self, values: Signal, estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight that suits values with more noise."""
        part, level = middle(tuple(values.shape[1:]), WEIGHED_PIXELS), self.prior.noise
        weights, values = self.geometry.full_weights[part].to(values), values[(..., *part)]
        generator = torch.Generator().manual_seed(0)
        noise = level * torch.randn(values.shape, generator=generator, dtype=torch.float32).to(values)
        noisier, target = recorrupted(values, noise * inverse_root(weights.movedim(-1, 0)))
        geometry = MaskedLattice(tuple(values.shape[1:]), weights=weights.cpu())
        plan = self._quick().like(FourierEncoding.like(geometry), geometry, GROWTH * level)
        pilot = plan.start.solve(CenteredValues.of(noisier.unsqueeze(0))).signal(geometry.grid)[0]
        both = (pilot, plan.refined(pilot, noisier, plan.steps(pilot)))
        known = (weights.movedim(-1, 0) > 0).expand_as(values)
        error, second = ((f - target)[known].double() for f in both)
        share = least_squares_share(error, second)
        sure = share - SURE * share_deviation(error, second, share) > LEAST_WEIGHT
        return share if sure else 0.0, self.steps(estimate)

    def _quick(self) -> "DenoisedNoisePlan":
        """Return the plan with a pilot that adapts its classes in fewer rounds."""
        plan = copy.copy(self)
        if isinstance(self.pilot, Local):
            plan.pilot = replace(self.pilot, rounds=min(self.pilot.rounds, WEIGHED_ROUNDS))
        return plan

    def steps(self, start: Signal) -> Sequence[float]:
        """Return the standard deviation of each step for the noise, relative to the range of a start."""
        first, last, count = NOISE_STEPS
        level = self.prior.noise / self.scale(start).span
        return falling(first * level + MISSING, last * level, count)


def inverse_root(weights: Tensor) -> Tensor:
    """Return 1/√w, and 0 where a weight w is 0."""
    return torch.where(weights > 0, weights.rsqrt(), 0.0)


class DenoisedMeasurementPlan(RefinedPlan):
    """Refine the pilot's estimate of a measured signal by plug-and-play; see ``RefinedPlan``.

    The same steps without a part of the values give the weight, by the errors at these. The pilot keeps for them the
    spectrum that it learned from all values. The noise is that which the geometry says, or else the pilot estimates.
    """

    sigmas = falling(0.2, 0.02, 6)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.measurement = measure(self.encoding, self.geometry, self.dtype, self.device)

    def after(self, fitted: Fitted) -> "DenoisedMeasurementPlan":
        """Return the plan with the noise that the pilot estimated, and with the pilot's spectrum."""
        plan, sigma = copy.copy(self), self.geometry.sigma or getattr(fitted.report, "sigma", None)
        plan.prior = replace(self.prior, noise=sigma or self.prior.noise)
        plan.pilot = self.pilot.taught([(fitted.report, fitted.learned)])
        return plan

    def nearest(self, values: Float[Tensor, "channels *samples"], scale: Scale) -> Nearest:
        low = torch.as_tensor(scale.low).reshape(-1, *(1,) * (values.ndim - 1)) * self.geometry.of_constant(values)
        return measured((values - low) / scale.span, self.measurement, max(self.noise(scale), RELATIVE_NOISE))

    def weighed(self, values: Float[Tensor, "channels *samples"], estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight that suits hidden values, or if none surely does, those whose errors are no outliers."""
        hidden = self.measurement.hide(LEFT_OUT, torch.Generator().manual_seed(0), values.unsqueeze(0))
        if hidden is None:
            return 0.0, ()
        shown = (1 - hidden[0]).movedim(0, -1) * self.geometry.full_weights.to(hidden)
        plan = self.like(self.encoding, self.geometry.reweighted(shown))
        fitted = plan.start.solve(CenteredValues.of(values.unsqueeze(0)))
        pilot = fitted.signal(self.geometry.grid)[0]
        where = (hidden[0] > 0).expand_as(values)
        both = (self.measurement(f.unsqueeze(0))[0] for f in (pilot, plan.refined(pilot, values, self.sigmas)))
        error, second = ((f - values)[where].double() for f in both)
        kept = typical(error)
        return sure_share(error, second, len(values)) or sure_share(error[kept], second[kept], len(values)), self.sigmas
