"""Stacking: the weighted sum of the fits under several priors, with weights that hidden samples give."""

from coordnet.priors.stack.prior import Stack as Stack
