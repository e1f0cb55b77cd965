"""What a benchmark of quality is made of: signals, how they are sampled, and the methods that reconstruct them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coordnet.bench import peers
from coordnet.metrics import scores as metrics
from coordnet.metrics.stopwatch import once
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import ScatteredPoints


@dataclass(frozen=True)
class Settings:
    """What is measured: the data folder, and how many photographs of it."""

    data: Path
    images: int | None = None


@dataclass(frozen=True)
class Row:
    """One method on one signal.

    Attributes
    ----------
    score : float
        Decibels of ``measure``, "psnr" or "snr"; GiB for "peak"; a number of "steps".
    """

    task: str
    signal: str
    method: str
    measure: str
    score: float
    seconds: float
    chosen: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row as a record; a score that is not finite as null."""
        record = {"task": self.task, "signal": self.signal, "method": self.method}
        if self.chosen:
            record["chosen"] = self.chosen
        score = self.score if math.isfinite(self.score) else None
        return {**record, self.measure: score, "seconds": self.seconds}


@dataclass(frozen=True)
class Case:
    """A signal, how it is sampled, and the methods that reconstruct it; the first of them is the others' peer.

    Attributes
    ----------
    load : callable
        Gives the signal (*grid, channels).
    pattern : str or callable
        As ``sample`` takes it, or what makes a mask of the signal's grid.
    measure : "psnr" or "snr"
        Over held-out entries; over all but a border of ``border`` pixels; over all where all are samples.
    noise : float
        Standard deviation of white Gaussian noise, seeded, on the samples.
    """

    task: str
    signal: str
    load: Callable[[], Tensor]
    pattern: str | Callable[[tuple[int, ...]], Tensor]
    methods: dict[str, peers.Method]
    measure: str = "psnr"
    border: int = 0
    noise: float = 0.0
    hindsight: dict[str, Callable[[peers.Score], peers.Method]] = field(default_factory=dict)

    def run(self) -> Iterator[Row]:
        """Apply every method, timed with all that it needs from the samples on."""
        signal = self.load()
        pattern = self.pattern if isinstance(self.pattern, str) else self.pattern(tuple(signal.shape[:-1]))
        samples = sample(signal + self.noise * _white(signal), pattern)
        assert not isinstance(samples.geometry, ScatteredPoints)
        score = partial(self.score, truth=signal, known=samples.geometry.known(signal.shape[-1]))
        methods = self.methods | {name: made(score) for name, made in self.hindsight.items()}
        for name, method in methods.items():
            made, seconds = once(partial(method, samples))
            yield Row(self.task, self.signal, name, self.measure, score(made.signal), seconds, made.chosen)

    def score(self, estimate: Tensor, *, truth: Tensor, known: Tensor) -> float:
        """Decibels of an estimate."""
        counted = known if bool(known.all()) else ~known
        if self.border:
            counted = torch.zeros_like(known)
            counted[self.border : -self.border, self.border : -self.border] = True
        return (metrics.psnr if self.measure == "psnr" else metrics.snr)(estimate, truth, counted)


def _white(signal: Tensor) -> Tensor:
    return torch.randn(signal.shape, generator=torch.Generator().manual_seed(0)).to(signal)
