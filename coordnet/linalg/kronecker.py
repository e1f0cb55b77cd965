"""Kronecker-structured linear algebra: mode products, and least squares through one SVD an axis.

Tensors here are channels first, ``(*batch, *axes)``: the last d axes are the modes, everything before them is
batch. A Kronecker product is never formed; ``(A₁ ⊗ … ⊗ A_d) vec(T)`` is ``mode_product(T, [A₁, …, A_d])``.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.banded import Windows
from coordnet.linalg.scratch import scratch

Operator = Tensor | Windows  # a matrix along one axis


class RankWarning(_checks.CoordnetWarning):
    """An axis of a Kronecker system has fewer independent columns than it has columns."""


def mode_product(
    tensor: Float[Tensor, "..."], matrices: Sequence[Operator], out: Float[Tensor, "..."] | None = None
) -> Float[Tensor, "..."]:
    """T ×₁ A₁ ×₂ A₂ … ×_d A_d over the last d axes.

    Parameters
    ----------
    tensor : (*batch, K₁, …, K_d)
        The coefficients.
    matrices : d matrices (N_j, K_j)
        One an axis, dense or as ``Windows``.
    out : (*batch, N₁, …, N_d), optional
        Where to write it, without a gradient; what comes between then lies in scratch memory.

    Returns
    -------
    (*batch, N₁, …, N_d)
        Row-major ``vec`` of it is the Kronecker product of the matrices times row-major ``vec`` of the tensor.

    Raises
    ------
    ValueError
        If an axis of the tensor has not the length that its matrix takes.
    """
    dims = len(matrices)
    modes = tuple(tensor.shape[tensor.ndim - dims :])
    if modes != tuple(a.shape[1] for a in matrices):
        raise _checks.wrong("tensor", f"last axes of {tuple(a.shape[1] for a in matrices)}", modes)
    for j, a in reversed(list(enumerate(matrices))):
        axis = tensor.ndim - dims + j
        into = out if out is None or j == 0 else _between(tensor, a, axis, out)
        tensor = product_along(tensor, a, axis, into)
    return tensor


def _between(tensor: Tensor, matrix: Operator, axis: int, out: Tensor) -> Tensor:
    """Scratch memory for a product along one axis that does not lie in a tensor's, nor in that of the last result."""
    shape = (*tensor.shape[:axis], matrix.shape[0], *tensor.shape[axis + 1 :])
    return scratch(tensor, shape, tensor, out)


def product_along(
    tensor: Float[Tensor, "..."], matrix: Operator, axis: int, out: Float[Tensor, "..."] | None = None
) -> Float[Tensor, "..."]:
    """T ×_j A along one axis of a tensor (…, K, …), which becomes (…, N, …): in ``out`` if given, contiguous."""
    if isinstance(matrix, Windows):
        return matrix.apply(tensor, axis, out)
    before, after = tensor.shape[:axis], tensor.shape[axis + 1 :]
    rows, columns = matrix.shape
    shape = (*before, rows, *after)
    if not after:
        flat = None if out is None else out.view(-1, rows)
        return torch.mm(tensor.reshape(-1, columns), matrix.T, out=flat).reshape(shape)
    flat = None if out is None else out.view(-1, rows, math.prod(after))
    return torch.matmul(matrix, tensor.reshape(-1, columns, math.prod(after)), out=flat).reshape(shape)


def outer_product(vectors: Sequence[Float[Tensor, " _"]]) -> Float[Tensor, "..."]:
    """σ₁ ⊗ … ⊗ σ_d as a tensor of shape (K₁, …, K_d)."""
    return reduce(lambda a, b: a.unsqueeze(-1) * b, vectors)


def outer_sum(vectors: Sequence[Float[Tensor, " _"]]) -> Float[Tensor, "..."]:
    """μ₁ ⊕ … ⊕ μ_d as a tensor of shape (K₁, …, K_d)."""
    return reduce(lambda a, b: a.unsqueeze(-1) + b, vectors)


@dataclass(frozen=True)
class AxisFactor:
    """The thin SVD A = U diag(s) Vᵀ of one axis, cut at its numerical rank.

    Attributes
    ----------
    u : (N, r)
        Orthonormal columns.
    s : (r,)
        Singular values, falling.
    v : (K, r)
        Orthonormal columns.
    """

    u: Float[Tensor, "n r"]
    s: Float[Tensor, " r"]
    v: Float[Tensor, "k r"]

    @property
    def rank(self) -> int:
        """The numerical rank r."""
        return self.s.numel()


def default_rcond(shape: Sequence[int], dtype: torch.dtype) -> float:
    """The relative cut below which singular values are noise: ε max(N, K), as LAPACK's users have it."""
    return torch.finfo(dtype).eps * max(shape)


def factorise(matrix: Float[Tensor, "n k"], rcond: float) -> AxisFactor:
    """Thin SVD of one axis in float64, without the singular values below ``rcond`` times the largest.

    Raises
    ------
    ValueError
        If the matrix holds a value that is not finite, or nothing but zeros.
    """
    matrix = matrix.detach().double()
    if not bool(torch.isfinite(matrix).all()):
        raise _checks.wrong("matrix", "finite values", "NaN or infinity")
    u, s, v = _thin_svd(matrix)
    if float(s[0]) == 0:
        raise _checks.wrong("matrix", "a column that is not zero", "zeros alone: no feature reaches a sample")
    rank = int((s > rcond * s[0]).sum())
    return AxisFactor(u[:, :rank], s[:rank], v[:, :rank])


