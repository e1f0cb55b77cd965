"""Fits and renders of signals larger than memory, in blocks of rows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.fitting.plan import Plan
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.linalg.kronecker import Kronecker, Matrix, product_along
from coordnet.sampling.axes import Alignment

UNKNOWN_MEMORY = 2**31  # bytes that are assumed to be free where the system does not say
COPIES = 4  # copies of a block of the result, and of the rows it needs, that exist at once


@runtime_checkable
class Rows(Protocol):
    """A signal (*grid, channels) of floating point whose rows are read on demand: ``rows[a:b]``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, and the channels."""
        ...

    def __getitem__(self, rows: slice) -> Any:
        """Return rows of the first axis, as an array or an object that NumPy converts to one."""
        ...


def stream_render(
    plan: Plan,
    source: Rows,
    shape: tuple[int, ...],
    *,
    alignment: Alignment = "pixel",
    memory: int | None = None,
    progress: bool = False,
) -> Iterator[np.ndarray]:
    """Fit a signal and render it block by block: ``plan.fit(source).render(shape)`` in blocks of rows.

    The source is read twice in float32, first for its means, then the rows that each block depends on.

    Parameters
    ----------
    plan : Plan
        Least squares on a whole lattice, without a ridge, in float32 on the CPU.
    source : (*grid, channels)
        An array, a NumPy memory map, a Zarr array, or any other object that can be sliced along the first axis.
    shape, alignment
        See ``Reconstruction.render``.
    memory : int, optional
        Bytes for the blocks; half of what is free if not given.
    progress : bool
        Show a bar over the rows.

    Yields
    ------
    (rows, *shape[1:], channels)
        float32, one block below the other.

    Raises
    ------
    ValueError
        If the plan is not separable or not of float32 on the CPU, the source has another shape or is not finite, or
        the memory does not suffice for one row.
    """
    grid = tuple(source.shape[:-1])
    if grid != plan.geometry.shape:
        raise _checks.wrong("source", f"shape ({plan.geometry.shape}, channels)", tuple(source.shape))
    first, *others = _matrices(plan, shape, alignment)
    budget = available_memory() // 2 if memory is None else _checks.integer("memory", memory, 1)
    step = block_rows(first, tuple(source.shape), shape, budget)
    chunk = max(1, min(grid[0], step * grid[0] // shape[0]))
    means = _means(source, chunk, plan.center)
    with tqdm(total=shape[0], desc="rendering", unit="row", disable=not progress, dynamic_ncols=True) as bar:
        for a in range(0, shape[0], step):
            b = min(a + step, shape[0])
            out = _first_axis(first, a, b, source, means, chunk)
            for axis, operator in enumerate(others, 2):
                out = product_along(out, operator, axis)
            yield out.add_(means.reshape(-1, *(1,) * len(shape))).movedim(0, -1).numpy()
            bar.update(b - a)


def _matrices(plan: Plan, shape: tuple[int, ...], alignment: Alignment) -> list[Matrix]:
    """Return the plan's fit and the render as one matrix per axis."""
    kind = (plan.dtype, torch.device(plan.device).type)
    if kind != (torch.float32, "cpu"):
        raise _checks.wrong("plan", "one of float32 on the CPU", f"{kind[0]} on {kind[1]}")
    operator = plan.renderer(shape, alignment).operator
    if not isinstance(operator, Kronecker):
        raise _checks.wrong("plan", "one of least squares with one matrix per axis", type(plan).__name__)
    return operator.matrices


def block_rows(first: Matrix, source: tuple[int, ...], shape: tuple[int, ...], memory: int) -> int:
    """Return how many rows of a block fit into some memory, in bytes, with the rows of the source that they need."""
    entering = 4 * math.prod(source[1:])  # bytes of a row
    leaving = 4 * math.prod(shape[1:]) * source[-1]
    ratio = source[0] / shape[0]
    margin = max(w.entries.shape[1] for w in first.blocks) if isinstance(first, BandedMatrix) else 1
    fixed = COPIES * margin * entering
    each = COPIES * (leaving + (1 + ratio) * entering)
    rows = int((memory - fixed) // each)
    if rows < 1:
        raise _checks.wrong("memory", f"at least {int(fixed + each) + 1:,} bytes for a row", f"{memory:,}")
    return min(rows, shape[0])


def _first_axis(operator: Matrix, a: int, b: int, source: Rows, means: Tensor, chunk: int) -> Tensor:
    """Multiply the source along its first axis by rows a … b - 1 of a matrix, into (channels, b - a, *rest)."""
    if isinstance(operator, BandedMatrix):
        parts = [w for w in operator.blocks if w.rows.stop > a and w.row < b]
        low, high = min(w.column for w in parts), max(w.columns.stop for w in parts)
        blocks = []
        for w in parts:
            top, bottom = max(a, w.row), min(b, w.rows.stop)
            blocks.append(Block(top - a, w.column - low, w.entries[top - w.row : bottom - w.row]))
        return BandedMatrix((b - a, high - low), blocks).along(_read(source, low, high, means), 1)
    total = torch.zeros(source.shape[-1], b - a, *source.shape[1:-1])
    for low in range(0, operator.shape[1], chunk):
        high = min(low + chunk, operator.shape[1])
        total += product_along(_read(source, low, high, means), operator[a:b, low:high], 1)
    return total


def _read(source: Rows, low: int, high: int, means: Tensor | None) -> Tensor:
    """Read rows in float32, channels first, and subtract the means."""
    x = torch.from_numpy(np.array(np.moveaxis(np.asarray(source[low:high]), -1, 0), dtype=np.float32, order="C"))
    return x if means is None else x.sub_(means.reshape(-1, *(1,) * (x.ndim - 1)))


def _means(source: Rows, chunk: int, center: bool) -> Tensor:
    """Return the mean of every channel, summed in float64; zero where the plan does not center values."""
    total = torch.zeros(source.shape[-1], dtype=torch.float64)
    count = math.prod(source.shape[:-1])
    for low in range(0, source.shape[0], chunk):
        x = _read(source, low, min(low + chunk, source.shape[0]), None)
        total += x.flatten(1).sum(1, dtype=torch.float64)
    if not bool(torch.isfinite(total).all()):
        raise _checks.wrong("source", "finite values", "NaN or infinity")
    return (total / count if center else torch.zeros_like(total)).float()


def available_memory() -> int:
    """Return the bytes of memory that are available without swapping."""
    status = Path("/proc/meminfo")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    return UNKNOWN_MEMORY
