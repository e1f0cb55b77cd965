"""Draws of the deviations of a signal from its fit, by the posterior that a plan has."""

import torch
from torch import Tensor

from coordnet.linalg.machine import full_precision
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.plan import Plan
from coordnet.sampling.samples import units_of


def deviations(
    plan: Plan, samples: Tensor, fit: Reconstruction, count: int, generator: torch.Generator
) -> Reconstruction:
    """Draw deviations from a fit of samples as a batch of ``count`` signals, on the fit's device and in its dtype."""
    values = plan.centered(samples).subtracted()
    units = units_of(values)
    posterior = plan.posterior(values / units, fit.learned)
    with full_precision():
        drawn = posterior.deviations(count, generator)
    weight = (float(units) * drawn).flatten(0, 1).to(fit.offset).contiguous()
    network = CoordinateNetwork(
        fit.network.encoding, Linear(), len(weight), weight=weight, blending=fit.network.blending
    )
    offset = torch.zeros_like(fit.offset).expand(count, -1)
    return Reconstruction(network, offset, fit.lengths, (count,), footprint=fit.footprint, coordinates=fit.lattice)
