"""Linear maps of other libraries as operators: SciPy's, and objects with ``A`` and ``A_adjoint``, as deepinv's are."""

import math
from collections.abc import Callable
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

SAME_MAP = 1e-4  # largest difference of channels that are mapped alike, relative to the largest value

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
    """An object with ``A(x)`` and ``A_adjoint(y)`` of tensors (batch, channels, *grid) that maps all channels alike.

    It has as many channels as its ``img_size`` says, (channels, *grid), or else one. Signals take the places of the
    channels, one after the other. The object must be on the device of the tensors that it is given, and is not moved. A
    ``ValueError`` is raised if it takes no such tensors, or mixes channels or maps them in different ways.
    """

    is_portable = True

    def __init__(self, physics: Any, grid: Shape) -> None:
        self.domain = tuple(grid)
        self.physics: Any = physics
        size = said_size(physics)
        self.channels = size[0] if size is not None and size[1:] == self.domain else 1
        generator = torch.Generator().manual_seed(0)
        factors = 1 + torch.rand(self.channels, *(1 for _ in grid), generator=generator)
        made = self._measured((factors * torch.rand(grid, generator=generator)).unsqueeze(0))
        self.results = tuple(made.shape[1:])
        by_channel = made.ndim > 2 and made.shape[1] == self.channels
        self.codomain = self.results[1:] if by_channel else self.results
        if self.channels > 1 and not (by_channel and _are_multiples(made[0], factors.flatten())):
            raise _checks.wrong("operator", "one that maps all channels alike", type(physics).__name__)

    def _apply(self, x: Tensor) -> Tensor:
        return self._by_channel(self.physics.A, x, self.domain, (self.channels, *self.domain), self.codomain)

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        return self._by_channel(self.physics.A_adjoint, y, self.codomain, self.results, self.domain)

    def _by_channel(self, f: Callable[[Tensor], Tensor], x: Tensor, each: Shape, given: Shape, made: Shape) -> Tensor:
        """Return what a map of batches, each element of a shape, makes of signals (*batch, *each)."""
        signals = x.reshape(-1, *each)
        missing = -len(signals) % self.channels
        batch = torch.cat([signals, signals.new_zeros(missing, *each)]) if missing else signals
        result = f(batch.reshape(-1, *given)).reshape(-1, *made)
        return result[: len(signals)].reshape(*x.shape[: x.ndim - len(each)], *made)

    @torch.no_grad()
    def _measured(self, x: Float[Tensor, "1 channels *grid"]) -> Tensor:
        """Return A x, on the device and in the dtype that the object has."""
        tensors = self.physics.buffers() if hasattr(self.physics, "buffers") else ()
        like = next((tensor for tensor in tensors if tensor.is_floating_point()), x)
        try:
            return self.physics.A(x.to(like))
        except Exception as error:  # deepinv's physics raise errors of many kinds
            expected, text = f"one that takes tensors {tuple(x.shape)}", str(error).partition("\n")[0]
            raise _checks.wrong("operator", expected, f"{type(error).__name__} ({text})") from error


def said_size(physics: Any) -> Shape | None:
    """Return (channels, *grid) as deepinv's physics say it, if they do."""
    size = getattr(physics, "img_size", None) or getattr(physics, "imsize", None)
    return None if size is None else tuple(size)


def _are_multiples(measured: Float[Tensor, "channels *values"], factors: Float[Tensor, " channels"]) -> bool:
    """Return whether the channels are multiples of one another by these factors.

    Where random factors of a random signal were measured, they surely are not if the map mixes channels.
    """
    each = measured.movedim(0, -1) / factors.to(measured)
    bound = SAME_MAP * float(each.abs().max())
    return float((each - each[..., :1]).abs().max()) <= bound


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
