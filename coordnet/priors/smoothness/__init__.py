"""The smoothness prior: a penalty on a power of the roughness."""

from coordnet.priors.smoothness.parameters import POWER as POWER
from coordnet.priors.smoothness.parameters import Smoothness as Smoothness
