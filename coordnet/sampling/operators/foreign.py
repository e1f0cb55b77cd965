"""Linear maps of other libraries as operators: SciPy's, and objects with ``A`` and ``A_adjoint``, as deepinv's are."""

import math
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator as SciPyLinearOperator
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape
from coordnet.linalg.sparse import SparseMatrix

KINDS = "an operator of cn.operators, a SciPy LinearOperator or sparse matrix, or an object with A and A_adjoint"


class SciPyOperator(LinearOperator):
    """A SciPy ``LinearOperator`` of the flattened grid; a complex one gives pairs of a real and an imaginary part.

    It works in NumPy on the CPU, where tensors of other devices are copied to. A ``ValueError`` is raised if it has not
    as many columns as the grid has points.
    """

    is_portable = True

    def __init__(self, operator: SciPyLinearOperator, grid: Shape) -> None:
        rows, columns = operator.shape
        if columns != math.prod(grid):
            raise _checks.wrong("operator", f"{math.prod(grid)} columns for the grid {tuple(grid)}", f"{columns}")
        self.operator, self.domain = operator, tuple(grid)
        self.is_complex = np.issubdtype(operator.dtype, np.complexfloating)
        self.codomain = (rows, 2) if self.is_complex else (rows,)

    def _apply(self, x: Tensor) -> Tensor:
        found: Any = self.operator.matmat(_columns(x, len(self.domain))).T
        if self.is_complex:
            found = np.stack([found.real, found.imag], -1)
        return _like(found, x, (*self.batch_of(x), *self.codomain))

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        """Return Aᵀ y, or the real part of Aᴴ y."""
        columns = _columns(torch.view_as_complex(y.contiguous()), 1) if self.is_complex else _columns(y, 1)
        batch = y.shape[: y.ndim - len(self.codomain)]
        found: Any = self.operator.rmatmat(columns).T
        return _like(found.real, y, (*batch, *self.domain))


class PhysicsOperator(LinearOperator):
    """An object with ``A(x)`` and ``A_adjoint(y)`` of tensors (batch, 1, *grid): each channel is mapped independently.

    It must be on the device, and for the dtype, of the tensors that it is given, and is not moved.
    """

    is_portable = True

    def __init__(self, physics: Any, grid: Shape) -> None:
        self.physics, self.domain = physics, tuple(grid)
        with torch.no_grad():
            self.codomain = tuple(physics.A(torch.zeros(1, 1, *grid)).shape[2:])

    def _apply(self, x: Tensor) -> Tensor:
        return self.physics.A(x.reshape(-1, 1, *self.domain)).reshape(*self.batch_of(x), *self.codomain)

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.ndim - len(self.codomain)]
        return self.physics.A_adjoint(y.reshape(-1, 1, *self.codomain)).reshape(*batch, *self.domain)


def as_operator(operator: Any, grid: Shape | None) -> LinearOperator:
    """Return a linear map of any accepted kind as an operator of signals on a grid.

    A ``ValueError`` is raised if it is none, or the grid is missing or does not fit.
    """
    grid = None if grid is None else _checks.lengths("grid", grid)
    if hasattr(operator, "codomain") and hasattr(operator, "adjoint"):
        if grid is not None and grid != operator.domain:
            raise _checks.wrong("grid", f"that of the operator, {operator.domain}", grid)
        return operator
    is_scipy = sparse.issparse(operator) or isinstance(operator, SciPyLinearOperator)
    if not is_scipy and not (hasattr(operator, "A") and hasattr(operator, "A_adjoint")):
        raise _checks.wrong("operator", KINDS, type(operator).__name__)
    if grid is None:
        raise _checks.wrong("grid", f"the signal's lengths, which a {type(operator).__name__} does not say", None)
    if not is_scipy:
        return PhysicsOperator(operator, grid)
    if isinstance(operator, SciPyLinearOperator):
        return SciPyOperator(operator, grid)
    return SparseMatrix(operator, grid, (operator.shape[0],))


def _columns(x: Tensor, dims: int) -> np.ndarray:
    return x.detach().flatten(x.ndim - dims).reshape(-1, math.prod(x.shape[x.ndim - dims :])).cpu().numpy().T


def _like(found: np.ndarray, like: Tensor, shape: Shape) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(found)).to(like).reshape(shape)
