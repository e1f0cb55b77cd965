"""The command ``coordnet reconstruct``."""

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs, sureness
from coordnet.cli.common import Common, Fitting, Many, Sampling, Tuning
from coordnet.cli.many import each
from coordnet.cli.origin import origin
from coordnet.cli.report import Outcome
from coordnet.cli.sureness import Sureness
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import choose, tuned
from coordnet.fitting.methods import Method
from coordnet.media import Media, read_media
from coordnet.metrics.scores import Scoring
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import reconstruction_figure
from coordnet.restore.tiles import Tiles, crop, fit_large
from coordnet.sampling.patterns import default_pattern, sample
from coordnet.sampling.samples import Samples


def run(
    signals: list[str],
    sampling: Sampling,
    fitting: Fitting,
    tuning: Tuning,
    uncertainty: bool,
    many: Many,
    common: Common,
) -> None:
    """Reconstruct each signal from some of its samples."""
    work = partial(_reconstruct, sampling=sampling, fitting=fitting, tuning=tuning, uncertainty=uncertainty)
    mask = specs.mask_file(sampling.sample)
    each("reconstruct", work, signals, many, common, lambda _: [mask] if mask else [])


def _reconstruct(
    signal: str, common: Common, sampling: Sampling, fitting: Fitting, tuning: Tuning, uncertainty: bool
) -> Outcome:
    """Read, sample, fit, render, score, write."""
    asked = specs.parse_fitting(fitting)
    device = specs.choose_device(common.device)
    memory = common.memory_bytes
    with report.stage("reading", common):
        media = read_media(signal, **sampling.part, memory=memory)
    with report.results(common, "reconstruct", media.name) as (staging, final):
        generator = torch.Generator().manual_seed(common.seed)
        text, samples = _sampled(media, sampling, device, generator, memory)
        suited, choosing = once(partial(choose, samples, **asked, tunable=tuning.tune, progress=common.progress))
        method, tried = _tuned(suited, samples, tuning, common)
        sureness.check(samples, method, asked=uncertainty)
        options = {"generator": generator, "epochs": fitting.epochs, "lr": fitting.lr}
        fit, estimate, seconds, fit_report = _fitted(method, samples, common, options)
        seconds["fit"] += choosing
        with report.stage("scoring", common):
            scoring = Scoring(media.signal, samples)
            scores = scoring.scores(estimate)
        with report.stage("comparing with peers", common):
            peers = report.peers(scoring, seconds["fit"])
        sure = Sureness.of(fit, scoring.span, scoring) if uncertainty and fit else None
        record = {
            "signal": media.name,
            **origin("reconstruct", common),
            "shape": list(media.signal.shape),
            "sample": text,
            **report.describe(method, fit),
            "device": fit_report.device or str(device),
            "seed": common.seed,
            **tried,
            **scores,
            "range": scoring.span,
            **(sure.record if sure else {}),
            **peers,
            "seconds": seconds,
            "report": fit_report.as_dict(),
            "versions": report.versions(),
        }
        with report.stage("drawing", common):
            figure = _figure(media, samples, estimate, report.score_line(record), whole=fit is not None)
        report.write_results(staging, replace(media, signal=estimate), fit, figure, record, common)
        sureness.write(staging, sure, media)
    return Outcome(record, report.reconstruction_table(record, fit_report, final), report.score_line(record))


def _sampled(
    media: Media, sampling: Sampling, device: torch.device, generator: torch.Generator, memory: int | None
) -> tuple[str, Samples]:
    """Return the text of the sampling pattern, and the samples of a signal."""
    text = sampling.sample or default_pattern(media.grid)
    pattern = specs.parse_sample(text, media.grid, **sampling.masking, memory=memory)
    with specs.naming_option("sample"):
        return text, sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)


def _figure(media: Media, samples: Samples, estimate: Tensor, score: str, *, whole: bool) -> Figure:
    """Draw a signal, its samples and the estimate; only their middle if the signal was cut into tiles."""
    if whole:
        return reconstruction_figure(media.signal, samples, estimate, title=media.name, score=score, rate=media.rate)
    part, title = Tiles(samples.grid).middle, f"{media.name}, its middle"
    shown = crop(samples, part)
    return reconstruction_figure(media.signal[part], shown, estimate[part], title=title, score=score, rate=media.rate)


def _fitted(
    method: Method, samples: Samples, common: Common, options: dict[str, Any]
) -> tuple[Reconstruction | None, Tensor, dict[str, float], FitReport]:
    """Return the model (None if a large signal is fitted in tiles), its values, the seconds of both, and the report."""
    work = partial(method.fit, **options, progress=common.progress)
    largest = None if method.solver == "closed-form" else prod(samples.grid)
    (fit, found), took = once(lambda: fit_large(samples, work, largest=largest, progress=common.progress))
    if isinstance(fit, Tensor):
        return None, fit, {"fit": took, "render": 0.0}, found
    with report.stage("rendering", common):
        estimate, rendering = once(lambda: fit.render().cpu())
    return fit, estimate, {"fit": took, "render": rendering}, found


def _tuned(method: Method, samples: Samples, tuning: Tuning, common: Common) -> tuple[Method, dict[str, Any]]:
    """Return the method, tuned if --tune is given, and the part of the record that describes the tuning."""
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    if not tuning.tune:
        return method, {}
    options = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
    method, found = tuned(method, samples, **options, progress=common.progress)
    return method, {"tuning": {"criterion": found.criterion, "tried": found.table}}
