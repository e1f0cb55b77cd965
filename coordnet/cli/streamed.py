"""``coordnet upscale`` of what is larger than memory: read, fitted, rendered and written in blocks of rows."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli.outputs import staged_folder
from coordnet.cli.report import finish, versions
from coordnet.cli.restoring import Common
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fit.closed_form import plan
from coordnet.fit.least_squares import LeastSquares
from coordnet.media import MediaError
from coordnet.media.rows import RowFile, open_rows, write_rows
from coordnet.plots.restoration import restoration_figure
from coordnet.restore.rows import stream_render
from coordnet.restore.upscale import RCOND, USUAL, choose_sigma, nearest, premultiplied, unmultiplied
from coordnet.sampling.samples import Lattice

MIDDLE = 1024  # pixels a side of the part that decides the width of the bumps
DETAIL = 96  # pixels a side of the part that the figure shows
COMPRESSED = 8  # times smaller that a compressed file may be, at most
PLANNED = 6144  # bytes that planning takes for a sample of an axis, and for one of the result's
SMALL = 2**26  # bytes of planning that no memory is too little for: the interpreter has more
IN_MEMORY = 12  # bytes of enlarging a picture in memory for each byte of the result


def streams(path: Path, factor: float, memory: int) -> bool:
    """Whether a signal is read in rows: an array always, a TIFF file where it would take more memory than there is."""
    if path.suffix.lower() in (".npy", ".zarr"):
        return True
    if path.suffix.lower() not in (".tif", ".tiff") or not path.is_file():
        return False
    try:
        with open_rows(path) as source:
            return IN_MEMORY * factor**2 * source.nbytes > memory
    except MediaError:
        return False  # the whole file's reader says what is wrong, or reads it


def upscale_rows(path: Path, factor: float, memory: int, options: Common) -> None:
    """Enlarge a signal by the Gaussian encoding, in blocks that fit into ``memory``."""
    with (
        open_rows(path) as source,
        staged_folder(options.out, command="upscale", name=path.stem, force=options.force) as (
            staging,
            final,
        ),
    ):
        grid = source.shape[:-1]
        shape = tuple(max(1, round(factor * n)) for n in grid)
        _check(source, factor, shape, memory, staging, options.device)
        start = time.perf_counter()
        sigma, tried = _sigma(source)
        geometry = Lattice(grid)
        made = plan(
            ComplexEncoding.like(Gaussian, geometry, sigma=sigma), geometry, LeastSquares(rcond=RCOND)
        )
        values = _Premultiplied(source) if source.alpha else source
        blocks = stream_render(made, values, shape, memory=memory, progress=options.progress)
        written = staging / f"reconstruction{path.suffix.lower()}"
        whole = (*shape, source.shape[-1])
        write_rows(written, whole, source.depth, _finished(blocks, source), channel_axis=source.channel_axis)
        seconds = time.perf_counter() - start
        record = {
            "signal": path.stem,
            "command": "upscale",
            "shape": list(whole),
            "factor": factor,
            "encoder": f"gaussian:sigma={sigma}",
            "tried": tried,
            "premultiplied": source.alpha,
            "hold_out_psnr": tried.get(sigma),
            "memory": memory,
            "seconds": seconds,
            "report": {"method": "least squares in blocks of rows", "ranks": made.report["ranks"]},  # type: ignore[attr-defined]
            "device": "cpu",
            "versions": versions(),
        }
        if len(grid) == 2:
            with open_rows(written) as result:
                _figure(source, result, staging / "figure.png", path.stem)
        finish(staging, record)
    if options.json:
        print(json.dumps(record, ensure_ascii=False))
    elif not options.quiet:
        size = "×".join(str(n) for n in whole)
        print(
            f"{path.stem} {size} in {seconds:.2f} s\ncomplex Gaussian encoding, σ = {sigma}\nwritten to {final}"
        )


class _Premultiplied:
    """The rows of a picture with colours times opacity."""

    def __init__(self, source: RowFile) -> None:
        self.source, self.shape, self._mmap = source, source.shape, source._mmap

    def __getitem__(self, rows: slice) -> np.ndarray:
        return premultiplied(torch.from_numpy(self.source[rows])).numpy()


def _check(
    source: RowFile, factor: float, shape: tuple[int, ...], memory: int, folder: Path, device: str
) -> None:
    """Refuse what could not be written, planned or run, before the work begins."""
    if device not in ("auto", "cpu"):
        raise _checks.wrong("device", "auto or cpu for what is read in rows", repr(device))
    needed = math.prod(shape) * source.shape[-1] * np.dtype(source.depth).itemsize
    free = shutil.disk_usage(folder).free * (1 if source.path.suffix.lower() == ".npy" else COMPRESSED)
    if needed > free:
        room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
        raise _checks.wrong("factor", room, f"{factor:g}, {needed / 2**30:,.1f} GiB")
    planned = PLANNED * (sum(source.shape[:-1]) + sum(shape))
    if planned > max(memory, SMALL):
        raise _checks.wrong(
            "memory", f"at least {planned:,} bytes for axes as long as those of {source.path}", f"{memory:,}"
        )


def _finished(blocks: Iterator[np.ndarray], source: RowFile) -> Iterator[np.ndarray]:
    try:
        for block in blocks:
            yield unmultiplied(torch.from_numpy(block)).numpy() if source.alpha else block
    except MediaError:
        raise
    except ValueError as error:
        raise MediaError(f"{source.path}: {error}") from None


def _sigma(source: RowFile) -> tuple[str, dict[str, float]]:
    """The width of the bumps that the middle of a picture decides; the usual one for other signals."""
    if len(source.shape) != 3:
        return USUAL, {}
    middle = _part(source, MIDDLE)
    if not bool(torch.isfinite(middle).all()):
        raise MediaError(f"{source.path}: expected values known everywhere, found NaN or infinity")
    return choose_sigma(premultiplied(middle) if source.alpha else middle)


def _part(source: RowFile, side: int) -> Tensor:
    """The middle of a picture, at most ``side`` pixels a side."""
    (top, bottom), (left, right) = (
        ((n - min(n, side)) // 2, (n + min(n, side)) // 2) for n in source.shape[:2]
    )
    return torch.from_numpy(np.array(source[top:bottom][:, left:right]))


def _figure(source: RowFile, result: RowFile, path: Path, name: str) -> None:
    """The middle of the signal before and after."""
    before = _part(source, DETAIL)
    sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)][:2]
    after = _part(result, max(sides))[: sides[0], : sides[1]]
    titles = (f"{name}, its middle", "upscale, its middle")
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)
