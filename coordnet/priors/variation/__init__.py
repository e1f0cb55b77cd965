"""Total variation as a prior: signals that are piecewise constant, from gaps, from measurements or among noise."""

from coordnet.priors.variation.prior import TotalVariation as TotalVariation
