"""Bounds: the range of coordinates, in any units, that a lattice covers."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks


@dataclass(frozen=True)
class Bounds:
    """The first and the last node of a lattice along each axis, in the units of some points.

    Points have their coordinates in the order x, y, …: x runs along the last axis of the lattice.

    Attributes
    ----------
    low, high : (d,)
        The coordinates of the first and of the last nodes, in float64.

    Raises
    ------
    ValueError
        If a number is not finite, or not lower below.
    """

    low: Float[Tensor, " d"]
    high: Float[Tensor, " d"]

    def __post_init__(self) -> None:
        if not bool((torch.isfinite(self.low) & torch.isfinite(self.high) & (self.high > self.low)).all()):
            expected = "a first finite number below the second on each axis"
            raise _checks.wrong("bounds", expected, self.tolist())

    @classmethod
    def of(cls, points: Float[Tensor, "n d"]) -> "Bounds":
        """The range of some points; one unit where they have none."""
        low, high = points.min(0).values, points.max(0).values
        return cls(low, torch.where(high > low, high, low + 1))

    def clamp(self, points: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The points, those outside the bounds moved to the border."""
        return points.clamp(self.low, self.high)

    def to_unit(self, points: Float[Tensor, "n d"], grid: tuple[int, ...]) -> Float[Tensor, "n d"]:
        """The points in units of the unit interval and in the order of a lattice's axes."""
        unit = (points - self.low) / (self.high - self.low)
        lengths = torch.tensor(grid, dtype=torch.float64)
        return unit.flip(-1) * (lengths - 1) / lengths

    def tolist(self) -> list[list[float]]:
        """The two numbers of each axis, as JSON holds them."""
        return torch.stack([self.low, self.high], dim=1).tolist()
