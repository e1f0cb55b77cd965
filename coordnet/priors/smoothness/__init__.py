"""The smoothness prior: a penalty on a power of the roughness."""

from coordnet.priors.smoothness.prior import Smoothness as Smoothness
