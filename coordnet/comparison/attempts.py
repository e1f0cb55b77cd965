"""Methods to compare on one signal, and attempts by them and SciPy: each is timed and scored, failures included."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.comparison.stopwatch import finite, once, timed, tried
from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import BSpline, Gaussian, Triangle
from coordnet.fitting.choice import Family, Kind, Solver, choose_prior, default_encoder
from coordnet.fitting.fit import SOLVERS, EncoderChoice, Method, head_label
from coordnet.fitting.gradient import warn_if_long
from coordnet.metrics.baselines import BASELINES, Baseline
from coordnet.metrics.scores import Scoring
from coordnet.networks.heads import Head, Linear
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.base import Prior
from coordnet.priors.smoothness import POWER, Smoothness
from coordnet.sampling.samples import Samples

COMPARED: tuple[Family, ...] = (Gaussian, Triangle, BSpline)  # the encoders of a comparison that names none
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


def combinations(
    samples: Samples,
    encoders: Sequence[EncoderChoice] = (),
    heads: Sequence[Head] = (),
    solvers: Sequence[str] = (),
    priors: Sequence[Prior] = (),
) -> tuple[list[Method], dict[str, str]]:
    """Every encoder with every head and solver, without those that do not go together.

    A linear head takes the complex encoding, or the encoder itself where that is of several axes jointly; other heads
    take the simple encoding. A closed form needs a linear head on a complex encoding; ``fourier`` has nothing but a
    closed form. Closed forms take the prior that suits the samples and the encoder; where a prior learns from the
    samples, the Fourier encoding is fitted too, with it and the simpler priors that suit. Further ``priors`` are
    fitted with the encoders that suit them.

    Where a sequence is empty, usual encoders, the linear head or the first solver that is possible are taken. Returned
    are the methods, each once, and by the label of every combination that was left out the reason.
    """
    for solver in solvers:
        _checks.choice("solver", solver, SOLVERS)
    prior, plain = choose_prior(samples), choose_prior(samples, fourier=False)
    usual = EncoderChoice(default_encoder(samples.geometry, plain))  # with an adaptive prior fine encoders are alike
    compared = [usual] if usual.is_fourier else [EncoderChoice(family) for family in COMPARED]
    methods: list[Method] = []
    left_out: dict[str, str] = {}
    for encoder, head in product(encoders or compared, heads or [Linear()]):
        possible = _possible(encoder, head)
        for solver in solvers or [s for s in SOLVERS if s in possible][:1] or ["gradient"]:
            if solver in possible:
                suited = prior if encoder.is_fourier else plain
                assumed = suited if solver == "closed-form" else None
                methods.append(Method(encoder, head, cast(Solver, solver), assumed, possible[solver]))
            else:
                reason = "a closed form needs a linear head and an encoder of one axis"
                if encoder.is_fourier:
                    reason = "fourier is fitted in closed form, with a linear head"
                left_out[f"{encoder.label} · {head_label(head)} · {solver}"] = reason
    learned = [p for p in (prior, plain) if p is not None and p.learns]
    if plain is not None and plain.learns:
        learned.append(Smoothness(POWER[len(samples.grid)]))
    each = {p.name: p for p in reversed(learned)}  # two stacks have one name: the first of them is fitted
    methods += [Method(EncoderChoice(FourierEncoding), prior=p) for p in reversed(each.values())]
    methods += [Method(EncoderChoice(default_encoder(samples.geometry, p)), prior=p) for p in priors]
    return [m for i, m in enumerate(methods) if m not in methods[:i]], left_out


def _possible(encoder: EncoderChoice, head: Head) -> dict[str, Kind]:
    """The solvers that an encoder and a head allow, each with the kind of encoding."""
    if encoder.is_fourier:
        return {} if head.widths else {"closed-form": "complex"}
    if head.widths or encoder.is_joint:
        return {"gradient": "simple"}
    return {"closed-form": "complex", "gradient": "complex"}
