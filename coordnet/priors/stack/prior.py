"""Stacking: the weighted sum of the fits under several priors, with weights that hidden samples give."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.machine import is_tracked
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import Candidate, FitReport, StackReport
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.plans.posterior import Posterior
from coordnet.priors.base import Cleaning, Learned, Prior
from coordnet.priors.kriging import Kriging
from coordnet.priors.local import Local
from coordnet.priors.local.weights import GROWTH, least_squares_share, recorrupted
from coordnet.priors.stack.hidden_errors import LEAST
from coordnet.priors.stack.trial import Trial
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Geometry

MIDDLE_TRIED = 2**14  # samples of the middle part on which the priors are compared
LEAST_PART = 0.15  # share below which a prior is left out


@dataclass(frozen=True)
class Stack(Prior):
    """The fits under several priors, summed with weights that are least squares at hidden samples.

    Hidden samples have the shape of what is missing. Every candidate is fitted without them, and the weights, which are
    not negative and have the sum 1, are those of ``stacked_weights``. Candidates with a weight are fitted to all
    samples. One that takes long is tried only if the errors of those before it say that it may help
    (``Plan.is_promising``). One of which hidden samples say little has a fixed weight instead, its ``Plan.share``.

    Attributes
    ----------
    priors : tuple of Prior
        The candidates, in the order in which they are tried: cheap ones first. The first one draws the hidden samples,
        if it hides some itself. Where there are too few samples to hide some, one candidate is taken: the first that
        ``searches``, since it finds its numbers by few samples too, or the first of all.
    weights : tuple of float
        Their weights, if these are known from other blocks of the signal; hidden samples give them if empty.
    nugget : float
        The standard deviation of the white noise that the samples seem to have. Where it is a good part of the hidden
        errors, candidates are weighed by what they say of the known samples, too. With it, as where a ``Denoiser``
        is told the noise, a lattice that skips nodes is fitted as one with gaps, of which random samples are hidden.
    lattice_noise : float
        The standard deviation of the white noise that is removed from the samples of a lattice that skips nodes before
        these are interpolated; see ``without_noise``.
    skips : bool
        Whether the candidates are for a lattice that skips nodes, so that a mask of every k-th node is fitted as that
        lattice.

    Notes
    -----
    Wolpert, "Stacked generalization" (1992); Breiman, "Stacked regressions" (1996), has the constraints on the weights;
    van der Laan, Polley and Hubbard, "Super learner" (2007).
    """

    name: ClassVar[str] = "stack"
    learns: ClassVar[bool] = True
    cleans_by: ClassVar[Cleaning] = "sum"
    priors: tuple[Prior, ...]
    weights: tuple[float, ...] = ()
    nugget: float = 0.0
    lattice_noise: float = 0.0
    skips: bool = False

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return StackPlan(encoding, geometry, self, **options)

    @property
    def words(self) -> str:
        """The candidates with their weights."""
        return " + ".join(f"{w:.2f} {prior.name}" for w, prior in zip(self.weights, self.priors, strict=True))

    @property
    def text(self) -> str:
        return "auto"

    def __repr__(self) -> str:
        """Return the candidates as the command line reads them."""
        return f"Stack({', '.join(prior.text for prior in self.priors)})"

    def seeded(self, seed: int) -> "Stack":
        return replace(self, priors=tuple(prior.seeded(seed) for prior in self.priors))

    def taught(self, fits: Sequence[Learned]) -> "Stack":
        """Return the candidates that have a weight in the mean over fits, each with what it learned in these."""
        weights, taught = [], []
        for prior in self.priors:
            text = prior.text
            own = [(part, learned) for report, learned in fits for part in report.fits if part.prior == text]  # type: ignore[attr-defined]
            weights.append(sum(_weights(report).get(text, 0.0) for report, _ in fits) / len(fits))
            taught.append(prior.taught(own) if own else prior)
        kept = [k for k, weight in enumerate(weights) if weight >= LEAST]
        total = sum(weights[k] for k in kept)
        return replace(self, priors=tuple(taught[k] for k in kept), weights=tuple(weights[k] / total for k in kept))

    def weighed_as(self, report: FitReport) -> "Stack":
        """Return the candidates that have a weight in a fit, with these weights."""
        by_text = _weights(report)
        weights = [by_text.get(prior.text, 0.0) for prior in self.priors]
        kept = [k for k, weight in enumerate(weights) if weight >= LEAST]
        return replace(self, priors=tuple(self.priors[k] for k in kept), weights=tuple(weights[k] for k in kept))

    def settled(self, report: FitReport) -> "Stack":
        """Return the stack as ``fixed`` by a fit if all candidates search for numbers, as those of points do.

        Each refit would otherwise take as long as the fit. Other stacks are weighed anew by each refit.
        """
        if not isinstance(report, StackReport) or not all(prior.searches for prior in self.priors):
            return self
        return self.fixed(report)

    def fixed(self, report: StackReport) -> "Stack":
        """Return the candidates that have a weight in a fit, with it and their numbers."""
        weighed, fits = self.weighed_as(report), {fit.prior: fit for fit in report.fits}
        return replace(weighed, priors=tuple(prior.settled(fits[prior.text]) for prior in weighed.priors))

    def in_time(self, times: tuple[float, ...]) -> "Stack":
        return replace(self, priors=tuple(prior.in_time(times) for prior in self.priors))


class StackPlan(Plan):
    """Fit every candidate without hidden samples, weigh them, and sum the fits of those that have a weight.

    The parameters are those of ``plan``; the encoding is that of the first candidate's plan. Scattered points depend on
    the lattice by quintic interpolation, unless their geometry names another.
    """

    has_gradient = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Stack, **options: Any) -> None:
        geometry = geometry.blended("quintic")  # the plates' blending, which all share so that they can be summed
        self.prior, nodes = prior, geometry
        if prior.skips:
            nodes = geometry.without_gaps
        elif (prior.nugget or not geometry.is_strided) and not encoding.axis_encoders:
            nodes = geometry.with_gaps
        if nodes is not geometry and nodes.shape == nodes.grid:
            encoding = FourierEncoding.on(tuple(Axis(n) for n in geometry.grid))
        self.plans = [candidate.plan(encoding, nodes, **options) for candidate in prior.priors]
        super().__init__(self.plans[0].encoding, geometry, **options)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        trial, values, sigma = None, self._on_nodes(values), self.prior.lattice_noise
        removes = sigma > 0 and self.plans[0].geometry.is_strided
        values = without_noise(values, sigma) if removes else values
        if not self.prior.weights:
            options: Any = {"nugget": self.prior.nugget, "progress": self.progress}
            with torch.no_grad():
                trial = Trial(self.prior.priors, self.plans, values.detach(), **options)
        weights = np.array(self.prior.weights) if trial is None else trial.weights()
        used = sorted(np.flatnonzero(weights).tolist(), key=lambda k: -weights[k])
        fits = {} if is_tracked(values) or trial is None else trial.fits
        for k in used:
            if k not in fits:
                self.plans[k].check_gradients(values)
                fits[k] = self.plans[k].solve(CenteredValues.of(values))
        coefficients = torch.stack([float(weights[k]) * fits[k].coefficients for k in used]).sum(0)
        learned = {name: part for fitted in fits.values() for name, part in fitted.learned.items()}
        reports = [replace(fits[k].report, prior=self.prior.priors[k].text) for k in used]
        tried, total = ({}, 0.0) if trial is None else (trial.tried, trial.hidden.error(weights))
        compared = tried | {k: 0.0 for k in used if k not in tried}
        report = _report(compared, total, self.prior.priors, weights, reports)
        if removes:
            report = replace(report, method=f"white noise of {sigma:.3g} removed; {report.method}")
        return Fitted(coefficients, report, learned)

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return that of the first candidate with a posterior; see ``Plan``."""
        for plan in self.plans:
            with contextlib.suppress(ValueError, KeyError):
                return plan.posterior(self._on_nodes(values), learned)
        return super().posterior(values, learned)

    def _on_nodes(self, values: Float[Tensor, "1 channels *samples"]) -> Float[Tensor, "1 channels *nodes"]:
        """Return values of a lattice on the nodes of the plans: without its gaps, or with them and 0 there."""
        nodes, own = self.plans[0].geometry, self.geometry
        if nodes.shape == own.shape:
            return values
        if nodes.is_strided:
            return values[(..., *nodes.slices)]
        on_nodes = values.new_zeros(*values.shape[:2], *nodes.shape)
        on_nodes[(..., *own.slices)] = values  # type: ignore[attr-defined]
        return on_nodes


