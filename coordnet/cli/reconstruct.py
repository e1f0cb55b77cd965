"""The command ``coordnet reconstruct``."""

from dataclasses import replace
from typing import Any

import torch

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common, Fitting, Sampled, Tuning
from coordnet.fitting.choice import choose, tuned
from coordnet.fitting.methods import Method
from coordnet.media import read_media
from coordnet.metrics.scoring import Scoring
from coordnet.metrics.stopwatch import once
from coordnet.plots.reconstruction import reconstruction_figure
from coordnet.sampling.patterns import default_pattern, sample
from coordnet.sampling.samples import Samples


def run(sampled: Sampled, fitting: Fitting, tuning: Tuning, common: Common) -> None:
    """Read, sample, fit, render, score, write."""
    asked = {"encoding": fitting.encoding, "solver": fitting.solver, "robust": fitting.robust}
    asked |= {"head": specs.parse_head(fitting.head), "prior": specs.parse_prior(fitting.prior)}
    encoder = None if fitting.encoder is None else specs.parse_encoder(fitting.encoder)
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    device = specs.choose_device(common.device)
    media = read_media(sampled.signal, **sampled.part)
    with report.results(common, "reconstruct", media.name) as (staging, final):
        generator = torch.Generator().manual_seed(common.seed)
        text = sampled.sample or default_pattern(media.grid)
        pattern = specs.parse_sample(text, media.grid, **sampled.masking)
        samples = sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)
        method, tried = _tuned(choose(samples, encoder, **asked, tunable=tuning.tune), samples, tuning, common)
        options: dict[str, Any] = {"epochs": fitting.epochs, "lr": fitting.lr, "progress": common.progress}
        fit, fit_seconds = once(lambda: method.fit(samples, generator=generator, **options))
        estimate, render_seconds = once(lambda: fit.render().cpu())
        scoring = Scoring(media.signal, samples)
        record = {
            "signal": media.name,
            "shape": list(media.signal.shape),
            "sample": text,
            **report.describe(method, fit),
            "device": str(device),
            "seed": common.seed,
            **tried,
            "parameters": fit.network.parameter_count,
            **scoring.scores(estimate),
            "range": scoring.span,
            **report.baselines(samples, scoring, fit_seconds),
            "seconds": {"fit": fit_seconds, "render": render_seconds},
            "report": fit.report,
            "versions": report.versions(),
        }
        score = report.score_line(record)
        figure = reconstruction_figure(media.signal, samples, estimate, title=media.name, score=score, rate=media.rate)
        report.write_results(staging, replace(media, signal=estimate), fit, figure, record)
    report.show(record, report.reconstruction_table(record, final), common)


def _tuned(method: Method, samples: Samples, tuning: Tuning, common: Common) -> tuple[Method, dict[str, Any]]:
    """The method with its free numbers chosen if that was asked for, and what the record says of it."""
    if not tuning.tune:
        return method, {}
    options = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
    method, found = tuned(method, samples, **options, progress=common.progress)
    return method, {"tuning": {"criterion": found.criterion, "tried": found.table}}
