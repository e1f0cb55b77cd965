"""Signals too large for one fit: overlapping tiles that are restored one after the other and blended."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.linalg.kronecker import outer_product
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import MaskedLattice, Samples

LARGEST = 2**22  # points of a lattice that is restored as a whole; a larger one is cut into tiles
SHARE = 4  # how many times fewer points a tile has at most
OVERLAP = {1: 1024, 2: 64, 3: 16, 4: 8}  # samples that neighboring tiles share along an axis, by the number of axes

Window = tuple[slice, ...]
Part = tuple[slice, Float[Tensor, " length"]]  # a part of an axis, and its weights


class Tiles:
    """The tiles of a lattice: one if it has at most ``largest`` points, else some with at most a quarter of that.

    The longest sides are cut first. Where tiles overlap, their weights fall linearly, and the sum of all weights is 1.
    """

    def __init__(self, grid: tuple[int, ...], largest: int = LARGEST) -> None:
        lengths, self.overlap = list(grid), OVERLAP[len(grid)]
        self.counts = [1] * len(grid)
        while math.prod(grid) > largest and math.prod(lengths) > largest // SHARE:
            axis = max(range(len(grid)), key=lengths.__getitem__)
            if lengths[axis] <= 2 * self.overlap:
                break
            self.counts[axis] += 1
            lengths[axis] = _length(grid[axis], self.counts[axis], self.overlap)
        self.grid = grid
        self.parts = [_parts(n, count, self.overlap) for n, count in zip(grid, self.counts, strict=True)]

    def __len__(self) -> int:
        """Return the number of tiles."""
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[Window]:
        """Yield the windows of the tiles on the lattice, row by row."""
        return itertools.product(*([window for window, _ in parts] for parts in self.parts))

    def restore(
        self, work: Callable[[Window], Float[Tensor, "*tile channels"]], *, progress: bool = False
    ) -> Float[Tensor, "*grid channels"]:
        """Return the blended results of some work on every tile, beneath a bar."""
        total: Tensor | None = None
        with tqdm(total=len(self), desc="tiles", disable=not progress, dynamic_ncols=True) as bar:
            for parts in itertools.product(*self.parts):
                window = tuple(part for part, _ in parts)
                result = work(window)
                total = result.new_zeros(*self.grid, result.shape[-1]) if total is None else total
                total[window] += result * outer_product([weights for _, weights in parts]).to(result).unsqueeze(-1)
                bar.update()
        assert total is not None, "a lattice has a tile"
        return total

    def report(self) -> dict[str, list[int] | int]:
        """Return what a record says of the tiles."""
        return {"tiles": self.counts, "overlap": self.overlap}


def fit_tiles(
    tiles: Tiles, samples: Samples, fit: Callable[[Samples], Reconstruction], *, progress: bool = False
) -> tuple[Float[Tensor, "*grid channels"], list[dict[str, Any]]]:
    """Fit the samples of a masked lattice in tiles; return the blended renders and the fits' reports.

    A tile of which nothing is known gets the mean of all samples.
    """
    assert samples.weights is not None, "the samples of a masked lattice"
    weights, reports = samples.weights, []

    def render(window: Window) -> Tensor:
        values, known = samples.values[window], weights[window]
        if not bool((known > 0).any()):
            return samples.mean().expand_as(values)
        geometry = MaskedLattice(tuple(values.shape[:-1]), weights=known.clone())
        found = fit(Samples(geometry, values))
        reports.append(found.report)
        return found.render(alignment="sample")

    return tiles.restore(render, progress=progress), reports


def _length(length: int, count: int, overlap: int) -> int:
    """Return the length of each of ``count`` parts of an axis."""
    return -(-(length + (count - 1) * overlap) // count)


def _parts(length: int, count: int, overlap: int) -> list[Part]:
    size = _length(length, count, overlap)
    starts = [round(k * (length - size) / max(1, count - 1)) for k in range(count)]
    position = torch.arange(size, dtype=torch.float64)
    ramp = torch.minimum(position + 1, size - position).clamp(max=overlap)
    total = torch.zeros(length, dtype=torch.float64)
    for start in starts:
        total[start : start + size] += ramp
    windows = [slice(start, start + size) for start in starts]
    return [(window, ramp / total[window]) for window in windows]
