"""Means over cells that a denoiser divides further, with a weight from the picture's own half and another phase."""

import copy
import math
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import Fitted
from coordnet.priors.denoiser.plug_and_play import Nearest, Scale, cell_means, falling
from coordnet.priors.denoiser.refined import RefinedPlan, Signal
from coordnet.priors.local.weights import least_squares_share, least_squares_weight, squared_gains, sure_share
from coordnet.sampling.grids import AreaLattice, CellMeans

# The first and the last standard deviation, relative to the error of the half, and their number, of colors and of gray
# pictures. On 12 color pictures, 6 held out, five steps to 0.7 gain 0.06 dB less in the mean, five to 1.3 0.02 dB
# less, and seven to 2.0 as much, but one gets no weight then. Five gain nothing on gray pictures, where each step takes
# a third of the time without a denoiser; in color it is a seventh.
COLOR_STEPS, GRAY_STEPS = (4.5, 1.3, 7), (3.5, 1.0, 3)
# Cells of the half of the middle of a picture that give the weight: on half as many, one photograph of twelve has none.
MOST_HALVED = 2**12
FEWEST_CELLS = 24  # cells along an axis from which on a picture's own half decides the weight; it is 0 for others
# Share of the half's squared error that the denoiser has to take away, and surely, to suit by the half alone.
CLEAR_GAIN = 0.2
# Weights at the half and in another phase from which on a denoiser of less gain suits, too. On 115 pictures that were
# enlarged by 2 and 3, two lost then, 0.02 and 0.12 dB, and on 75 others none; by the half alone, where 3 % had to be
# gained, five and three of them lost, up to 0.44 dB. Photographs gain as much or 0.01 dB more, others 0.03 dB more.
LEAST_OF_HALF, LEAST_IN_PHASE = 0.4, 0.75
# Error of the half, relative to the range, below which the denoiser gets no weight: the steps of 8 bits are as large
# then. On a part of a retina it would lose 0.1 dB, and 0.9 dB on a smaller one.
LEAST_HALF_ERROR = 0.005


class DenoisedAreaPlan(RefinedPlan):
    """Divide the cells of a picture by plug-and-play from the pilot's estimate; see ``RefinedPlan``.

    Unless the samples have noise, the means of the result over the cells are the samples. The weight follows from the
    same steps on the picture's own half, or that of the middle of a large picture, whose truth is known; the pilot has
    mostly divided that half already, for a weight of its own. What suits the half may be wrong for details that are
    finer: where the gain there is small, the denoiser has to suit the picture's own pixels, too, those of the pilot's
    estimate with the cells moved by half of one, although the pilot is best at what it can reproduce. The noise of the
    half is assumed to be that of the picture, although means of noisy pixels have less: what seems to be noise is often
    fine texture, which the denoiser would remove, so that errors at the half then lower its weight.
    """

    halved: Float[Tensor, "1 channels *cells"] | None = None  # the pilot's result for the whole picture's half
    rounded_from = 0.01  # with 0.03, enlargements gain 0.03 dB and take a sixth longer

    def nearest(self, values: Float[Tensor, "channels *cells"], scale: Scale) -> Nearest:
        return cell_means(scale.into(values), self.geometry.cells, self.noise(scale))  # type: ignore[attr-defined]

    def after(self, fitted: Fitted) -> "DenoisedAreaPlan":
        """Return the plan with what the pilot made of the half, if it did."""
        plan = copy.copy(self)
        plan.halved = fitted.halved
        return plan

    def weighed(self, values: Float[Tensor, "channels *cells"], estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight that suits the picture's own half, and steps that suit its error."""
        part = middle(tuple(max(1, n // 2) for n in values.shape[1:]), MOST_HALVED)
        if min(s.stop - s.start for s in part) < FEWEST_CELLS:
            return 0.0, ()
        inside = pixels_of(part, (2, 2))
        truth = values[inside]
        plan, half = self._smaller(truth, (2, 2))
        pilot = plan.divided(half) if self.halved is None else self.halved[0][inside]
        level = float((pilot - truth).double().square().mean().sqrt())
        if level < LEAST_HALF_ERROR * self.scale(pilot).span:
            return 0.0, ()
        errors = plan.errors(pilot, half, truth, level)
        alike = math.prod((2, 2)) * len(values)  # errors within a cell are alike
        weight = least_squares_weight(*errors, alike)
        gain = float(squared_gains(*errors, weight).sum() / errors[0].square().sum())
        suits = gain >= CLEAR_GAIN and sure_share(*errors, alike) > 0
        suits = suits or (weight > LEAST_OF_HALF and self._in_phase(estimate, half[0].numel(), level) > LEAST_IN_PHASE)
        return (weight if suits else 0.0), self._steps(level, estimate)

    def _in_phase(self, estimate: Signal, count: int, level: float) -> float:
        """Return the weight that suits means over cells of the pilot's estimate in another phase, ``count`` at most."""
        cells = self.geometry.cells  # type: ignore[attr-defined]
        grid = tuple(n // cell - 1 for n, cell in zip(estimate.shape[1:], cells, strict=True))
        moved = estimate[pixels_of(middle(grid, count), cells, tuple(cell // 2 for cell in cells))]
        plan, means = self._smaller(moved, cells, noise=0.0)
        return least_squares_share(*plan.errors(plan.divided(means), means, moved, level))

    def _smaller(
        self, truth: Signal, cells: tuple[int, ...], noise: float | None = None
    ) -> tuple["DenoisedAreaPlan", Float[Tensor, "channels *cells"]]:
        """Return the plan for means over cells of a picture that is known, and these."""
        grid = tuple(truth.shape[1:])
        geometry = AreaLattice(grid, cells)
        return self.like(FourierEncoding.on(geometry.pixels), geometry, noise), CellMeans(grid, cells)(truth)

    def divided(self, means: Float[Tensor, "channels *cells"]) -> Signal:
        """Return what the pilot makes of means over cells."""
        return self.start.fit(means.movedim(0, -1)).render(self.geometry.grid).movedim(-1, 0)

    def errors(
        self, pilot: Signal, means: Float[Tensor, "channels *cells"], truth: Signal, level: float
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Return the errors of the pilot's and of the refined estimate, after steps that suit an error ``level``."""
        second = self.refined(pilot, means, self._steps(level, pilot))
        return (pilot - truth).double().flatten(), (second - truth).double().flatten()

    def _steps(self, error: float, start: Signal) -> Sequence[float]:
        """Return the standard deviation of each step from a start with an error, relative to its range."""
        level = error / self.scale(start).span
        first, last, count = COLOR_STEPS if len(start) > 1 else GRAY_STEPS
        return falling(first * level, last * level, count)


def pixels_of(part: tuple[slice, ...], cells: tuple[int, ...], moved: tuple[int, ...] = (0, 0)) -> tuple[Any, ...]:
    """Return the index of the pixels in a part of the cells, ``moved`` by a number of pixels along each axis."""
    axes = zip(part, cells, moved, strict=True)
    return (..., *(slice(s.start * cell + by, s.stop * cell + by) for s, cell, by in axes))
