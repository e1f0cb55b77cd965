"""Matrices whose entries lie near a diagonal, kept as dense blocks of rows, each over a window of the columns.

A band in LAPACK's storage is multiplied one vector at a time. Blocks of ``ROWS`` rows are multiplied by BLAS at its
full speed, whatever their number of right-hand sides, and hold few more numbers than the band.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.allocation import empty
from coordnet.linalg.tracking import tracked

ROWS = 64  # of a block; 32 and 128 take 7 % and 10 % longer to enlarge 256² by 2
MARGIN = 24  # columns beside a block that an inverse is first sought in


@dataclass(frozen=True)
class Window:
    """The rows from ``row`` on of a matrix that is zero left of ``column`` and right of the block.

    Attributes
    ----------
    row, column : int
        Of the block's first entry.
    block : (rows, columns)
        The entries.
    """

    row: int
    column: int
    block: Float[Tensor, "rows columns"]

    @property
    def rows(self) -> slice:
        """The block's rows."""
        return slice(self.row, self.row + self.block.shape[0])

    @property
    def columns(self) -> slice:
        """The block's columns."""
        return slice(self.column, self.column + self.block.shape[1])


class Windows:
    """A matrix (M, N) as blocks of rows, one under the other.

    Parameters
    ----------
    shape : (M, N)
        Of the matrix.
    blocks : sequence of Window
        Their rows are consecutive and make up 0 … M - 1.
    """

    def __init__(self, shape: tuple[int, int], blocks: Sequence[Window]) -> None:
        self.shape, self.blocks = shape, tuple(blocks)

    @classmethod
    def build(cls, shape: tuple[int, int], block: Callable[[int, int], Window]) -> "Windows":
        """Make every block of ``ROWS`` rows by a function of its first row and the row after its last."""
        return cls(shape, [block(a, min(a + ROWS, shape[0])) for a in range(0, shape[0], ROWS)])

    @property
    def dtype(self) -> torch.dtype:
        """Of the entries."""
        return self.blocks[0].block.dtype

    @property
    def share(self) -> float:
        """The part of the matrix's entries that is kept."""
        return sum(w.block.numel() for w in self.blocks) / (self.shape[0] * self.shape[1])

    def to(self, dtype: torch.dtype) -> "Windows":
        """The same matrix in another precision."""
        return self.map(lambda block: block.to(dtype))

    def on(self, device: torch.device | str) -> "Windows":
        """The same matrix on a device, its blocks sent together."""
        blocks = [w.block for w in self.blocks]
        if blocks[0].device == torch.device(device):
            return self
        sent = torch.cat([block.flatten() for block in blocks]).to(device).split([b.numel() for b in blocks])
        made = [part.view(block.shape) for part, block in zip(sent, blocks, strict=True)]
        return Windows(
            self.shape, [Window(w.row, w.column, b) for w, b in zip(self.blocks, made, strict=True)]
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> "Windows":
        """The matrix whose entries are a function's of this one's, zero staying zero."""
        return Windows(self.shape, [Window(w.row, w.column, function(w.block)) for w in self.blocks])

    def dense(self) -> Float[Tensor, "m n"]:
        """The matrix, formed."""
        out = self.blocks[0].block.new_zeros(self.shape)
        for w in self.blocks:
            out[w.rows, w.columns] = w.block
        return out

    def between(self, first: int, last: int) -> Window:
        """The rows ``first`` … ``last`` - 1 as one block."""
        tops = self._tops
        parts = self.blocks[bisect_right(tops, first) - 1 : bisect_left(tops, last)]
        left, right = min(w.column for w in parts), max(w.columns.stop for w in parts)
        out = parts[0].block.new_zeros(last - first, right - left)
        for w in parts:
            a, b = max(first, w.row), min(last, w.rows.stop)
            out[a - first : b - first, w.column - left : w.columns.stop - left] = w.block[
                a - w.row : b - w.row
            ]
        return Window(first, left, out)

    @cached_property
    def mT(self) -> "Windows":  # noqa: N802 - as tensors have it
        """The transpose."""
        return Windows.build((self.shape[1], self.shape[0]), self._across)

    def _across(self, first: int, last: int) -> Window:
        ends, starts = self._reach
        near = self.blocks[bisect_right(ends, first) : bisect_left(starts, last)]
        parts = [w for w in near if w.columns.stop > first and w.column < last]
        if not parts:
            return Window(first, 0, self.blocks[0].block.new_zeros(last - first, 1))
        top, bottom = min(w.row for w in parts), max(w.rows.stop for w in parts)
        out = parts[0].block.new_zeros(last - first, bottom - top)
        for w in parts:
            a, b = max(first, w.column), min(last, w.columns.stop)
            out[a - first : b - first, w.row - top : w.rows.stop - top] = w.block[
                :, a - w.column : b - w.column
            ].T
        return Window(first, top, out)

    @cached_property
    def _tops(self) -> list[int]:
        """The first row of every block."""
        return [w.row for w in self.blocks]

    @cached_property
    def _reach(self) -> tuple[list[int], list[int]]:
        """The column that a block and those above it end before, and that it and those below it start from."""
        ends = itertools.accumulate((w.columns.stop for w in self.blocks), max)
        starts = itertools.accumulate((w.column for w in reversed(self.blocks)), min)
        return list(ends), list(starts)[::-1]

    def __matmul__(self, other: "Windows") -> "Windows":
        """The product of two such matrices, which is another."""

        def product(w: Window) -> Window:
            middle = other.between(w.column, w.columns.stop)
            return Window(w.row, middle.column, w.block @ middle.block)

        return Windows((self.shape[0], other.shape[1]), [product(w) for w in self.blocks])

    def row_norm(self) -> float:
        """The norm ‖·‖∞, the largest sum of magnitudes in a row."""
        return float(torch.stack([w.block.abs().sum(1).max() for w in self.blocks]).max())

    def trimmed(self, relative: float) -> "Windows":
        """The windows without the outer columns whose entries are all below ``relative`` times the largest."""
        peaks = [w.block.abs().amax(0) for w in self.blocks]
        least = relative * float(torch.cat(peaks).max())
        return Windows(self.shape, [_trim(w, p, least) for w, p in zip(self.blocks, peaks, strict=True)])

    def apply(
        self, tensor: Float[Tensor, "..."], axis: int, out: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """The product along one axis of a tensor (…, N, …), which becomes (…, M, …): in ``out``, contiguous, if any."""
        axis %= tensor.ndim
        last = axis == tensor.ndim - 1
        kind = (-1, self.shape[1]) if last else (-1, self.shape[1], math.prod(tensor.shape[axis + 1 :]))
        x = tensor.reshape(kind)
        shape = (*tensor.shape[:axis], self.shape[0], *tensor.shape[axis + 1 :])
        if out is None and tracked(x):
            return torch.cat(list(self._products(x, last)), dim=1).reshape(shape)
        out = empty(x, shape) if out is None else out
        self._fill(out.view(x.shape[0], self.shape[0], *x.shape[2:]), x, last)
        return out

    def _products(self, x: Tensor, last: bool) -> Iterator[Tensor]:
        for w in self.blocks:
            part = x[:, w.columns]
            yield part @ w.block.T if last else w.block @ part

    def _fill(self, out: Tensor, x: Tensor, last: bool) -> None:
        for w in self.blocks:
            if last:
                torch.mm(x[:, w.columns], w.block.T, out=out[:, w.rows])
            else:
                torch.bmm(w.block.expand(len(x), *w.block.shape), x[:, w.columns], out=out[:, w.rows])


def _trim(w: Window, peak: Tensor, least: float) -> Window:
    kept = (peak > least).nonzero()
    first, last = (int(kept[0]), int(kept[-1]) + 1) if len(kept) else (0, 1)
    return Window(w.row, w.column + first, w.block[:, first:last].contiguous())


def inverse(matrix: Windows, tolerance: float) -> Windows | None:
    """The inverse of a positive definite band, whose entries fall off geometrically from the diagonal.

    The rows of each block are those of the inverse of the part of the matrix around the block, by Cholesky's
    factorisation in the matrix's own precision. With X what they make, R = I - X G is what was cut off, and
    G⁻¹ = X + R G⁻¹, so that ‖X - G⁻¹‖∞ ≤ ‖R‖∞ ‖G⁻¹‖∞. The parts grow until ‖R‖∞ is at most ``tolerance``.

    Returns
    -------
    Windows or None
        None where the matrix is not numerically positive definite, or its inverse is not near a diagonal.

    Notes
    -----
    The decay is Demko, Moss and Smith, "Decay rates for inverses of band matrices" (Math. Comp. 1984).
    """
    n = matrix.shape[0]
    margin = MARGIN
    while True:
        found = _inverse_within(matrix, margin)
        if found is None:
            return None
        if _remainder(found, matrix) <= tolerance:
            return found
        if margin >= n:
            return None
        margin *= 2


def _inverse_within(matrix: Windows, margin: int) -> Windows | None:
    n, blocks = matrix.shape[0], []
    for a in range(0, n, ROWS):
        b = min(a + ROWS, n)
        left, right = max(0, a - margin), min(n, b + margin)
        rows = matrix.between(left, right)
        around = rows.block.new_zeros(right - left, right - left)
        low, high = max(left, rows.column), min(right, rows.columns.stop)
        around[:, low - left : high - left] = rows.block[:, low - rows.column : high - rows.column]
        factor, info = torch.linalg.cholesky_ex(around)
        if int(info):
            return None
        unit = torch.eye(right - left, dtype=around.dtype, device=around.device)[:, a - left : b - left]
        blocks.append(Window(a, left, torch.cholesky_solve(unit, factor).T.contiguous()))
    return Windows(matrix.shape, blocks)


def _remainder(found: Windows, matrix: Windows) -> float:
    """‖I - X G‖∞."""
    worst = 0.0
    for w in (found @ matrix).blocks:
        rows = torch.arange(w.block.shape[0], device=w.block.device)
        w.block[rows, w.row - w.column + rows] -= 1
        worst = max(worst, float(w.block.abs().sum(1).max()))
    return worst
