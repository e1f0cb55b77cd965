"""Closed-form fits by least squares on a whole lattice."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import ComplexEncoding
from coordnet.kronecker import KroneckerLeastSquares
from coordnet.plans import Plan, Solved
from coordnet.samples import Lattice


class LeastSquaresPlan(Plan):
    """Least squares (or ridge) of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Parameters
    ----------
    encoding, geometry, center
        See ``Plan``.
    ridge, rcond
        See ``KroneckerLeastSquares``.
    dtype, device
        Of the values to come.
    """

    def __init__(
        self,
        encoding: ComplexEncoding,
        geometry: Lattice,
        *,
        ridge: float = 0.0,
        rcond: float | None = None,
        center: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center)
        designs = encoding.designs(geometry.axes, device=device)
        self.system = KroneckerLeastSquares(designs, ridge=ridge, rcond=rcond, dtype=dtype)

    def solve(self, values: Float[Tensor, "signals channels *samples"]) -> Solved:
        """Return the weights of centred values, with ranks and degrees of freedom."""
        report = {
            "method": "least squares",
            "ranks": list(self.system.ranks),
            "degrees_of_freedom": self.system.degrees_of_freedom,
        }
        return Solved(self.system.weights(values), report)
