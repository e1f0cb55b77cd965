"""Linear maps by which a lattice signal is measured; each is a ``LinearOperator`` of tensors (*batch, *grid)."""

from coordnet.sampling.operators.measuring import Blur, Derivatives, FourierSamples, Projections

__docformat__ = "numpy"
__all__ = ["Blur", "Derivatives", "FourierSamples", "Projections"]
