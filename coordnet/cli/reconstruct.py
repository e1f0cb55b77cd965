"""The command ``coordnet reconstruct``: a signal from some of its samples, by a fit that ``coordnet fit`` makes too."""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common, Fitting, Sampling, Tuning
from coordnet.cli.folders import results
from coordnet.cli.many import each
from coordnet.comparison.stopwatch import once, versions
from coordnet.fitting.channel_groups import check_channels
from coordnet.fitting.fit import Method, choose
from coordnet.fitting.tuning import tuned
from coordnet.media import Media
from coordnet.metrics.scores import Scoring
from coordnet.networks.fit_reports import FitReport, TrainingReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import TiledReport
from coordnet.plots.fits import reconstruction_figure
from coordnet.restore.restored import Tiles, crop, fit_large
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples

BASELINES = {"linear": "linear interpolation", "cubic": "cubic spline", "biharmonic": "biharmonic inpainting"}
TUNINGS = 5  # number of the best candidates of --tune that are printed


@dataclass(frozen=True)
class Fitted:
    """A fit of samples by a method, with the signal that it estimates and the seconds that it took."""

    method: Method
    model: Reconstruction | None  # None for a large signal that is fitted in tiles
    estimate: Tensor
    fit_report: FitReport
    seconds: dict[str, float]
    tuning: dict[str, Any]  # the part of the record on --tune


def fitted(
    samples: Samples,
    asked: dict[str, Any],
    fitting: Fitting,
    tuning: Tuning,
    generator: torch.Generator,
    common: Common,
    *,
    uncertainty: bool,
) -> Fitted:
    """Fit samples by the method that is asked for, tuned with --tune, and render the fit."""
    method, choosing = once(partial(choose, samples, **asked, tunable=tuning.tune, progress=common.progress))
    _refuse_unused(method, fitting, tuning)
    record: report.Record = {}
    if tuning.tune:
        options: Any = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
        method, tuning_report = tuned(method, samples, **options, progress=common.progress)
        record = {"tuning": {"criterion": tuning_report.criterion, "tried": tuning_report.table}}
    if uncertainty:
        specs.check_uncertainty(samples, method)
    largest = None if method.solver == "closed-form" else math.prod(samples.grid)
    alone = common.progress and len(Tiles(samples.grid, largest)) == 1
    options: Any = {"epochs": fitting.epochs, "lr": fitting.lr, "progress": alone}

    def work(part: Samples) -> Reconstruction:
        return method.fit(part, generator=generator.clone_state(), **options)  # tiles draw alike in any order

    (fit, fit_report), seconds = once(lambda: fit_large(samples, work, largest=largest, progress=common.progress))
    if isinstance(fit, Tensor):
        return Fitted(method, None, fit, fit_report, {"fit": choosing + seconds, "render": 0.0}, record)
    with common.stage("rendering"):
        estimate, rendering = once(lambda: fit.render().cpu())
    return Fitted(method, fit, estimate, fit_report, {"fit": choosing + seconds, "render": rendering}, record)


def _refuse_unused(method: Method, fitting: Fitting, tuning: Tuning) -> None:
    """Raise ``ValueError`` for options that a method does not use, or for a criterion that does not exist."""
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    for name in ("epochs", "lr"):
        if getattr(fitting, name) is not None and method.solver == "closed-form":
            raise _checks.wrong(name, "the gradient solver (--solver gradient)", "a fit in closed form")
    for name in ("criterion", "folds"):
        if getattr(tuning, name) != getattr(Tuning, name) and not tuning.tune:
            raise _checks.wrong(name, "--tune beside it", "none")


def from_samples(
    signals: list[str], sampling: Sampling, fitting: Fitting, tuning: Tuning, uncertainty: bool, common: Batch
) -> None:
    """Reconstruct each signal from some of its samples."""
    work = partial(_reconstruct, sampling=sampling, fitting=fitting, tuning=tuning, uncertainty=uncertainty)
    mask = specs.mask_file(sampling.sample)
    each("reconstruct", work, signals, common, lambda _: [mask] if mask else [])


def _sampled(
    signal: str, media: Media, device: torch.device, sampling: Sampling, generator: torch.Generator, common: Common
) -> tuple[str, Samples]:
    """Return the text of the pattern that was taken, and the samples."""
    text, pattern = specs.parse_sample(media.grid, sampling, common)
    with specs.naming("`sample`"):
        samples = sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)
    with specs.naming(signal):
        check_channels("samples", samples)
    return text, samples


