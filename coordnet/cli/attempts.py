"""Attempts at one signal: methods and SciPy's baselines, timed and scored, failures included."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet.cli import methods
from coordnet.cli.methods import Method
from coordnet.cli.scoring import Scoring
from coordnet.cli.specs import describe_encoder, describe_prior
from coordnet.metrics.baselines import BASELINES, Baseline
from coordnet.metrics.stopwatch import once
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import Samples

AGAIN = 1.0  # seconds; quicker work is done twice, as training is after one epoch, and the second time counts
OUT_OF_REACH = "SciPy does not reach so many points in so many dimensions"


@dataclass(frozen=True)
class Attempt:
    """One method's estimate (*grid, channels), None if it failed, and its part of the record."""

    name: str
    estimate: Tensor | None
    record: dict[str, Any]


def attempt_all(
    chosen: list[Method],
    samples: Samples,
    scoring: Scoring,
    *,
    epochs: int,
    generator: torch.Generator,
    progress: bool,
) -> list[Attempt]:
    """Every method and every baseline, one after another, then ranked: the best first, failures last."""
    attempts: list[Attempt] = []
    total = len(chosen) + len(BASELINES)
    with tqdm(total=total, desc="comparing", disable=not progress, dynamic_ncols=True) as bar:
        for method in chosen:
            bar.set_postfix_str(method.name)
            drawn = copied(generator)
            settings = {
                "encoder": method.encoder,
                "encoding": method.encoding,
                "head": method.head,
                "solver": method.solver,
                "prior": describe_prior(method.prior),
            }
            work = _Fit(method, samples, epochs, drawn, bar)
            attempts.append(_attempt(method.name, settings, work, scoring))
            bar.update()
        for name, baseline in BASELINES.items():
            label = f"baseline · {name}"
            bar.set_postfix_str(label)
            attempts.append(_attempt(label, {"baseline": name}, _Interpolation(baseline, samples), scoring))
            bar.update()
    return ranked(attempts, scoring.ranked_by)


def copied(generator: torch.Generator) -> torch.Generator:
    """A generator in the same state: every method is drawn as ``coordnet reconstruct`` would, whatever is beside it."""
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return copy


def _attempt(
    name: str, settings: dict[str, Any], work: Callable[[], tuple[Tensor, dict[str, Any]]], scoring: Scoring
) -> Attempt:
    """Do some work that gives an estimate and what to record of it; a failure is recorded with its reason."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            estimate, told = work()
            if not bool(torch.isfinite(estimate).all()):
                raise FloatingPointError("the reconstruction has NaN or infinity")
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            return Attempt(name, None, {**settings, "status": "failed", "reason": reason})
    scores = {"psnr": scoring.psnr(estimate), "snr": scoring.snr(estimate), "ssim": scoring.ssim(estimate)}
    messages = list(dict.fromkeys(str(w.message) for w in warned if issubclass(w.category, UserWarning)))
    return Attempt(name, estimate, {**settings, "status": "done", **told, **scores, "warnings": messages})


@dataclass(frozen=True)
class _Fit:
    """A method's work: fit and render, each timed."""

    method: Method
    samples: Samples
    epochs: int
    generator: torch.Generator
    bar: tqdm

    def __call__(self) -> tuple[Tensor, dict[str, Any]]:
        state, trained = self.generator.get_state(), self.method.solver == "gradient"
        fit, seconds = once(lambda: self._fit(epochs=1))
        if trained or seconds < AGAIN:
            self.generator.set_state(state)
            fit, seconds = once(lambda: self._fit(self.epochs))
        estimate, render_seconds = once(fit.render)
        told = {
            "encoder": describe_encoder(self.method.encoder, fit.network.encoding),
            "parameters": fit.network.parameter_count,
            "seconds": {"fit": seconds, "render": render_seconds},
            "report": fit.report,
        }
        return estimate.detach().cpu(), told

    def _fit(self, epochs: int) -> Reconstruction:
        encoding = self.method.encode(self.samples, self.generator)
        trained = self.method.solver == "gradient"
        options: dict[str, Any] = {"callback": self._show} if trained else {}
        return methods.fit(
            self.method, encoding, self.samples, epochs=epochs, generator=self.generator, **options
        )

    def _show(self, epoch: int, loss: float, quality: float) -> None:
        self.bar.set_postfix_str(f"{self.method.name}, epoch {epoch} of {self.epochs}, fit {quality:.2f} dB")


@dataclass(frozen=True)
class _Interpolation:
    """A baseline's work: it renders where it fits."""

    baseline: Baseline
    samples: Samples

    def __call__(self) -> tuple[Tensor, dict[str, Any]]:
        estimate, seconds = once(lambda: self.baseline(self.samples))
        if estimate is not None and seconds < AGAIN:
            estimate, seconds = once(lambda: self.baseline(self.samples))
        if estimate is None:
            raise ValueError(OUT_OF_REACH)
        told = {"parameters": None, "seconds": {"fit": seconds, "render": None}, "report": {}}
        return estimate.cpu(), told


def ranked(attempts: list[Attempt], by: str) -> list[Attempt]:
    """Attempts, the best first by held-out or by fitted PSNR, exact ones before others; failures last."""

    def score(attempt: Attempt) -> float:
        if attempt.estimate is None:
            return float("-inf")
        psnr = attempt.record["psnr"][by]
        return float("inf") if psnr is None else psnr

    return sorted(attempts, key=score, reverse=True)
