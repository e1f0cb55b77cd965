"""What samples say of a signal: the signal nearest to another one that suits them."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.sampling.grids import CellMeans

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
