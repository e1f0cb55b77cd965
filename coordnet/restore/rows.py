"""Fits and renders of signals larger than memory, in blocks of rows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.fit.plan import Plan
from coordnet.linalg.banded import BandedMatrix
from coordnet.linalg.kronecker import Kronecker, Matrix, product_along
from coordnet.media.rows import read_rows, release
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
        """Some rows of the first axis, as NumPy takes them."""
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
    """Fit a signal and render it block by block: ``plan.fit(source).render(shape)`` in pieces of rows.

    A block of the result reads the rows of the source that matter to it in float32. The source is read twice, the
    first time for its means.

    Parameters
    ----------
    plan : Plan
        Least squares on a whole lattice, without a ridge, in float32 on the CPU.
    source : (*grid, channels)
        An array, a NumPy memory map, a Zarr array, or any object that gives rows when sliced along the first axis.
    shape, alignment
        See ``Reconstruction.render``.
    memory : int, optional
        Bytes for the blocks; half of what is free if not given.
    progress : bool
        Show a bar over the rows.

    Yields
    ------
    (rows, *shape[1:], channels)
        float32, one block under the other.

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
    blocks = range(0, shape[0], step)
    with tqdm(total=shape[0], desc="rendering", unit="row", disable=not progress, dynamic_ncols=True) as bar:
        for a in blocks:
            b = min(a + step, shape[0])
            out = _first_axis(first, a, b, source, means, chunk)
            for axis, operator in enumerate(others, 2):
                out = product_along(out, operator, axis)
            yield out.add_(means.reshape(-1, *(1,) * len(shape))).movedim(0, -1).numpy()
            bar.update(b - a)


def _matrices(plan: Plan, shape: tuple[int, ...], alignment: Alignment) -> list[Matrix]:
    """The plan's fit and the render as one matrix per axis."""
    kind = (plan.dtype, torch.device(plan.device).type)
    if kind != (torch.float32, "cpu"):
        raise _checks.wrong("plan", "one of float32 on the CPU", f"{kind[0]} on {kind[1]}")
    operator = plan.renderer(shape, alignment).operator
    if not isinstance(operator, Kronecker):
        raise _checks.wrong("plan", "one of least squares with one matrix per axis", type(plan).__name__)
    return operator.matrices


def block_rows(first: Matrix, source: tuple[int, ...], shape: tuple[int, ...], memory: int) -> int:
    """The most rows of a block that fit into some memory together with the rows that they need.

    Raises
    ------
    ValueError
        If not even one row fits.
    """
    channels, size = source[-1], 4
    entering = math.prod(source[1:-1]) * channels * size
    leaving = math.prod(shape[1:]) * channels * size
    ratio = source[0] / shape[0]
    margin = max(w.entries.shape[1] for w in first.blocks) if isinstance(first, BandedMatrix) else 1
    fixed = COPIES * margin * entering
    each = COPIES * (leaving + (1 + ratio) * entering)
    rows = int((memory - fixed) // each)
    if rows < 1:
        raise _checks.wrong("memory", f"at least {int(fixed + each) + 1:,} bytes for a row", f"{memory:,}")
    return min(rows, shape[0])


def _first_axis(operator: Matrix, a: int, b: int, source: Rows, means: Tensor, chunk: int) -> Tensor:
    """Rows a … b - 1 of the first axis's operator times the source, (channels, b - a, …)."""
    if isinstance(operator, BandedMatrix):
        parts = [w for w in operator.blocks if w.rows.stop > a and w.row < b]
        low, high = min(w.column for w in parts), max(w.columns.stop for w in parts)
        x = _rows(_read(source, low, high, means))
        out = x.new_empty(x.shape[0], b - a, x.shape[2])
        for w in parts:
            top, bottom = max(a, w.row), min(b, w.rows.stop)
            block = w.entries[top - w.row : bottom - w.row]
            part = x[:, w.column - low : w.columns.stop - low]
            out[:, top - a : bottom - a] = block @ part
        return out.reshape(*out.shape[:2], *source.shape[1:-1])
    total = torch.zeros(source.shape[-1], b - a, math.prod(source.shape[1:-1]))
    for low in range(0, operator.shape[1], chunk):
        x = _rows(_read(source, low, min(low + chunk, operator.shape[1]), means))
        total += operator[a:b, low : low + x.shape[1]] @ x
    return total.reshape(*total.shape[:2], *source.shape[1:-1])


def _rows(x: Tensor) -> Float[Tensor, "channels rows rest"]:
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _read(source: Rows, low: int, high: int, means: Tensor | None) -> Tensor:
    """Rows of the source in float32, channels first, less their means; gives the pages of a memory map back."""
    rows = np.moveaxis(read_rows(source, slice(low, high)), -1, 0)
    x = torch.from_numpy(np.array(rows, dtype=np.float32, order="C"))
    release(source)
    return x if means is None else x.sub_(means.reshape(-1, *(1,) * (x.ndim - 1)))


def _means(source: Rows, chunk: int, center: bool) -> Tensor:
    """The mean of every channel, summed in float64; zero where the plan does not center values."""
    total = torch.zeros(source.shape[-1], dtype=torch.float64)
    count = math.prod(source.shape[:-1])
    for low in range(0, source.shape[0], chunk):
        x = _read(source, low, min(low + chunk, source.shape[0]), None)
        total += x.flatten(1).sum(1, dtype=torch.float64)
    if not bool(torch.isfinite(total).all()):
        raise _checks.wrong("source", "finite values", "NaN or infinity")
    return (total / count if center else torch.zeros_like(total)).float()


def available_memory() -> int:
    """Bytes of memory that are available without swapping."""
    status = Path("/proc/meminfo")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    return UNKNOWN_MEMORY
