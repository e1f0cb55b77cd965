"""The commands that restore a signal: ``coordnet inpaint``, ``upscale``, ``denoise`` and ``demosaic``."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common
from coordnet.media import Media, MediaError, read_mask, read_media, write_media
from coordnet.media.arrays import ARRAY_SUFFIXES, split_member
from coordnet.media.rows import RowFile, open_rows, write_rows
from coordnet.metrics.stopwatch import once
from coordnet.plots.reconstruction import sampled_picture
from coordnet.plots.restoration import restoration_figure
from coordnet.restore.demosaic import demosaic as demosaiced
from coordnet.restore.denoise import denoise as denoised
from coordnet.restore.inpaint import inpaint as inpainted
from coordnet.restore.large import UpscaledRows, exceeds, middle, upscale_rows
from coordnet.restore.restored import Restored
from coordnet.restore.rows import available_memory
from coordnet.restore.upscale import enlarged, nearest
from coordnet.restore.upscale import upscale as upscaled
from coordnet.sampling.patterns import Bayer, Pattern, sample

GAUSSIANS = "complex Gaussian encoding, σ = {sigma}"
DETAIL = 96  # pixels a side of the part of a large picture that its figure shows


@dataclass(frozen=True)
class Shown:
    """A restored signal, the picture beside it in the figure, two lines for the screen, the record's own part."""

    made: Restored
    before: Tensor
    chosen: str
    sureness: str
    settings: dict[str, Any]


def inpaint(signal: str, mask: Path, threshold: float | None, invert: bool, common: Common) -> None:
    """Fill the samples that a mask calls unknown, and those that are NaN."""

    def work(media: Media, values: Tensor) -> Shown:
        known = read_mask(mask, media.grid, threshold=threshold, invert=invert)
        made = inpainted(values, known, dimensions=len(media.grid), seed=common.seed, progress=common.progress)
        return _filled(made, media.signal, known)

    _restore("inpaint", signal, common, work)


def demosaic(raw: str, pattern: str, common: Common) -> None:
    """Fill the two colors that each pixel of a mosaic did not measure."""
    bayer = Bayer(pattern.upper())

    def work(media: Media, values: Tensor) -> Shown:
        made = demosaiced(values, bayer.pattern, seed=common.seed, progress=common.progress)
        return _filled(made, media.signal.expand(-1, -1, 3), bayer)

    _restore("demosaic", raw, common, work, image=True)


def _filled(made: Restored, signal: Tensor, known: Pattern | Tensor) -> Shown:
    start, rounds, expected = made.fit.report["start"], made.fit.report["rounds"], made.expected_psnr
    law = f"power {start['power']:g}, strength {start['strength']:g}"
    learned = f"spectrum learned in {rounds} round{'s' * (rounds != 1)}"
    chosen = f"{100 * made.report['known']:.3g} % known, adaptive prior: started from {law}, {learned}"
    known_little = "too little is known to hold any of it out"
    sureness = known_little if expected is None else f"hold-out PSNR {expected:.2f} dB"
    before = sampled_picture(sample(signal, known, dimensions=signal.ndim - 1), signal.shape[-1], float("nan"))
    kept = {name: made.report[name] for name in ("known", "pattern") if name in made.report}
    return Shown(made, before, chosen, sureness, {**kept, "prior": "adaptive", "hold_out_psnr": expected})


def denoise(signal: str, sigma: float | None, common: Common) -> None:
    """Remove white noise of a standard deviation, given or estimated."""
    how, about = ("estimated", "about ") if sigma is None else ("given", "")

    def work(media: Media, values: Tensor) -> Shown:
        made = denoised(
            values, sigma, alpha=media.alpha, dimensions=len(media.grid), seed=common.seed, progress=common.progress
        )
        expected = made.expected_psnr
        chosen = f"noise of standard deviation {made.report['sigma']:.4g} ({how})"
        sureness = "no noise found" if expected is None else f"expected PSNR {about}{expected:.1f} dB"
        found = {"sigma": made.report["sigma"], "expected_psnr": expected}
        return Shown(made, media.signal, chosen, sureness, found)

    _restore("denoise", signal, common, work)


def upscale(image: str, factor: float, memory: str | None, common: Common) -> None:
    """Enlarge a picture, in blocks of rows where it is an array or larger than memory."""
    budget = available_memory() // 2 if memory is None else specs.parse_bytes(memory)
    path = Path(image)
    if _is_large(path, factor, budget):
        _upscale_rows(path, factor, budget, common)
        return

    def work(media: Media, values: Tensor) -> Shown:
        made = upscaled(values, factor, alpha=media.alpha)
        expected = made.expected_psnr
        sureness = "too small to try on its own reduction"
        if expected is not None:
            sureness = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = nearest(media.signal, tuple(made.signal.shape[:2]))
        return Shown(made, before, GAUSSIANS.format(**made.report), sureness, _settings(made, factor, media.alpha))

    _restore("upscale", image, common, work, image=True)


