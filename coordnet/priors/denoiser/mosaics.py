"""Mosaics with a denoiser: plug-and-play from the pilot's estimate, weighed on a mosaic of another phase."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.plans.hold_out import middle
from coordnet.priors.denoiser.admm import falling
from coordnet.priors.denoiser.data_terms import Nearest, entries
from coordnet.priors.denoiser.refined import RefinedPlan, Signal
from coordnet.priors.denoiser.scale import Scale
from coordnet.priors.denoiser.weighing import least_squares_weight
from coordnet.sampling.grids import MaskedLattice

WEIGHED = 2**15  # pixels of the middle of a picture whose mosaic of another phase gives the weight


class DenoisedMosaicPlan(RefinedPlan):
    """Fill the colors that a mosaic lacks by plug-and-play from the pilot's estimate; see ``RefinedPlan``.

    The pilot's estimate stands for the truth: the weight is that which suits its mosaic with the pattern moved by one
    pixel along both axes. A mean of both estimates would stand for what a denoiser that does not suit made of it.
    """

    sigmas = falling(0.02, 0.004, 8)

    def nearest(self, values: Signal, scale: Scale) -> Nearest:
        """Return the data term of a mosaic, in units of a scale."""
        return entries(scale.into(values), self._known, self.prior.noise / scale.span)

    @property
    def _known(self) -> Tensor:
        return self.geometry.full_weights.movedim(-1, 0).to(self.device) > 0

    def weight(self, values: Float[Tensor, "channels height width"], estimate: Signal) -> float:
        """Return the weight that suits a mosaic of another phase."""
        part = (..., *middle(tuple(values.shape[1:]), WEIGHED))
        truth = estimate[part]
        moved = self._known.roll((1, 1), (1, 2))[part]
        geometry = MaskedLattice(tuple(truth.shape[1:]), weights=moved.movedim(0, -1).to(truth))
        options = {"dtype": self.dtype, "device": self.device}
        plan = type(self)(FourierEncoding.like(geometry), geometry, self.prior, self.pilot, **options)
        mosaic = torch.where(moved, truth, 0.0)
        pilot = plan.start.fit(mosaic.movedim(0, -1)).render(alignment="sample").movedim(-1, 0)
        error, second = (f[~moved].double() for f in (pilot - truth, plan.refined(pilot, mosaic) - truth))
        return least_squares_weight(error, second)
