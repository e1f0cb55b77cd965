"""Kriging of rows with gaps by the covariance of an autoregression, whose spectrum may have lines."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.operators import followed
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.autoregression import GapPrediction, autoregression, modified_covariance
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior, Sampled, Setting
from coordnet.priors.kriging.plan import KrigingPlan
from coordnet.priors.plates.field import dimensions
from coordnet.sampling.gap_copies import are_clustered
from coordnet.sampling.samples import Geometry

MOST_TERMS, SAMPLES_A_TERM = 1000, 3  # largest order, and the least number of known samples for each term
LONGEST_ROW = 2**16  # nodes of a row that is tried unasked at most
FREQUENCIES = 2**13  # points of the circle on which the least power of a spectrum is sought

# The coefficients, and the variance of the noise on each channel, relative to that of its innovations.
Numbers = tuple[Float[np.ndarray, " order_and_one"], Float[np.ndarray, " channels"]]


@dataclass(frozen=True)
class Autoregressive(Prior):
    """A stationary autoregression, whose order and coefficients the known runs of a row tell (``modified_covariance``).

    A gap is the best linear unbiased prediction from both sides. Tones, seasons and the modes of instruments go on
    through it for as long as they last; kriging by Matérn's covariance returns to the mean.

    Attributes
    ----------
    noise : float
        The standard deviation of the noise on samples, which is removed as far as no frequency is amplified by that;
        with 0 samples are interpolated.

    Raises
    ------
    ValueError
        If the samples are not nodes of a row, the same for all channels, or the noise is negative.

    Notes
    -----
    Janssen, Veldhuis and Vries, "Adaptive interpolation of discrete-time signals that can be modeled as autoregressive
    processes" (1986).
    """

    name: ClassVar[str] = "autoregressive"
    usage: ClassVar[str] = "[:noise=0.05] (rows with gaps)"
    learns: ClassVar[bool] = True
    axes: ClassVar[range] = range(1, 2)
    samples: ClassVar[tuple[Sampled, ...]] = ("gaps",)
    on_cpu: ClassVar[bool] = True
    noise: float = 0.0

    def __post_init__(self) -> None:
        _checks.nonnegative("noise", self.noise)

    def with_noise(self, sigma: float) -> "Autoregressive":
        """Return the prior for noise of a standard deviation."""
        return replace(self, noise=sigma)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        is_row = dimensions(geometry.grid) == 1 and geometry.shape == geometry.grid
        if not is_row or not geometry.is_nodal:
            raise _checks.wrong("prior", "cn.Kriging() for other samples than nodes of a row", "cn.Autoregressive")
        return AutoregressivePlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Autoregressive, ...]":
        """Return it for rows of up to ``LONGEST_ROW`` nodes with clustered gaps, the same for all channels."""
        geometry = setting.geometry
        is_row = dimensions(geometry.grid) == 1 and math.prod(geometry.grid) <= LONGEST_ROW
        has_gaps = geometry.is_nodal and not geometry.is_laid and geometry.is_binary and geometry.hides_alike
        if not (is_row and has_gaps and setting.fourier and not setting.robust and setting.has_one_mask):
            return ()
        return (cls(setting.nugget),) if are_clustered((geometry.full_weights == 0).movedim(-1, 0)) else ()


class AutoregressivePlan(KrigingPlan):
    """The best linear unbiased prediction of a row by an autoregression of its known runs."""

    stands_apart = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Autoregressive, **options: Any) -> None:
        super().__init__(encoding, geometry, prior, **options)
        self.known = (geometry.full_weights[..., 0] > 0).flatten().cpu().numpy()

    def _most_likely(self, values: Float[Tensor, "channels *samples"]) -> Numbers:
        y = values.cpu().double().flatten(1).T.numpy()
        y = y - y[self.known].mean(0)
        deviations = np.sqrt(np.square(y[self.known]).mean(0))
        deviations = np.where(deviations > 0, deviations, 1.0)
        u = y / deviations
        burg = autoregression(u, min(MOST_TERMS, int(self.known.sum()) // SAMPLES_A_TERM), self.known)
        a, left = modified_covariance(u, burg, self.known)
        most = 2 / np.square(np.abs(np.fft.rfft(a, FREQUENCIES))).max()
        return a, np.minimum(np.square(self.prior.noise / deviations) / left, most)

    def _predicted(
        self, numbers: Numbers, values: Float[Tensor, "channels *samples"]
    ) -> Float[Tensor, "channels *grid"]:
        rows = zip(numbers[1], values.cpu().double().flatten(1), strict=True)
        predicted = [followed(GapPrediction(numbers[0], self.known, nugget), row) for nugget, row in rows]
        return torch.stack(predicted).reshape(values.shape)

    def _report(self, numbers: Numbers) -> FitReport:
        return FitReport(method=f"kriging, autoregression of order {len(numbers[0]) - 1}", device="cpu")
