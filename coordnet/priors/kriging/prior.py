"""Kriging: Gaussian processes whose covariance maximizes the restricted likelihood of the samples."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.networks.fit_reports import FitReport, KrigingReport
from coordnet.plans.plan import Plan
from coordnet.priors.base import FEW_SAMPLES, Prior, Setting
from coordnet.priors.kriging.lattice_plans import LatticeKrigingPlan, WholeKrigingPlan
from coordnet.priors.kriging.plan import KrigingPlan
from coordnet.priors.kriging.scale_search import KrigingParameters
from coordnet.priors.plates.field import dimensions
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Kriging(KrigingParameters, Prior):
    """A Gaussian process with an unknown constant mean and Matérn's covariance, observed with white noise.

    Parameters that are not given maximize the restricted likelihood of the samples; of the middle ones, if there are
    more than ``MOST_DECIDING``, and of blocks of a whole lattice, of one that skips nodes, or of many points. No sample
    is hidden for them, so that kriging suits few samples. In a row that skips nodes the spectrum has peaks beside
    (``with_peaks``). Far beyond the samples the prediction returns to the mean of the nearest.

    Attributes
    ----------
    smoothness : float, optional
        The smoothness ν: 0.5, 1.5, 2.5, 3.5, or ``math.inf`` for the Gaussian covariance.
    scale : float, optional
        The length scale of the covariance, in nodes of the lattice; a tuple has one for each axis. The samples choose
        one for each where the signal varies more along one axis than along another (``searched``), or in a plane along
        one direction than across it.
    nugget : float, optional
        The variance of the noise relative to that of the process; with 0 samples are interpolated.
    angle : float
        The angle, in degrees, by which the directions of both scales of a plane are turned from its axes, from the
        first one towards the second. The samples choose it with the scales, if these are not given.

    Raises
    ------
    ValueError
        If a number is out of its range, or an angle is given without two scales.

    Notes
    -----
    Stein, "Interpolation of Spatial Data: Some Theory for Kriging" (1999), sections 1.5, 2.7 and 6.4. Chilès and
    Delfiner, "Geostatistics: Modeling Spatial Uncertainty" (2012), section 2.5.2, has scales of the axes (geometric
    anisotropy).
    """

    name: ClassVar[str] = "kriging"
    usage: ClassVar[str] = "[:smoothness=1.5,scale=10x40,nugget=0,angle=30]"
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        if isinstance(self.scale, tuple) and len(self.scale) != len(geometry.grid):
            raise _checks.wrong("scale", f"one number, or one for each of {len(geometry.grid)} axes", self.scale)
        kind, is_lattice = KrigingPlan, geometry.is_nodal and geometry.gaps is None
        if is_lattice and not geometry.is_strided:
            kind = WholeKrigingPlan
        elif is_lattice and self.nugget == 0:
            kind = LatticeKrigingPlan
        return kind(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Kriging, ...]":
        """Return kriging for points, for short rows and lattices with gaps, and for those that skip nodes.

        Samples that skip nodes are interpolated, since their noise is removed before (``Stack.lattice_noise``).
        """
        geometry = setting.geometry
        is_lattice = geometry.is_strided and geometry.is_nodal and dimensions(geometry.grid) <= 3
        has_enough = math.prod(geometry.shape) >= FEW_SAMPLES.start
        has_gaps = setting.is_short_row or setting.has_plain_gaps
        suits = (is_lattice and has_enough) or has_gaps or setting.has_plain_points
        suits = suits and setting.fourier and not setting.robust
        return (cls(nugget=0.0 if geometry.is_strided else None),) if suits else ()

    def with_noise(self, sigma: float) -> "Kriging":
        """Return the prior as it is: unless a nugget is given, the samples tell it with the covariance."""
        return self

    @property
    def keeps_samples(self) -> bool:
        """Whether samples are interpolated, since their nugget is 0."""
        return self.nugget == 0

    def settled(self, report: FitReport) -> "Kriging":
        """Return the prior with the parameters that a fit chose."""
        if not isinstance(report, KrigingReport):
            return self
        scale = tuple(report.scale) if isinstance(report.scale, list) else report.scale
        return Kriging(report.smoothness or math.inf, scale, report.nugget, report.angle)
