"""Signals larger than memory: read, fitted, rendered and enlarged in blocks of rows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.linalg.kronecker import Kronecker, Matrix, product_along
from coordnet.plans.plan import Plan
from coordnet.restore.restored import UpscaleReport
from coordnet.restore.upscale import enlarged, premultiplied, unmultiplied
from coordnet.restore.upscale_choice import PIXEL_KINDS, PixelKind, center, choose, pixel_plan, smoothed

LARGEST_BLOCK = 256  # rows of the result in a block; larger blocks are no faster
COPIES = 4  # copies in memory of a block of the result and of the rows it needs
PART_SIDE = 1024  # largest side in pixels of the middle part, which decides on the noise or the Gaussians' width
PLANNED = 6144  # bytes of a plan per sample of an axis, of the source and of the result
MIN_PLANNING = 2**26  # bytes of a plan that no limit refuses: the interpreter itself takes more
SMOOTHING_REACH = 16  # rows beside a block that are smoothed with it: the error is at most 9e-4, at a noise of 0.3
IN_MEMORY = 48  # peak bytes of enlarging a picture in memory, per value of the result


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
    plan: Plan, source: Rows, shape: tuple[int, ...], *, memory: int, progress: bool = False
) -> Iterator[np.ndarray]:
    """Yield the rows of a fitted signal block by block: ``plan.fit(source).render(shape)`` as (rows, *rest, channels).

    The plan is least squares on the source's lattice, with centering and without a ridge, in float32 on the CPU. The
    source (*grid, channels) is an array, a memory map, a Zarr array or any other ``Rows``. It is read twice in float32,
    first for its means, then the rows that each block depends on. A source that is not finite, or a ``memory`` in bytes
    that does not suffice for one row, raises a ``ValueError``.
    """
    operator = plan.renderer(shape).operator
    assert isinstance(operator, Kronecker), "a plan of least squares has one matrix per axis"
    first, *others = operator.matrices
    step = min(block_rows(first, tuple(source.shape), shape, memory), LARGEST_BLOCK)
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


def upscale_rows(
    source: Rows,
    factor: float,
    *,
    memory: int,
    samples: PixelKind = "area",
    alpha: bool = False,
    progress: bool = False,
) -> tuple[Iterator[np.ndarray], UpscaleReport, float | None]:
    """Enlarge a signal of any number of axes as ``upscale`` does without a prior, in blocks of rows that fit in memory.

    The middle of a picture decides on its noise, or for points on the width of the Gaussians; signals with another
    number of axes are not smoothed. The rows are those of ``upscale`` with ``prior=None`` up to rounding, and where
    noise is smoothed up to 0.001. ``memory`` is in bytes. A factor below 1, ``samples`` of another kind, too little
    memory, and NaN or infinity raise a ``ValueError``, the last as late as the blocks are taken.

    Returned are the blocks (rows, *rest, channels) in float32, computed as they are taken, the report of
    ``upscale``, and the expected PSNR.
    """
    _checks.choice("samples", samples, PIXEL_KINDS)
    grid = tuple(source.shape[:-1])
    shape = enlarged(grid, factor)
    needed = PLANNED * (sum(grid) + sum(shape))
    if needed > max(memory, MIN_PLANNING):
        raise _checks.wrong("memory", f"at least {needed:,} bytes for axes of this length", f"{memory:,}")
    part = torch.zeros(1, 1, 1)  # too small to decide
    if len(grid) == 2:
        part = middle(source, PART_SIDE)
        if not bool(torch.isfinite(part).all()):
            raise _checks.wrong("source", "values known everywhere", "NaN or infinity")
        part = premultiplied(part) if alpha else part
    chosen, expected = choose(part, samples)
    fit_plan, strength = pixel_plan(grid, sigma=chosen.sigma), chosen.strength
    values = _Changed(source, premultiplied) if alpha else source
    values = _Changed(values, partial(smoothed, strength=strength), SMOOTHING_REACH) if strength else values
    blocks = stream_render(fit_plan, values, shape, memory=memory, progress=progress)
    if alpha:
        blocks = (unmultiplied(torch.from_numpy(block)).numpy() for block in blocks)
    fit_report = replace(fit_plan.report, method="least squares in blocks of rows")  # type: ignore[attr-defined]
    return blocks, replace(chosen, fit=fit_report), expected


def middle(source: Rows, side: int) -> Tensor:
    """Return the middle of a picture, at most ``side`` pixels a side."""
    rows, columns = center(source.shape, side)
    return torch.from_numpy(np.array(source[rows][:, columns]))


@dataclass(frozen=True)
class _Changed:
    """The rows of a picture after a change, for which each block of them has some ``reach`` of rows around it."""

    source: Rows
    change: Callable[[Tensor], Tensor]
    reach: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid's lengths, and the channels."""
        return self.source.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        low, high = max(0, rows.start - self.reach), min(self.shape[0], rows.stop + self.reach)
        block = torch.from_numpy(np.ascontiguousarray(self.source[low:high], dtype=np.float32))
        return self.change(block)[rows.start - low : rows.stop - low].numpy()
