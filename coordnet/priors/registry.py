"""The table of all priors, by name."""

from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior
from coordnet.priors.evolving import Evolving
from coordnet.priors.exemplar import Exemplar
from coordnet.priors.kriging import Autoregressive, Kriging
from coordnet.priors.least_squares import LeastSquares
from coordnet.priors.local import Local
from coordnet.priors.motion import Motion
from coordnet.priors.plates import ThinPlate
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.spline import Spline
from coordnet.priors.variation import TotalVariation

# Their candidates are tried in this order, cheap ones first.
WEIGHED = Spline, Adaptive, Kriging, Autoregressive, ThinPlate, Local, Evolving, Motion
PRIOR_KINDS = (*WEIGHED, Smoothness, LeastSquares, Exemplar, TotalVariation)
PRIORS: dict[str, type[Prior]] = {prior.name: prior for prior in PRIOR_KINDS}
