"""Bounds: the range of coordinates, in any units, that a lattice covers."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks

LARGEST_COORDINATE = 1e300  # bound of a coordinate: the difference of two has room in float64


@dataclass(frozen=True)
class Bounds:
    """The first and the last node of a lattice along each axis, in the units of some points.

    Points have their coordinates in the order x, y, …: x runs along the last axis of the lattice. Both tensors are
    float64. A number that is not finite or above 1e300, or a low that is not below its high, raises a ``ValueError``.
    """

    low: Float[Tensor, " d"]
    high: Float[Tensor, " d"]

    def __post_init__(self) -> None:
        if not bool(
            ((self.low >= -LARGEST_COORDINATE) & (self.high > self.low) & (self.high <= LARGEST_COORDINATE)).all()
        ):
            expected = f"a first number below the second on each axis, both within ±{LARGEST_COORDINATE:g}"
            raise _checks.wrong("bounds", expected, self.tolist())

    @classmethod
    def of(cls, points: Float[Tensor, "n d"]) -> "Bounds":
        """Return the range of some points; one unit along an axis on which they are all equal."""
        low, high = points.min(0).values, points.max(0).values
        return cls(low, torch.where(high > low, high, low + 1))

    def clamp(self, points: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return the points, with those outside the bounds moved to the border."""
        return points.clamp(self.low, self.high)

    def to_unit(self, points: Float[Tensor, "n d"], grid: tuple[int, ...]) -> Float[Tensor, "n d"]:
        """Return the points in units of the unit interval and in the order of a lattice's axes."""
        unit = (points - self.low) / (self.high - self.low)
        lengths = torch.tensor(grid, dtype=torch.float64)
        return unit.flip(-1) * (lengths - 1) / lengths

    def tolist(self) -> list[list[float]]:
        """Return the two numbers of each axis, for JSON."""
        return torch.stack([self.low, self.high], dim=1).tolist()
