"""Kriging of lattices without gaps: of whole ones with noise, and of those that skip nodes without."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from coordnet.plans.kriged_lattices import (
    DECIDING_SIDES,
    MOST_BLOCKS,
    PREDICTING_SIDES,
    Parts,
    meets_samples,
    predicted_nodes,
    relative_variance,
)
from coordnet.plans.matern import SMOOTHNESSES, Covariance, pivoted, restricted_likelihoods
from coordnet.plans.row_spectra import with_peaks
from coordnet.priors.kriging.plan import KrigingPlan
from coordnet.priors.kriging.scale_search import Block, KrigingParameters, Likely, left_out_error, likeliest, searched
from coordnet.priors.plates.field import dimensions
from coordnet.sampling.axes import ByAxes

# The share of the weight that kriging has among the fits to a lattice, by the largest variance of a node given the
# samples around it, relative to the process's. Rough processes, of the least smoothness, have none. Both shares were
# settled on 128 fields and crops. The first applies to 33 of them: with a share of 1 they gain as much in the mean, but
# lose three times as much at worst. The second applies to 26 fields and to one of sixteen whole photographs: twice the
# share gains 0.15 in place of 0.09 dB on the fields, and loses 0.11 in place of 0.05 dB on the photograph.
KRIGED_SHARES = {2e-3: 0.8, 0.1: 0.15}
# Samples along each axis of a whole lattice: of the blocks whose likelihood decides on the covariance and the noise,
# and of the parts from which nodes are predicted. With blocks of 10 in the plane smooth fields among noise lose up to 3
# dB; with blocks of 20 none gains, at four times the time. With parts of 24 they lose up to 0.4 dB.
NOISY_BLOCKS, NOISY_PARTS = ByAxes({1: 200, 2: 14, 3: 6}), ByAxes({1: 1000, 2: 32, 3: 10})
FEWEST_ALONG = 6  # least number of samples along each axis for a share: fewer hardly determine a covariance


class PartsPlan(KrigingPlan):
    """The best linear unbiased prediction of each node from the samples of the part of a lattice around it.

    The parameters maximize the likelihood of blocks of samples, which have one variance. The time grows with the number
    of samples.
    """

    method = "kriging, by parts"
    deciding: ClassVar[Mapping[int, int]]  # samples along each axis of a block, by the number of axes
    predicting: ClassVar[Mapping[int, int]]  # samples along each axis of a part

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> KrigingParameters:
        parts, y = self._blocks(values)
        block = parts.places, np.ones(len(y)), y
        distance = math.prod(parts.steps) ** (1 / dimensions(self.geometry.grid))
        tried, error = partial(self._likeliest, block), partial(left_out_error, [block])
        return searched(self.prior, distance, self.geometry.grid, tried, error)

    def _likeliest(self, block: Block, tried: Iterable[KrigingParameters]) -> Likely:
        """Return the likeliest of some parameters for a block of all parts that decide."""
        return likeliest([block], self.prior.nuggets, tried)

    def _predicted(
        self, prior: KrigingParameters, values: Float[Tensor, "channels *samples"]
    ) -> Float[Tensor, "channels *grid"]:
        y, covariance = values.cpu().double().flatten(1), self._covariance(prior, values)
        return predicted_nodes(
            covariance, self._parts(self.predicting, overlap=2), y, self.geometry.grid, prior.nugget or 0.0
        )

    def _covariance(self, prior: KrigingParameters, values: Float[Tensor, "channels *samples"]) -> Covariance:
        return prior.covariance

    def _blocks(
        self, values: Float[Tensor, "channels *samples"]
    ) -> tuple[Parts, Float[np.ndarray, "n blocks channels"]]:
        """Return the blocks of samples that tell the parameters, and their values."""
        parts = self._parts(self.deciding)
        y = values.detach().cpu().double().flatten(1).numpy()[:, parts.samples(MOST_BLOCKS)]
        return parts, y.transpose(2, 1, 0)

    def _parts(self, sides: Mapping[int, int], overlap: int = 1) -> Parts:
        geometry: Any = self.geometry
        side = sides[dimensions(geometry.grid)]
        return Parts(geometry.shape, geometry.steps, geometry.offsets, side, side // overlap)


class WholeKrigingPlan(PartsPlan):
    """The prediction of all nodes of a lattice from noisy samples at them.

    With one variance for each block, rows whose nature changes lose up to 10 dB.
    """

    deciding, predicting = NOISY_BLOCKS, NOISY_PARTS


class LatticeKrigingPlan(PartsPlan):
    """The prediction of the nodes between those of a lattice that skips nodes, from samples without noise."""

    deciding, predicting = DECIDING_SIDES, PREDICTING_SIDES

    def share(self, values: Float[Tensor, "1 channels *samples"]) -> float:
        """Return 1 for rows, and what ``KRIGED_SHARES`` says of lattices by how much nodes vary, given the samples.

        In 320 rows a share of 1 gains 0.4 dB in the mean, if gains and losses are cut at 10 dB; those of photographs
        lose 0.02 dB. Photographs are mostly rough, or vary much between samples. Scales of axes count by their mean:
        across the longest ones nodes vary much, and other fits know less.
        """
        shape = [n for n, nodes in zip(self.geometry.shape, self.geometry.grid, strict=True) if nodes > 1]
        if len(shape) < 2 or min(shape) < FEWEST_ALONG:
            return float(len(shape) < 2)
        numbers = self._most_likely(values[0].detach())
        if numbers.smoothness == SMOOTHNESSES[0]:
            return 0.0
        alike = replace(numbers, scale=numbers.mean_scale(self.geometry.grid), angle=0.0)
        variance = relative_variance(alike.covariance, self._parts(self.deciding))
        return next((share for most, share in KRIGED_SHARES.items() if variance <= most), 0.0)

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether the lattice is a plane; of rows and volumes the own half is not fitted.

        The half of a volume has few samples: with its errors one of nine volumes loses 2.2 dB, and none gains.
        """
        return dimensions(self.geometry.grid) == 2

    def _likeliest(self, block: Block, tried: Iterable[KrigingParameters]) -> Likely:
        """Return the likeliest covariance that meets the samples, or the likeliest.

        The Gaussian covariance is tried in rows alone. In planes and volumes it is too sure of values between samples
        if the axes differ or the signal has a step: of 57 volumes with every second node, five were 5 to 11 dB below
        splines with it, and two are without, by up to 5 dB; of 108 planes some gain up to 15 dB. Analytic fields lose
        up to 31 dB, and stay 12 dB above splines or more.
        """
        x, _, y = block
        if dimensions(self.geometry.grid) > 1 and self.prior.smoothness is None:
            tried = [prior for prior in tried if prior.smoothness != math.inf]
        kriged = ((restricted_likelihoods(pivoted(prior.covariance(x, x)), y, np.zeros(1)), prior) for prior in tried)
        found = [(float(likelihoods.sum()), prior) for (likelihoods, _), prior in kriged]
        found.sort(key=lambda pair: pair[0], reverse=True)
        return next((pair for pair in found if meets_samples(pair[1].covariance(x, x), y)), found[0])

    def _covariance(self, prior: KrigingParameters, values: Float[Tensor, "channels *samples"]) -> Covariance:
        if self.prior.searches and dimensions(self.geometry.grid) == 1:
            return with_peaks(prior.covariance, *self._blocks(values))
        return prior.covariance
