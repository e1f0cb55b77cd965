"""Trained tables: rows of features at the nodes of lattices, with multilinear interpolation between them."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.feature_map import Encoder, FeatureMap, JointEncoder, interval
from coordnet.sampling.axes import Axes, Axis


class Table(FeatureMap):
    """A trained table (n₁, …, n_d, K) of rows on a lattice, drawn from N(0, 1/K), with multilinear interpolation."""

    random = True

    def _draw(self, generator: torch.Generator) -> None:
        shape = (*(axis.count for axis in self.axes), self.features)
        draws = torch.randn(shape, generator=generator)
        self.table = nn.Parameter(draws / self.features**0.5)

    @property
    @abstractmethod
    def axes(self) -> Axes:
        """The positions of the rows along each axis."""

    @property
    def kinks(self) -> list[Float[Tensor, "_"]]:
        return [axis.points() for axis in self.axes]

    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        table, points = self.table.to(x), x if self.joint else x.unsqueeze(-1)
        parts = ((a.start, a.spacing, a.count - 1) for a in self.axes)
        start, spacing, last = (x.new_tensor(part) for part in zip(*parts, strict=True))
        position = torch.minimum(((points - start) / spacing).clamp(min=0), last)
        below = torch.minimum(position.detach().nan_to_num().floor(), (last - 1).clamp(min=0))
        rows = last.long()
        return multilinear(below.long(), position - below, lambda i: table[tuple(torch.minimum(i, rows).unbind(-1))])


class LearnedEmbedding(Table, Encoder):
    """ψ(x): row i of a ``Table`` at position start + (stop - start) i / rows, linear between, constant beyond the ends.

    Li et al. (NeurIPS 2021) compare with this one-dimensional embedding, which is that of Gehring et al. (2017).
    """

    name = "embedding"
    summary = "a trained table with one row per sample"
    rows: int
    start: float = 0.0
    stop: float = 1.0

    def _draw(self, generator: torch.Generator) -> None:
        _checks.integer("rows", self.rows, 1)
        self.start, self.stop = interval(self.start, self.stop)
        super()._draw(generator)

    @property
    def axes(self) -> Axes:
        return (Axis(self.rows, self.start, (self.stop - self.start) / self.rows),)

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        (axis,) = axes
        return {"features": features or axis.count, "rows": axis.count, "start": axis.start, "stop": axis.stop}


class JointEmbedding(Table, JointEncoder):
    """ψ(x): row (i₁, …, i_d) of a ``Table`` at node (i₁/n₁, …, i_d/n_d), multilinear between, constant beyond the ends.

    The lengths n₁ … n_d are the ``grid``. Li et al. (NeurIPS 2021) compare with this embedding in two dimensions.
    """

    usual_features = 64
    name = "joint-embedding"
    summary = "a trained table with one row per sample of the grid"
    grid: tuple[int, ...] | list[int]

    def _draw(self, generator: torch.Generator) -> None:
        if len(self.grid) != self.dimensions:
            raise _checks.wrong("grid", f"{self.dimensions} lengths, one for each axis", self.grid)
        super()._draw(generator)

    @property
    def axes(self) -> Axes:
        return tuple(Axis(n) for n in self.grid)

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        return {**super()._suited(axes, features, given), "grid": tuple(axis.count for axis in axes)}


def multilinear(
    below: Int[Tensor, "*points d"],
    ratio: Float[Tensor, "*points d"],
    row: Callable[[Int[Tensor, "*points d"]], Float[Tensor, "*points k"]],
) -> Float[Tensor, "*points k"]:
    """The multilinear interpolation of feature rows at the 2^d corners of a cell.

    ``below`` is the lowest corner, ``ratio`` the position in the cell, from 0 there to 1 at the opposite corner, and
    ``row`` maps a corner to its features.
    """
    total = ratio.new_zeros(())
    for corner in itertools.product((0, 1), repeat=below.shape[-1]):
        bits = torch.tensor(corner, device=below.device)
        weight = torch.where(bits == 1, ratio, 1 - ratio).prod(-1, keepdim=True)
        total = total + weight * row(below + bits)
    return total


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
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        """Take two features per level, and one cell per two samples at the finest."""
        levels, coarsest = (_checks.integer(name, given.get(name, 16), 1) for name in ("levels", "coarsest"))
        finest = max(axis.count for axis in axes) / 2
        growth = max(finest / coarsest, 1.0) ** (1 / max(levels - 1, 1))
        return {"dimensions": len(axes), "features": features or 2 * levels, "growth": growth}
