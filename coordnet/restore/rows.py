"""Fits and renders of signals larger than memory, in blocks of rows."""

import math
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.linalg.kronecker import Kronecker, Matrix, product_along
from coordnet.media.files import available_memory
from coordnet.plans.plan import Plan

LARGEST_BLOCK = 256  # rows of the result in a block; larger blocks are no faster
COPIES = 4  # copies in memory of a block of the result and of the rows it needs


@runtime_checkable
class Rows(Protocol):
    """A signal (*grid, channels) of floating point whose rows are read on demand: ``rows[a:b]``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, and the channels."""
        ...

    def __getitem__(self, rows: slice) -> Any:
        """Return rows of the first axis, as an array or an object that NumPy converts to one."""


def stream_render(
    plan: Plan, source: Rows, shape: tuple[int, ...], *, memory: int | None = None, progress: bool = False
) -> Iterator[np.ndarray]:
    """Fit a signal and render it block by block: ``plan.fit(source).render(shape)`` in blocks of rows.

    The source is read twice in float32, first for its means, then the rows that each block depends on.

    Parameters
    ----------
    plan : Plan
        Least squares on the source's lattice, with centering and without a ridge, in float32 on the CPU.
    source : (*grid, channels)
        An array, a NumPy memory map, a Zarr array, or any other object that can be sliced along the first axis.
    memory : int, optional
        Bytes for the blocks; half of what is free if not given.

    Yields
    ------
    (rows, *shape[1:], channels)
        float32, one block below the other.

    Raises
    ------
    ValueError
        If the source is not finite, or the memory does not suffice for one row.
    """
    operator = plan.renderer(shape).operator
    assert isinstance(operator, Kronecker), "a plan of least squares has one matrix per axis"
    first, *others = operator.matrices
    budget = available_memory() // 2 if memory is None else _checks.integer("memory", memory, 1)
    step = min(block_rows(first, tuple(source.shape), shape, budget), LARGEST_BLOCK)
    chunk = max(1, step * source.shape[0] // shape[0])
    means = _means(source, chunk)
    with tqdm(total=shape[0], desc="rendering", unit="row", disable=not progress, dynamic_ncols=True) as bar:
        for a in range(0, shape[0], step):
            b = min(a + step, shape[0])
            out = _first_axis(first, a, b, source, means, chunk)
            for axis, matrix in enumerate(others, 2):
                out = product_along(out, matrix, axis)
            yield out.add_(means.reshape(-1, *(1,) * len(shape))).movedim(0, -1).numpy()
            bar.update(b - a)


def block_rows(first: Matrix, source: tuple[int, ...], shape: tuple[int, ...], memory: int) -> int:
    """Return the number of rows of the result that fit into ``memory`` bytes with the source rows they need."""
    entering = 4 * math.prod(source[1:])  # bytes of a row of the source
    leaving = 4 * math.prod(shape[1:]) * source[-1]
    ratio = source[0] / shape[0]
    margin = max(w.entries.shape[1] for w in first.blocks) if isinstance(first, BandedMatrix) else 1
    fixed = COPIES * margin * entering
    each = COPIES * (leaving + (1 + ratio) * entering)
    rows = int((memory - fixed) // each)
    if rows < 1:
        raise _checks.wrong("memory", f"at least {int(fixed + each) + 1:,} bytes for a row", f"{memory:,}")
    return min(rows, shape[0])


def _first_axis(matrix: Matrix, a: int, b: int, source: Rows, means: Tensor, chunk: int) -> Tensor:
    """Multiply the source along its first axis by rows a … b - 1 of a matrix, into (channels, b - a, *rest)."""
    part = matrix.between(a, b) if isinstance(matrix, BandedMatrix) else Block(a, 0, matrix[a:b])
    total = torch.zeros(source.shape[-1], b - a, *source.shape[1:-1])
    for low in range(part.column, part.columns.stop, chunk):
        entries = part.entries[:, low - part.column : low - part.column + chunk]
        total += product_along(_read(source, low, low + entries.shape[1], means), entries, 1)
    return total


def _read(source: Rows, low: int, high: int, means: Tensor) -> Tensor:
    """Read rows in float32, channels first, and subtract the means."""
    x = torch.from_numpy(np.array(np.moveaxis(np.asarray(source[low:high]), -1, 0), dtype=np.float32, order="C"))
    return x.sub_(means.reshape(-1, *(1,) * (x.ndim - 1)))


def _means(source: Rows, chunk: int) -> Tensor:
    """Return the mean of every channel, summed in float64."""
    total, zero = torch.zeros(source.shape[-1], dtype=torch.float64), torch.zeros(source.shape[-1])
    for low in range(0, source.shape[0], chunk):
        total += _read(source, low, low + chunk, zero).flatten(1).sum(1, dtype=torch.float64)
    if not bool(torch.isfinite(total).all()):
        raise _checks.wrong("source", "finite values", "NaN or infinity")
    return (total / math.prod(source.shape[:-1])).float()
