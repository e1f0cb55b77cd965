"""The commands that restore a signal: ``coordnet inpaint``, ``upscale``, ``denoise`` and ``demosaic``."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common
from coordnet.media import Media, MediaError, read_mask, read_media, write_media
from coordnet.media.rows import RowFile, open_rows, write_rows
from coordnet.metrics.stopwatch import once
from coordnet.plots.reconstruction import sampled_picture
from coordnet.plots.restoration import restoration_figure
from coordnet.restore.demosaic import demosaic as demosaiced
from coordnet.restore.denoise import denoise as denoised
from coordnet.restore.inpaint import inpaint as inpainted
from coordnet.restore.large import exceeds, middle, upscale_rows
from coordnet.restore.restored import Restored
from coordnet.restore.rows import available_memory
from coordnet.restore.upscale import enlarged, nearest
from coordnet.restore.upscale import upscale as upscaled
from coordnet.sampling.patterns import Bayer, Pattern, sample

DETAIL = 96  # pixels a side of the part of a large picture that its figure shows
COMPRESSED = 8  # times smaller that a Zarr array may be, at most


@dataclass(frozen=True)
class Shown:
    """A restored signal, the picture beside it in the figure, two lines for the screen, the record's own part."""

    made: Restored
    before: Tensor
    chosen: str
    sureness: str
    settings: dict[str, Any] = field(default_factory=dict)


def inpaint(signal: str, mask: Path, common: Common) -> None:
    """Fill the samples that a mask calls unknown, and those that are NaN."""

    def work(media: Media, device: torch.device) -> Shown:
        known = read_mask(mask, media.grid)
        made = inpainted(media.signal.to(device), known, seed=common.seed, progress=common.progress)
        return _filled(made, media.signal, known)

    _restore("inpaint", signal, common, work)


def demosaic(raw: str, pattern: str, common: Common) -> None:
    """Fill the two colors that each pixel of a mosaic did not measure."""
    bayer = Bayer(pattern.upper())

    def work(media: Media, device: torch.device) -> Shown:
        made = demosaiced(media.signal.to(device), bayer.pattern, seed=common.seed, progress=common.progress)
        return _filled(made, media.signal.expand(-1, -1, 3), bayer)

    _restore("demosaic", raw, common, work, image=True)


def _filled(made: Restored, signal: Tensor, known: Pattern | Tensor) -> Shown:
    start, rounds, expected = made.fit.report["start"], made.fit.report["rounds"], made.expected_psnr
    law = f"power {start['power']:g}, strength {start['strength']:g}"
    learned = f"spectrum learned in {rounds} round{'s' * (rounds != 1)}"
    chosen = f"{100 * made.chosen['known']:.3g} % known, adaptive prior: started from {law}, {learned}"
    sureness = "too little is known to hold any of it out"
    if expected is not None:
        sureness = f"hold-out PSNR {expected:.2f} dB"
    before = sampled_picture(sample(signal, known), signal.shape[-1])
    return Shown(made, before, chosen, sureness, {**made.chosen, "hold_out_psnr": expected})


def denoise(signal: str, sigma: float | None, common: Common) -> None:
    """Remove white noise of a standard deviation, given or estimated."""
    if sigma is not None:
        _checks.nonnegative("sigma", sigma)
    how, about = ("estimated", "about ") if sigma is None else ("given", "")

    def work(media: Media, device: torch.device) -> Shown:
        values, options = media.signal.to(device), {"seed": common.seed, "progress": common.progress}
        made = denoised(values, sigma, alpha=media.alpha, **options)
        expected = made.expected_psnr
        chosen = f"noise of standard deviation {made.chosen['sigma']:.4g} ({how})"
        sureness = "no noise found" if expected is None else f"expected PSNR {about}{expected:.1f} dB"
        return Shown(made, media.signal, chosen, sureness, {**made.chosen, "expected_psnr": expected})

    _restore("denoise", signal, common, work)


def upscale(image: str, factor: float, memory: str | None, common: Common) -> None:
    """Enlarge a picture, in blocks of rows where it is an array or larger than memory."""
    enlarged((1,), factor)  # refuses a wrong factor
    budget = available_memory() // 2 if memory is None else specs.parse_bytes(memory)
    if _is_large(Path(image), factor, budget):
        _upscale_rows(Path(image), factor, budget, common)
        return

    def work(media: Media, device: torch.device) -> Shown:
        made = upscaled(media.signal.to(device), factor, alpha=media.alpha)
        expected, grid = made.expected_psnr, tuple(made.signal.shape[:2])
        sureness = "too small to try on its own reduction"
        if expected is not None:
            sureness = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = made.signal if grid == media.grid else nearest(media.signal, grid)
        chosen, settings = _gaussians(made.chosen, factor, media.alpha, expected)
        return Shown(made, before, chosen, sureness, settings)

    _restore("upscale", image, common, work, image=True)


