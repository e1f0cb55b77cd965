"""What samples say of a signal: the signal nearest to another one that suits them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.linalg.conjugate_gradients import conjugate_gradients
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import CellMeans

LEAST_RATIO = 1e-6  # smallest ratio of the variances of the measurements' noise and of a step
TOLERANCE, STEPS = 1e-3, 50  # relative residual and number of steps of conjugate gradients in a step of plug-and-play

Signal = Float[Tensor, "channels *lattice"]
Nearest = Callable[[Tensor, float], Tensor]


def entries(values: Signal, known: Bool[Tensor, "#channels *lattice"], noise: float = 0.0) -> Nearest:
    """Return the map for known entries of a lattice, with noise of a standard deviation: they take their places."""

    def nearest(v: Tensor, s: float) -> Tensor:
        share = noise**2 / (noise**2 + s**2) if noise else 0.0
        return torch.where(known, values + share * (v - values), v)

    return nearest


def cell_means(values: Float[Tensor, "channels *cells"], cells: tuple[int, ...], noise: float = 0.0) -> Nearest:
    """Return the map for means over cells, with noise of a standard deviation: each pixel takes its cell's error."""
    size = math.prod(cells)

    def nearest(v: Tensor, s: float) -> Tensor:
        means = CellMeans(tuple(v.shape[1:]), cells)
        return v + size * s**2 / (s**2 + size * noise**2) * means.adjoint(values - means(v))

    return nearest


def measured(values: Float[Tensor, "channels *samples"], measurement: ForwardModel, noise: float) -> Nearest:
    """Return the map for values of an operator with noise of a standard deviation, by conjugate gradients."""
    right = measurement.backproject(values.unsqueeze(0))

    def nearest(v: Tensor, s: float) -> Tensor:
        ratio = max((noise / s) ** 2, LEAST_RATIO)
        system = _Near(measurement, ratio)
        start = v.unsqueeze(0)
        return conjugate_gradients(system, right + ratio * start, start=start, tolerance=TOLERANCE, steps=STEPS).x[0]

    return nearest


@dataclass(frozen=True)
class _Near:
    """The system (SᵀWS + ρ) x = b."""

    measurement: ForwardModel
    ratio: float

    def operator(self, x: Tensor) -> Tensor:
        return self.measurement.normal(x) + self.ratio * x

    def preconditioner(self, r: Tensor) -> Tensor:
        return r.clone()

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(2).sum(-1).reshape(*a.shape[:2], *(1,) * (a.ndim - 2))

    def select(self, kept: Any) -> "_Near":
        return _Near(self.measurement.select(kept), self.ratio)
