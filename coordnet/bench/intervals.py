"""Intervals of a fit: the share of unknown samples that they cover, in all and by the gradient, and their score."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student

from coordnet.bench.experiment import Case, Estimator, Outcome
from coordnet.bench.record_tables import Frame
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import fit
from coordnet.fitting.uncertainty.conformal import conformal_quantile, gradient
from coordnet.metrics.scores import decibels
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.base import Prior

LEVEL = 0.9
DRAWS = 8
QUINTILES = 5
COLUMNS = {
    "coverage": "coverage %",
    "channels": "by signal and channel %",
    "quintiles": "by quintile of the gradient %",
    "score": "interval score",
    "psnr_error": "expected − true PSNR, dB",
}

Nodes = np.ndarray  # (nodes, channels)
# takes a fit and the unknown nodes, and returns half-widths and the mean squared error to expect
Widths = Callable[[Reconstruction, np.ndarray], tuple[Nodes, float]]


def cross_conformal(made: Reconstruction, unknown: np.ndarray) -> tuple[Nodes, float]:
    """Return the library's intervals."""
    lower, upper = made.interval(LEVEL)
    return _rows((upper - lower) / 2), 10 ** (-made.expected_psnr() / 10)


def constant(made: Reconstruction, unknown: np.ndarray) -> tuple[Nodes, float]:
    """Return intervals of one width for each channel, by the errors at the same hidden samples."""
    uncertainty: Any = made.uncertainty
    errors = uncertainty.calibration(made).errors.error.T
    widths = [conformal_quantile(np.abs(e[~np.isnan(e)]), LEVEL) for e in errors]
    return np.tile(widths, (math.prod(made.lengths), 1)), float(np.nanmean(np.square(errors)))


def posterior(made: Reconstruction, unknown: np.ndarray) -> tuple[Nodes, float]:
    """Return multiples of the standard deviation of draws from the stationary posterior, as Student's t has it."""
    draws = made.draw(DRAWS, generator=torch.Generator().manual_seed(0)) - made.render(alignment="sample")
    variance = _rows(draws.double().square().mean(0))
    return float(student.ppf((1 + LEVEL) / 2, DRAWS)) * np.sqrt(variance), float(variance[unknown].mean())


def _rows(signal: torch.Tensor) -> Nodes:
    return signal.detach().cpu().double().numpy().reshape(-1, signal.shape[-1])


@dataclass(frozen=True)
class Intervals(Estimator):
    """The fit of ``cn.fit`` with a prior, and intervals; the seconds are those of the intervals alone."""

    widths: Widths
    prior: Prior | str = "auto"

    def __call__(self, case: Case) -> Outcome:
        assert case.truth is not None
        made, fitting = once(lambda: fit(case.samples, prior=self.prior))  # type: ignore[arg-type]
        truth = _rows(case.truth)
        unknown = ~case.samples.geometry.known(case.truth.shape[-1]).numpy().reshape(truth.shape)
        (half, expected), seconds = once(lambda: self.widths(made, unknown))
        estimate = made.render(alignment="sample")
        error = np.abs(_rows(estimate) - truth)
        clipped = _rows(estimate.clamp(0, 1)) - truth
        notes = {
            **score(error, half, unknown, gradient(case.truth.double().numpy()).ravel()),
            "expected_psnr": decibels(expected),
            "psnr_error": decibels(expected) - decibels(float(np.square(clipped[unknown]).mean())),
            "fit_seconds": fitting,
        }
        return Outcome(estimate, seconds, notes=notes)


def score(error: Nodes, half: Nodes, unknown: np.ndarray, slope: np.ndarray) -> dict[str, Any]:
    """Return the shares of unknown samples that are covered, and the mean interval score.

    Source of the score: Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation" (2007),
    section 6.2: the width, plus 2 / (1 - level) times the distance of the truth to the interval.
    """
    covered = np.where(unknown, error <= half, np.nan)
    there = unknown.any(1)
    parts = np.array_split(np.flatnonzero(there)[np.argsort(slope[there], kind="stable")], QUINTILES)
    beyond = 2 * half + 2 / (1 - LEVEL) * np.maximum(error - half, 0)
    return {
        "coverage": 100 * float(np.nanmean(covered)),
        "channels": [100 * float(share) for share in np.nanmean(covered, axis=0)],
        "quintiles": [100 * float(np.nanmean(covered[part])) for part in parts],
        "score": float(beyond[unknown].mean()),
    }


def table(frame: Frame) -> Frame:
    """Return a line for each task and method: means over signals, and the least and the greatest values."""
    lines = []
    done = frame[frame["status"] == "done"]
    for (task, method), part in done.groupby(["cell.task", "cell.method.name"], sort=False):
        error = part["notes.psnr_error"]
        line = {"task": task, "method": method, "signals": len(part)}
        line[COLUMNS["coverage"]] = f"{part['notes.coverage'].mean():.1f}"
        for name in ("channels", "quintiles"):
            values = np.concatenate([np.asarray(v) for v in part[f"notes.{name}"]])
            line[COLUMNS[name]] = f"{values.min():.1f} to {values.max():.1f}"
        line[COLUMNS["score"]] = f"{part['notes.score'].mean():.3f}"
        line[COLUMNS["psnr_error"]] = f"{error.min():+.2f} to {error.max():+.2f}"
        lines.append({**line, "seconds": f"{part['total'].mean():.3g}"})
    return pd.DataFrame(lines)
