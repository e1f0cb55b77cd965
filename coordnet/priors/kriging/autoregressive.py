"""Kriging of rows with gaps by the covariance of an autoregression, whose spectrum may have lines."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.spatial.distance import cdist
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.autoregression import Autoregression, autoregression
from coordnet.plans.neighborhoods import kriged
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior, Sampled, Setting
from coordnet.priors.kriging.plan import KrigingPlan, places
from coordnet.priors.plates.field import dimensions
from coordnet.sampling.forward import are_clustered
from coordnet.sampling.samples import Geometry

MOST_TERMS, SAMPLES_A_TERM = 400, 3  # largest order, and the least number of known samples for each term
LONGEST_ROW = 2**17  # nodes of a row that is tried unasked at most


@dataclass(frozen=True)
class Autoregressive(Prior):
    """A stationary autoregression, whose order and coefficients the known runs of a row tell.

    A gap is the best linear unbiased prediction from both sides. Tones, seasons and the modes of instruments go on
    through it for as long as they last; kriging by Matérn's covariance returns to the mean. Samples are interpolated.

    Raises
    ------
    ValueError
        If the samples are not some nodes of a row, the same for all channels.

    Notes
    -----
    Janssen, Veldhuis and Vries, "Adaptive interpolation of discrete-time signals that can be modeled as autoregressive
    processes" (1986).
    """

    name: ClassVar[str] = "autoregressive"
    usage: ClassVar[str] = " (rows with gaps)"
    learns: ClassVar[bool] = True
    axes: ClassVar[range] = range(1, 2)
    samples: ClassVar[tuple[Sampled, ...]] = ("gaps",)
    on_cpu: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        if dimensions(geometry.grid) > 1:
            raise _checks.wrong("prior", "cn.Kriging() for more axes than that of a row", "cn.Autoregressive")
        return AutoregressivePlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Autoregressive, ...]":
        """Return it for rows of up to ``LONGEST_ROW`` nodes with clustered gaps, the same for all channels."""
        geometry = setting.geometry
        is_row = dimensions(geometry.grid) == 1 and math.prod(geometry.grid) <= LONGEST_ROW
        has_gaps = geometry.is_nodal and not geometry.is_laid and geometry.is_binary and geometry.hides_alike
        if not (is_row and has_gaps and setting.fourier and not setting.robust and setting.has_one_mask):
            return ()
        return (cls(),) if are_clustered((geometry.full_weights == 0).movedim(-1, 0)) else ()


class AutoregressivePlan(KrigingPlan):
    """The best linear unbiased prediction of a row by an autoregression of its known runs."""

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Autoregression:
        known = (self.geometry.full_weights[..., 0] > 0).flatten().cpu()
        y = values.cpu().double().flatten(1).T
        y = y - y[known].mean(0)
        deviations = y[known].square().mean(0).sqrt()
        y = (y / torch.where(deviations > 0, deviations, 1.0)).numpy()
        return autoregression(y, min(MOST_TERMS, int(known.sum()) // SAMPLES_A_TERM), known.numpy())

    def _predicted(
        self, process: Autoregression, values: Float[Tensor, "channels *samples"]
    ) -> Float[Tensor, "channels *grid"]:
        table = process.covariances(math.prod(self.geometry.grid))
        known, x, weights = places(self.geometry)
        y = values.cpu().double().flatten(1)[:, known]
        return kriged(lambda a, b: table[np.rint(cdist(a, b)).astype(int)], 0 * weights, x, y, self.geometry.grid)

    def _report(self, process: Autoregression) -> FitReport:
        return FitReport(method=f"kriging, autoregression of order {len(process.first) - 1}", device="cpu")
