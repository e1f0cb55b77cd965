"""What a fit keeps to say how sure it is: its samples, and how they were fitted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.uncertainty.conformal import Calibration
from coordnet.fitting.uncertainty.folds import Refit, SampleTable
from coordnet.fitting.uncertainty.point_blocks import Score, block_score
from coordnet.linalg.machine import as_generator, full_precision
from coordnet.metrics.scores import decibels
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.plan import Plan
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Samples, units_of

Deviations = Callable[[Reconstruction, int, torch.Generator], Reconstruction]


class Recipe:
    """The samples of a fit, the fit as a function of samples, and how to draw deviations from it.

    Intervals need six refits: one without each of five folds of the samples, and one without two folds. They are made
    when they are first asked for, and their errors are kept. The methods are those of ``Reconstruction``, for signals
    on its lattice.
    """

    def __init__(self, samples: Samples, refit: Refit, deviations: Deviations, *, progress: bool = False) -> None:
        self.samples, self.refit, self.deviations, self.progress = samples, refit, deviations, progress
        self._calibrations: dict[Any, Calibration] = {}

    def calibration(self, fit: Reconstruction, blocks: Any = None) -> Calibration:
        """Return the scale of the fit's errors; see ``SampleTable`` for ``blocks`` and for errors."""
        key = None if blocks is None else tuple(np.atleast_1d(blocks).tolist())
        if key not in self._calibrations:
            table = SampleTable(self.samples, blocks)
            folded = table.folded(self.refit, progress=self.progress)
            self._calibrations[key] = Calibration.of(table, folded, _field(fit))
        return self._calibrations[key]

    def std(self, fit: Reconstruction, blocks: Any = None) -> Float[Tensor, "*grid channels"]:
        """Return the standard deviation of the errors."""
        return _on_grid(self.calibration(fit, blocks).std, fit)

    def interval(
        self, fit: Reconstruction, level: float, blocks: Any = None
    ) -> tuple[Float[Tensor, "*grid channels"], Float[Tensor, "*grid channels"]]:
        """Return the lower and the upper end of intervals; see ``conformal_quantile`` for errors."""
        if not 0 < _checks.positive("level", level) < 1:
            raise _checks.wrong("level", "a number above 0 and below 1", level)
        half, center = _on_grid(self.calibration(fit, blocks).half_width(level), fit), _field(fit)
        return center - half, center + half

    def expected_psnr(self, fit: Reconstruction, data_range: float) -> float:
        """Return the PSNR to expect where there is no sample, in dB."""
        return decibels(self.calibration(fit).mean_squared_error, data_range)

    def score(self, fit: Reconstruction, blocks: Any, folds: int) -> Score:
        """Return the errors at points that are hidden in blocks; see ``block_score`` for errors."""
        return block_score(self.samples, self.refit, blocks, folds)

    def draw(
        self, fit: Reconstruction, count: int, generator: torch.Generator | None
    ) -> Float[Tensor, "draws *grid channels"]:
        """Return the fit plus each of ``count`` deviations from it."""
        _checks.integer("count", count, 1)
        deviations = self.deviations(fit, count, as_generator(generator))
        return fit.render(alignment="sample") + deviations.render(alignment="sample")


def _field(fit: Reconstruction) -> Float[Tensor, "*grid channels"]:
    """Return a fit on its own lattice, without its drift."""
    lattice = fit.lattice or Lattice(fit.lengths)
    return fit.on_axes(lattice.render_axes(None, "sample", fit.footprint))


def _on_grid(nodes: Float[np.ndarray, "nodes channels"], fit: Reconstruction) -> Float[Tensor, "*grid channels"]:
    return torch.from_numpy(nodes).to(fit.offset).reshape(*fit.lengths, fit.channels)


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
    return Reconstruction(network, offset, fit.lengths, (count,), footprint=fit.footprint, lattice=fit.lattice)