def _thin_svd(matrix: Float[Tensor, "n k"]) -> tuple[Tensor, Tensor, Tensor]:
    """U, s, V; of a symmetric matrix by its eigendecomposition QΛQᵀ = (Q sign Λ) |Λ| Qᵀ, which takes half the time.

    Even bumps on their own nodes, the usual case, have a symmetric design.
    """
    if not torch.equal(matrix, matrix.mT):
        u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
        return u, s, vh.mH
    eigenvalues, q = torch.linalg.eigh(matrix)
    s, order = eigenvalues.abs().sort(descending=True)
    q = q[:, order]
    return q * eigenvalues[order].sign(), s, q


@dataclass(frozen=True)
class LeastSquaresSolution:
    """What a Kronecker least-squares solve gives.

    Attributes
    ----------
    weights : (*batch, K₁, …, K_d)
        The minimum-norm (or ridge) coefficients.
    residual_norm : (*batch,)
        ‖y - A w‖₂ of every right-hand side.
    """

    weights: Float[Tensor, "..."]
    residual_norm: Float[Tensor, "..."]


class KroneckerLeastSquares:
    """Minimise ‖(A₁ ⊗ … ⊗ A_d) w - y‖² + λ ‖w‖² exactly, for any number of right-hand sides.

    With A_j = U_j diag(s_j) V_jᵀ and σ = s₁ ⊗ … ⊗ s_d the solution is
    w = (V₁ ⊗ … ⊗ V_d) diag(σ / (σ² + λ)) (U₁ ⊗ … ⊗ U_d)ᵀ y, the minimum-norm one where λ = 0. A ridge on each
    axis would be another problem. The factorisation is made once, in float64; its parts are ``analysis``, and
    ``gain`` and ``synthesis`` where a gain stands between them (else None and empty).

    Parameters
    ----------
    matrices : d matrices (N_j, K_j)
        The design of each axis. Equal ones are factorised once.
    ridge : float
        λ, at least 0.
    rcond : float, optional
        Singular values of the Kronecker matrix below ``rcond`` times its largest count as zero. By default
        ε max(N_j, K_j), with ε of ``dtype``.
    dtype : torch.dtype, optional
        Of the right-hand sides; the matrices' own by default.

    Warns
    -----
    RankWarning
        Where an axis has a lower rank than it has columns (and rows to tell them apart).

    Raises
    ------
    ValueError
        If a matrix is not finite or is zero, or ``ridge`` or ``rcond`` is negative.

    Notes
    -----
    The Kronecker SVD is in Golub and Van Loan, Matrix Computations, 4th ed., section 12.3.
    """

    def __init__(
        self,
        matrices: Sequence[Float[Tensor, "_ _"]],
        *,
        ridge: float = 0.0,
        rcond: float | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.ridge = _checks.nonnegative("ridge", ridge)
        dtype = dtype or matrices[0].dtype
        size = max(max(a.shape) for a in matrices)
        self.rcond = default_rcond((size,), dtype) if rcond is None else _checks.nonnegative("rcond", rcond)
        self.matrices = [a.to(dtype) for a in matrices]
        self.factors = _factorise_each(matrices, self.rcond)
        self.ranks = tuple(f.rank for f in self.factors)
        _warn_of_rank(self.ranks, matrices)
        sigma = outer_product([f.s for f in self.factors])
        kept = sigma > self.rcond * sigma.max()
        gain = torch.where(kept, sigma / (sigma.square() + self.ridge), 0.0)
        self.degrees_of_freedom = float((gain * sigma).sum())
        apart = {id(f): f for f in self.factors}
        if self.ridge == 0 and bool(kept.all()):
            parts, self.gain = {key: (f.v / f.s) @ f.u.mH for key, f in apart.items()}, None
            self.synthesis: list[Tensor] = []
        else:
            parts, self.gain = {key: f.u.mH for key, f in apart.items()}, gain
            self.synthesis = [f.v for f in self.factors]
        self.analysis = [parts[id(f)] for f in self.factors]
        self._dtype = dtype

    def weights(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the coefficients (*batch, K₁, …, K_d) of right-hand sides (*batch, N₁, …, N_d)."""
        z = mode_product(values, [a.to(self._dtype) for a in self.analysis])
        if self.gain is None:
            return z
        return mode_product(z * self.gain.to(self._dtype), [c.to(self._dtype) for c in self.synthesis])

    def solve(self, values: Float[Tensor, "..."]) -> LeastSquaresSolution:
        """Return the coefficients of right-hand sides (*batch, N₁, …, N_d) with their residual norms."""
        weights = self.weights(values)
        residual = values - mode_product(weights, self.matrices)
        return LeastSquaresSolution(weights, residual.flatten(-len(self.matrices)).norm(dim=-1))


def _factorise_each(matrices: Sequence[Tensor], rcond: float) -> list[AxisFactor]:
    factors: list[AxisFactor] = []
    for j, a in enumerate(matrices):
        same = next((i for i in range(j) if torch.equal(matrices[i], a)), None)
        factors.append(factorise(a, rcond) if same is None else factors[same])
    return factors


def _warn_of_rank(ranks: tuple[int, ...], matrices: Sequence[Tensor]) -> None:
    for j, (rank, a) in enumerate(zip(ranks, matrices, strict=True)):
        if rank < min(a.shape):
            warnings.warn(
                f"axis {j} has numerical rank {rank} of {a.shape[0]} samples by {a.shape[1]} features; "
                "the minimum-norm solution is returned",
                RankWarning,
                stacklevel=5,
            )
