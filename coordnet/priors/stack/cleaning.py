"""The samples of a lattice without their noise, for fits that keep samples as they are."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.linalg.machine import is_tracked
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues
from coordnet.priors.base import Prior
from coordnet.priors.kriging import Kriging
from coordnet.priors.local import Local
from coordnet.priors.local.weights import GROWTH, least_squares_share, recorrupted
from coordnet.sampling.grids import Lattice

MIDDLE_TRIED = 2**14  # samples of the middle part on which the priors are compared
LEAST_PART = 0.15  # share below which a prior is left out

Values = Float[Tensor, "1 channels *samples"]


def without_noise(values: Values, sigma: float) -> Values:
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


def _estimate(prior: Prior, values: Values) -> Values:
    lattice = Lattice(tuple(values.shape[2:]))
    plan = prior.plan(FourierEncoding.like(lattice), lattice, dtype=values.dtype, device=values.device)
    return plan.solve(CenteredValues.of(values)).signal(lattice.grid)
