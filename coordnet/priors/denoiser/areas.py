"""Means over cells with a denoiser: what is within the cells by plug-and-play, weighed by the picture's own half."""

import copy
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import Fitted
from coordnet.priors.denoiser.admm import falling
from coordnet.priors.denoiser.data_terms import Nearest, cell_means
from coordnet.priors.denoiser.refined import RefinedPlan, Signal
from coordnet.priors.denoiser.scale import Scale
from coordnet.priors.denoiser.weighing import least_squares_weight
from coordnet.sampling.grids import AreaLattice, CellMeans

# The first and the last standard deviation, relative to the error of the half, and their number. They were settled on
# twelve pictures; on 16 others of 256² four steps from 4 to 0.7 errors gain 0.09 dB more, five from 4.5 to 0.7 gain
# 0.17 dB more, and each step takes about a fifth of the time without a denoiser, or two thirds if the picture is gray.
FIRST, LAST, STEPS = 3.5, 1.0, 3
# Most weight: so few steps end before the limit. Up to 1.5 gains no more, and 1 gains 0.04 dB less.
MOST_WEIGHT = 1.25
# Cells of the half of the middle of a picture that give the weight: on half as many, one photograph of twelve has none.
MOST_HALVED = 2**12
FEWEST_CELLS = 24  # cells along an axis from which on a picture's own half decides the weight; it is 0 for others
# Share of the half's squared error that the denoiser must take away, or it gets no weight. Of 30 pictures a terrain, a
# moon, a retina and two textures are below, which would lose 0.05 to 0.9 dB; three others would gain 0.1 to 0.5 dB.
LEAST_GAIN = 0.06


class DenoisedAreaPlan(RefinedPlan):
    """Divide the cells of a picture by plug-and-play from the pilot's estimate; see ``RefinedPlan``.

    Unless the samples have noise, the means of the result over the cells are the samples. The weight follows from the
    same steps on the picture's own half, or that of the middle of a large picture, whose truth is known; the pilot has
    mostly divided that half already, for a weight of its own. The noise of the half is assumed to be that of the
    picture, although means of noisy pixels have less: what seems to be noise is often fine texture, which the denoiser
    would remove, so that errors at the half then lower its weight.
    """

    halved: Float[Tensor, "1 channels *cells"] | None = None  # the pilot's result for the whole picture's half
    rounded_from = 0.01  # with 0.03, enlargements gain 0.03 dB and take a sixth longer

    def nearest(self, values: Float[Tensor, "channels *cells"], scale: Scale) -> Nearest:
        """Return the data term of means over cells, in units of a scale."""
        return cell_means(scale.into(values), self.geometry.cells, self.prior.noise / scale.span)  # type: ignore[attr-defined]

    def after(self, fitted: Fitted) -> "DenoisedAreaPlan":
        """Return the plan with what the pilot made of the half, if it did."""
        plan = copy.copy(self)
        plan.halved = fitted.halved
        return plan

    def weighed(self, values: Float[Tensor, "channels *cells"], estimate: Signal) -> tuple[float, Sequence[float]]:
        """Return the weight that suits the picture's own half, and steps that suit its error."""
        cells = (2, 2)
        part = middle(tuple(n // cell for n, cell in zip(values.shape[1:], cells, strict=True)), MOST_HALVED)
        if min(s.stop - s.start for s in part) < FEWEST_CELLS:
            return 0.0, ()
        inside = (..., *(slice(s.start * cell, s.stop * cell) for s, cell in zip(part, cells, strict=True)))
        truth = values[inside]
        even = tuple(truth.shape[1:])
        half, geometry = CellMeans(even, cells)(truth), AreaLattice(even, cells)
        options = {"dtype": self.dtype, "device": self.device}
        plan = type(self)(FourierEncoding.on(geometry.pixels), geometry, self.prior, self.pilot, **options)
        if self.halved is None:
            pilot = plan.start.fit(half.movedim(0, -1)).render(even).movedim(-1, 0)
        else:
            pilot = self.halved[0][inside]
        error = (pilot - truth).double().flatten()
        level = float(error.square().mean().sqrt())
        second = (plan.refined(pilot, half, _steps(level, pilot)) - truth).double().flatten()
        return least_squares_weight(error, second, LEAST_GAIN, MOST_WEIGHT), _steps(level, estimate)


def _steps(error: float, start: Signal) -> Sequence[float]:
    """Return the standard deviation of each step from a start with an error, relative to its range."""
    level = max(error / Scale.of(start).span, 1e-6)
    return falling(FIRST * level, LAST * level, STEPS)
