"""Measurements with a denoiser: plug-and-play from the pilot's estimate, weighed at measured values that are hidden."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings.blending import measure
from coordnet.plans.plan import CenteredValues, Fitted
from coordnet.priors.denoiser.admm import falling
from coordnet.priors.denoiser.data_terms import Nearest, measured
from coordnet.priors.denoiser.refined import RefinedPlan, Signal
from coordnet.priors.denoiser.scale import Scale
from coordnet.priors.denoiser.weighing import sure_share, typical

LEFT_OUT = 0.1  # share of the measured values that are hidden for the weight
RELATIVE_NOISE = 1e-4  # least standard deviation of the noise that is reckoned with, relative to the signal's range


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
        """Return the data term of measured values, in units of a scale."""
        low = scale.low * self.geometry.of_constant(values)
        noise = max(self.prior.noise / scale.span, RELATIVE_NOISE)
        return measured((values - low) / scale.span, self.measurement, noise)

    def weighed(self, values: Float[Tensor, "channels *samples"], estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight that suits hidden values, or if none surely does, those whose errors are no outliers."""
        hidden = self.measurement.hide(LEFT_OUT, torch.Generator().manual_seed(0))
        if hidden is None:
            return 0.0, ()
        shown = (1 - hidden[0]).movedim(0, -1) * self.geometry.full_weights.to(hidden)
        options = {"dtype": self.dtype, "device": self.device}
        plan = type(self)(self.encoding, self.geometry.reweighted(shown), self.prior, self.pilot, **options)
        fitted = plan.start.solve(CenteredValues.of(values.unsqueeze(0)))
        pilot = fitted.signal(self.geometry.grid)[0]
        where = (hidden[0] > 0).expand_as(values)
        both = (self.measurement(f.unsqueeze(0))[0] for f in (pilot, plan.refined(pilot, values, self.sigmas)))
        error, second = ((f - values)[where].double() for f in both)
        kept = typical(error)
        return sure_share(error, second, len(values)) or sure_share(error[kept], second[kept], len(values)), self.sigmas
