"""Smooth fields at unequal coordinates, fitted at every second one and scored between them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.bench.estimation import Case, Estimator, Outcome, Task
from coordnet.bench.fields import FIELDS, FieldFinder, FieldSignal
from coordnet.bench.signals import Signal
from coordnet.comparison.stopwatch import timed
from coordnet.fitting.fit import fit
from coordnet.fitting.methods import EncoderChoice
from coordnet.priors.base import Prior
from coordnet.sampling import RectilinearLattice, Samples

GROWTH = 8.0  # the last gap of the second axis, in units of the first


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
        """Evaluate the field in float64."""
        axes = [torch.from_numpy(with_midpoints(x)) for x in coordinates(self.size)]
        return FIELDS[self.name][0](*torch.meshgrid(*axes, indexing="ij")).unsqueeze(-1)


@dataclass(frozen=True)
class UnequalFinder(FieldFinder):
    """A choice of fields at unequal coordinates."""

    def find(self, data: Path, count: int | None = None, *, quick: bool = False) -> list[Signal]:
        """Return the fields of ``FieldFinder``, at unequal coordinates."""
        found = super().find(data, count, quick=quick)
        return [UnequalField("unequal field", s.name, s.digest, s.size, s.path) for s in found]


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
        """Return the samples on a device, and the signal with its noise."""
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
        """Fit and evaluate."""
        axes = finer(case)
        found, seconds = timed(lambda: fit(case.samples, prior=self.prior, encoder=self.encoder))  # type: ignore[arg-type]
        estimate, render = timed(lambda: found.at(*axes))
        return Outcome(estimate, seconds, render=render, notes={"method": found.report.method})


def coarse(case: Case) -> tuple[np.ndarray, ...]:
    """Return the coordinates of a case."""
    return tuple(c.numpy() for c in case.samples.geometry.coordinates or ())


def finer(case: Case) -> tuple[np.ndarray, ...]:
    """Return the coordinates of a case, and the middle of every two."""
    return tuple(map(with_midpoints, coarse(case)))
