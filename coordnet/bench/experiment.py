"""Experiments: methods estimate signals from samples of them, and the estimates are scored, one cell for each."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.bench.jobs import limited
from coordnet.bench.records import Cell, Options, Result, plain
from coordnet.bench.signals import Finder, Signal
from coordnet.comparison.stopwatch import finite, timed, with_peak
from coordnet.metrics import scores as metrics
from coordnet.sampling import Samples, sample

Group = Literal["baseline", "closed form", "gradient"]
Measure = Literal["held_out", "clean", "inside", "snr"]
INSIDE = slice(8, -8)  # a mosaic without its border
QUICK_EPOCHS = 3  # epochs of each training with --quick


@dataclass(frozen=True)
class Case:
    """The input of an estimator."""

    samples: Samples  # on the signal's own grid
    noise: float = 0.0  # its standard deviation
    seed: int = 0
    epochs: int = 0
    score: Callable[[Tensor], float] | None = None  # against the true signal, for what is chosen with hindsight
    truth: Tensor | None = None  # for the coverage of intervals

    def best(self, estimates: Iterable[Tensor]) -> Tensor:
        """Choose an estimate with hindsight."""
        assert self.score is not None
        return max(estimates, key=self.score)


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

    @abstractmethod
    def __call__(self, case: Case) -> Outcome:
        """Estimate the signal."""


@dataclass(frozen=True)
class Peer(Estimator):
    """Another library's function of a case; with a limit in seconds it runs once, in a process of its own."""

    group = "baseline"
    function: Callable[..., Tensor]
    limit: float | None = None
    package: str | None = None  # the optional package of the function

    def __call__(self, case: Case) -> Outcome:
        if self.limit is None:
            return Outcome(*timed(partial(self.function, case)))
        return Outcome(*limited(partial(self.function, replace(case, score=None)), self.limit))


@dataclass(frozen=True)
class Method:
    """One row of a table: an estimator with a name."""

    name: str
    estimator: Estimator
    printed: tuple[str, str, str] = ("", "", "")  # a paper's PSNR, seconds and parameters, of its own data and GPU


def baseline(
    name: str, function: Callable[..., Any], limit: float | None = None, package: str | None = None, **options: Any
) -> Method:
    """Return another library's method, stopped at a limit in seconds, left out where its ``package`` is missing."""
    return Method(name, Peer(partial(function, **options) if options else function, limit, package))


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

    def noisy(self, values: Tensor, seed: int) -> Tensor:
        """Return values with the task's noise."""
        white = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
        return values + self.noise * white if self.noise else values

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        """Return the samples of a signal on a device, and the signal with its noise."""
        observed = self.noisy(signal, seed)
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
        has_clean = task.noise > 0 or task.measure == "clean"
        scores["clean"] = metrics.psnr(estimate, truth) if has_clean else None
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


@dataclass(frozen=True)
class Experiment:
    """A declarative table: the tasks, the methods that are applied to each, and the signals."""

    name: str
    title: str
    blocks: Mapping[Task, Sequence[Method]]
    finder: Finder = Finder()
    epochs: int = 2000  # the length of each training
    seeds: int = 1  # the number of draws of masks, noise, encoders and networks
    abscissa: Literal["seconds", "noise", "fraction", "rank", "features", "epochs"] = "seconds"  # axis of the figure

    @property
    def measure(self) -> Measure:
        """The score by which rows are sorted."""
        return next(iter(self.blocks)).measure

    def cells(self, options: Options) -> list[Cell]:
        """Return the cells of a run, those of trained methods last, and the cells of a signal together."""
        if options.data is None:
            raise _checks.wrong("data", "a folder with pictures and clips (--data DIR)", "none")
        quick = options.quick
        signals = self.finder.find(options.data, options.images or (1 if quick else None), quick=quick)
        epochs = options.epochs or (QUICK_EPOCHS if quick else self.epochs)
        seeds = options.seeds or (1 if quick else self.seeds)
        chosen = self._chosen(options.methods)
        cells = []
        for task, method in ((task, m) for task, methods in self.blocks.items() for m in methods if m.name in chosen):
            estimator = method.estimator
            package = getattr(estimator, "package", None)
            if package and find_spec(package) is None:
                text = f"{method.name} is left out: the package {package} is not installed"
                warnings.warn(text, _checks.CoordnetWarning, stacklevel=2)
                continue
            run: dict[str, Any] = {"experiment": self.name}
            run["epochs"] = epochs if estimator.group == "gradient" else None
            run["device"] = "cpu" if estimator.on_cpu else options.device
            for number, signal in enumerate(signals):
                drawn = range(seeds if task.draws or estimator.draws else 1)
                cells += [estimation(task, signal, method, seed=s, **run) for s in ((number,) if task.mask else drawn)]
        return sorted(cells, key=lambda c: (c.epochs is not None, *itemgetter("name", "kind")(c.subject["signal"])))

    def _chosen(self, patterns: tuple[str, ...]) -> set[str]:
        """Return the names of the methods that have a pattern's name or group; of all methods without a pattern."""
        methods = {method.name: method for block in self.blocks.values() for method in block}
        chosen: set[str] = set() if patterns else set(methods)
        for pattern in patterns:
            matched = {n for n, m in methods.items() if fnmatchcase(n, pattern) or m.estimator.group == pattern}
            if not matched:
                expected = "a group (baseline, closed form, gradient) or a name among " + "; ".join(methods)
                raise _checks.wrong("methods", expected, repr(pattern))
            chosen |= matched
        return chosen