def _weights(report: Any) -> dict[str, float]:
    """Return the weights that a report has by the texts of priors."""
    return {candidate.prior: candidate.weight for candidate in report.candidates}


def _report(
    tried: Mapping[int, float], total: float, candidates: Sequence[Prior], weights: np.ndarray, fits: list[FitReport]
) -> StackReport:
    """Return the report: candidates with their mean squared hidden errors and their weights, and the fits with one.

    An error of 0, like the ``total`` one of the sum, stands for none that was met.
    """
    psnr = {k: decibels(error) if error else None for k, error in tried.items()}
    return StackReport(
        method="; ".join(str(fit.method) for fit in fits),
        candidates=[Candidate(prior=candidates[k].text, weight=float(weights[k]), hold_out_psnr=psnr[k]) for k in psnr],
        fits=fits,
        hold_out_psnr={"stack": decibels(total)} if total else None,
        iterations=fits[0].iterations,
        relative_residual=fits[0].relative_residual,
    )


def without_noise(values: Float[Tensor, "1 channels *samples"], sigma: float) -> Float[Tensor, "1 channels *samples"]:
    """Return all samples of a lattice without white noise of a standard deviation, as values of the same shape.

    They are the sum of the estimates by the local prior and by kriging; in rows, and where gradients are followed,
    kriging alone. The weights are least squares where further noise is added (``recorrupted``).
    """
    if sum(n > 1 for n in values.shape[2:]) < 2 or is_tracked(values):
        return _estimate(Kriging(), values)
    part = values[(..., *middle(tuple(values.shape[2:]), MIDDLE_TRIED))]
    noise = sigma * torch.randn(part.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(part)
    noisier, target = recorrupted(part, noise)
    local, kriged = (_estimate(prior, noisier) - target for prior in (Local(noise=GROWTH * sigma), Kriging()))
    share = least_squares_share(local, kriged)
    share = 0.0 if share <= LEAST_PART else 1.0 if share >= 1 - LEAST_PART else share
    parts = [(1 - share, Local(noise=sigma)), (share, Kriging())]
    return torch.stack([weight * _estimate(prior, values) for weight, prior in parts if weight]).sum(0)


def _estimate(prior: Prior, values: Float[Tensor, "1 channels *samples"]) -> Float[Tensor, "1 channels *samples"]:
    lattice = Lattice(tuple(values.shape[2:]))
    plan = prior.plan(FourierEncoding.like(lattice), lattice, dtype=values.dtype, device=values.device)
    return plan.solve(CenteredValues.of(values)).signal(lattice.grid)
