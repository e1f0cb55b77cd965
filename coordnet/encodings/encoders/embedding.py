"""Learned embeddings: a table of feature rows, one for each position, with linear interpolation between them."""

import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder, FeatureMap, JointEncoder, interval
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
        """The positions of the rows along each axis."""
        return [axis.points() for axis in self.axes]

    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x, before the gain."""
        table, points = self.table.to(x), x if self.joint else x.unsqueeze(-1)
        parts = ((a.start, a.spacing, a.count - 1) for a in self.axes)
        start, spacing, last = (x.new_tensor(part) for part in zip(*parts, strict=True))
        position = torch.minimum(((points - start) / spacing).clamp(min=0), last)
        below = torch.minimum(position.detach().nan_to_num().floor(), (last - 1).clamp(min=0))
        rows = last.long()
        return multilinear(below.long(), position - below, lambda i: table[tuple(torch.minimum(i, rows).unbind(-1))])


class LearnedEmbedding(Table, Encoder):
    """ψ(x): row i of a table at position start + (stop - start) i / rows, linear between, constant beyond the ends.

    See ``Table`` for its initial values. Li et al. (NeurIPS 2021) compare with this one-dimensional embedding, which is
    that of Gehring et al. (2017).
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
        """The positions of the rows."""
        return (Axis(self.rows, self.start, (self.stop - self.start) / self.rows),)

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "LearnedEmbedding":
        """Construct an encoder with one row and one feature per sample by default."""
        (axis,) = axes
        rows = arguments.pop("rows", axis.count)
        return cls(features or axis.count, rows, axis.start, axis.stop, **arguments)


class JointEmbedding(Table, JointEncoder):
    """ψ(x): row (i₁, …, i_d) of a table at node (i₁/n₁, …, i_d/n_d), multilinear between, constant beyond the ends.

    The lengths n₁ … n_d are the ``grid``; see ``Table`` for its initial values. Li et al. (NeurIPS 2021)
    compare with this embedding in two dimensions.
    """

    name = "joint-embedding"
    summary = "a trained table with one row per sample of the grid"
    grid: tuple[int, ...] | list[int]

    def _draw(self, generator: torch.Generator) -> None:
        if len(self.grid) != self.dimensions:
            raise _checks.wrong("grid", f"{self.dimensions} lengths, one for each axis", self.grid)
        super()._draw(generator)

    @property
    def axes(self) -> Axes:
        """The positions of the rows along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "JointEmbedding":
        """Construct an encoder with one row per point of the lattice and 64 features by default."""
        grid = arguments.pop("grid", tuple(axis.count for axis in axes))
        return cls(len(axes), features or 64, grid, **arguments)


def multilinear(
    below: Int[Tensor, "*points d"],
    ratio: Float[Tensor, "*points d"],
    row: Callable[[Int[Tensor, "*points d"]], Float[Tensor, "*points k"]],
) -> Float[Tensor, "*points k"]:
    """The multilinear interpolation of feature rows at the 2^d corners of a cell.

    ``below`` holds the indices of the lowest corner, ``ratio`` the position in the cell, from 0 at that corner to 1
    at the opposite one, and ``row`` returns the features at a corner.
    """
    total = ratio.new_zeros(())
    for corner in itertools.product((0, 1), repeat=below.shape[-1]):
        bits = torch.tensor(corner, device=below.device)
        weight = torch.where(bits == 1, ratio, 1 - ratio).prod(-1, keepdim=True)
        total = total + weight * row(below + bits)
    return total
