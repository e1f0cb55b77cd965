"""Upscaling of signals larger than memory: read, fitted and rendered in blocks of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coordnet import _checks
from coordnet.restore.areas import area_plan, smoothed
from coordnet.restore.rows import Rows, stream_render
from coordnet.restore.upscale import PIXEL_KINDS, PixelKind, choose, enlarged, point_plan, premultiplied, unmultiplied

PART_SIDE = 1024  # largest side in pixels of the middle part, which decides on the noise or the Gaussians' width
PLANNED = 6144  # bytes of a plan per sample of an axis, of the source and of the result
MIN_PLANNING = 2**26  # bytes of a plan that no limit refuses: the interpreter itself takes more
SMOOTHING_REACH = 16  # rows beside a block that are smoothed with it: the error is at most 9e-4, at a noise of 0.3
IN_MEMORY = 12  # peak bytes of enlarging in memory, per byte of the result


@dataclass(frozen=True)
class UpscaledRows:
    """An enlarged signal whose rows are computed as they are taken."""

    shape: tuple[int, ...]  # (*grid, channels)
    blocks: Iterator[np.ndarray]  # (rows, *rest, channels) in float32, one below the other
    report: dict[str, Any]  # the method, the rank of every axis, and what ``upscale`` reports
    expected_psnr: float | None  # see ``upscale``


def upscale_rows(
    source: Rows,
    factor: float,
    *,
    memory: int,
    samples: PixelKind = "area",
    alpha: bool = False,
    progress: bool = False,
) -> UpscaledRows:
    """Enlarge a signal of any number of axes as ``upscale`` does without a prior, in blocks of rows that fit in memory.

    The middle of a picture decides on its noise, or for points on the width of the Gaussians; signals with another
    number of axes are not smoothed. The rows are those of ``upscale`` with ``prior="none"`` up to rounding, and where
    noise is smoothed up to 0.001. ``memory`` is in bytes. A factor below 1, ``samples`` of another kind, too little
    memory, and NaN or infinity raise a ``ValueError``, the last as late as the blocks are taken.
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
    values: Rows = _Premultiplied(source, source.shape) if alpha else source
    chosen, expected = choose(part, samples)
    fit_plan = area_plan(grid) if samples == "area" else point_plan(grid, chosen["sigma"])
    if chosen.get("strength"):
        values = _Smoothed(values, source.shape, chosen["strength"])
    blocks = stream_render(fit_plan, values, shape, memory=memory, progress=progress)
    if alpha:
        blocks = (unmultiplied(torch.from_numpy(block)).numpy() for block in blocks)
    report = {"method": "least squares in blocks of rows", "ranks": fit_plan.report.ranks}  # type: ignore[attr-defined]
    return UpscaledRows(
        (*shape, source.shape[-1]), blocks, {**report, "samples": samples, "prior": "none", **chosen}, expected
    )


def exceeds(nbytes: int, factor: float, memory: int) -> bool:
    """Return whether enlarging a picture of ``nbytes`` bytes in float32 needs more than the given memory."""
    return IN_MEMORY * factor * factor * nbytes > memory


def middle(source: Rows, side: int) -> Tensor:
    """Return the middle of a picture, at most ``side`` pixels a side."""
    rows, columns = (slice((n - min(n, side)) // 2, (n + min(n, side)) // 2) for n in source.shape[:2])
    return torch.from_numpy(np.array(source[rows][:, columns]))


@dataclass(frozen=True)
class _Premultiplied:
    """The rows of a picture with colors times opacity."""

    source: Rows
    shape: tuple[int, ...]

    def __getitem__(self, rows: slice) -> np.ndarray:
        return premultiplied(torch.from_numpy(self.source[rows])).numpy()


@dataclass(frozen=True)
class _Smoothed:
    """The rows of a picture, smoothed; each block of them with ``SMOOTHING_REACH`` rows around it."""

    source: Rows
    shape: tuple[int, ...]
    strength: float

    def __getitem__(self, rows: slice) -> np.ndarray:
        low, high = max(0, rows.start - SMOOTHING_REACH), min(self.shape[0], rows.stop + SMOOTHING_REACH)
        block = torch.from_numpy(np.ascontiguousarray(self.source[low:high], dtype=np.float32))
        return smoothed(block, self.strength)[rows.start - low : rows.stop - low].numpy()
