"""The local prior: a mixture of Gaussians over the small patches of a signal."""

from coordnet.priors.local.prior import Local as Local
