"""The commands that restore a signal: ``coordnet inpaint`` and ``demosaic``, and what all share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common, Inpainting, is_folder
from coordnet.cli.folders import results
from coordnet.cli.many import each
from coordnet.cli.report import Outcome
from coordnet.comparison.stopwatch import once, versions
from coordnet.media import Media, MediaError, read_mask, read_media, write_media
from coordnet.media.signal import from_depth
from coordnet.media.tags import Tags
from coordnet.networks.fit_reports import AdaptiveReport, StackReport
from coordnet.networks.several_reports import TiledReport
from coordnet.plots.fits import noise_figure, restoration_figure
from coordnet.plots.panels import sampled_picture
from coordnet.priors.base import Prior
from coordnet.priors.denoiser import Demosaicker
from coordnet.restore.demosaic import demosaic as demosaiced
from coordnet.restore.inpaint import inpaint as inpainted
from coordnet.restore.restored import InpaintReport, Restored, Tiles
from coordnet.sampling.jpeg import JpegIntervals
from coordnet.sampling.patterns import Bayer, Pattern, sample

RESTORED = "restored"  # the stem of a result's name


@dataclass(frozen=True)
class Shown:
    """A restored signal with the input that its figure shows, two lines to print, and its part of the record."""

    made: Restored
    before: Tensor
    chosen: str
    sureness: str
    settings: dict[str, Any]


Work = Callable[[str, Media, Tensor, Common], Shown]  # restores a signal; it takes its name, and values on a device


def inpaint(signals: list[str], asked: Inpainting, common: Batch) -> None:
    """Fill the samples that a mask calls unknown, and those that are NaN."""
    asked = replace(asked, mask=asked.mask and asked.mask.absolute())
    prior = required_prior(asked.prior, asked.denoiser)
    work = partial(restored, "inpaint", partial(_inpaint, asked=asked, prior=prior))
    each("inpaint", work, signals, common, partial(_mask_of, mask=asked.mask))


def _inpaint(signal: str, media: Media, values: Tensor, common: Common, asked: Inpainting, prior: Any) -> Shown:
    with specs.naming("`mask`"):
        known = _known(signal, media, asked, common.memory_bytes)
    if asked.mask is not None:
        media = replace(media, signal=_told(media, known, signal))
        values = media.signal.to(values.device)
    options: Any = {"dimensions": len(media.grid), "seed": common.seed, "progress": common.progress}
    made = inpainted(values, known, prior=prior, uncertainty=asked.uncertainty, **options)
    return _filled(made, media.signal, known)


def _told(media: Media, known: Tensor, path: str) -> Tensor:
    """Return a signal with the stored number of NODATA where a mask calls it known."""
    if media.tags.nodata is None or media.stored is None:
        return media.signal
    kept = torch.from_numpy(from_depth(media.stored, path))
    chosen = known if known.ndim == kept.ndim else known[..., None]
    return torch.where(chosen & media.signal.isnan(), kept, media.signal)


def required_prior(text: str, denoiser: str | None) -> Prior | Literal["auto"]:
    """Return the prior that texts name; ``none`` raises ``ValueError``, since gaps and noise need a prior."""
    prior = specs.parse_prior(text, denoiser)
    if prior is None:
        raise _checks.wrong("prior", "auto, local, adaptive or another prior", text)
    return prior


def _known(signal: str, media: Media, asked: Inpainting, memory: int | None) -> Tensor:
    """Return where a signal is known: what its mask says, or what is not NaN in a signal without a mask."""
    if asked.mask is None:
        known = ~media.signal.isnan()
        if bool(known.all()):
            raise MediaError(f"{signal}: expected a --mask, or a signal with NaN or NODATA, found neither")
        return known
    files = _mask_of(signal, asked.mask)
    if not files:
        raise MediaError(f"{asked.mask}: expected a mask of the name {Path(signal).stem}, found none")
    return read_mask(files[0], media.grid, threshold=asked.threshold, invert=asked.invert, memory=memory)


def _mask_of(signal: str, mask: Path | None) -> list[Path]:
    """Return a list of the mask of a signal: the file itself, or the first of its name in a folder, if any."""
    if mask is None:
        return []
    if not is_folder(mask):
        return [mask]
    return sorted(file for file in mask.iterdir() if file.stem == Path(signal).stem)[:1]


def mosaic_prior(prior: str, denoiser: str | None, demosaicker: str | None) -> Prior | Literal["auto"]:
    """Return the prior of a mosaic that texts name; a demosaicker is weighed beside what the others name."""
    others = required_prior(prior, denoiser)
    if demosaicker is None:
        return others
    return replace(Demosaicker.named(demosaicker), pilot=None if others == "auto" else others)


def demosaic(signals: list[str], pattern: str, asked: dict[str, Any], common: Batch) -> None:
    """Fill the two colors that each pixel of a mosaic did not measure; asked are ``sigma``, ``noise``, ``prior``."""
    work = partial(_demosaic, bayer=Bayer(pattern.upper()), asked=asked)
    each("demosaic", partial(restored, "demosaic", work, kinds=("image",)), signals, common)


def _demosaic(signal: str, media: Media, values: Tensor, common: Common, bayer: Bayer, asked: dict[str, Any]) -> Shown:
    if media.depth == "bool":
        raise MediaError(f"{signal}: expected a mosaic of numbers, found one bit for each pixel")
    made = demosaiced(values, bayer.pattern, **asked, seed=common.seed, progress=common.progress)
    return _filled(made, media.signal.expand(-1, -1, 3), bayer)


def _filled(made: Restored[InpaintReport], signal: Tensor, known: Pattern | Tensor) -> Shown:
    how, sigma, expected = _learned(made), made.report.sigma, made.expected_psnr
    how = how if sigma is None else f", noise of standard deviation {sigma:.4g} (given)"
    how = how if made.noise is None else f", {made.noise} (estimated)"
    chosen = f"{100 * made.report.known:.3g} % known, {made.report.prior} prior{how}"
    scored = _scored(made) if made.std is None else f"expected PSNR {report.decibels(expected)}"
    part = Tiles(tuple(signal.shape[:-1])).middle
    shown = signal[part]
    samples = sample(shown, known[part] if isinstance(known, Tensor) else known, dimensions=shown.ndim - 1)
    before = sampled_picture(samples, signal.shape[-1], float("nan"))
    kept = {k: v for k, v in made.report.as_dict().items() if k in ("known", "pattern", "sigma", "prior")}
    return Shown(
        made, before, chosen, scored, {**kept, "hold_out_psnr" if made.std is None else "expected_psnr": expected}
    )


def _scored(made: Restored[InpaintReport]) -> str:
    """Return a line with the PSNR at hidden samples, or with the reason why there is none."""
    expected, wide = made.expected_psnr, made.report.wide_holes
    if expected is None:
        unknown = "expected PSNR in the holes unknown"
        return unknown if wide else "no sample was hidden to measure by"
    if wide:
        return f"expected PSNR about {expected:.0f} dB inside the holes, by hidden copies of them"
    if margin := made.report.psnr_margin:
        return f"hold-out PSNR about {expected:.0f} dB, within {margin:.0f} dB or so: the holes are few"
    return f"hold-out PSNR {expected:.2f} dB"


def _learned(made: Restored[InpaintReport]) -> str:
    learned = made.report.fit
    if isinstance(learned, TiledReport):
        return f" in {report.size(learned.tiles)} tiles"
    if isinstance(learned, StackReport) and len(learned.fits) == 1:
        learned = learned.fits[0]
    if learned is not None and (words := report.weight_words(learned)):
        return words
    if not isinstance(learned, AdaptiveReport) or learned.start is None:
        return ""
    law = f"power {learned.start.power:g}, strength {learned.start.strength:g}"
    return f": started from {law}, spectrum learned in {learned.rounds} round{'s' * (learned.rounds != 1)}"


def named_noise(name: str, signal: str) -> JpegIntervals | str:
    """Return the noise of a name; that of JPEG is read from the file of the signal."""
    return JpegIntervals.read(signal, turned=True) if name == "jpeg" else name


def restored(command: str, work: Work, signal: str, common: Common, *, kinds: tuple[str, ...] = ()) -> Outcome:
    """Read a signal, restore it, and write what comes out; with ``kinds`` only these and arrays of two axes."""
    device = specs.choose_device(common.device)
    with common.stage("reading"):
        media = read_media(signal, memory=common.memory_bytes)
    if kinds and media.kind not in kinds and (media.kind, len(media.grid)) != ("array", 2):
        raise MediaError(f"{signal}: expected {' or '.join(kinds)} to {command}, found a signal of kind {media.kind}")
    if command != "inpaint":
        _refuse_nodata(signal, media, command)
    with results(common, command, media.name) as (staging, final):
        report.try_format(media, staging, common, RESTORED)
        with specs.naming(signal, unless=MediaError):
            shown, seconds = once(lambda: work(signal, media, media.signal.to(device), common))
        made, fit, name = shown.made, shown.made.fit, media.name
        before, after = shown.before.detach().cpu(), made.signal.detach().cpu()
        growth = [m / n for m, n in zip(after.shape, media.grid, strict=False)][-2:]
        tags = media.tags.enlarged(*growth) if len(growth) == 2 else media.tags
        result = replace(media, signal=after, known=made.known, tags=tags)
        settings = {**shown.settings, "parameters": fit and fit.network.parameter_count, "seconds": seconds}
        used = fit and fit.report.device
        settings |= {"report": made.report.as_dict(), "seed": common.seed, "device": used or str(device)}
        record = record_of(command, name, after.shape, common, settings)
        if fit is None:
            name, after = f"{name}, its middle", after[Tiles(media.grid).middle]
        figure = None
        if common.is_drawn:
            with common.stage("drawing"):
                figure = restoration_figure(before, after, (name, f"{command}\n{shown.sureness}"), rate=media.rate)
        report.write_results(staging, result, fit, figure, record, common, made.std, stem=RESTORED)
        if made.noise is not None and common.is_drawn:
            noise_figure(made.noise).savefig(staging / "noise.png", dpi=110)
        if media.kind == "video" and common.file is None:  # the .mp4 is compressed
            write_media(replace(result, tags=Tags()), staging / f"{RESTORED}.npy")
    return Outcome(record, [heading(record), shown.chosen, shown.sureness, f"written to {final}"], shown.sureness)


def _refuse_nodata(signal: str, media: Media, command: str) -> None:
    """Refuse a signal that lacks values because its file calls a number NODATA."""
    if media.tags.nodata is not None and bool(media.signal.isnan().any()):
        found = f"NODATA ({media.tags.nodata:g}; see inpaint)"
        raise MediaError(f"{signal}: expected values known everywhere to {command}, found {found}")


def record_of(command: str, name: str, shape: tuple[int, ...], common: Common, found: report.Record) -> report.Record:
    """Return the record of a restored signal of this name and shape."""
    said = {"signal": name, **report.origin(command, common), "shape": list(shape)}
    return {**said, **found, "versions": versions()}


def heading(record: report.Record) -> str:
    """Return the first line to print: the signal, its size and the seconds."""
    return f"{record['signal']} {report.size(record['shape'])} in {report.duration(record['seconds'])}"
