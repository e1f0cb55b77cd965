"""The adaptive prior: the variance of every mode is learned from the samples."""

from coordnet.priors.adaptive.parameters import STARTS as STARTS
from coordnet.priors.adaptive.parameters import Adaptive as Adaptive
