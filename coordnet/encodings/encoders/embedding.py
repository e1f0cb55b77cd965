"""Learned embeddings: a table of feature rows, one for each position, with linear interpolation between them."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder
from coordnet.encodings.encoders.joint import JointEncoder
from coordnet.sampling.axes import Axes, Axis


class LearnedEmbedding(Encoder):
    """ψ(x): row i of a table at position start + (stop - start) i / rows, linear between, constant beyond the ends.

    The table (rows, K) is drawn from N(0, 1/K), by default with seed 0, and always trained.

    Notes
    -----
    The learned one-dimensional embedding that Li et al. (NeurIPS 2021) compare with; Gehring et al. (2017).
    """

    name = "embedding"
    summary = "a trained table of rows, one a sample"
    random = True
    table: nn.Parameter

    def __init__(
        self,
        features: int,
        rows: int,
        start: float = 0.0,
        stop: float = 1.0,
        gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(features, gain)
        self.rows = _checks.integer("rows", rows, 1)
        if not _checks.finite("stop", stop) > _checks.finite("start", start):
            raise _checks.wrong("stop", f"a number above `start` ({start})", stop)
        self.start, self.stop = float(start), float(stop)
        self.table = _table((rows, features), generator)

    @property
    def axis(self) -> Axis:
        """The positions of the rows."""
        return Axis(self.rows, self.start, (self.stop - self.start) / self.rows)

    @property
    def kinks(self) -> list[Float[Tensor, "_"]]:
        """The positions of the rows."""
        return [self.axis.points()]

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return _between_rows(self.table.to(x), (self.axis,), x.unsqueeze(-1))

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "LearnedEmbedding":
        """Construct with a row and a feature for each sample by default."""
        (axis,) = axes
        rows = arguments.pop("rows", axis.count)
        return cls(features or axis.count, rows, axis.start, axis.stop, **arguments)


class JointEmbedding(JointEncoder):
    """ψ(x): row (i₁, …, i_d) of a table at node (i₁/n₁, …, i_d/n_d), multilinear between, constant beyond the ends.

    The table (n₁, …, n_d, K), with n₁ … n_d the ``grid``, is drawn from N(0, 1/K), by default with seed 0.

    Raises
    ------
    ValueError
        If the grid does not have d lengths.

    Notes
    -----
    The learned two-dimensional embedding that Li et al. (NeurIPS 2021) compare with.
    """

    name = "joint-embedding"
    summary = "a trained table of rows, one a sample of the grid"
    random = True
    table: nn.Parameter

    def __init__(
        self,
        dimensions: int,
        features: int,
        grid: tuple[int, ...] | list[int],
        gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(dimensions, features, gain)
        if len(grid) != dimensions:
            raise _checks.wrong("grid", f"{dimensions} lengths, one for each axis", grid)
        self.grid = [_checks.integer("grid", n, 1) for n in grid]
        self.table = _table((*grid, features), generator)

    @property
    def axes(self) -> Axes:
        """The positions of the rows along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def kinks(self) -> list[Float[Tensor, "_"]]:
        """The positions of the rows along each axis."""
        return [axis.points() for axis in self.axes]

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at positions x, before the gain."""
        return _between_rows(self.table.to(x), self.axes, x)

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "JointEmbedding":
        """Construct with a row for each point of the lattice and 64 features by default."""
        grid = arguments.pop("grid", tuple(axis.count for axis in axes))
        return cls(len(axes), features or 64, grid, **arguments)


def multilinear(
    below: Int[Tensor, "*points d"],
    ratio: Float[Tensor, "*points d"],
    row: Callable[[Int[Tensor, "*points d"]], Float[Tensor, "*points k"]],
) -> Float[Tensor, "*points k"]:
    """The multilinear interpolation of feature rows at the 2^d corners of a cell.

    ``below`` are the indices of the lowest corner, ``ratio`` is the position in the cell, from 0 at that corner to 1
    at the opposite one, and ``row`` gives the features at a corner.
    """
    total = ratio.new_zeros(())
    for corner in itertools.product((0, 1), repeat=below.shape[-1]):
        bits = torch.tensor(corner, device=below.device)
        weight = torch.where(bits == 1, ratio, 1 - ratio).prod(-1, keepdim=True)
        total = total + weight * row(below + bits)
    return total


def _between_rows(table: Tensor, axes: Axes, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
    """Interpolate a table (n₁, …, n_d, K) of rows on a lattice, held constant beyond its ends."""
    start, spacing, last = (
        x.new_tensor(part) for part in zip(*((a.start, a.spacing, a.count - 1) for a in axes), strict=True)
    )
    position = torch.minimum(((x - start) / spacing).clamp(min=0), last)
    below = torch.minimum(position.detach().floor(), (last - 1).clamp(min=0))
    index = below.long()
    return multilinear(index, position - below, lambda i: table[tuple(torch.minimum(i, last.long()).unbind(-1))])


def _table(shape: tuple[int, ...], generator: torch.Generator | None) -> nn.Parameter:
    generator = generator or torch.Generator().manual_seed(0)
    return nn.Parameter(torch.randn(shape, generator=generator) / shape[-1] ** 0.5)
