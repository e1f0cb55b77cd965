"""Kronecker products of one matrix per axis: mode products, and least squares through one SVD per axis.

Tensors here are channels first, ``(*batch, *axes)``: matrices act on the last d dimensions, all others are batch.
A Kronecker product is never formed; ``(A₁ ⊗ … ⊗ A_d) vec(T)`` is ``mode_product(T, [A₁, …, A_d])``.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.banded import BandedMatrix, Numbers
from coordnet.linalg.machine import scratch, without_tails
from coordnet.linalg.operators import Composition, Device, Diagonal, LinearOperator

Matrix = Tensor | BandedMatrix  # the matrix of one axis
T = TypeVar("T")


class RankWarning(_checks.CoordnetWarning):
    """The matrix of an axis has a numerical rank below the smaller of its dimensions."""


def mode_product(tensor: Numbers, matrices: Sequence[Matrix], out: Numbers | None = None) -> Numbers:
    """T ×₁ A₁ ×₂ A₂ … ×_d A_d over the last d axes: the Kronecker product of the matrices times ``vec(T)``.

    The tensor is (*batch, K₁, …, K_d), the matrices are (N_j, K_j), dense or banded, and the result is
    (*batch, N₁, …, N_d). With ``out`` it is written there, without autograd, with intermediates in scratch memory. A
    ``ValueError`` is raised if the length of an axis is not the number of columns of its matrix.
    """
    dims = len(matrices)
    lengths = tuple(tensor.shape[tensor.ndim - dims :])
    if lengths != tuple(a.shape[1] for a in matrices):
        raise _checks.wrong("tensor", f"last axes of {tuple(a.shape[1] for a in matrices)}", lengths)
    for j, a in reversed(list(enumerate(matrices))):
        axis, result = tensor.ndim - dims + j, out
        if out is not None and j > 0:
            shape = (*tensor.shape[:axis], a.shape[0], *tensor.shape[axis + 1 :])
            result = scratch(tensor, shape, tensor, out)
        tensor = product_along(tensor, a, axis, result)
    return tensor


def product_along(tensor: Numbers, matrix: Matrix, axis: int, out: Numbers | None = None) -> Numbers:
    """T ×_j A for a tensor (…, K, …) along one axis; the result is (…, N, …), in the contiguous ``out`` if given."""
    if isinstance(matrix, BandedMatrix):
        return matrix.along(tensor, axis, out)
    before, after = tensor.shape[:axis], tensor.shape[axis + 1 :]
    rows, columns = matrix.shape
    shape = (*before, rows, *after)
    if not after:
        flat = None if out is None else out.view(-1, rows)
        return torch.mm(tensor.reshape(-1, columns), matrix.T, out=flat).reshape(shape)
    flat = None if out is None else out.view(-1, rows, math.prod(after))
    return torch.matmul(matrix, tensor.reshape(-1, columns, math.prod(after)), out=flat).reshape(shape)


def outer_product(vectors: Sequence[Float[Tensor, " _"]]) -> Numbers:
    """σ₁ ⊗ … ⊗ σ_d as a tensor of shape (K₁, …, K_d)."""
    return reduce(lambda a, b: a.unsqueeze(-1) * b, vectors)


def outer_sum(vectors: Sequence[Float[Tensor, " _"]]) -> Numbers:
    """μ₁ ⊕ … ⊕ μ_d as a tensor of shape (K₁, …, K_d)."""
    return reduce(lambda a, b: a.unsqueeze(-1) + b, vectors)


def for_each_distinct(items: Sequence[T], make: Callable[[T], "T | object"], same: Callable) -> list:
    """Return ``make`` of every item, computed once for items that are the same."""
    results: list = []
    for j, item in enumerate(items):
        first = next((i for i in range(j) if same(items[i], item)), None)
        results.append(make(item) if first is None else results[first])
    return results


def _same_object(a: object, b: object) -> bool:
    return a is b


class Kronecker(LinearOperator):
    """A₁ ⊗ … ⊗ A_d for d matrices (N_j, K_j), one per axis, applied as mode products."""

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self.matrices = list(matrices)
        self.domain = tuple(a.shape[1] for a in matrices)
        self.codomain = tuple(a.shape[0] for a in matrices)

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return mode_product(x, self.matrices, out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return mode_product(y, self._transposed, out)

    @cached_property
    def _transposed(self) -> list[Matrix]:
        return for_each_distinct(
            self.matrices, lambda a: a.T.contiguous() if isinstance(a, Tensor) else a.mT, _same_object
        )

    def fused(self, other: LinearOperator) -> "Kronecker | None":
        """Return (A₁ ⊗ A₂)(B₁ ⊗ B₂) = A₁B₁ ⊗ A₂B₂; equal axes are computed once, and two bands give a band."""
        if not isinstance(other, Kronecker):
            return None

        def product(pair: tuple[Matrix, Matrix]) -> Matrix:
            after, before = pair
            if isinstance(after, Tensor) != isinstance(before, Tensor):
                after, before = (a if isinstance(a, Tensor) else a.dense() for a in pair)
            return after @ before  # type: ignore[operator,return-value]

        pairs = list(zip(self.matrices, other.matrices, strict=True))
        return Kronecker(for_each_distinct(pairs, product, lambda p, q: p[0] is q[0] and p[1] is q[1]))

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> "Kronecker":
        """Return the operator on another device, or for tensors of another dtype, with matrices without tails."""

        def sent(a: Matrix) -> Matrix:
            if dtype is not None and isinstance(a, Tensor):
                a = without_tails(a, float(a.detach().abs().max()))
            return a.to(device=device, dtype=dtype)

        return Kronecker(for_each_distinct(self.matrices, sent, _same_object))


@dataclass(frozen=True)
class AxisFactor:
    """The thin SVD A = U diag(s) Vᵀ of one axis, truncated to its numerical rank r; s is in descending order."""

    u: Float[Tensor, "n r"]
    s: Float[Tensor, " r"]
    v: Float[Tensor, "k r"]

    @property
    def rank(self) -> int:
        """The numerical rank r."""
        return self.s.numel()

    @property
    def pseudo_inverse(self) -> Float[Tensor, "k n"]:
        """A⁺ = V diag(1/s) Uᵀ."""
        return (self.v / self.s) @ self.u.mH


def default_rcond(shape: Sequence[int], dtype: torch.dtype) -> float:
    """Return the relative cutoff below which singular values are noise: ε max(N, K), as in LAPACK's drivers."""
    return torch.finfo(dtype).eps * max(shape)


