"""The fit that ``coordnet reconstruct`` and ``coordnet fit`` make of their samples, with the seconds that it took."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common, Fitting, Tuning
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import choose, tuned
from coordnet.fitting.methods import Method
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.restore.restored import Tiles, fit_large
from coordnet.sampling.samples import Samples


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
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    record: report.Record = {}
    if tuning.tune:
        options: Any = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
        method, found = tuned(method, samples, **options, progress=common.progress)
        record = {"tuning": {"criterion": found.criterion, "tried": found.table}}
    if uncertainty:
        specs.check_uncertainty(samples, method)
    largest = None if method.solver == "closed-form" else math.prod(samples.grid)
    alone = common.progress and len(Tiles(samples.grid, largest)) == 1
    options: Any = {"epochs": fitting.epochs, "lr": fitting.lr, "progress": alone}

    def work(part: Samples) -> Reconstruction:
        return method.fit(part, generator=generator.clone_state(), **options)  # tiles draw alike in any order

    (fit, found), seconds = once(lambda: fit_large(samples, work, largest=largest, progress=common.progress))
    if isinstance(fit, Tensor):
        return Fitted(method, None, fit, found, {"fit": choosing + seconds, "render": 0.0}, record)
    with common.stage("rendering"):
        estimate, rendering = once(lambda: fit.render().cpu())
    return Fitted(method, fit, estimate, found, {"fit": choosing + seconds, "render": rendering}, record)
