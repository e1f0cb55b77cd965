"""The commands that restore a signal: ``coordnet inpaint``, ``upscale``, ``denoise`` and ``demosaic``."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs, sureness
from coordnet.cli.common import Common, Many, is_folder
from coordnet.cli.many import each
from coordnet.cli.origin import origin
from coordnet.cli.report import Outcome
from coordnet.cli.sureness import Sureness
from coordnet.comparison.stopwatch import once
from coordnet.media import Media, MediaError, read_mask, read_media, write_media
from coordnet.media.array_files import ARRAY_SUFFIXES, split_member
from coordnet.media.declared import available_memory
from coordnet.media.pictures import write_pixels
from coordnet.media.row_blocks import ROW_SUFFIXES, RowFile, open_rows, write_rows
from coordnet.networks.reports import AdaptiveReport, StackReport
from coordnet.plots.panels import sampled_picture
from coordnet.plots.restoration import restoration_figure
from coordnet.priors.base import Prior
from coordnet.priors.local.areas import DEGREE
from coordnet.restore.demosaic import demosaic as demosaiced
from coordnet.restore.denoise import denoise as denoised
from coordnet.restore.divide import UPSCALE_PRIORS
from coordnet.restore.inpaint import inpaint as inpainted
from coordnet.restore.large import UpscaledRows, exceeds, middle, upscale_rows
from coordnet.restore.restored import Restored
from coordnet.restore.tiles import Tiles
from coordnet.restore.upscale import PIXEL_KINDS, PixelKind, enlarged, nearest
from coordnet.restore.upscale import upscale as upscaled
from coordnet.sampling.patterns import Bayer, Pattern, sample

POINTS = "pixels as points: complex Gaussian encoding, σ = {sigma}"
AREAS = "pixels as areas: complex B-spline encoding, {assumed} prior, noise of standard deviation {noise:.2g}"
UPSCALE_MEMORY = 2**31  # bytes that enlarging may take without --memory, if they are free
SIDE_BEFORE, SIDE_AFTER = 96, 2048  # largest sides in pixels of the parts that the figure of a large picture shows


@dataclass(frozen=True)
class Shown:
    """A restored signal with the input that its figure shows, two lines to print, and its part of the record."""

    made: Restored
    before: Tensor
    chosen: str
    sureness: str
    settings: dict[str, Any]


def inpaint(
    signals: list[str],
    mask: Path,
    threshold: float | None,
    invert: bool,
    prior: str,
    uncertainty: bool,
    many: Many,
    common: Common,
) -> None:
    """Fill the samples that a mask calls unknown, and those that are NaN."""
    options = {"threshold": threshold, "invert": invert, "memory": common.memory_bytes}
    reading = partial(read_mask, **options)
    chosen = {"prior": _prior(prior), "uncertainty": uncertainty}
    work = partial(_inpaint, mask=mask.absolute(), reading=reading, chosen=chosen)
    each("inpaint", work, signals, many, common, partial(_mask_of, mask=mask.absolute()))


def _inpaint(
    signal: str, common: Common, mask: Path, reading: Callable[..., Tensor], chosen: dict[str, Any]
) -> Outcome:
    def work(media: Media, values: Tensor) -> Shown:
        with specs.naming_option("mask"):
            found = _mask_of(signal, mask)
            if not found:
                raise MediaError(f"{mask}: expected a mask of the name {Path(signal).stem}, found none")
            known = reading(*found, media.grid)
        options = {"dimensions": len(media.grid), "seed": common.seed, "progress": common.progress}
        made = inpainted(values, known, **chosen, **options)
        return _filled(made, media.signal, known)

    return _restored("inpaint", signal, common, work)


def _prior(text: str) -> Prior | Literal["auto"]:
    """Return the prior that a text names; ``none`` raises ``ValueError``, since a gap needs a prior."""
    prior = specs.parse_prior(text)
    if prior is None:
        raise _checks.wrong("prior", "auto, local, adaptive or smooth", text)
    return prior


def _mask_of(signal: str, mask: Path) -> list[Path]:
    """Return a list of the mask of a signal: the file itself, or the first of its name in a folder, if any."""
    if not is_folder(mask):
        return [mask]
    return sorted(file for file in mask.iterdir() if file.stem == Path(signal).stem)[:1]


def demosaic(signals: list[str], pattern: str, sigma: float | None, prior: str, many: Many, common: Common) -> None:
    """Fill the two colors that each pixel of a mosaic did not measure."""
    work = partial(_demosaic, bayer=Bayer(pattern.upper()), sigma=sigma, prior=_prior(prior))
    each("demosaic", work, signals, many, common)


def _demosaic(raw: str, common: Common, bayer: Bayer, sigma: float | None, prior: Prior | Literal["auto"]) -> Outcome:
    def work(media: Media, values: Tensor) -> Shown:
        made = demosaiced(values, bayer.pattern, sigma, prior=prior, seed=common.seed, progress=common.progress)
        return _filled(made, media.signal.expand(-1, -1, 3), bayer)

    return _restored("demosaic", raw, common, work, image=True)


def _filled(made: Restored, signal: Tensor, known: Pattern | Tensor) -> Shown:
    expected = made.expected_psnr
    how, sigma = _learned(made), made.report.get("sigma")
    how = how if sigma is None else f", noise of standard deviation {sigma:.4g} (given)"
    chosen = f"{100 * made.report['known']:.3g} % known, {made.report['prior']} prior{how}"
    measured = "hold-out" if made.std is None else "expected"
    scored = f"{measured} PSNR {report.decibels(expected)}" if made.std is not None else _scored(made)
    part = Tiles(tuple(signal.shape[:-1])).middle
    samples = sample(signal, known, dimensions=signal.ndim - 1)
    before = sampled_picture(samples, signal.shape[-1], float("nan"))[part]
    kept = {name: made.report[name] for name in ("known", "pattern", "sigma", "prior") if name in made.report}
    return Shown(made, before, chosen, scored, {**kept, f"{measured.replace('-', '_')}_psnr": expected})


def _scored(made: Restored) -> str:
    """Return a line with the PSNR at hidden samples, or with the reason why there is none."""
    expected, wide = made.expected_psnr, made.report.get("wide_holes", False)
    if expected is None:
        unknown = "expected PSNR unknown: the holes are wider than what is known around them"
        return unknown if wide else "no sample was hidden to measure by"
    if wide:
        return f"expected PSNR about {expected:.0f} dB inside the holes, by hidden copies of them"
    return f"hold-out PSNR {expected:.2f} dB"


def _learned(made: Restored) -> str:
    if made.fit is None:
        return f" in {report.size(made.report['tiles'])} tiles"
    learned = made.fit.report
    if isinstance(learned, StackReport) and len(learned.fits) == 1:
        learned = learned.fits[0]
    if words := report.weight_words(learned):
        return words
    if not isinstance(learned, AdaptiveReport) or learned.start is None:
        return ""
    law = f"power {learned.start.power:g}, strength {learned.start.strength:g}"
    return f": started from {law}, spectrum learned in {learned.rounds} round{'s' * (learned.rounds != 1)}"


def denoise(signals: list[str], sigma: float | None, prior: str, many: Many, common: Common) -> None:
    """Remove white noise of a standard deviation, given or estimated."""
    each("denoise", partial(_denoise, sigma=sigma, prior=prior), signals, many, common)


def _denoise(signal: str, common: Common, sigma: float | None, prior: Any) -> Outcome:
    how = "estimated" if sigma is None else "given"

    def work(media: Media, values: Tensor) -> Shown:
        options = {"alpha": media.alpha, "dimensions": len(media.grid), "seed": common.seed}
        made = denoised(values, sigma, prior=prior, progress=common.progress, **options)
        expected, chosen_prior = made.expected_psnr, made.report["prior"]
        chosen = f"noise of standard deviation {made.report['sigma']:.4g} ({how}), {chosen_prior} prior"
        chosen += " (--prior adaptive is faster)" * (chosen_prior == "local" and prior == "auto")
        chosen += f" in {report.size(made.report['tiles'])} tiles" if made.fit is None else ""
        # Stein's formula is within half a dB where nothing was clipped, and within two elsewhere.
        sureness = "no noise found" if expected is None else f"expected PSNR about {expected:.0f} dB"
        found = {"sigma": made.report["sigma"], "prior": chosen_prior, "expected_psnr": expected}
        return Shown(made, media.signal[Tiles(media.grid).middle], chosen, sureness, found)

    return _restored("denoise", signal, common, work)


def upscale(signals: list[str], factor: float, samples: str, prior: str, many: Many, common: Common) -> None:
    """Enlarge a picture, in blocks of rows where it is an array or larger than memory."""
    free = min(available_memory() // (2 * many.workers), UPSCALE_MEMORY)
    budget = common.memory_bytes or free
    kind = cast(PixelKind, _checks.choice("samples", samples, PIXEL_KINDS))
    work = partial(
        _upscale, factor=factor, kind=kind, prior=_checks.choice("prior", prior, UPSCALE_PRIORS), budget=budget
    )
    each("upscale", work, signals, many, common)


def _upscale(image: str, common: Common, factor: float, kind: PixelKind, prior: str, budget: int) -> Outcome:
    path = Path(image)
    if _is_large(path, factor, budget, common.memory_bytes):
        if prior == "local":
            raise _checks.wrong("prior", "auto or none for what is read in rows", "local")
        return _upscale_rows(path, factor, kind, budget, common)

    def work(media: Media, values: Tensor) -> Shown:
        options = {"samples": kind, "prior": prior, "progress": common.progress}
        made = upscaled(values, factor, alpha=media.alpha, **options)
        expected = made.expected_psnr
        sureness = "too small, or too uniform, to try on its own reduction"
        if expected is not None:
            sureness = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = nearest(media.signal, tuple(made.signal.shape[:2]))
        return Shown(made, before, _chosen(made), sureness, _settings(made, factor, media.alpha))

    return _restored("upscale", image, common, work, image=True)


def _chosen(made: Restored | UpscaledRows) -> str:
    assumed = "no" if made.report["prior"] == "none" else made.report["prior"]
    chosen = (AREAS if made.report["samples"] == "area" else POINTS).format(assumed=assumed, **made.report)
    return chosen + " (--prior none is faster)" * (made.report["prior"] == "local")


def _settings(made: Restored | UpscaledRows, factor: float, alpha: bool) -> dict[str, Any]:
    names = ("samples", "prior", "division", "noise", "strength", "sigma", "tried")
    chosen = {name: made.report[name] for name in names if name in made.report}
    sigma = made.report.get("sigma")
    encoder = f"bspline:degree={DEGREE}" if sigma is None else f"gaussian:sigma={sigma}"
    return {**chosen, "factor": factor, "encoder": encoder, "premultiplied": alpha, "hold_out_psnr": made.expected_psnr}


def _restored(
    command: str, signal: str, common: Common, work: Callable[[Media, Tensor], Shown], *, image: bool = False
) -> Outcome:
    """Read a signal, restore it, and write what comes out; ``image`` refuses others than pictures and their arrays."""
    device = specs.choose_device(common.device)
    with report.stage("reading", common):
        media = read_media(signal, memory=common.memory_bytes)
    if image and media.kind != "image" and (media.kind, len(media.grid)) != ("array", 2):
        raise MediaError(f"{signal}: expected an image to {command}, found a signal of kind {media.kind}")
    with report.results(common, command, media.name) as (staging, final):
        with report.naming(signal):
            shown, seconds = once(lambda: work(media, media.signal.to(device)))
        made = replace(media, signal=shown.made.signal.detach().cpu(), known=shown.made.known)
        fit = shown.made.fit
        found = {**shown.settings, "parameters": fit and fit.network.parameter_count}
        found |= {"seconds": seconds, "report": shown.made.report, "seed": common.seed}
        found["device"] = shown.made.report.get("device", str(device))
        record = _record(command, media.name, made.signal.shape, common, **found)
        name = media.name if fit else f"{media.name}, its middle"
        after = made.signal if fit else made.signal[Tiles(made.grid).middle]
        with report.stage("drawing", common):
            titles = (name, f"{command}\n{shown.sureness}")
            figure = restoration_figure(shown.before.detach().cpu(), after, titles, rate=media.rate)
        report.write_results(staging, made, fit, figure, record, common)
        if shown.made.std is not None:
            sure = Sureness(shown.made.std, {"expected_psnr": shown.made.expected_psnr})
            sureness.write(staging, sure, media)
        if media.kind == "video":  # the .mp4 is compressed
            write_media(made, staging / "reconstruction.npy")
    lines = [_heading(record), shown.chosen, shown.sureness, f"written to {final}"]
    return Outcome(record, lines, shown.sureness)


def _record(command: str, name: str, shape: tuple[int, ...], common: Common, **found: Any) -> report.Record:
    said = {"signal": name, **origin(command, common), "shape": list(shape)}
    return {**said, **found, "versions": report.versions()}


def _heading(record: report.Record) -> str:
    return f"{record['signal']} {report.size(record['shape'])} in {report.duration(record['seconds'])}"


def _is_large(path: Path, factor: float, budget: int, memory: int | None) -> bool:
    """Return whether a file is read in rows: a picture that exceeds the memory, or an array that is no picture."""
    suffix = split_member(path)[0].suffix.lower()
    if suffix == ".zarr":
        return True
    try:
        with open_rows(path, memory) as source:
            return len(source.shape) != 3 or exceeds(4 * prod(source.shape), factor, budget)
    except MediaError:  # the reader of rows says what is wrong with an array, that of whole files with others
        return suffix in ARRAY_SUFFIXES


def _upscale_rows(path: Path, factor: float, kind: PixelKind, memory: int, common: Common) -> Outcome:
    """Enlarge a signal in blocks of rows, and write them as they come."""
    if common.device not in ("auto", "cpu"):
        raise _checks.wrong("device", "auto or cpu for what is read in rows", repr(common.device))
    with (
        open_rows(path, common.memory_bytes) as source,
        report.results(common, "upscale", path.stem) as (staging, final),
        report.naming(path),
    ):
        shape, free = (*enlarged(source.shape[:-1], factor), source.shape[-1]), shutil.disk_usage(staging).free
        needed = prod(shape) * np.dtype(source.depth).itemsize
        if path.suffix.lower() != ".zarr" and needed > free:  # a Zarr array is compressed
            room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
            raise _checks.wrong("factor", room, f"{factor:g}, {needed / 2**30:,.1f} GiB")
        start = time.perf_counter()
        options = {"samples": kind, "alpha": source.alpha, "progress": common.progress}
        made = upscale_rows(source, factor, memory=memory, **options)
        given = split_member(path)[0].suffix.lower()
        suffix = ".npy" if given == ".npz" else given if given in ROW_SUFFIXES else ".png"
        written, blocks = staging / f"reconstruction{suffix}", _named(made.blocks, path)
        options = {"channel_axis": source.channel_axis, "alpha": source.alpha}
        stored = write_rows(written, shape, source.depth, blocks, **options)
        if suffix == ".png":
            with report.stage("writing", common):
                write_pixels(stored, written)
        found = {**_settings(made, factor, source.alpha), "memory": memory}
        found |= {"seconds": time.perf_counter() - start, "report": made.report, "device": "cpu"}
        record = _record("upscale", path.stem, shape, common, **found)
        if len(shape) == 3:
            result = replace(source, stored=stored)
            _draw_middle(source, result, staging / "figure.png", path.stem)
        report.write_record(staging, record)
    chosen = _chosen(made)
    return Outcome(record, [_heading(record), chosen, f"written to {final}"], chosen)


def _named(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """Yield the blocks; errors in the source's values name its file, not the one that is being written."""
    with report.naming(path):
        yield from blocks


def _draw_middle(source: RowFile, result: RowFile, path: Path, name: str) -> None:
    """Draw the middle of a picture before and after."""
    enlarged_by = max(1, result.shape[0] // source.shape[0])
    before = middle(source, max(1, min(SIDE_BEFORE, SIDE_AFTER // enlarged_by)))
    sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)]
    after = middle(result, max(sides[:2]))[: sides[0], : sides[1]]
    titles = (f"{name}, its middle", "upscale, its middle")
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)
