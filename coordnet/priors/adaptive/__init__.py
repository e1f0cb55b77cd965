"""The adaptive prior: the variance of every mode is learned from the samples."""

from coordnet.priors.adaptive.plan import Adaptive as Adaptive
