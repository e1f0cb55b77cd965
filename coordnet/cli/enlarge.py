"""The command ``coordnet upscale``: pictures in memory, and signals that are read and written in blocks of rows."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common
from coordnet.cli.folders import results
from coordnet.cli.many import each
from coordnet.cli.report import Outcome
from coordnet.cli.restore import RESTORED, Shown, heading, named_noise, record_of, restored
from coordnet.media import Media, MediaError
from coordnet.media.array_files import ARRAY_SUFFIXES, MEMBER_SUFFIXES, split_member
from coordnet.media.files import available_memory
from coordnet.media.pictures import write_pixels
from coordnet.media.row_blocks import ROW_SUFFIXES, RowFile, open_rows, write_rows
from coordnet.media.tags import warn_of_lost
from coordnet.plots.fits import restoration_figure
from coordnet.priors.local.areas import DEGREE
from coordnet.restore.rows import IN_MEMORY, middle, upscale_rows
from coordnet.restore.upscale import UPSCALE_PRIORS, WHITE, enlarged, nearest
from coordnet.restore.upscale import upscale as upscaled
from coordnet.restore.upscale_choice import PIXEL_KINDS, PixelKind

POINTS = "pixels as points: complex Gaussian encoding, σ = {sigma}"
AREAS = "pixels as areas: complex B-spline encoding, {assumed} prior, noise of standard deviation {noise:.2g}"
UPSCALE_MEMORY = 2**31  # bytes that enlarging may take without --memory, if they are free
SIDE_BEFORE, SIDE_AFTER = 96, 2048  # largest sides in pixels of the parts that the figure of a large picture shows


def upscale(
    signals: list[str], factor: float, samples: str, noise: str, prior: str, denoiser: str | None, common: Batch
) -> None:
    """Enlarge a picture, in blocks of rows where it is an array or larger than memory."""
    budget = common.memory_bytes or min(available_memory() // (2 * common.workers), UPSCALE_MEMORY)
    kind = cast(PixelKind, _checks.choice("samples", samples, PIXEL_KINDS))
    _checks.choice("prior", prior, UPSCALE_PRIORS)
    chosen = prior if denoiser is None else specs.parse_prior(prior, denoiser)
    options = {"samples": kind, "noise": noise, "prior": chosen}
    each("upscale", partial(_upscale, factor=factor, options=options, budget=budget), signals, common)


def _upscale(image: str, common: Common, factor: float, options: dict[str, Any], budget: int) -> Outcome:
    path, prior = Path(image), options["prior"]
    if _is_large(path, factor, budget, common.memory_bytes):
        if prior not in ("auto", "none"):
            raise _checks.wrong("prior", "auto or none for what is read in rows", getattr(prior, "text", prior))
        if options["noise"] != WHITE:
            raise _checks.wrong("noise", "white for what is read in rows", options["noise"])
        return _upscale_rows(path, factor, options["samples"], budget, common)

    def work(signal: str, media: Media, values: Tensor, common: Common) -> Shown:
        asked = {**options, "noise": named_noise(options["noise"], signal), "progress": common.progress}
        made = upscaled(values if values.ndim == 3 else values.flatten(0, -4), factor, alpha=media.alpha, **asked)
        made = replace(made, signal=made.signal.unflatten(0, values.shape[:-3])) if values.ndim > 3 else made
        expected = made.expected_psnr
        sureness = "too small, or too uniform, to try on its own reduction"
        if expected is not None:
            sureness = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = nearest(media.signal, tuple(made.signal.shape[-3:-1]))
        settings = _upscaling(made.report, factor, media.alpha, expected)
        return Shown(made, before, _chosen(made.report), sureness, settings)

    return restored("upscale", work, image, common, kinds=("image", "stack", "video"))


def _chosen(found: report.Record) -> str:
    assumed = "no" if found["prior"] == "none" else found["prior"]
    chosen = (AREAS if found["samples"] == "area" else POINTS).format(assumed=assumed, **found)
    kinds = ", ".join(dict.fromkeys(noise["kind"] for noise in found.get("removed", ())))
    chosen = f"without its noise ({kinds}), {chosen}" if kinds else chosen
    return chosen + " (--prior none is faster)" * (found["prior"] == "local")


def _upscaling(found: report.Record, factor: float, alpha: bool, expected: float | None) -> report.Record:
    """Return the part of a record that says how a picture was enlarged."""
    names = ("samples", "prior", "division", "noise", "removed", "strength", "sigma", "tried")
    chosen = {name: found[name] for name in names if name in found}
    encoder = f"gaussian:sigma={found['sigma']}" if "sigma" in found else f"bspline:degree={DEGREE}"
    return {**chosen, "factor": factor, "encoder": encoder, "premultiplied": alpha, "hold_out_psnr": expected}


def _is_large(path: Path, factor: float, budget: int, memory: int | None) -> bool:
    """Return whether a file is read in rows: a picture that exceeds the memory, or an array that is no picture."""
    suffix = split_member(path)[0].suffix.lower()
    if suffix == ".zarr":
        return True
    try:
        with open_rows(path, memory) as source:
            return len(source.shape) != 3 or IN_MEMORY * factor * factor * prod(source.shape) > budget
    except MediaError:  # the reader of rows says what is wrong with an array, that of whole files with others
        return suffix in ARRAY_SUFFIXES


def _upscale_rows(path: Path, factor: float, kind: PixelKind, memory: int, common: Common) -> Outcome:
    """Enlarge a signal in blocks of rows, and write them as they come."""
    if common.device not in ("auto", "cpu"):
        raise _checks.wrong("device", "auto or cpu for what is read in rows", repr(common.device))
    with (
        open_rows(path, common.memory_bytes) as source,
        results(common, "upscale", path.stem) as (staging, final),
        specs.naming(path, unless=MediaError),
    ):
        shape, free = (*enlarged(source.shape[:-1], factor), source.shape[-1]), shutil.disk_usage(staging).free
        needed = prod(shape) * np.dtype(source.depth).itemsize
        if path.suffix.lower() != ".zarr" and needed > free:  # a Zarr array is compressed
            room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
            raise _checks.wrong("factor", room, f"{factor:g}, {needed / 2**30:,.1f} GiB")
        start = time.perf_counter()
        options: Any = {"memory": memory, "samples": kind, "alpha": source.alpha, "progress": common.progress}
        blocks, made, expected = upscale_rows(source, factor, **options)
        stored = _written(blocks, shape, source, path, staging, common)
        found = {**_upscaling(made, factor, source.alpha, expected), "memory": memory}
        found |= {"seconds": time.perf_counter() - start, "report": made, "device": "cpu"}
        record = record_of("upscale", path.stem, shape, common, found)
        if len(shape) == 3 and common.is_drawn:
            _draw_middle(source, replace(source, stored=stored), staging / "figure.png", path.stem)
        if common.is_explained:
            report.write_record(staging, record)
    return Outcome(record, [heading(record), _chosen(made), f"written to {final}"], _chosen(made))


def _written(
    blocks: Iterator[np.ndarray], shape: tuple[int, ...], source: RowFile, path: Path, staging: Path, common: Common
) -> Any:
    """Write blocks of rows in the format of their source where it takes rows, and return the array that has them."""
    given = split_member(path)[0].suffix.lower()
    suffix = ".npy" if given in MEMBER_SUFFIXES else given if given in ROW_SUFFIXES else ".png"
    if common.file is not None and common.file.suffix.lower() not in (suffix, ""):
        raise MediaError(f"{common.file}: expected the suffix {suffix} for what is read in rows, found another")
    written, (held, lost) = staging / f"{RESTORED}{suffix}", source.held(suffix, shape)
    options: Any = {"channel_axis": source.channel_axis, "alpha": source.alpha, "held": held}
    stored = write_rows(written, shape, source.depth, _named(blocks, path), **options)
    if suffix == ".png":
        with common.stage("writing"):
            write_pixels(stored, written, held)
    warn_of_lost(path.stem, suffix, lost)
    return stored


def _named(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """Yield the blocks; errors in the source's values name its file, not the one that is being written."""
    with specs.naming(path, unless=MediaError):
        yield from blocks


def _draw_middle(source: RowFile, result: RowFile, path: Path, name: str) -> None:
    """Draw the middle of a picture before and after."""
    enlarged_by = max(1, result.shape[0] // source.shape[0])
    before = middle(source, max(1, min(SIDE_BEFORE, SIDE_AFTER // enlarged_by)))
    sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)]
    after = middle(result, max(sides[:2]))[: sides[0], : sides[1]]
    titles = (f"{name}, its middle", "upscale, its middle")
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)
