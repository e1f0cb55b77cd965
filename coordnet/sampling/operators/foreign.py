"""Linear maps of other libraries as operators: SciPy's, and objects with ``A`` and ``A_adjoint``, as deepinv's are."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.linalg import LinearOperator as SciPyLinearOperator
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape

Rows = tuple[Int[Tensor, " rows1"], Int[Tensor, " n"], Float[Tensor, " n"]]  # starts, columns, entries


def _rows(matrix: Any) -> Rows:
    """Return a SciPy matrix in compressed rows: row i has the entries from ``starts[i]`` up to ``starts[i + 1]``."""
    rows: Any = sparse.csr_array(matrix)
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indptr, rows.indices))
    return starts, columns, torch.from_numpy(rows.data)


def _times(matrix: Rows, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
    """Return the matrix times vectors."""
    starts, columns, entries = matrix
    nodes = x.reshape(-1, x.shape[-1]).T.contiguous()
    options: Any = {"per_sample_weights": entries.to(x.dtype), "mode": "sum", "include_last_offset": True}
    return embedding_bag(columns, nodes, starts, **options).T.reshape(*x.shape[:-1], -1)


class SparseMatrix(LinearOperator):
    """A real matrix of SciPy's sparse formats, from the flattened domain to the flattened codomain.

    Its transpose is kept too, so that both products run over rows. A ``ValueError`` is raised if the matrix is not of
    real numbers, or its shape is not that of the domain and the codomain.
    """

    is_portable = True

    def __init__(self, matrix: Any, domain: Shape, codomain: Shape) -> None:
        shape = (math.prod(codomain), math.prod(domain))
        if matrix.shape != shape:
            raise _checks.wrong("operator", f"{shape[0]} rows and {shape[1]} columns", f"shape {matrix.shape}")
        if matrix.dtype.kind not in "fiub":
            raise _checks.wrong("operator", "a matrix of real numbers", matrix.dtype)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        self.domain, self.codomain = tuple(domain), tuple(codomain)
        self._forward, self._backward = _rows(matrix), _rows(matrix.T)

    def _apply(self, x: Tensor) -> Tensor:
        return _times(self._forward, x.flatten(x.ndim - len(self.domain))).unflatten(-1, self.codomain)

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        return _times(self._backward, y.flatten(y.ndim - len(self.codomain))).unflatten(-1, self.domain)


ACCEPTED = "an operator of cn.operators, a SciPy LinearOperator or sparse matrix, or an object with A and A_adjoint"


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
        result: Any = self.operator.matmat(_columns(x, len(self.domain))).T
        if self.is_complex:
            result = np.stack([result.real, result.imag], -1)
        return _like(result, x, (*self.batch_of(x), *self.codomain))

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        """Return Aᵀ y, or the real part of Aᴴ y."""
        columns = _columns(torch.view_as_complex(y.contiguous()), 1) if self.is_complex else _columns(y, 1)
        result: Any = self.operator.rmatmat(columns).T
        return _like(result.real, y, (*self.T.batch_of(y), *self.domain))


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
        result = self.physics.A_adjoint(y.reshape(-1, 1, *self.codomain))
        return result.reshape(*self.T.batch_of(y), *self.domain)


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
        raise _checks.wrong("operator", ACCEPTED, type(operator).__name__)
    if grid is None:
        raise _checks.wrong("grid", f"the signal's lengths, which a {type(operator).__name__} does not say", None)
    if not is_scipy:
        return PhysicsOperator(operator, grid)
    if isinstance(operator, SciPyLinearOperator):
        return SciPyOperator(operator, grid)
    return SparseMatrix(operator, grid, (operator.shape[0],))


def _columns(x: Tensor, dims: int) -> np.ndarray:
    return x.detach().flatten(x.ndim - dims).reshape(-1, math.prod(x.shape[x.ndim - dims :])).cpu().numpy().T


def _like(result: np.ndarray, like: Tensor, shape: Shape) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(result)).to(like).reshape(shape)
