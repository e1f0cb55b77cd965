"""Learned embeddings: a table of feature rows, one a position, with linear interpolation between them."""

from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder
from coordnet.encodings.encoders.joint import JointEncoder
from coordnet.encodings.encoders.tables import neighbours, tables_similarity
from coordnet.sampling.axes import Axes, Axis

E = TypeVar("E", bound="LearnedEmbedding")
J = TypeVar("J", bound="JointEmbedding")


class LearnedEmbedding(Encoder):
    """ψ(x): row i of a table at position start + (stop - start) i / rows, linear between, constant beyond the ends.

    Parameters
    ----------
    features : int
        K.
    rows : int
        Of the table, drawn from a normal distribution of variance 1/K, and always trained.
    start, stop : float
        The interval that the positions divide.
    gain : float
        See ``FeatureMap``.
    generator : torch.Generator, optional
        Draws the table; one seeded with 0 if not given.

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
        self.positions = _positions("rows", rows, start, stop)
        self.table = _table((rows, features), generator)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        index, ratio = neighbours(x, self.positions)
        table = self.table.to(x)
        return torch.lerp(table[index], table[index + (len(table) > 1)], ratio.unsqueeze(-1))

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ): the mean of ψ(x)·ψ(x + δ) over pairs of positions in [0, 1], exactly; D(0) = 1."""
        return tables_similarity([(self.table, (self.positions,))], delta.unsqueeze(-1))

    @classmethod
    def for_axis(
        cls: type[E], axis: Axis, features: int | None, scales: dict[str, float], **options: Any
    ) -> E:
        """A row for each sample, and as many features as rows unless asked otherwise."""
        rows = options.pop("rows", axis.count)
        return cls(features or axis.count, rows, axis.start, axis.stop, **options)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The number of rows."""
        return ("rows",)

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        place = {"rows": self.positions.count, "start": self.positions.start, "stop": self.positions.stop}
        return {**super().configuration(), **place}


class JointEmbedding(JointEncoder):
    """ψ(x): row (i₁, …, i_d) of a table at node (i₁/n₁, …, i_d/n_d), multilinear between, constant beyond the ends.

    Parameters
    ----------
    dimensions : int
        d.
    features : int
        K.
    grid : tuple of int
        n₁ … n_d, the rows along each axis.
    gain : float
        See ``FeatureMap``.
    generator : torch.Generator, optional
        Draws the table; one seeded with 0 if not given.

    Raises
    ------
    ValueError
        If the grid has not d lengths.

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
            raise _checks.wrong("grid", f"{dimensions} lengths, one an axis", grid)
        self.axes = tuple(_positions("grid", n, 0.0, 1.0) for n in grid)
        self.table = _table((*grid, features), generator)

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at positions x, before the gain."""
        table = self.table.to(x)
        near = [neighbours(u, axis) for u, axis in zip(x.unbind(-1), self.axes, strict=True)]
        total = x.new_zeros(*x.shape[:-1], self.features)
        for corner in range(2**self.dimensions):
            bits = [corner >> j & 1 for j in range(self.dimensions)]
            weight = torch.ones_like(x[..., 0])
            for bit, (_, ratio) in zip(bits, near, strict=True):
                weight = weight * (ratio if bit else 1 - ratio)
            rows = zip(bits, near, self.axes, strict=True)
            index = tuple((i + bit).clamp(max=axis.count - 1) for bit, (i, _), axis in rows)
            total = total + weight.unsqueeze(-1) * table[index]
        return total

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """D(δ): the mean of ψ(x)·ψ(x + δ) over pairs of points in the unit cube, exactly; D(0) = 1."""
        return tables_similarity([(self.table, self.axes)], delta)

    @classmethod
    def for_axes(
        cls: type[J], axes: Axes, features: int | None, scales: dict[str, tuple[float, ...]], **options: Any
    ) -> J:
        """A row for each point of the lattice, unless ``grid`` says otherwise; 64 features."""
        grid = options.pop("grid", tuple(axis.count for axis in axes))
        return cls(len(axes), features or 64, grid, **options)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The rows along each axis."""
        return ("grid",)

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        return {**super().configuration(), "grid": [axis.count for axis in self.axes]}


def _positions(name: str, rows: int, start: float, stop: float) -> Axis:
    _checks.integer(name, rows, 1)
    if not _checks.finite("stop", stop) > _checks.finite("start", start):
        raise _checks.wrong("stop", f"a number above `start` ({start})", stop)
    return Axis(rows, start, (stop - start) / rows)


def _table(shape: tuple[int, ...], generator: torch.Generator | None) -> nn.Parameter:
    generator = generator or torch.Generator().manual_seed(0)
    return nn.Parameter(torch.randn(shape, generator=generator) / shape[-1] ** 0.5)
