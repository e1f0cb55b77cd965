"""Signals of least total variation, by alternating directions, alone and weighed beside the adaptive fit."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.encodings.blending import measure
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.machine import is_tracked
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import Candidate, FitReport, WeighedVariationReport
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.plans.posterior import Posterior
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive.measured import LEARNING_TOLERANCE
from coordnet.priors.local.weights import SURE, least_squares_share, typical
from coordnet.priors.variation.minimum import Signal, least_variation, mean_gradient
from coordnet.sampling.samples import Geometry

MULTIPLES = (0.25, 1.0, 4.0)  # strengths that hidden values choose from, relative to that of a Laplace density
LEFT_OUT = 0.1  # share of the measured values that are hidden for that choice
VIEWS_APART, FEWEST_VIEWS = 4, 3  # distance of views that are hidden, and their least number
RANDOM_PARTS = 10  # parts of random hidden values, whose errors are compared as those of views are
# Variance of the noise, relative to the values' mean square, below which the spectrum is learned without hidden values:
# solves with that of all values, from zero on, hardly converge for blurs and for random matrices.
NOISELESS = 1e-6
TELLING = 1.25  # squared error of hidden values, relative to the noise's, below which they tell little but noise
LEAST_WEIGHT = 0.01  # weight of the adaptive fit below which total variation stands alone
LEAST_SPREAD = 0.1  # least factor of the posterior's deviations: hidden errors tell no smaller ones from noise


class TotalVariationPlan(Plan):
    """Alternate between the proximal map of total variation and the data, from the adaptive fit on.

    The parameters are those of ``plan``, the strength, and the prior of the adaptive fit, whose encoding is taken.
    """

    def __init__(
        self, encoding: FourierEncoding, geometry: Geometry, strength: float | None, pilot: Adaptive, **options: Any
    ) -> None:
        self.strength, self.start = strength, pilot.plan(encoding, geometry, **options)
        super().__init__(self.start.encoding, geometry, **options)
        self.measurement = measurement = measure(self.encoding, geometry, self.dtype, self.device)
        if not (measurement.is_general or (measurement.is_mask and geometry.shape == geometry.grid)):
            expected = "a mask of a lattice or measurements, for total variation"
            raise _checks.wrong("geometry", expected, type(geometry).__name__)

    @torch.no_grad()
    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        fitted = self.start.solve(CenteredValues.of(values))
        f = fitted.signal(self.geometry.grid)[0]
        if not (mean := mean_gradient(f)):
            return fitted
        strength, psnr = self.strength, None
        if strength is None:
            noise = self.geometry.sigma or getattr(fitted.report, "sigma", None)
            strength = mean if noise is None else noise**2 / mean
            if noise:
                strength, psnr = self._chosen(values, f, [strength * factor for factor in MULTIPLES], mean)
        f, steps = least_variation(f, values[0], self.measurement, strength, mean)
        report = FitReport(
            method=f"alternating directions with the proximal map of total variation, strength {strength:.3g}",
            iterations=steps,
            hold_out_psnr=psnr,
        )
        return Fitted(make_periodic(f.unsqueeze(0), self.encoding.shape), report)

    def _chosen(
        self, values: Float[Tensor, "1 channels *samples"], start: Signal, strengths: Sequence[float], mean: float
    ) -> tuple[float, dict[str, float] | None]:
        """Return the strength of least error at hidden values, and the PSNR there of each; the middle one without."""
        hidden = self.measurement.hide(LEFT_OUT, torch.Generator().manual_seed(0), values)
        if hidden is None:
            return strengths[len(strengths) // 2], None
        shown = self.measurement.reweighted(1 - hidden)

        def errors(strength: float) -> Tensor:
            f, _ = least_variation(start, values[0], shown, strength, mean)
            error = self.measurement.weights.sqrt() * (self.measurement(f.unsqueeze(0)) - values)
            return error[hidden.expand_as(error) > 0]

        tried = {strength: _mean_square(e) for strength, e in _tried(strengths, errors).items()}
        return min(tried, key=tried.__getitem__), {f"{strength:.3g}": decibels(e) for strength, e in tried.items()}


@dataclass(frozen=True)
class Choice:
    """The strength of the total variation, its weight ``share``, and what hidden values said of both.

    ``psnr`` has that of the adaptive fit, of total variation and of their weighted mean. The ``spread`` is the root
    mean square of the errors of the last, relative to those of the first, both without the noise.
    """

    strength: float
    share: float
    spread: float = 1.0
    psnr: tuple[float | None, ...] = (None, None, None)


class WeighedVariationPlan(TotalVariationPlan):
    """Add the fit of least total variation to the adaptive one, with the weight of least squared error.

    A part of the measured values is hidden for that. The adaptive fit without it keeps the spectrum that it learned
    from all values, unless these have hardly any noise; a few steps of the alternating directions start there. The
    weight is 0 unless it surely lowers the errors. The result is the adaptive fit to the bit then, and gradients flow
    through it; a ``ValueError`` is raised where they are followed and total variation has a weight.

    The parameters are those of ``TotalVariationPlan``, and the weight if it is known with the strength.
    """

    has_gradient = True

    def __init__(
        self,
        encoding: FourierEncoding,
        geometry: Geometry,
        strength: float | None,
        pilot: Adaptive,
        share: float | None,
        **options: Any,
    ) -> None:
        super().__init__(encoding, geometry, strength, pilot, **options)
        self.pilot = pilot
        self.views: int | None = getattr(geometry.operator, "views", None)
        self.known = None if strength is None or share is None else Choice(strength, share)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        fitted = self.start.solve(CenteredValues.of(values))
        tracked = is_tracked(values)
        with torch.no_grad():
            f = fitted.signal(self.geometry.grid)[0]
            mean = mean_gradient(f)
            chosen = self.known or self._chosen_share(values.detach(), fitted, mean)
            fitted = replace(fitted, report=_report(fitted.report, chosen))
            if not chosen.share:
                return fitted
            if tracked:
                expected = "cn.Adaptive() where gradients are followed, or `values.detach()`"
                raise _checks.wrong("prior", expected, "total variation with a weight, whose fit has no gradient")
            g, _ = least_variation(f, values[0], self.measurement, chosen.strength, mean)
            f = (f + chosen.share * (g - f)).unsqueeze(0)
            learned = fitted.learned | {"spread": torch.tensor(chosen.spread)}
            return replace(fitted, coefficients=make_periodic(f, self.encoding.shape), learned=learned)

    def _chosen_share(self, values: Float[Tensor, "1 channels *samples"], fitted: Fitted, mean: float) -> Choice:
        """Return the weight of least error with s²/b for the strength; with a weight, the strength is chosen alone."""
        noise = self.geometry.sigma or getattr(fitted.report, "sigma", None)
        hidden = self._hidden(values)
        if not (mean and noise) or hidden is None:
            return Choice(mean, 0.0)
        pilot, solver = self.pilot, self.solver
        if noise**2 > NOISELESS * _mean_square(values):
            pilot = pilot.taught([(fitted.report, fitted.learned)])
            solver = replace(solver, tolerance=LEARNING_TOLERANCE[len(self.geometry.grid)])
        start = self._without(hidden, values, pilot, solver)
        shown = self.measurement.reweighted(1 - hidden)

        def errors(f: Tensor) -> Float[Tensor, "groups members"]:
            error = self.measurement.weights.sqrt() * (self.measurement(f.unsqueeze(0)) - values)
            return self._grouped(error.double(), hidden)

        before, strength = errors(start), self.strength or noise**2 / mean
        if _mean_square(before) < TELLING * noise**2:
            return Choice(strength, 0.0)
        strengths = [self.strength] if self.strength else [strength * factor for factor in MULTIPLES]
        tried = _tried(strengths, lambda s: errors(least_variation(start, values[0], shown, s, mean)[0]))
        strength, second = min(tried.items(), key=lambda item: _mean_square(item[1]))
        share = _sure_share(before, second)
        after = before + share * (second - before)
        spread = (max(_mean_square(after) - noise**2, 0.0) / (_mean_square(before) - noise**2)) ** 0.5
        psnr = tuple(decibels(_mean_square(e)) for e in (before, second, after))
        return Choice(strength, share, max(spread, LEAST_SPREAD), psnr)

    def _hidden(self, values: Tensor) -> Float[Tensor, "1 channels *samples"] | None:
        """Return 1 at values to hide and 0 elsewhere: at views of equal distances, or random where there are no views.

        Between two views nothing is known; within a view a value is nearly known from its neighbors.
        """
        weights, axis = self.measurement.weights, self.views
        if axis is None:
            return self.measurement.hide(LEFT_OUT, torch.Generator().manual_seed(0), values)
        if weights.shape[axis] < VIEWS_APART * FEWEST_VIEWS:
            return None
        hidden = torch.zeros_like(weights)
        hidden.movedim(axis, 0)[VIEWS_APART // 2 :: VIEWS_APART] = 1
        return hidden

    def _grouped(self, error: Float[Tensor, "1 channels *samples"], hidden: Tensor) -> Float[Tensor, "groups members"]:
        """Return the hidden errors, those of a view in a row, or of ``RANDOM_PARTS`` parts of random values."""
        if self.views is not None:
            return error.movedim(self.views, 0)[VIEWS_APART // 2 :: VIEWS_APART].flatten(1)
        flat = error[(hidden > 0).expand_as(error)]
        return flat[: len(flat) // RANDOM_PARTS * RANDOM_PARTS].reshape(-1, RANDOM_PARTS).mT

    def _without(
        self, hidden: Tensor, values: Float[Tensor, "1 channels *samples"], pilot: Adaptive, solver: ConjugateGradients
    ) -> Tensor:
        """Return the adaptive fit without hidden values."""
        weights = (1 - hidden[0]).movedim(0, -1) * self.geometry.full_weights.to(hidden)
        options: Any = {"solver": solver, "dtype": self.dtype, "device": self.device}
        plan = pilot.plan(self.encoding, self.geometry.reweighted(weights), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", _checks.CoordnetWarning)  # the fit to all values gives it
            return plan.solve(CenteredValues.of(values)).signal(self.geometry.grid)[0]

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return that of the adaptive fit, as much narrower as the errors of the weighted mean are smaller."""
        return Narrowed(self.start.posterior(values, learned), float(learned.get("spread", 1.0)))


