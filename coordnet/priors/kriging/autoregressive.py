"""Kriging of rows with gaps by the covariance of an autoregression, whose spectrum may have lines."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.operators import followed
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.autoregression import GapPrediction, autoregression
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior, Sampled, Setting
from coordnet.priors.kriging.plan import KrigingPlan
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
        is_row = dimensions(geometry.grid) == 1 and geometry.shape == geometry.grid
        if not is_row or not geometry.is_nodal or geometry.density == 1:
            raise _checks.wrong("prior", "cn.Kriging() for other samples than a row with gaps", "cn.Autoregressive")
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

    stands_apart = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Autoregressive, **options: Any) -> None:
        super().__init__(encoding, geometry, prior, **options)
        self.known = (geometry.full_weights[..., 0] > 0).flatten().cpu().numpy()

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Float[np.ndarray, " order_and_one"]:
        y = values.cpu().double().flatten(1).T.numpy()
        y = y - y[self.known].mean(0)
        deviations = np.sqrt(np.square(y[self.known]).mean(0))
        y /= np.where(deviations > 0, deviations, 1.0)
        return autoregression(y, min(MOST_TERMS, int(self.known.sum()) // SAMPLES_A_TERM), self.known)

    def _predicted(
        self, a: Float[np.ndarray, " order_and_one"], values: Float[Tensor, "channels *samples"]
    ) -> Float[Tensor, "channels *grid"]:
        return followed(GapPrediction(a, self.known), values.cpu().double().flatten(1)).reshape(values.shape)

    def _report(self, a: Float[np.ndarray, " order_and_one"]) -> FitReport:
        return FitReport(method=f"kriging, autoregression of order {len(a) - 1}", device="cpu")
