"""Attempts at one signal, by methods and by SciPy's interpolations: each is timed and scored, failures included."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet.comparison.stopwatch import finite, once, timed, tried
from coordnet.fitting.effort import warn_if_long
from coordnet.fitting.methods import Method
from coordnet.metrics.baselines import BASELINES, Baseline
from coordnet.metrics.scores import Scoring
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import Samples

WARM = {"repeats": 1, "budget": 1.0}  # work of less than a second is done twice, and the second time counts


@dataclass(frozen=True)
class Attempt:
    """One method's or baseline's estimate of a signal."""

    name: str
    method: Method | None = None  # None for a baseline
    estimate: Tensor | None = None  # (*grid, channels); None after a failure
    fit: Reconstruction | None = None  # the model of a method
    seconds: dict[str, float | None] = field(default_factory=dict)  # "fit" and "render", None where both are one
    scores: dict[str, Any] = field(default_factory=dict)  # see ``Scoring.scores``
    warnings: list[str] = field(default_factory=list)
    reason: str = ""  # why it failed; empty if it did not

    def score(self, by: str) -> float:
        """Return the PSNR to rank by: infinite for an exact estimate, which has none, and least for a failure."""
        if self.estimate is None:
            return -math.inf
        psnr = self.scores["psnr"][by]
        return math.inf if psnr is None else psnr

    @property
    def parameters(self) -> int | None:
        """The number of parameters of the model; None for a baseline."""
        return None if self.fit is None else self.fit.network.parameter_count


def attempted(
    samples: Samples,
    methods: Sequence[Method],
    scoring: Scoring,
    *,
    epochs: int | None,
    generator: torch.Generator,
    progress: bool,
) -> list[Attempt]:
    """Fit samples by several methods and by SciPy's interpolations, the best first.

    Every method draws from a copy of the generator, so that its result does not depend on the others. A method that
    does not suit the samples raises a ``ValueError``; any other error is recorded as a failure of its method. More than
    ten minutes of training in all, on a processor, give a warning before the first method begins.
    """
    warn_if_long(sum(method.expected_seconds(samples, epochs, generator.clone_state()) for method in methods))
    total = len(methods) + len(BASELINES)
    with tqdm(total=total, desc="comparing", disable=not progress, dynamic_ncols=True) as bar:
        works = [(Attempt(m.name, m), partial(_fitted, m, samples, epochs, generator, bar)) for m in methods]
        works += [(Attempt(f"baseline · {name}"), partial(_interpolated, b, samples)) for name, b in BASELINES.items()]
        return ranked([_attempt(attempt, work, scoring, bar) for attempt, work in works], scoring.ranked_by)


def ranked(attempts: list[Attempt], by: str) -> list[Attempt]:
    """Sort attempts, the best first by held-out or by fitted PSNR, exact ones before others, failures last."""
    return sorted(attempts, key=lambda attempt: attempt.score(by), reverse=True)


def _attempt(attempt: Attempt, work: Callable[[], dict[str, Any]], scoring: Scoring, bar: tqdm) -> Attempt:
    """Return the attempt with the results of some work, or with the reason for its failure."""
    bar.set_postfix_str(attempt.name)
    trial = tried(work)
    bar.update()
    if trial.error is not None:
        return replace(attempt, reason=" ".join(str(trial.error).split()) or type(trial.error).__name__)
    scores = scoring.scores(trial.result["estimate"])
    return replace(attempt, **trial.result, scores=scores, warnings=trial.warnings)


def _fitted(
    method: Method, samples: Samples, epochs: int | None, generator: torch.Generator, bar: tqdm
) -> dict[str, Any]:
    """Fit and render, each timed; training is warmed up by one epoch."""

    def show(epoch: int, loss: float, quality: float) -> None:
        bar.set_postfix_str(f"{method.name}, epoch {epoch}, fit {quality:.2f} dB")

    def fit(**options: Any) -> Reconstruction:
        return method.fit(samples, generator=generator.clone_state(), callback=show, **options)

    fit_whole = fit if epochs is None else partial(fit, epochs=epochs)
    if method.solver == "gradient":
        fit(epochs=1)
        model, seconds = once(fit_whole)
    else:
        model, seconds = timed(fit_whole, **WARM)
    estimate, rendering = once(model.render)
    return {"estimate": finite(estimate), "fit": model, "seconds": {"fit": seconds, "render": rendering}}


def _interpolated(baseline: Baseline, samples: Samples) -> dict[str, Any]:
    """Time a baseline, which fits and renders in one step."""
    estimate, seconds = timed(partial(baseline, samples), **WARM)
    if estimate is None:
        raise ValueError("SciPy does not reach so many points in so many dimensions")
    return {"estimate": finite(estimate), "seconds": {"fit": seconds, "render": None}}
