"""Sparse matrices as linear operators."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape


class SparseRows:
    """The rows of a sparse matrix: row i has the entries from ``starts[i]`` up to ``starts[i + 1]``."""

    def __init__(self, starts: Int[Tensor, " rows1"], columns: Int[Tensor, " n"], entries: Float[Tensor, " n"]) -> None:
        self.starts, self.columns, self.entries = starts, columns, entries

    @classmethod
    def of(cls, matrix: Any) -> "SparseRows":
        """Return the rows of a SciPy matrix in compressed rows."""
        starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
        return cls(starts, columns, torch.from_numpy(matrix.data))

    def times(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        """Return the matrix times vectors."""
        nodes = x.reshape(-1, x.shape[-1]).T.contiguous()
        entries = self.entries.to(x.dtype)
        options: Any = {"per_sample_weights": entries, "mode": "sum", "include_last_offset": True}
        rows = embedding_bag(self.columns, nodes, self.starts, **options)
        return rows.T.reshape(*x.shape[:-1], -1)

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> "SparseRows":
        """Return the rows on another device, or for vectors of another dtype."""
        return SparseRows(self.starts.to(device), self.columns.to(device), self.entries.to(device=device, dtype=dtype))


class SparseMatrix(LinearOperator):
    """A real matrix of SciPy's sparse formats, from the flattened domain to the flattened codomain.

    Its transpose is kept too, so that both products run over rows. A ``ValueError`` is raised if the matrix is not of
    real numbers, or its shape is not that of the domain and the codomain.
    """

    def __init__(self, matrix: Any, domain: Shape, codomain: Shape) -> None:
        shape = (math.prod(codomain), math.prod(domain))
        if matrix.shape != shape:
            raise _checks.wrong("operator", f"{shape[0]} rows and {shape[1]} columns", f"shape {matrix.shape}")
        if matrix.dtype.kind not in "fiub":
            raise _checks.wrong("operator", "a matrix of real numbers", matrix.dtype)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        self.domain, self.codomain = tuple(domain), tuple(codomain)
        self._forward, self._backward = (SparseRows.of(sparse.csr_array(part)) for part in (matrix, matrix.T))

    def _apply(self, x: Tensor) -> Tensor:
        return self._forward.times(x.flatten(x.ndim - len(self.domain))).unflatten(-1, self.codomain)

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        return self._backward.times(y.flatten(y.ndim - len(self.codomain))).unflatten(-1, self.domain)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SparseMatrix":
        """Return the operator on another device, or for tensors of another dtype."""
        moved = object.__new__(SparseMatrix)
        moved.domain, moved.codomain = self.domain, self.codomain
        moved._forward, moved._backward = self._forward.to(device, dtype), self._backward.to(device, dtype)
        return moved
