"""The table of all priors, by name."""

from typing import Any

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior
from coordnet.priors.evolving import Evolving
from coordnet.priors.least_squares import LeastSquares
from coordnet.priors.local import Local
from coordnet.priors.plates import ThinPlate
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.spline import Spline

# Their candidates are tried in this order, cheap ones first.
PRIOR_KINDS = (Spline, Adaptive, ThinPlate, Local, Evolving, Smoothness, LeastSquares)
PRIORS: dict[str, type[Prior]] = {prior.name: prior for prior in PRIOR_KINDS}
REQUIRED = "auto, or a prior such as cn.Adaptive()"  # the words for a missing prior


def as_prior(prior: Any, expected: str = "'auto', None, or a prior such as cn.Smoothness()") -> Prior:
    """Return a prior as it is; a ``ValueError`` that says what is ``expected`` is raised for anything else."""
    if not isinstance(prior, Prior):
        raise _checks.wrong("prior", expected, repr(prior))
    return prior