@dataclass(frozen=True)
class Narrowed(Posterior):
    """A posterior whose deviations are multiplied by a factor, the ``spread``."""

    wide: Posterior
    spread: float

    def deviations(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw from the wide one, and multiply."""
        return self.spread * self.wide.deviations(count, generator)


def _tried(strengths: Sequence[float], errors: Callable[[float], Tensor]) -> dict[float, Tensor]:
    """Return the errors with rising strengths, up to the first that has greater ones than the one before."""
    tried: dict[float, Tensor] = {}
    for strength in strengths:
        before = list(tried.values())[-1:]
        tried[strength] = errors(strength)
        if before and _mean_square(tried[strength]) > _mean_square(before[0]):
            break
    return tried


def _report(adaptive: Any, chosen: Choice) -> WeighedVariationReport:
    names, weights = ("adaptive", "total-variation"), (1 - chosen.share, chosen.share)
    parts = zip(names, weights, chosen.psnr, strict=False)
    candidates = [Candidate(prior=name, weight=weight, hold_out_psnr=psnr) for name, weight, psnr in parts]
    psnr = None if chosen.psnr[2] is None else {"sum": chosen.psnr[2]}
    own = vars(adaptive) | {"hold_out_psnr": psnr}
    return WeighedVariationReport(**own, candidates=candidates, strength=chosen.strength)


def _sure_share(before: Float[Tensor, "groups members"], second: Tensor) -> float:
    """Return the weight of least squared errors; 0 unless the mean of their logarithms surely falls, group by group.

    Errors that are outliers of either fit, those of a few low frequencies, do not give it.
    """
    told = typical(before.flatten()) & typical(second.flatten())
    share = least_squares_share(before.flatten()[told], second.flatten()[told])
    share = share if share < 1 - LEAST_WEIGHT else 1.0
    falls = _logs(before) - _logs(before + share * (second - before))
    return share if falls.mean() > SURE * falls.std() / len(falls) ** 0.5 else 0.0


def _logs(errors: Float[Tensor, "groups members"]) -> Float[Tensor, " groups"]:
    """Return the logarithms of the mean squared errors of groups, which no single group rules."""
    return errors.square().mean(1).clamp(min=torch.finfo(errors.dtype).tiny).log()


def _mean_square(errors: Tensor) -> float:
    return float(errors.square().mean())
