"""Estimates that a denoiser refines where no samples can be hidden: what plans of areas and mosaics share."""

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
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import DenoiserReport
from coordnet.plans.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.priors.base import Prior
from coordnet.priors.denoiser.admm import RELAXATION, plug_and_play
from coordnet.priors.denoiser.data_terms import Nearest
from coordnet.priors.denoiser.pictures import LatticeDenoiser
from coordnet.priors.denoiser.piloted import PilotedPrior
from coordnet.priors.denoiser.scale import Scale
from coordnet.sampling.samples import Geometry

Signal = Float[Tensor, "channels *lattice"]


class RefinedPlan(Plan):
    """Refine the pilot's estimate by plug-and-play, with a weight from a smaller case of which the truth is known.

    The result is the pilot's, to the bit, where the weight is 0. The parameters are those of ``plan``; the encoding is
    the pilot's.
    """

    method = "plug-and-play"
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

    def after(self, fitted: Fitted) -> "RefinedPlan":
        """Return the plan with what the pilot's fit learned; by default the plan itself."""
        return self

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own weight."""
        return solve_each(self._solve, values)

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
        scale = Scale.of(start)
        nearest = self.nearest(values, scale)
        return scale.back(plug_and_play(scale.into(start), sigmas, self.denoiser, nearest, RELAXATION))
