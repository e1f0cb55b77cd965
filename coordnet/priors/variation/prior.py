"""Total variation as a prior: signals that are piecewise constant, from gaps, from measurements or among noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.networks.fit_reports import FitReport, VariationReport
from coordnet.plans.plan import Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Learned, Prior, Sampled, Setting
from coordnet.priors.variation.plan import TotalVariationPlan, WeighedVariationPlan
from coordnet.priors.variation.whole import NoisyVariationPlan
from coordnet.sampling.samples import Geometry

SECONDS = 1e-4  # time on one core for each node and channel, measured on pictures of 64² nodes


@dataclass(frozen=True)
class TotalVariation(Prior):
    """The least Σ w (S f - y)² / 2 + strength Σ |∇f|, with the gradient's Euclidean norm at every node of a channel.

    Known entries of a lattice stay as they are: of all signals through them it is that of least total variation. It
    suits fields with steps between constant parts. A ``ValueError`` is raised if the strength is not positive, the
    share is not in [0, 1] or stands without a strength and a pilot, or noise is negative or stands beside a pilot.

    The fit of least total variation has neither a gradient nor a posterior: where gradients are followed, or draws are
    asked for, a ``ValueError`` is raised. With a pilot, gradients flow where the pilot has all the weight; draws are
    the pilot's, as much narrower as the hidden errors of the weighted mean are smaller.

    Attributes
    ----------
    strength : float, optional
        The weight of the total variation, in units of the values. If it is not given, measured values that are hidden
        choose among multiples of s²/b, which is that of the greatest posterior density for noise of variance s² and
        gradients with Laplace's density of mean magnitude b; the adaptive fit, which is the start, has both.
    pilot : Adaptive, optional
        The prior against whose fit to measurements this one is weighed; without it, the fit is that of least total
        variation alone.
    share : float, optional
        The weight against the pilot, if it is known from other samples with the strength; measured values that are
        hidden give it if not.
    noise : float
        The standard deviation of white noise on all values of a whole lattice, or on the known ones of a row, which do
        not stay then: the fit is the least |f - y|² / 2 + strength Σ |∇f|, and gaps of a row are crossed by lines. If
        the strength is not given, it has the least error that is expected by Stein's formula.

    Notes
    -----
    Rudin, Osher and Fatemi, "Nonlinear total variation based noise removal algorithms" (1992); Chambolle, "An algorithm
    for total variation minimization and applications" (2004), has the dual of the proximal map.
    """

    name: ClassVar[str] = "total-variation"
    usage: ClassVar[str] = " (constant parts with steps)"
    learns: ClassVar[bool] = True
    samples: ClassVar[tuple[Sampled, ...]] = ("gaps", "measurements")
    strength: float | None = None
    pilot: Adaptive | None = None
    share: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.strength is not None:
            _checks.positive("strength", self.strength)
        _checks.nonnegative("noise", self.noise)
        if self.noise and self.pilot is not None:
            raise _checks.wrong("noise", "none beside a pilot", self.noise)
        if self.share is not None:
            _checks.between("share", self.share, 0.0, 1.0)
            if self.strength is None or self.pilot is None:
                raise _checks.wrong("share", "none without a strength and a pilot", self.share)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan; a ``ValueError`` is raised unless samples are measurements or entries of a whole lattice.

        With noise they have to be all entries, or some of a row.
        """
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding, for total variation", type(encoding).__name__)
        if self.noise:
            return NoisyVariationPlan(encoding, geometry, self.noise, self.strength, **options)
        if self.pilot is None:
            return TotalVariationPlan(encoding, geometry, self.strength, Adaptive(), **options)
        return WeighedVariationPlan(encoding, geometry, self.strength, self.pilot, self.share, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[TotalVariation, ...]":
        """Return it for measurements, weighed against the adaptive prior, and for short rows with gaps and noise."""
        if setting.sampled == "measurements":
            return (cls(pilot=Adaptive()),) if setting.fourier else ()
        return (cls(noise=setting.nugget),) if setting.nugget and setting.is_short_row and setting.fourier else ()

    def seconds(self, setting: Setting) -> float:
        return SECONDS * setting.channels * math.prod(setting.geometry.grid)

    def with_noise(self, sigma: float) -> "TotalVariation":
        return replace(self, noise=sigma)

    def settled(self, report: FitReport) -> "TotalVariation":
        """Return the prior with the strength of a fit to noisy values."""
        return replace(self, strength=report.strength) if isinstance(report, VariationReport) else self

    def taught(self, fits: Sequence[Learned]) -> "TotalVariation":
        """Return the prior with the spectrum, the strength and the weight that the first fit found."""
        report: Any = fits[0][0]
        if self.pilot is None:
            return self
        numbers = {"strength": report.strength, "share": report.candidates[1].weight} if report.strength else {}
        return replace(self, pilot=self.pilot.taught(fits), **numbers)

    @property
    def text(self) -> str:
        return super().text if self.pilot is None else "auto"
