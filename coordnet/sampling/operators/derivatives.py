"""Derivatives: the differences of neighbors along every axis."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape


class Derivatives(LinearOperator):
    """The differences f_(i+1) - f_i along each axis, (axes, *grid), for a signal that is to be found from its slopes.

    The last difference of an axis has no neighbor and is 0, in the operator as in its values. They leave the signal's
    mean open, which a fit sets to 0. A grid without axes raises a ``ValueError``.
    """

    is_portable = True

    def __init__(self, grid: Shape) -> None:
        grid = _checks.lengths("grid", grid)
        self.domain, self.codomain = grid, (len(grid), *grid)

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch_d_grid"]:
        dims = len(self.domain)
        parts = [torch.diff(x, dim=j, append=x.narrow(j, self.domain[j] - 1, 1)) for j in range(-dims, 0)]
        return torch.stack(parts, -dims - 1)

    def _apply_adjoint(self, y: Float[Tensor, "*batch_d_grid"]) -> Float[Tensor, "*batch_grid"]:
        """Return the negative divergence."""
        dims = len(self.domain)
        result = torch.zeros_like(y.select(-dims - 1, 0))
        for axis, part in zip(range(-dims, 0), y.unbind(-dims - 1), strict=True):
            inner = part.narrow(axis, 0, self.domain[axis] - 1)
            zero = torch.zeros_like(part.narrow(axis, 0, 1))
            result = result - torch.diff(torch.cat([zero, inner, zero], axis), dim=axis)
        return result
