"""Linear maps by which a lattice signal is measured; each is a ``LinearOperator`` of tensors (*batch, *grid)."""

from coordnet.sampling.operators.blur import Blur
from coordnet.sampling.operators.derivatives import Derivatives
from coordnet.sampling.operators.fourier import FourierSamples
from coordnet.sampling.operators.projections import Projections

__docformat__ = "numpy"
__all__ = ["Blur", "Derivatives", "FourierSamples", "Projections"]
