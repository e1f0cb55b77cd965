"""Banded matrices, stored as dense blocks of rows, each over a window of the columns.

A band in LAPACK's storage is multiplied one vector at a time. Blocks of ``ROWS`` rows are multiplied by BLAS at full
speed, whatever the number of right-hand sides, and hold few more numbers than the band.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.buffers import empty, is_tracked
from coordnet.linalg.operators import LinearOperator

ROWS = 64  # rows per block; 32 and 128 take 7 % and 10 % longer to enlarge 256² by 2
MARGIN = 24  # initial number of columns on either side of a block in which an inverse is sought
ROUNDING = 1 / 16  # entries below this fraction of a dtype's rounding are dropped
SMALLEST_ROUNDING = 1e-15


@dataclass(frozen=True)
class Block:
    """Some consecutive rows of a matrix, zero outside a window of columns."""

    row: int  # the position of the block's first entry in the matrix
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
    """A matrix (M, N) as blocks of rows, one below the other.

    Parameters
    ----------
    shape : (M, N)
        The matrix's dimensions.
    blocks : sequence of Block
        Their rows are consecutive and cover 0 … M - 1.
    """

    def __init__(self, shape: tuple[int, int], blocks: Sequence[Block]) -> None:
        self.shape, self.blocks = shape, tuple(blocks)
        self.codomain, self.domain = shape[:1], shape[1:]

    @classmethod
    def build(cls, shape: tuple[int, int], block: Callable[[int, int], Block]) -> "BandedMatrix":
        """Build every block of ``ROWS`` rows by a function of its first row and the row after its last."""
        return cls(shape, [block(a, min(a + ROWS, shape[0])) for a in range(0, shape[0], ROWS)])

    @property
    def dtype(self) -> torch.dtype:
        """The entries' dtype."""
        return self.blocks[0].entries.dtype

    @property
    def density(self) -> float:
        """The fraction of the matrix's entries that is stored."""
        return sum(b.entries.numel() for b in self.blocks) / (self.shape[0] * self.shape[1])

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return A x over the last axis of x."""
        return self.along(x, -1, out)

    def adjoint(self, y: Tensor, out: Tensor | None = None) -> Tensor:
        """Return Aᵀ y over the last axis of y."""
        return self.mT.along(y, -1, out)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "BandedMatrix":
        """Return the matrix on another device, its blocks sent in one transfer, or in another dtype.

        With a dtype, columns of a block are dropped at its ends where all entries are below that dtype's rounding.
        """
        matrix = self
        if dtype is not None:
            matrix = matrix.trimmed(max(torch.finfo(dtype).eps * ROUNDING, SMALLEST_ROUNDING))
            matrix = matrix._with([b.entries.to(dtype) for b in matrix.blocks])
        entries = [b.entries for b in matrix.blocks]
        if device is None or entries[0].device == torch.device(device):
            return matrix
        sent = torch.cat([e.flatten() for e in entries]).to(device).split([e.numel() for e in entries])
        return matrix._with([part.view(e.shape) for part, e in zip(sent, entries, strict=True)])

    def _with(self, entries: Sequence[Tensor]) -> "BandedMatrix":
        """Return the matrix whose blocks have other entries."""
        blocks = zip(self.blocks, entries, strict=True)
        return BandedMatrix(self.shape, [replace(b, entries=e) for b, e in blocks])

    def dense(self) -> Float[Tensor, "m n"]:
        """Return the matrix as a tensor."""
        out = self.blocks[0].entries.new_zeros(self.shape)
        for b in self.blocks:
            out[b.rows, b.columns] = b.entries
        return out

    def diagonal(self) -> Float[Tensor, " n"]:
        """Return the diagonal of a square matrix."""
        out = self.blocks[0].entries.new_zeros(self.shape[0])
        for b in self.blocks:
            low, high = max(b.row, b.column), min(b.rows.stop, b.columns.stop)
            if low < high:
                i = torch.arange(low, high, device=out.device)
                out[low:high] = b.entries[i - b.row, i - b.column]
        return out

    def between(self, first: int, last: int) -> Block:
        """Return the rows ``first`` … ``last`` - 1 as one block."""
        parts = self.blocks[bisect_right(self._tops, first) - 1 : bisect_left(self._tops, last)]
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
        return BandedMatrix.build((self.shape[1], self.shape[0]), self._transposed)

    def _transposed(self, first: int, last: int) -> Block:
        """Return the rows ``first`` … ``last`` - 1 of the transpose."""
        ends, starts = self._reach
        near = self.blocks[bisect_right(ends, first) : bisect_left(starts, last)]
        parts = [b for b in near if b.columns.stop > first and b.column < last]
        if not parts:
            return Block(first, 0, self.blocks[0].entries.new_zeros(last - first, 1))
        top, bottom = min(b.row for b in parts), max(b.rows.stop for b in parts)
        out = parts[0].entries.new_zeros(last - first, bottom - top)
        for b in parts:
            low, high = max(first, b.column), min(last, b.columns.stop)
            rows = slice(b.row - top, b.rows.stop - top)
            out[low - first : high - first, rows] = b.entries[:, low - b.column : high - b.column].T
        return Block(first, top, out)

    @cached_property
    def _tops(self) -> list[int]:
        """The first row of every block."""
        return [b.row for b in self.blocks]

    @cached_property
    def _reach(self) -> tuple[list[int], list[int]]:
        """For every block the last column of it and those above, and the first column of it and those below."""
        ends = itertools.accumulate((b.columns.stop for b in self.blocks), max)
        starts = itertools.accumulate((b.column for b in reversed(self.blocks)), min)
        return list(ends), list(starts)[::-1]

    def fused(self, other: LinearOperator) -> "BandedMatrix | None":
        """Return the product with another banded matrix, which is banded too."""
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
        """Return the matrix without the outer columns of blocks whose entries are all below a threshold.

        The threshold is ``relative`` times the largest magnitude in the matrix.
        """
        peaks = [b.entries.abs().amax(0) for b in self.blocks]
        threshold = relative * float(torch.cat(peaks).max())
        blocks = zip(self.blocks, peaks, strict=True)
        return BandedMatrix(self.shape, [_trim(b, peak, threshold) for b, peak in blocks])

    def along(
        self, tensor: Float[Tensor, "..."], axis: int, out: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """Multiply along one axis of a tensor (…, N, …), which becomes (…, M, …): in ``out`` if given, contiguous."""
        axis %= tensor.ndim
        last = axis == tensor.ndim - 1
        flat = (-1, self.shape[1]) if last else (-1, self.shape[1], math.prod(tensor.shape[axis + 1 :]))
        x = tensor.reshape(flat)
        shape = (*tensor.shape[:axis], self.shape[0], *tensor.shape[axis + 1 :])
        if out is None and is_tracked(x):
            return torch.cat(list(self._products(x, last)), dim=1).reshape(shape)
        out = empty(x, shape) if out is None else out
        self._fill(out.view(x.shape[0], self.shape[0], *x.shape[2:]), x, last)
        return out

    def _products(self, x: Tensor, last: bool) -> Iterator[Tensor]:
        for b in self.blocks:
            part = x[:, b.columns]
            yield part @ b.entries.T if last else b.entries @ part

    def _fill(self, out: Tensor, x: Tensor, last: bool) -> None:
        for b in self.blocks:
            if last:
                torch.mm(x[:, b.columns], b.entries.T, out=out[:, b.rows])
            else:
                torch.bmm(b.entries.expand(len(x), *b.entries.shape), x[:, b.columns], out=out[:, b.rows])


def _trim(block: Block, peak: Tensor, threshold: float) -> Block:
    kept = (peak > threshold).nonzero()
    first, last = (int(kept[0]), int(kept[-1]) + 1) if len(kept) else (0, 1)
    return Block(block.row, block.column + first, block.entries[:, first:last].contiguous())


def inverse(matrix: BandedMatrix, tolerance: float) -> BandedMatrix | None:
    """Invert a positive definite banded matrix, whose inverse decays geometrically away from the diagonal.

    The rows of each block are taken from the inverse of the part of the matrix around it, by Cholesky factorization in
    the matrix's own dtype. For the approximation X found and R = I - X G, G⁻¹ = X + R G⁻¹, so that
    ‖X - G⁻¹‖∞ ≤ ‖R‖∞ ‖G⁻¹‖∞. The parts grow until ‖R‖∞ is at most ``tolerance``.

    Returns
    -------
    BandedMatrix or None
        None if the matrix is not numerically positive definite, or its inverse is not banded.

    Notes
    -----
    The decay is in Demko, Moss and Smith, "Decay rates for inverses of band matrices" (Math. Comp. 1984).
    """
    margin = MARGIN
    while True:
        found = _inverse_within(matrix, margin)
        if found is None:
            return None
        if _residual_norm(found, matrix) <= tolerance:
            return found
        if margin >= matrix.shape[0]:
            return None
        margin *= 2


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


def _residual_norm(found: BandedMatrix, matrix: BandedMatrix) -> float:
    """Return ‖I - X G‖∞."""
    product, worst = found.fused(matrix), 0.0
    assert product is not None
    for b in product.blocks:
        rows = torch.arange(b.entries.shape[0], device=b.entries.device)
        b.entries[rows, b.row - b.column + rows] -= 1
        worst = max(worst, float(b.entries.abs().sum(1).max()))
    return worst
