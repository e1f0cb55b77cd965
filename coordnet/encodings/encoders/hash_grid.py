"""The multiresolution hash grid, in plain PyTorch."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.base import JointEncoder
from coordnet.encodings.encoders.embedding import multilinear
from coordnet.sampling.axes import Axes

_PRIMES = (1, 2654435761, 805459861)


class HashGrid(JointEncoder):
    """ψ(x): at each of L levels the multilinear interpolation of trained rows at the corners of x's cell.

    Level l divides the unit interval into N_l = ⌊N_min b^l⌋ cells along each of the 1 to 3 axes, with N_min the cells
    of the ``coarsest`` level and b ≥ 1 the ``growth``. Its rows of K / L features are in a ``table`` of length T, drawn
    uniformly within ±10⁻⁴; where the level has more corners than T they share rows by a hash, ⊕_j i_j π_j mod T.

    Source: Müller et al., "Instant Neural Graphics Primitives with a Multiresolution Hash Encoding" (SIGGRAPH 2022),
    section 3, equations 1 to 4. L is the number of ``levels``.
    """

    name = "hash-grid"
    summary = "trained rows at the corners of grids of many resolutions"
    random = True
    features: int = 32
    levels: int = 16
    table: int = 2**14
    coarsest: int = 16
    growth: float = 1.5

    def _draw(self, generator: torch.Generator) -> None:
        if self.dimensions > len(_PRIMES):
            raise _checks.wrong("dimensions", "1 to 3", self.dimensions)
        for name in ("levels", "table", "coarsest"):
            _checks.integer(name, getattr(self, name), 1)
        if self.features % self.levels:
            raise _checks.wrong("features", f"a multiple of the {self.levels} levels", self.features)
        self.growth = _checks.positive("growth", self.growth)
        if self.growth < 1:
            raise _checks.wrong("growth", "a number of at least 1", self.growth)
        rows = torch.empty(self.levels, self.table, self.features // self.levels)
        self.rows = nn.Parameter(rows.uniform_(-1e-4, 1e-4, generator=generator))

    @property
    def resolutions(self) -> tuple[int, ...]:
        """N_l, the cells of each level along an axis."""
        return tuple(math.floor(self.coarsest * self.growth**level + 1e-9) for level in range(self.levels))

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points x, before the gain; the cell at the border extends beyond the unit cube."""
        rows = self.rows.to(x)
        return torch.cat([self._level(x, n, rows[i]) for i, n in enumerate(self.resolutions)], dim=-1)

    @property
    def kinks(self) -> list[Float[Tensor, "_"]]:
        """The corners of all levels along each axis."""
        nodes = [torch.arange(n + 1, dtype=torch.float64) / n for n in self.resolutions]
        return [torch.cat(nodes).unique()] * self.dimensions

    def _level(self, x: Tensor, cells: int, rows: Tensor) -> Tensor:
        position = x * cells
        below = position.detach().floor().clamp(0, cells - 1)
        return multilinear(below.long(), position - below, lambda corner: rows[self._row(corner, cells)])

    def _row(self, corner: Tensor, cells: int) -> Tensor:
        if (cells + 1) ** self.dimensions <= self.table:
            strides = [(cells + 1) ** j for j in range(self.dimensions)]
            return (corner * corner.new_tensor(strides)).sum(-1)
        index = torch.zeros_like(corner[..., 0])
        for j, prime in enumerate(_PRIMES[: self.dimensions]):
            index = index ^ (corner[..., j] * prime)
        return index % self.table

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "HashGrid":
        """Construct an encoder with two features per level, and one cell per two samples at the finest, by default."""
        levels = _checks.integer("levels", arguments.get("levels", 16), 1)
        coarsest = _checks.integer("coarsest", arguments.get("coarsest", 16), 1)
        finest = max(axis.count for axis in axes) / 2
        growth = max(finest / coarsest, 1.0) ** (1 / max(levels - 1, 1))
        return cls(len(axes), features or 2 * levels, **{"growth": growth, **arguments})