def _settings(made: Restored | UpscaledRows, factor: float, alpha: bool) -> dict[str, Any]:
    chosen = {name: made.report[name] for name in ("sigma", "tried")}
    encoder = f"gaussian:sigma={made.report['sigma']}"
    return {**chosen, "factor": factor, "encoder": encoder, "premultiplied": alpha, "hold_out_psnr": made.expected_psnr}


def _restore(
    command: str, signal: str, common: Common, work: Callable[[Media, Tensor], Shown], *, image: bool = False
) -> None:
    """Read a signal, restore it, write what comes out, and print what was chosen; ``image`` refuses other signals."""
    device = specs.choose_device(common.device)
    media = read_media(signal)
    if image and media.kind != "image":
        raise MediaError(f"{signal}: expected an image to {command}, found a signal of kind {media.kind}")
    with report.results(common, command, media.name) as (staging, final):
        with report.naming(signal):
            shown, seconds = once(lambda: work(media, media.signal.to(device)))
        made, fit = replace(media, signal=shown.made.signal.detach().cpu()), shown.made.fit
        found = {**shown.settings, "parameters": fit.network.parameter_count}
        found |= {"seconds": seconds, "report": shown.made.report, "device": str(device), "seed": common.seed}
        record = _record(command, media.name, made.signal.shape, **found)
        titles = (media.name, f"{command}\n{shown.sureness}")
        figure = restoration_figure(shown.before.detach().cpu(), made.signal, titles, rate=media.rate)
        report.write_results(staging, made, fit, figure, record)
        if media.kind == "video":  # the .mp4 is compressed
            write_media(made, staging / "reconstruction.npy")
    report.show(record, [_heading(record), shown.chosen, shown.sureness, f"written to {final}"], common)


def _record(command: str, name: str, shape: tuple[int, ...], **found: Any) -> report.Record:
    return {"signal": name, "command": command, "shape": list(shape), **found, "versions": report.versions()}


def _heading(record: report.Record) -> str:
    return f"{record['signal']} {report.size(record['shape'])} in {report.duration(record['seconds'])}"


def _is_large(path: Path, factor: float, memory: int) -> bool:
    """Whether a file is read in rows: an array always, a TIFF file where it would take more memory than there is."""
    suffix = split_member(path)[0].suffix.lower()
    if suffix not in (".tif", ".tiff"):
        return suffix in ARRAY_SUFFIXES
    try:
        with open_rows(path) as source:
            return exceeds(4 * prod(source.shape), factor, memory)
    except MediaError:
        return False  # the reader of whole files says what is wrong, or reads it


def _upscale_rows(path: Path, factor: float, memory: int, common: Common) -> None:
    """Enlarge a signal in blocks of rows, and write them as they come."""
    if common.device not in ("auto", "cpu"):
        raise _checks.wrong("device", "auto or cpu for what is read in rows", repr(common.device))
    with (
        open_rows(path) as source,
        report.results(common, "upscale", path.stem) as (staging, final),
        report.naming(path),
    ):
        shape, free = (*enlarged(source.shape[:-1], factor), source.shape[-1]), shutil.disk_usage(staging).free
        needed = prod(shape) * np.dtype(source.depth).itemsize
        if path.suffix.lower() != ".zarr" and needed > free:  # a Zarr array is compressed
            room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
            raise _checks.wrong("factor", room, f"{factor:g}, {needed / 2**30:,.1f} GiB")
        start = time.perf_counter()
        made = upscale_rows(source, factor, memory=memory, alpha=source.alpha, progress=common.progress)
        suffix = split_member(path)[0].suffix.lower()
        written = staging / f"reconstruction{'.npy' if suffix == '.npz' else suffix}"
        blocks = _named(made.blocks, path)
        write_rows(written, shape, source.depth, blocks, channel_axis=source.channel_axis)
        found = {**_settings(made, factor, source.alpha), "memory": memory}
        found |= {"seconds": time.perf_counter() - start, "report": made.report, "device": "cpu"}
        record = _record("upscale", path.stem, shape, **found)
        if len(shape) == 3:
            _draw_middle(source, written, staging / "figure.png", path.stem)
        report.write_record(staging, record)
    report.show(record, [_heading(record), GAUSSIANS.format(**made.report), f"written to {final}"], common)


def _named(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """The blocks; what is wrong with the source's values is said of its file, not of the file being written."""
    with report.naming(path):
        yield from blocks


def _draw_middle(source: RowFile, written: Path, path: Path, name: str) -> None:
    """Draw the middle of a picture before and after."""
    before = middle(source, DETAIL)
    with open_rows(written) as result:
        sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)]
        after = middle(result, max(sides[:2]))[: sides[0], : sides[1]]
    titles = (f"{name}, its middle", "upscale, its middle")
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)
