"""``LeastSquares`` where programs written before it became a prior like the others import it from."""

from coordnet.priors.least_squares import LeastSquares

__all__ = ["LeastSquares"]
