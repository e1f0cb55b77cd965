"""What samples say of a signal: the signal nearest to another one that suits them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.linalg.conjugate_gradients import Places, conjugate_gradients
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import CellMeans

# Relative residual and number of steps at which the signal nearest to another is taken: its error is an error of this
# part of the denoiser's, which the next step of plug-and-play corrects.
NEAREST_TOLERANCE, MOST_STEPS = 1e-2, 50

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
        means, share = CellMeans(tuple(v.shape[1:]), cells), s**2 / (s**2 + size * noise**2) if noise else 1.0
        return v + size * share * means.adjoint(values - means(v))

    return nearest


@dataclass(frozen=True)
class _Nearest:
    """The system SᵀWS + r of one signal, whose channels have their own steps."""

    measurement: ForwardModel
    ratio: float

    def operator(self, x: Tensor) -> Tensor:
        return self.measurement.normal(x).add_(x, alpha=self.ratio)

    def preconditioner(self, r: Tensor) -> Tensor:
        return r.clone()

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(2).sum(-1).reshape(*a.shape[:2], *(1,) * (a.ndim - 2))

    def select(self, kept: Places) -> "_Nearest":
        return _Nearest(self.measurement.select(kept), self.ratio)


def measured(values: Float[Tensor, "channels *samples"], measurement: ForwardModel, noise: float) -> Nearest:
    """Return the map for values of any operator S with weights W and noise of a standard deviation, above 0.

    It solves (SᵀWS + σ²/s²) (x - v) = SᵀW (y - S v) by conjugate gradients.
    """

    def nearest(v: Tensor, s: float) -> Tensor:
        error = measurement.backproject(values - measurement(v.unsqueeze(0)))
        system = _Nearest(measurement, (noise / s) ** 2)
        return v + conjugate_gradients(system, error, tolerance=NEAREST_TOLERANCE, steps=MOST_STEPS).x[0]

    return nearest
