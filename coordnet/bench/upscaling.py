"""Enlargements of pictures that were reduced by averaging, by any factor: the task, and its methods."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.bench.estimation import Case, Estimator, Outcome, Task
from coordnet.comparison.stopwatch import timed
from coordnet.linalg.kronecker import mode_product
from coordnet.restore.upscale import PixelKind, upscale
from coordnet.sampling import AreaLattice, Samples


@dataclass(frozen=True)
class Cells(AreaLattice):
    """Means over a number of cells that tile a grid, whose lengths need not be whole numbers of pixels."""

    counts: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return self.counts


@dataclass(frozen=True)
class Reduction(Task):
    """Pictures reduced by a factor, by averaging over cells, and perhaps with noise after that."""

    factor: int | float = 2.0

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        """Return the reduced picture, and the picture itself."""
        grid = tuple(signal.shape[:-1])
        counts = tuple(max(1, round(n / self.factor)) for n in grid)
        matrices = [cell_matrix(n, m).to(signal) for n, m in zip(grid, counts, strict=True)]
        values = mode_product(signal.movedim(-1, 0), matrices).movedim(0, -1)
        if self.noise:
            values = values + self.noise * torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
        return Samples(Cells(grid, counts=counts), values.contiguous().to(device)), signal


@dataclass(frozen=True)
class Enlarged(Estimator):
    """The result of ``upscale``."""

    samples: PixelKind = "area"
    prior: str = "auto"

    def __call__(self, case: Case) -> Outcome:
        """Enlarge the picture."""
        values = case.samples.values
        factor = case.samples.grid[0] / values.shape[0]
        made, seconds = timed(lambda: upscale(values, factor, samples=self.samples, prior=self.prior))
        return Outcome(
            made.signal, seconds, notes={k: made.report[k] for k in ("prior", "noise", "sigma") if k in made.report}
        )


def cell_matrix(pixels: int, cells: int) -> Float[Tensor, "cells pixels"]:
    """Return the matrix that averages pixels over cells which tile them; a pixel between two has a part in each."""
    edges = torch.arange(cells + 1, dtype=torch.float64) * pixels / cells
    i = torch.arange(pixels, dtype=torch.float64)
    low, high = edges[:-1].unsqueeze(1).maximum(i), edges[1:].unsqueeze(1).minimum(i + 1)
    return (high - low).clamp(min=0) * cells / pixels