def factorize(matrix: Float[Tensor, "n k"], rcond: float) -> AxisFactor:
    """Return the thin SVD of one axis in float64, without the singular values below ``rcond`` times the largest.

    A ``ValueError`` is raised if the matrix has a value that is not finite, or is zero.
    """
    matrix = matrix.detach().double()
    if not bool(torch.isfinite(matrix).all()):
        raise _checks.wrong("matrix", "finite values", "NaN or infinity")
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    if float(s[0]) == 0:
        raise _checks.wrong("matrix", "a column that is not zero", "zeros alone: no feature reaches a sample")
    rank = int((s > rcond * s[0]).sum())
    return AxisFactor(u[:, :rank], s[:rank], vh[:rank].mH)


class KroneckerLeastSquares:
    """Minimize ‖(A₁ ⊗ … ⊗ A_d) w - y‖² + λ ‖w‖² exactly, for any number of right-hand sides.

    With A_j = U_j diag(s_j) V_jᵀ and σ = s₁ ⊗ … ⊗ s_d the solution is
    w = (V₁ ⊗ … ⊗ V_d) diag(σ / (σ² + λ)) (U₁ ⊗ … ⊗ U_d)ᵀ y, the minimum-norm one for λ = 0. Singular values of the
    Kronecker matrix below ``rcond`` times its largest count as zero. The default is ε max(N_j, K_j), with the ε of
    ``dtype``, the right-hand sides' dtype, which is by default the matrices' own.

    The ``inverse`` maps right-hand sides (*batch, N₁, …, N_d) to coefficients (*batch, K₁, …, K_d), in float64. The
    ``ranks`` are the numerical ranks of the axes, and ``degrees_of_freedom`` is the trace of the map from values to
    fitted values. A ``RankWarning`` is given if an axis has a lower rank than its smaller dimension. A ``ValueError``
    is raised if a matrix is not finite or is zero, or ``ridge`` or ``rcond`` is negative.

    Source: Golub and Van Loan, Matrix Computations, 4th ed., section 12.3.
    """

    inverse: LinearOperator

    def __init__(
        self,
        matrices: Sequence[Float[Tensor, "_ _"]],
        *,
        ridge: float = 0.0,
        rcond: float | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        ridge = _checks.nonnegative("ridge", ridge)
        size = max(max(a.shape) for a in matrices)
        default = default_rcond((size,), dtype or matrices[0].dtype)
        rcond = default if rcond is None else _checks.nonnegative("rcond", rcond)
        factors: list[AxisFactor] = for_each_distinct(matrices, lambda a: factorize(a, rcond), torch.equal)
        self.ranks = tuple(f.rank for f in factors)
        for j, (rank, a) in enumerate(zip(self.ranks, matrices, strict=True)):
            if rank < min(a.shape):
                message = f"axis {j} has numerical rank {rank} of {a.shape[0]} samples by {a.shape[1]} features; "
                warnings.warn(message + "the minimum-norm solution is returned", RankWarning, stacklevel=4)
        sigma = outer_product([f.s for f in factors])
        kept = sigma > rcond * sigma.max()
        gain = torch.where(kept, sigma / (sigma.square() + ridge), 0.0)
        self.degrees_of_freedom = float((gain * sigma).sum())

        if ridge == 0 and bool(kept.all()):
            self.inverse = Kronecker(for_each_distinct(factors, lambda f: f.pseudo_inverse, _same_object))
        else:
            onto = Kronecker(for_each_distinct(factors, lambda f: f.u.mH, _same_object))
            back = Kronecker([f.v for f in factors])
            self.inverse = Composition([back, Diagonal(gain), onto])