def _gaussians(
    chosen: dict[str, Any], factor: float, alpha: bool, expected: float | None
) -> tuple[str, dict[str, Any]]:
    """The line for the screen, and the part of the record, on what enlarges a picture."""
    settings = {"factor": factor, "encoder": f"gaussian:sigma={chosen['sigma']}", "tried": chosen["tried"]}
    settings |= {"premultiplied": alpha, "hold_out_psnr": expected}
    return f"complex Gaussian encoding, σ = {chosen['sigma']}", settings


def _restore(
    command: str, signal: str, common: Common, work: Callable[[Media, torch.device], Shown], *, image: bool = False
) -> None:
    """Read a signal, restore it, write what comes out, and print what was chosen.

    Raises
    ------
    MediaError
        If the signal is none that the command takes.
    """
    device = specs.choose_device(common.device)
    media = read_media(signal)
    if image and media.kind != "image":
        raise MediaError(f"{signal}: expected image to {command}, found {media.kind}")
    with report.results(common, command, media.name) as (staging, final):
        with report.naming(signal):
            shown, seconds = once(lambda: work(media, device))
        made = replace(media, signal=shown.made.signal.detach().cpu())
        record = {
            "signal": media.name,
            "command": command,
            "shape": list(made.signal.shape),
            **shown.settings,
            "parameters": shown.made.fit.network.parameter_count,
            "seconds": seconds,
            "report": shown.made.fit.report,
            "device": str(device),
            "seed": common.seed,
            "versions": report.versions(),
        }
        titles = (media.name, f"{command}\n{shown.sureness}")
        figure = restoration_figure(shown.before.detach().cpu(), made.signal, titles)
        report.write_results(staging, made, shown.made.fit, figure, record)
        if media.kind == "video":  # the .mp4 is compressed
            write_media(made, staging / "reconstruction.npy")
    heading = f"{media.name} {report.size(made.signal.shape)} in {seconds:.2f} s"
    report.show(record, [heading, shown.chosen, shown.sureness, f"written to {final}"], common)


def _is_large(path: Path, factor: float, memory: int) -> bool:
    """Whether a file is read in rows: an array always, a TIFF file where it would take more memory than there is."""
    if path.suffix.lower() in (".npy", ".zarr"):
        return True
    if path.suffix.lower() not in (".tif", ".tiff") or not path.is_file():
        return False
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
        _check_room(source, factor, staging)
        start = time.perf_counter()
        made = upscale_rows(source, factor, memory=memory, alpha=source.alpha, progress=common.progress)
        written = staging / f"reconstruction{path.suffix.lower()}"
        blocks = _named(made.blocks, path)
        write_rows(written, made.shape, source.depth, blocks, channel_axis=source.channel_axis)
        seconds = time.perf_counter() - start
        chosen, settings = _gaussians(made.chosen, factor, source.alpha, made.expected_psnr)
        record = {
            "signal": path.stem,
            "command": "upscale",
            "shape": list(made.shape),
            **settings,
            "memory": memory,
            "seconds": seconds,
            "report": made.report,
            "device": "cpu",
            "versions": report.versions(),
        }
        if len(made.shape) == 3:
            _draw_middle(source, written, staging / "figure.png", path.stem)
        report.write_record(staging, record)
    heading = f"{path.stem} {report.size(made.shape)} in {seconds:.2f} s"
    report.show(record, [heading, chosen, f"written to {final}"], common)


def _named(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """The blocks; what is wrong with the source's values is said of its file, not of the file being written."""
    with report.naming(path):
        yield from blocks


def _check_room(source: RowFile, factor: float, folder: Path) -> None:
    """Refuse a result for which the disk has no room."""
    shape = (*enlarged(source.shape[:-1], factor), source.shape[-1])
    needed = prod(shape) * np.dtype(source.depth).itemsize
    free = shutil.disk_usage(folder).free * (COMPRESSED if source.path.suffix.lower() == ".zarr" else 1)
    if needed > free:
        room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
        raise _checks.wrong("factor", room, f"{factor:g}, {needed / 2**30:,.1f} GiB")


def _draw_middle(source: RowFile, written: Path, path: Path, name: str) -> None:
    """Draw the middle of a picture before and after."""
    before = middle(source, DETAIL)
    with open_rows(written) as result:
        sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)]
        after = middle(result, max(sides[:2]))[: sides[0], : sides[1]]
    titles = (f"{name}, its middle", "upscale, its middle")
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)
