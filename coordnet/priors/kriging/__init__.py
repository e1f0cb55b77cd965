"""Kriging: Gaussian processes whose covariance maximizes the restricted likelihood of the samples."""

from coordnet.priors.kriging.autoregressive import Autoregressive as Autoregressive
from coordnet.priors.kriging.prior import Kriging as Kriging
