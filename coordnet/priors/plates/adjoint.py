"""The adjoint of the plate as a map of the samples' values, by which gradients flow to them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from scipy.interpolate import BSpline
from scipy.sparse.linalg import splu
from torch import Tensor

from coordnet.priors.plates.coarse import onto_coarse
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.plate import can_coarsen, coarsest, energy_weight, is_spline, spline_through
from coordnet.priors.plates.solve import SingularPlate, solve


class FollowedPlate(torch.autograd.Function):
    """A plate that was found for values, (columns, *samples), with a function that returns its adjoint's product."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, plate: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the plate."""
        ctx.adjoint = adjoint
        return plate.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return the adjoint's product with the gradient."""
        return ctx.adjoint(gradients[0]), None, None


def adjoint(
    field: Field, order: int | float, cutoff: float, corner: float, g: Float[np.ndarray, "size columns"]
) -> np.ndarray:
    """Return Tᵀ g, (n, columns), for the linear map T of the samples' values to ``plate``'s lattice signal.

    The systems are symmetric, so that it takes one more solve of the same system.
    """
    if is_spline(field, order, cutoff, corner):
        return _spline_adjoint(field, int(order), g)
    k = field.energy(order, corner)
    if field.on_nodes and cutoff == math.inf:
        unknown = np.ones(len(g), dtype=bool)
        unknown[field.nodes] = False
        rows = k[np.flatnonzero(unknown)]
        x = solve(rows[:, np.flatnonzero(unknown)], g[unknown], field.dims).x
        return g[field.nodes] - (rows.T @ x)[field.nodes]
    weighted = sparse.csr_array(field.operator.T * field.weights)
    strength = energy_weight(order, cutoff)
    try:
        return weighted.T @ solve(weighted @ field.operator + strength * k, g, field.dims).x
    except SingularPlate:
        if not can_coarsen(field, cutoff):
            raise
    coarse, cutoff, corner = coarsest(field, order, cutoff, corner)
    return adjoint(coarse, order, cutoff, corner, onto_coarse(field, coarse, g))


def _spline_adjoint(field: Field, order: int, g: np.ndarray) -> np.ndarray:
    """Return that of the natural spline, whose coefficients c solve A c = (0, y, 0): at the nodes it is E c."""
    spline, at = spline_through(field, order)
    t, degree, x = spline.t, spline.k, field.nodes[at].astype(np.float64)
    nodes = np.arange(math.prod(field.lattice), dtype=np.float64)
    inside = np.clip(nodes, x[0], x[-1])
    onto = BSpline.design_matrix(inside, t, degree).tocsr()
    left, right = ([_derivative(spline, end, p) for p in range(1, 2 * order - 1)] for end in (x[0], x[-1]))
    for derivatives, beyond in ((left, np.minimum(nodes - x[0], 0)), (right, np.maximum(nodes - x[-1], 0))):
        for p in range(1, order):
            onto = onto + sparse.csr_array((beyond**p / math.factorial(p))[:, None]) @ derivatives[p - 1]
    values = BSpline.design_matrix(x, t, degree)
    system = sparse.vstack([*left[order - 1 :], values, *right[order - 1 :]]).tocsc()
    at_knots = splu(sparse.csc_array(system.T)).solve(np.asarray(onto.T @ g))[order - 1 : order - 1 + len(x)]
    result = np.empty_like(at_knots)
    result[at] = at_knots
    return result


def _derivative(spline: BSpline, end: float, power: int) -> Any:
    """Return the derivatives of all basis functions at an end of a spline, of which the outermost are not zero."""
    count, degree = len(spline.t) - spline.k - 1, spline.k
    columns = np.arange(degree + 1) + (0 if end == spline.t[0] else count - degree - 1)
    some = np.zeros((count, degree + 1))
    some[columns, np.arange(degree + 1)] = 1.0
    row = BSpline(spline.t, some, degree)(end, power)
    return sparse.csr_array((row, (np.zeros(degree + 1, dtype=int), columns)), shape=(1, count))
