"""Closed-form fits with the local prior: a second reconstruction by patches, after one with the adaptive prior."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.fitting.adaptive import AdaptivePlan, HeldOut
from coordnet.fitting.local.classes import NOISE, Channels, Estimate, LocalClasses
from coordnet.fitting.local.patches import Patches
from coordnet.fitting.local.weights import Weights, choose_weights
from coordnet.fitting.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.linalg.borders import make_periodic
from coordnet.priors.local import Local
from coordnet.sampling.samples import Geometry

LEARNED_STRIDE = 4  # distance of the patches that adapt the classes
LEARNED_PATCHES = 2**15  # the most that adapt the classes
FINAL_ROUNDS = 1  # of adaptation to all samples, after those without the hidden ones


@dataclass(frozen=True)
class Signal:
    """A centered signal in units of its range."""

    values: Float[Tensor, "channels *lattice"]
    known: Bool[Tensor, "#channels *lattice"]
    range: float

    @classmethod
    def of(cls, values: Float[Tensor, "channels *lattice"], known: Bool[Tensor, "#channels *lattice"]) -> "Signal":
        """Return a signal divided by the range of its known values, or by 1 if they are all the same."""
        inside = values[known.expand_as(values)]
        span = float(inside.max() - inside.min()) or 1.0
        return cls(torch.where(known, values, 0.0) / span, known, span)

    @property
    def differs(self) -> bool:
        """Whether the masks of the channels differ."""
        return len(self.known) > 1

    def part(self, slices: tuple[slice, ...]) -> "Signal":
        """Return a part of the lattice."""
        return Signal(self.values[(..., *slices)], self.known[(..., *slices)], self.range)

    def without(self, hidden: Bool[Tensor, "#channels *lattice"]) -> "Signal":
        """Return the signal with fewer known entries."""
        return Signal(self.values, self.known & ~hidden, self.range)


class LocalPlan(Plan):
    """Reconstruct by the adaptive prior, then by the posterior means of overlapping patches under a mixture.

    The mixture is adapted to the samples that the adaptive prior did not hide, around its reconstruction from them. The
    hidden samples give the weights of the patches against it; see ``choose_weights``. The classes are then adapted to
    all samples once more. Known samples stay as they are, and the Fourier encoding interpolates the resulting lattice.

    """

    def __init__(self, encoding: FourierEncoding, geometry: Geometry, prior: Local, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.prior, self.padded, self.shape = prior, encoding.shape, prior.patch_on(geometry.shape)
        self.pilot = AdaptivePlan(encoding, geometry, prior.pilot, **options)
        self.measurement = self.pilot.measurement

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own classes."""
        return solve_each(self._solve, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        fitted, held_out = self.pilot.solve_and_hold_out(values)
        signal = Signal.of(values[0], self.measurement.weights[0] > 0)
        pilot = fitted.coefficients[0][(..., *(slice(0, n) for n in self.geometry.shape))] / signal.range
        weights, estimate, f = Weights.none(), None, pilot
        exact = self.measurement.is_plain_mask and not self.prior.noise
        sought = ~signal.known if exact else torch.ones_like(signal.known)
        if held_out is not None and bool(sought.any()):
            weights, estimate, f = self._second(signal, pilot, held_out, sought)
        if exact:
            f = torch.where(signal.known, signal.values, f)
        coefficients = make_periodic(signal.range * f.unsqueeze(0), self.padded)
        report = {
            "method": f"posterior means of patches, local prior, after {fitted.report['method']}",
            "patch": list(self.shape),
            **weights.record(signal.range, signal.known, "the adaptive prior"),
            "pilot": fitted.report,
            "iterations": fitted.report["iterations"],
            "relative_residual": fitted.report["relative_residual"],
        }
        learned = {} if estimate is None else estimate.learned(signal.range)
        return Fitted(coefficients, report, {**fitted.learned, **learned})

    def _second(
        self, signal: Signal, pilot: Float[Tensor, "channels *lattice"], held_out: HeldOut, sought: Tensor
    ) -> tuple[Weights, Estimate | None, Float[Tensor, "channels *lattice"]]:
        """Return the weights that hidden samples give to the patches, and the signal that they then are a part of."""
        classes = self._begin(signal)
        bar = tqdm(total=self.prior.rounds + FINAL_ROUNDS + 2, desc="patches", disable=not self.progress)
        with bar:
            deciding = signal.part(held_out.part)
            shown, first = deciding.without(held_out.hidden), held_out.estimate / signal.range
            classes = self._adapted(classes, shown, first, self.prior.rounds, bar.update)
            second = self._estimate(classes, shown, first, LEARNED_STRIDE, held_out.hidden)
            bar.update()
            hidden = held_out.hidden.expand_as(first)
            local, clustered = classes.restore(second.f), self.measurement.is_structured_mask
            weights = choose_weights(shown.known, hidden, deciding.values, first, local, clustered=clustered)
            if weights.are_zero:
                return weights, None, pilot
            classes = self._adapted(classes, signal, pilot, min(self.prior.rounds, FINAL_ROUNDS), bar.update)
            estimate = self._estimate(classes, signal, pilot, self.prior.stride, sought)
        alpha = weights.on(signal.known)
        return weights, estimate, pilot + alpha * (classes.restore(estimate.f) - pilot)

    def _begin(self, signal: Signal) -> LocalClasses:
        channels = Channels.of(signal.values, signal.known)
        noise = max(NOISE, (self.prior.noise / signal.range) ** 2)
        return LocalClasses.begin(self.shape, channels, joint=signal.differs, noise=noise)

    def _adapted(
        self, classes: LocalClasses, signal: Signal, pilot: Tensor, rounds: int, update: Callable[[], Any]
    ) -> LocalClasses:
        lattice = tuple(pilot.shape[1:])
        every = Patches.every(LEARNED_STRIDE, lattice, self.shape, pilot.device).thinned(LEARNED_PATCHES)
        observed = classes.observe(signal.values, signal.known, pilot)
        for _ in range(rounds):
            classes = classes.adapted(observed, every, self.prior.strength)
            update()
        return classes

    def _estimate(
        self,
        classes: LocalClasses,
        signal: Signal,
        pilot: Tensor,
        stride: int,
        sought: Bool[Tensor, "#channels *lattice"],
    ) -> Estimate:
        """Return the estimate by the patches that have an entry which is sought."""
        observed = classes.observe(signal.values, signal.known, pilot)
        patches = Patches.every(stride, tuple(pilot.shape[1:]), self.shape, pilot.device)
        return classes.estimate(observed, patches.touching(sought))
