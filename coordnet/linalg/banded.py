"""Banded matrices, stored as dense blocks of rows, which BLAS multiplies at full speed by any number of vectors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from coordnet.linalg.machine import empty, is_tracked, without_tails
from coordnet.linalg.operators import Device, LinearOperator

ROWS = 64  # rows per block; with 32 or 128, enlarging 256² by 2 takes 7 % or 10 % longer
INITIAL_MARGIN = 24  # initial number of columns on either side of a block in which an inverse is sought
SMALL = 1 / 16  # entries below this fraction of a dtype's epsilon, relative to the largest entry, are dropped
MIN_CUTOFF = 1e-15  # lower bound of that cutoff, which float64 would go below
Numbers = Float[Tensor, "..."]


@dataclass(frozen=True)
class Block:
    """Some consecutive rows of a matrix from ``row`` on, zero outside a window of columns from ``column`` on."""

    row: int
    column: int
    entries: Float[Tensor, "rows columns"]

    @property
    def rows(self) -> slice:
        """The block's rows."""
        return slice(self.row, self.row + self.entries.shape[0])

    @property
    def columns(self) -> slice:
        """The block's columns."""
        return slice(self.column, self.column + self.entries.shape[1])


class BandedMatrix(LinearOperator):
    """A matrix (M, N), stored as blocks of ``ROWS`` consecutive rows; the last block may have fewer."""

    def __init__(self, shape: tuple[int, int], blocks: Sequence[Block]) -> None:
        self.shape, self.blocks = shape, tuple(blocks)
        self.codomain, self.domain = shape[:1], shape[1:]

    @classmethod
    def build(cls, shape: tuple[int, int], block: Callable[[int, int], Block]) -> "BandedMatrix":
        """Build a matrix from a function that returns the block of the rows ``first`` … ``last`` - 1."""
        return cls(shape, [block(a, min(a + ROWS, shape[0])) for a in range(0, shape[0], ROWS)])

    @property
    def density(self) -> float:
        """The fraction of the matrix's entries that is stored."""
        return sum(b.entries.numel() for b in self.blocks) / (self.shape[0] * self.shape[1])

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return self.along(x, -1, out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return self.mT.along(y, -1, out)

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> "BandedMatrix":
        """Return the matrix on another device, or in another dtype without block ends below its rounding."""
        matrix = self if dtype is None else self.trimmed(rounding(dtype))
        blocks = [replace(b, entries=b.entries.to(device=device, dtype=dtype)) for b in matrix.blocks]
        return BandedMatrix(self.shape, blocks)

    def dense(self) -> Float[Tensor, "m n"]:
        """Return the matrix as a tensor."""
        out = self.blocks[0].entries.new_zeros(self.shape)
        for b in self.blocks:
            out[b.rows, b.columns] = b.entries
        return out

    def between(self, first: int, last: int) -> Block:
        """Return the rows ``first`` … ``last`` - 1 as one block."""
        parts = self.blocks[first // ROWS : -(-last // ROWS)]
        left, right = min(b.column for b in parts), max(b.columns.stop for b in parts)
        out = parts[0].entries.new_zeros(last - first, right - left)
        for b in parts:
            low, high = max(first, b.row), min(last, b.rows.stop)
            columns = slice(b.column - left, b.columns.stop - left)
            out[low - first : high - first, columns] = b.entries[low - b.row : high - b.row]
        return Block(first, left, out)

    @cached_property
    def mT(self) -> "BandedMatrix":  # noqa: N802 - as tensors have it
        """The transpose."""
        sources: list[list[Block]] = [[] for _ in range(0, self.shape[1], ROWS)]  # the blocks that meet each of Aᵀ's
        for b in self.blocks:
            for i in range(b.column // ROWS, (b.columns.stop - 1) // ROWS + 1):
                sources[i].append(b)

        def transposed(first: int, last: int) -> Block:
            parts = sources[first // ROWS]
            if not parts:
                return Block(first, 0, self.blocks[0].entries.new_zeros(last - first, 1))
            top, bottom = parts[0].row, parts[-1].rows.stop
            out = parts[0].entries.new_zeros(last - first, bottom - top)
            for b in parts:
                low, high = max(first, b.column), min(last, b.columns.stop)
                rows = slice(b.row - top, b.rows.stop - top)
                out[low - first : high - first, rows] = b.entries[:, low - b.column : high - b.column].T
            return Block(first, top, out)

        return BandedMatrix.build((self.shape[1], self.shape[0]), transposed)

    def fused(self, other: LinearOperator) -> "BandedMatrix | None":
        """Return the product with another banded matrix, which is banded too; None for any other operator."""
        if not isinstance(other, BandedMatrix):
            return None

        def product(b: Block) -> Block:
            middle = other.between(b.column, b.columns.stop)
            return Block(b.row, middle.column, b.entries @ middle.entries)

        return BandedMatrix((self.shape[0], other.shape[1]), [product(b) for b in self.blocks])

    def infinity_norm(self) -> float:
        """Return ‖A‖∞, the largest sum of magnitudes in a row."""
        return float(torch.stack([b.entries.abs().sum(1).max() for b in self.blocks]).max())

    def trimmed(self, relative: float) -> "BandedMatrix":
        """Drop tails, and outer columns of blocks all of whose entries are below ``relative`` times the largest."""
        peaks = pad_sequence([b.entries.abs().amax(0) for b in self.blocks], batch_first=True)
        peak = float(peaks.max())
        kept = (peaks > relative * peak).byte()
        first, last = kept.argmax(1), peaks.shape[1] - kept.flip(1).argmax(1)
        ends = zip(self.blocks, first.tolist(), last.tolist(), strict=True)
        blocks = [Block(b.row, b.column + i, without_tails(b.entries[:, i:j], peak)) for b, i, j in ends]
        return BandedMatrix(self.shape, blocks)

    def along(self, tensor: Numbers, axis: int, out: Numbers | None = None) -> Numbers:
        """Multiply along one axis of a tensor (…, N, …); return (…, M, …), in the contiguous ``out`` if given."""
        axis %= tensor.ndim
        last = axis == tensor.ndim - 1
        x = tensor.reshape(-1, self.shape[1], *([] if last else [math.prod(tensor.shape[axis + 1 :])]))
        shape = (*tensor.shape[:axis], self.shape[0], *tensor.shape[axis + 1 :])
        if out is None and is_tracked(x):
            pairs = ((x[:, b.columns], b.entries) for b in self.blocks)
            products = [part @ entries.T if last else entries @ part for part, entries in pairs]
            return torch.cat(products, dim=1).reshape(shape)
        out = empty(x, shape) if out is None else out
        flat = out.view(x.shape[0], self.shape[0], *x.shape[2:])
        for b in self.blocks:
            if last:
                torch.mm(x[:, b.columns], b.entries.T, out=flat[:, b.rows])
            else:
                torch.bmm(b.entries.expand(len(x), *b.entries.shape), x[:, b.columns], out=flat[:, b.rows])
        return out


def rounding(dtype: torch.dtype) -> float:
    """Return the fraction of the largest entry below which entries of a dtype are dropped."""
    return max(torch.finfo(dtype).eps * SMALL, MIN_CUTOFF)


def inverse(matrix: BandedMatrix, tolerance: float) -> BandedMatrix | None:
    """Invert a positive definite banded matrix, whose inverse decays geometrically away from the diagonal.

    The rows of each block are taken from the inverse of a part of the matrix G around them. For this approximation X
    and R = I - X G, G⁻¹ = X + R G⁻¹, so that ‖X - G⁻¹‖∞ ≤ ‖R‖∞ ‖G⁻¹‖∞. The parts grow until ‖R‖∞ is at most
    ``tolerance``. The result is None if the matrix is not numerically positive definite, or its inverse is not banded.

    Source of the decay: Demko, Moss and Smith, "Decay rates for inverses of band matrices" (Math. Comp. 1984).
    """
    margin = INITIAL_MARGIN
    while (approximate := _inverse_within(matrix, margin)) is not None:
        residual = cast(BandedMatrix, approximate.fused(matrix))
        for b in residual.blocks:
            b.entries.diagonal(b.row - b.column).sub_(1)
        if residual.infinity_norm() <= tolerance:
            return approximate
        if margin >= matrix.shape[0]:
            break
        margin *= 2
    return None


def _inverse_within(matrix: BandedMatrix, margin: int) -> BandedMatrix | None:
    n, blocks = matrix.shape[0], []
    for first in range(0, n, ROWS):
        last = min(first + ROWS, n)
        left, right = max(0, first - margin), min(n, last + margin)
        rows = matrix.between(left, right)
        around = rows.entries.new_zeros(right - left, right - left)
        low, high = max(left, rows.column), min(right, rows.columns.stop)
        around[:, low - left : high - left] = rows.entries[:, low - rows.column : high - rows.column]
        factor, info = torch.linalg.cholesky_ex(around)
        if int(info):
            return None
        identity = torch.eye(right - left, dtype=around.dtype, device=around.device)
        columns = torch.cholesky_solve(identity[:, first - left : last - left], factor)
        blocks.append(Block(first, left, columns.T.contiguous()))
    return BandedMatrix(matrix.shape, blocks)
