"""Total variation as a prior: signals that are piecewise constant, from gaps or from measurements."""

from coordnet.priors.variation.prior import TotalVariation as TotalVariation
