"""Smooth fields by their formulas, on lattices and at unequal coordinates, as signals to measure on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.bench.experiment import Case, Estimator, Outcome, Task
from coordnet.bench.signals import QUICK, Finder, Signal
from coordnet.comparison.stopwatch import timed
from coordnet.fitting.fit import EncoderChoice, fit
from coordnet.priors.base import Prior
from coordnet.sampling import Axis, RectilinearLattice, Samples, lattice_points

GROWTH = 8.0  # the last gap of the second axis of unequal coordinates, in units of the first


def franke(y: Tensor, x: Tensor) -> Tensor:
    """Return Franke's function, divided by 1.25 so that it is within [0, 1] (Franke, 1979: report NPS-53-79-003)."""
    total = 0.75 * torch.exp(-((9 * x - 2) ** 2 + (9 * y - 2) ** 2) / 4)
    total += 0.75 * torch.exp(-((9 * x + 1) ** 2) / 49 - (9 * y + 1) / 10)
    total += 0.5 * torch.exp(-((9 * x - 7) ** 2 + (9 * y - 3) ** 2) / 4)
    total -= 0.2 * torch.exp(-((9 * x - 4) ** 2) - (9 * y - 7) ** 2)
    return total / 1.25


def peaks(y: Tensor, x: Tensor) -> Tensor:
    """Return two Gaussian hills."""
    first = torch.exp(-40 * ((x - 0.3) ** 2 + (y - 0.6) ** 2))
    return first + 0.5 * torch.exp(-90 * ((x - 0.7) ** 2 + (y - 0.3) ** 2))


FIELDS: dict[str, tuple[Callable[..., Tensor], int]] = {  # with the number of axes
    "sines": (lambda y, x: 0.5 + 0.5 * (9 * x).sin() * (7 * y).cos(), 2),
    "franke": (franke, 2),
    "peaks": (peaks, 2),
    "waves": (lambda z, y, x: 0.5 + 0.25 * (5 * x + 3 * y).sin() + 0.25 * (4 * z - 2 * x).cos(), 3),
    "tone": (lambda x: 0.5 + 0.5 * torch.exp(-3 * x) * (60 * x).sin(), 1),
}


@dataclass(frozen=True)
class FieldSignal(Signal):
    """A field on a lattice of ``size`` nodes along each axis, at positions i / size."""

    def load(self) -> Float[Tensor, "*grid channels"]:
        function, dims = FIELDS[self.name]
        points = lattice_points((Axis(self.size),) * dims)
        return function(*points.unbind(-1)).unsqueeze(-1)


@dataclass(frozen=True)
class FieldFinder(Finder):
    """A choice of made signals by their names, each in several sizes."""

    kinds: tuple[str, ...] = ("field",)
    made: type[Signal] = FieldSignal

    def find(self, data: Path, count: int | None = None, *, quick: bool = False) -> list[Signal]:
        """Return the first ``count`` signals, shorter if ``quick``; the folder is not looked at."""
        sizes = [max(16, size // QUICK) if quick else size for size in self.sizes]
        places = [(name, size) for name in self.names[:count] for size in sizes]
        return [self.made(kind, name, "", size, Path()) for name, size in places for kind in self.kinds]


def coordinates(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` coordinates in [0, 1] along each of two axes: gaps from 0.5 to 1.5, and gaps that grow."""
    gaps = np.random.default_rng(0).uniform(0.5, 1.5, count - 1), np.geomspace(1, GROWTH, count - 1)
    first, second = (np.concatenate([[0.0], g.cumsum()]) / g.sum() for g in gaps)
    return first, second


def with_midpoints(x: np.ndarray) -> np.ndarray:
    """Return coordinates, and the middle of every two."""
    return np.insert(x, range(1, len(x)), (x[1:] + x[:-1]) / 2)


@dataclass(frozen=True)
class UnequalField(FieldSignal):
    """A field in two dimensions at ``size`` unequal coordinates along each axis, and in the middle of every two."""

    def load(self) -> Float[Tensor, "*grid channels"]:
        axes = [torch.from_numpy(with_midpoints(x)) for x in coordinates(self.size)]
        return FIELDS[self.name][0](*torch.meshgrid(*axes, indexing="ij")).unsqueeze(-1)


class EverySecond(RectilinearLattice):
    """A rectilinear lattice that was sampled from a signal with midpoints."""

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal with midpoints was sampled."""
        known = torch.zeros(*(2 * n - 1 for n in self.grid), channels, dtype=torch.bool)
        known[(slice(None, None, 2),) * len(self.grid)] = True
        return known


@dataclass(frozen=True)
class UnequalTask(Task):
    """Values at the coordinates, with noise or without; the score is of the midpoints."""

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        white = torch.randn(signal.shape, generator=torch.Generator().manual_seed(seed), dtype=signal.dtype)
        observed = signal + self.noise * white
        lattice = EverySecond(*coordinates((signal.shape[0] + 1) // 2))
        return Samples(lattice, observed[::2, ::2].contiguous().to(device)), observed


@dataclass(frozen=True)
class AtMidpoints(Estimator):
    """A fit by ``cn.fit``, evaluated at the coordinates and in the middle of every two."""

    prior: Prior | str | None = "auto"
    encoder: EncoderChoice | None = None

    def __call__(self, case: Case) -> Outcome:
        fitted, seconds = timed(lambda: fit(case.samples, prior=self.prior, encoder=self.encoder))  # type: ignore[arg-type]
        estimate, render = timed(lambda: fitted.at(*finer(case)))
        return Outcome(estimate, seconds, render=render, notes={"method": fitted.report.method})


def coarse(case: Case) -> tuple[np.ndarray, ...]:
    """Return the coordinates of a case."""
    return tuple(c.numpy() for c in case.samples.geometry.lattice.coordinates)


def finer(case: Case) -> tuple[np.ndarray, ...]:
    """Return the coordinates of a case, and the middle of every two."""
    return tuple(map(with_midpoints, coarse(case)))
