"""Estimations: a method estimates a signal from samples of it, and the estimate is scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from coordnet.bench.cells import Cell, Result, plain
from coordnet.bench.memory import with_peak
from coordnet.bench.signals import Signal
from coordnet.comparison.trials import finite
from coordnet.metrics import scores as metrics
from coordnet.sampling import Samples, sample

Group = Literal["baseline", "closed form", "gradient"]
Measure = Literal["held_out", "clean", "inside", "snr"]
INSIDE = slice(8, -8)  # a mosaic without its border


@dataclass(frozen=True)
class Case:
    """The input of an estimator."""

    samples: Samples  # on the signal's own grid
    noise: float = 0.0  # its standard deviation
    seed: int = 0
    epochs: int = 0
    score: Callable[[Tensor], float] | None = None  # against the true signal, for what is chosen with hindsight
    truth: Tensor | None = None  # for the coverage of intervals


@dataclass(frozen=True)
class Outcome:
    """An estimate (*grid, channels) and its seconds; where ``encode`` and ``render`` are None, ``fit`` is the whole."""

    estimate: Tensor
    fit: float
    encode: float | None = None
    render: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Estimator(ABC):
    """A way to estimate a signal from samples of it; a dataclass whose fields are its parameters."""

    group: ClassVar[Group] = "closed form"  # baselines are other libraries' methods and run on the CPU

    @property
    def draws(self) -> bool:
        """Whether the estimate depends on the seed."""
        return self.group == "gradient"

    @property
    def on_cpu(self) -> bool:
        """Whether the work is done on the CPU, wherever the samples are."""
        return self.group == "baseline" or getattr(getattr(self, "prior", None), "on_cpu", False)

    @property
    def missing(self) -> str | None:
        """The optional package that the estimator needs and that is not installed, if any."""
        return None

    @abstractmethod
    def __call__(self, case: Case) -> Outcome:
        """Estimate the signal."""


@dataclass(frozen=True)
class Method:
    """One row of a table: an estimator with a name."""

    name: str
    estimator: Estimator
    printed: tuple[str, str, str] = ("", "", "")  # a paper's PSNR, seconds and parameters, of its own data and GPU


@dataclass(frozen=True)
class Task:
    """The known part of a signal, and the score by which methods are compared."""

    name: str
    pattern: str  # as ``sample`` takes it, or the name of the mask
    noise: float = 0.0  # standard deviation of white Gaussian noise on the samples
    measure: Measure = "held_out"
    mask: Callable[[tuple[int, ...], int], Tensor] | None = None  # takes a grid and a seed, one for each signal
    clipped: bool = False  # whether the noisy values are clipped to [0, 1] and rounded to 8 bits

    @property
    def draws(self) -> bool:
        """Whether the samples depend on the seed."""
        return self.noise > 0 or self.pattern.startswith(("random", "entries"))

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        """Return the samples of a signal on a device, and the signal with its noise."""
        white = torch.randn(signal.shape, generator=torch.Generator().manual_seed(seed)) if self.noise else 0.0
        observed = signal + self.noise * white
        if self.clipped:
            observed = (255 * observed.clamp(0, 1)).round() / 255
        pattern = self.pattern if self.mask is None else self.mask(tuple(signal.shape[:-1]), seed)
        return sample(observed.to(device), pattern, generator=torch.Generator().manual_seed(seed)), observed


_psnr = partial(metrics.psnr, data_range=1.0, clip=True)

MEASURES: dict[str, Callable[[Tensor, Tensor, Tensor], float]] = {  # PSNR in dB, and a ratio of signal to noise
    "held_out": lambda estimate, truth, known: _psnr(estimate, truth, ~known),
    "clean": lambda estimate, truth, known: _psnr(estimate, truth),
    "inside": lambda estimate, truth, known: _psnr(estimate[INSIDE, INSIDE], truth[INSIDE, INSIDE]),
    "snr": lambda estimate, truth, known: metrics.snr(estimate, truth, ~known),
}


def estimate(task: Task, signal: Signal, method: Method, cell: Cell) -> Result:
    """Sample the signal, estimate it from the samples and score the estimate."""
    truth = signal.load()
    samples, observed = task.sampled(truth, cell.seed, cell.device)
    known = samples.geometry.known(truth.shape[-1]).cpu()

    def score(estimate: Tensor) -> float:
        return MEASURES[task.measure](estimate.cpu(), truth, known)

    case = Case(samples, task.noise, cell.seed, cell.epochs or 0, score, truth)
    outcome, memory = with_peak(partial(method.estimator, case), cell.device)
    estimate = finite(outcome.estimate)
    scores: dict[str, float | None] = {task.measure: score(estimate)}
    if task.measure != "snr":  # a signal without a peak has no PSNR
        scores["held_out"] = metrics.psnr(estimate, truth, ~known)
        scores["fitted"] = metrics.psnr(estimate, observed, known, data_range=1.0, clip=not task.noise)
        scores["clean"] = metrics.psnr(estimate, truth) if task.noise else None
        scores["ssim"] = metrics.ssim(estimate, truth) if truth.ndim == 3 else None
    seconds = {"encode": outcome.encode, "fit": outcome.fit, "render": outcome.render}
    peak = {} if memory is None or method.estimator.on_cpu else {"peak_mib": memory}
    return Result(scores, seconds, {**outcome.notes, **peak})


def estimation(task: Task, signal: Signal, method: Method, **options: Any) -> Cell:
    """Return the cell in which a method estimates one signal; the options are those of a cell."""
    described = {"name": method.name, "group": method.estimator.group, **plain(method.estimator)}
    subject = {"task": task.name, "pattern": task.pattern, "noise": task.noise, "signal": signal.configuration()}
    work = partial(estimate, task, signal, method)
    return Cell(subject={**subject, "method": described}, work=work, signal=signal, **options)
