"""The adaptive prior: when it suits samples, and its plans."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet.encodings import Encoding
from coordnet.networks.fit_reports import AdaptiveReport, FitReport
from coordnet.plans.plan import Plan
from coordnet.priors.adaptive.measured import MeasuredPlan
from coordnet.priors.adaptive.parameters import AdaptiveParameters
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.adaptive.shared import Spectrum
from coordnet.priors.base import Learned, Prior, Setting
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Adaptive(AdaptiveParameters, Prior):
    """A Gaussian prior whose variance of every mode is learned from the samples themselves.

    The fit starts from a power law (a ``Smoothness``) and alternates between solving and re-estimating the variances.
    Hidden samples decide which power law to start from and how many rounds to keep, possibly none. A ``ValueError`` is
    raised if ``rounds`` is negative, or ``hold_out`` is not in [0, 1).
    """

    name: ClassVar[str] = "adaptive"
    learns: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan for measurements, or for other samples."""
        return (AdaptivePlan if geometry.operator is None else MeasuredPlan)(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Adaptive, ...]":
        """Return it for samples with gaps, scattered ones, measurements, and cells of pixels on long axes."""
        geometry = setting.geometry
        is_open = geometry.operator is not None or not geometry.is_whole_lattice
        suits = is_open or (geometry.has_cells and setting.is_long)
        return (cls(),) if suits and not setting.robust else ()

    def settled(self, report: FitReport) -> "Adaptive":
        """Return the prior with the start and the rounds of a fit, where hidden samples chose them."""
        if not isinstance(report, AdaptiveReport) or not report.tried or report.start is None:
            return self
        law = report.start
        anisotropy = tuple(law.anisotropy) if isinstance(law.anisotropy, list) else law.anisotropy
        start = Smoothness(law.power, law.strength, anisotropy)
        return replace(self, starts=(start,), rounds=report.rounds, hold_out=0.0)

    def taught(self, fits: Sequence[Learned]) -> "Adaptive":
        """Return the prior with the mean of the spectra that fits learned; itself if none of them learned one."""
        found = [learned for _, learned in fits if "penalty" in learned]
        return replace(self, spectrum=Spectrum.mean(found)) if found else self

    def seeded(self, seed: int) -> "Adaptive":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, seed=seed)
