"""Priors: what is assumed of a signal beside its samples, each with its plan."""

__docformat__ = "numpy"