def _reconstruct(
    signal: str, common: Common, sampling: Sampling, fitting: Fitting, tuning: Tuning, uncertainty: bool
) -> report.Outcome:
    """Read, sample, fit, render, score, write."""
    asked, device = specs.parse_fitting(fitting), specs.choose_device(common.device)
    media = specs.read_part(signal, sampling, common)
    with results(common, "reconstruct", media.name) as (staging, final):
        report.try_format(media, staging, common)
        generator = torch.Generator().manual_seed(common.seed)
        text, samples = _sampled(signal, media, device, sampling, generator, common)
        made = fitted(samples, asked, fitting, tuning, generator, common, uncertainty=uncertainty)
        with common.stage("scoring"):
            scoring = Scoring(media.signal, samples)
            scores = scoring.scores(made.estimate)
        with common.stage("comparing with peers"):
            baselines, slow = scoring.peers(made.seconds["fit"])
        std, sure = report.uncertainty(made.model, scoring.span, scoring) if uncertainty and made.model else (None, {})
        record = {
            "signal": media.name,
            **report.origin("reconstruct", common),
            "shape": list(media.signal.shape),
            "sample": text,
            **report.describe(made.method, made.model),
            "device": made.fit_report.device or str(device),
            "seed": common.seed,
            **made.tuning,
            **scores,
            "range": scoring.span,
            **sure,
            "baselines": baselines,
            "left_out": _left_out(slow),
            "seconds": made.seconds,
            "report": made.fit_report.as_dict(),
            "versions": versions(),
        }
        figure = None
        if common.is_drawn:
            with common.stage("drawing"):
                figure = _figure(media, samples, made, _score(record))
        report.write_results(staging, replace(media, signal=made.estimate), made.model, figure, record, common, std)
    return report.Outcome(record, _table(record, made.fit_report, final), _score(record))


def _left_out(slow: dict[str, float]) -> dict[str, str]:
    """Return why peers were left out, from the seconds that they would take; infinite ones have too many points."""
    return {
        name: "too many points" if math.isinf(seconds) else f"takes about {report.duration(seconds)}"
        for name, seconds in slow.items()
    }


def _figure(media: Media, samples: Samples, made: Fitted, score: str) -> Figure:
    """Draw a signal, its samples and the estimate; only their middle if the signal was cut into tiles."""
    signal, estimate, title = media.signal, made.estimate, media.name
    if made.model is None:
        part = Tiles(samples.grid).middle
        signal, estimate, samples, title = signal[part], estimate[part], crop(samples, part), f"{title}, its middle"
    return reconstruction_figure(signal, samples, estimate, title=title, score=score, rate=media.rate)


def _score(record: report.Record) -> str:
    """Return the PSNR of the held-out samples in words, or that of the fitted ones if none was held out."""
    held_out, fitted = record["psnr"]["held_out"], record["psnr"]["fitted"]
    if held_out is not None:
        return f"held-out PSNR {held_out:.2f} dB"
    return "fit exact" if fitted is None else f"fit PSNR {fitted:.2f} dB"


def _table(record: report.Record, fit: FitReport, folder: Path) -> list[str]:
    """The lines that ``coordnet reconstruct`` prints."""
    seconds, held_out = record["seconds"], record["psnr"]["held_out"]
    quality = "" if record["ssim"] is None else f"{record['ssim']:.3f}"
    epochs = f" ({fit.epochs:,} epochs)" if isinstance(fit, TrainingReport) else ""
    # Tiles are rendered as they are fitted.
    render = "–" if record["parameters"] is None else report.duration(seconds["render"])
    tiles = f"in {report.size(fit.tiles)} tiles" if isinstance(fit, TiledReport) else None
    extent = tiles or f"{record['parameters']:,} parameters"
    lines = [
        f"{record['signal']} {report.size(record['shape'])}, {record['sample']}",
        f"{record['encoding']} {record['encoder']}, {record['head']} head, {extent}, "
        f"{record['solver']}{epochs}, prior {record['prior']}{report.weight_words(fit)}",
        "",
        f"{'':24}{'held-out PSNR':>14}{'SSIM':>8}{'fit':>10}{'render':>10}",
        f"{'coordnet':24}{report.decibels(held_out):>14}{quality:>8}{report.duration(seconds['fit']):>10}{render:>10}",
    ]
    if held_out is None:
        return [*lines, "", f"nothing was held out; {_score(record)}", f"written to {folder}"]
    for name, value in record["baselines"].items():
        if value is not None or name in record["left_out"]:
            shown = f"{report.decibels(value):>14}" if value is not None else f"  left out: {record['left_out'][name]}"
            lines.append(f"{BASELINES[name]:24}{shown}")
    if record["range"] != 1:
        lines += ["", f"PSNR is against the signal's own range of {record['range']:.4g}"]
    if "uncertainty" in record:
        lines += ["", report.sure_line(record["uncertainty"])]
    if "tuning" in record:
        tuning = record["tuning"]
        lines += ["", f"best of {len(tuning['tried'])} tried, by {tuning['criterion']}"]
        for row in sorted(tuning["tried"], key=lambda row: row["score"])[:TUNINGS]:
            numbers = ", ".join(f"{name} {value}" for name, value in row.items() if name != "score")
            lines.append(f"  {row['score']:.4e}  {numbers}")
    return [*lines, "", f"written to {folder}"]
