"""The command ``coordnet reconstruct``."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common, Fitting, Many, Sampling, Tuning
from coordnet.cli.many import each
from coordnet.cli.report import Outcome
from coordnet.fitting.choice import choose, tuned
from coordnet.fitting.methods import Method
from coordnet.media import read_media
from coordnet.metrics.scoring import Scoring
from coordnet.metrics.stopwatch import once
from coordnet.plots.reconstruction import reconstruction_figure
from coordnet.restore.tiles import Tiles, crop, fit_tiles, suits
from coordnet.sampling.patterns import default_pattern, sample
from coordnet.sampling.samples import Samples


def run(signals: list[str], sampling: Sampling, fitting: Fitting, tuning: Tuning, many: Many, common: Common) -> None:
    """Reconstruct each signal from some of its samples."""
    work = partial(_reconstruct, sampling=sampling, fitting=fitting, tuning=tuning)
    each("reconstruct", work, signals, many, common)


def _reconstruct(signal: str, common: Common, sampling: Sampling, fitting: Fitting, tuning: Tuning) -> Outcome:
    """Read, sample, fit, render, score, write."""
    asked = {"encoding": fitting.encoding, "solver": fitting.solver, "robust": fitting.robust}
    asked |= {"head": specs.parse_head(fitting.head), "prior": specs.parse_prior(fitting.prior)}
    encoder = None if fitting.encoder is None else specs.parse_encoder(fitting.encoder)
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    device = specs.choose_device(common.device)
    with report.stage("reading", common):
        media = read_media(signal, **sampling.part)
    with report.results(common, "reconstruct", media.name) as (staging, final):
        generator = torch.Generator().manual_seed(common.seed)
        text = sampling.sample or default_pattern(media.grid)
        pattern = specs.parse_sample(text, media.grid, **sampling.masking)
        samples = sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)
        method, tried = _tuned(choose(samples, encoder, **asked, tunable=tuning.tune), samples, tuning, common)
        options: dict[str, Any] = {"epochs": fitting.epochs, "lr": fitting.lr, "progress": common.progress}
        tiles = Tiles(samples.grid)
        tiled = len(tiles) > 1 and suits(samples) and method.solver == "closed-form"
        work = partial(method.fit, generator=generator, **options)
        if tiled:
            (estimate, reports), fit_seconds = once(lambda: fit_tiles(tiles, samples, work, progress=common.progress))
            fit, render_seconds = None, 0.0
            fit_report = {**tiles.report(), "fits": reports}
        else:
            fit, fit_seconds = once(lambda: work(samples))
            with report.stage("rendering", common):
                estimate, render_seconds = once(lambda: fit.render().cpu())
            fit_report = fit.report
        with report.stage("scoring", common):
            scoring = Scoring(media.signal, samples)
            scores = scoring.scores(estimate)
        with report.stage("comparing with SciPy", common):
            baselines = report.baselines(samples, scoring, fit_seconds)
        record = {
            "signal": media.name,
            "shape": list(media.signal.shape),
            "sample": text,
            **report.describe(method, fit),
            "device": str(device),
            "seed": common.seed,
            **tried,
            "parameters": None if fit is None else fit.network.parameter_count,
            **scores,
            "range": scoring.span,
            **baselines,
            "seconds": {"fit": fit_seconds, "render": render_seconds},
            "report": fit_report,
            "versions": report.versions(),
        }
        score = report.score_line(record)
        part = tiles.middle if tiled else ()
        shown, title = (crop(samples, part), f"{media.name}, its middle") if tiled else (samples, media.name)
        with report.stage("drawing", common):
            figure = reconstruction_figure(
                media.signal[part], shown, estimate[part], title=title, score=score, rate=media.rate
            )
        report.write_results(staging, replace(media, signal=estimate), fit, figure, record, common)
    return Outcome(record, report.reconstruction_table(record, final), score)


def _tuned(method: Method, samples: Samples, tuning: Tuning, common: Common) -> tuple[Method, dict[str, Any]]:
    """The method with its free numbers chosen if that was asked for, and what the record says of it."""
    if not tuning.tune:
        return method, {}
    options = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
    method, found = tuned(method, samples, **options, progress=common.progress)
    return method, {"tuning": {"criterion": found.criterion, "tried": found.table}}
