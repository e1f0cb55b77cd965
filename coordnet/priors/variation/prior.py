"""Total variation as a prior: signals that are piecewise constant, from gaps or from measurements."""

from dataclasses import dataclass
from typing import Any, ClassVar

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior
from coordnet.priors.variation.plan import TotalVariationPlan
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class TotalVariation(Prior):
    """The least Σ w (S f - y)² / 2 + strength Σ |∇f|, with the gradient's Euclidean norm at every node of a channel.

    Known entries of a lattice stay as they are: of all signals through them it is that of least total variation. It
    suits fields with steps between constant parts. A ``ValueError`` is raised if the strength is not positive.

    Attributes
    ----------
    strength : float, optional
        The weight of the total variation, in units of the values. If it is not given, measured values that are hidden
        choose among multiples of s²/b, which is that of the greatest posterior density for noise of variance s² and
        gradients with Laplace's density of mean magnitude b; the adaptive fit, which is the start, has both.

    Notes
    -----
    Rudin, Osher and Fatemi, "Nonlinear total variation based noise removal algorithms" (1992); Chambolle, "An algorithm
    for total variation minimization and applications" (2004), has the proximal map, which is scikit-image's.
    """

    name: ClassVar[str] = "total-variation"
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True
    strength: float | None = None

    def __post_init__(self) -> None:
        if self.strength is not None:
            _checks.positive("strength", self.strength)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan; a ``ValueError`` is raised unless samples are measurements or entries of a whole lattice."""
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding, for total variation", type(encoding).__name__)
        return TotalVariationPlan(encoding, geometry, self.strength, **options)
