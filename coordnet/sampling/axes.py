"""Axes: positions in [0, 1), their alignments, the points of a lattice, and bounds in other units."""

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import Device

Alignment = Literal["pixel", "sample"]
Footprint = Literal["point", "area"]
MAX_AXES = 7  # the most axes that PyTorch's Fourier transforms take on a CPU
LARGEST_COORDINATE = 1e300  # bound of a coordinate: the difference of two has room in float64


@dataclass(frozen=True)
class Axis:
    """The positions start + i * spacing, i = 0 … count - 1, in units of the unit interval.

    The spacing is 1 / count by default, so that ``Axis(N)`` holds i / N. With a positive ``width`` each position is the
    center of a cell of that length, and values on the axis are means over the cells. A ``periodic`` axis is a circle,
    on which the first position follows the last. A count below 1, a position that is not finite, a spacing that is not
    positive and a negative width raise a ``ValueError``.
    """

    count: int
    start: float = 0.0
    spacing: float = 0.0
    width: float = 0.0
    periodic: bool = False

    def __post_init__(self) -> None:
        _checks.integer("count", self.count, 1)
        _checks.finite("start", self.start)
        if self.spacing == 0.0:
            object.__setattr__(self, "spacing", 1 / self.count)
        _checks.positive("spacing", self.spacing)
        _checks.nonnegative("width", self.width)

    @property
    def even(self) -> "Axis":
        """The axis itself, or as many equally spaced positions instead of unequal ones."""
        return self

    @property
    def stop(self) -> float:
        """The position one spacing after the last."""
        return self.start + self.count * self.spacing

    def points(self, dtype: torch.dtype = torch.float64, device: Device = "cpu") -> Float[Tensor, " count"]:
        """Return the positions as a tensor, computed in float64 and then cast."""
        i = torch.arange(self.count, dtype=torch.float64, device=device)
        return (self.start + i * self.spacing).to(dtype)

    def part(self, first: int, count: int) -> "Axis":
        """Return ``count`` of the positions from the position ``first`` on."""
        return replace(self, count=count, start=self.start + first * self.spacing)

    @classmethod
    def every(cls, count: int, step: int, offset: int = 0) -> "Axis":
        """Every ``step``-th of ``count`` samples, from sample ``offset`` on: positions (offset + i step) / count."""
        return cls(len(range(offset, count, step)), offset / count, step / count)

    @classmethod
    def cells(cls, count: int, pixels: int) -> "Axis":
        """The cells of ``count`` samples that tile an axis of ``pixels``, which are cells around i / pixels."""
        return cls(count, 0.5 / count - 0.5 / pixels, 1 / count, 1 / count)

    @classmethod
    def render(cls, count: int, samples: int, alignment: Alignment = "pixel", footprint: Footprint = "point") -> "Axis":
        """The positions of ``count`` outputs rendered from a signal of ``samples`` samples.

        With "pixel" alignment output j sits at (j + 1/2) / count - 1 / (2 samples), so that the outputs cover
        the samples' own cells and an enlarged image is not shifted; with "sample" alignment it sits at j / count.
        With the footprint "area" an output is the mean over the cell of length 1 / count around its position.
        """
        _checks.integer("shape", count, 1)
        _checks.choice("alignment", alignment, ("pixel", "sample"))
        _checks.choice("footprint", footprint, ("point", "area"))
        start = 0.5 / count - 0.5 / samples if alignment == "pixel" else 0.0
        return cls(count, start, 1 / count, 1 / count if footprint == "area" else 0.0)


@dataclass(frozen=True)
class UnevenAxis(Axis):
    """Increasing positions at unequal distances, whose mean is the ``spacing``."""

    positions: tuple[float, ...] = ()

    @property
    def even(self) -> Axis:
        """The positions i / count."""
        return Axis(self.count)

    def points(self, dtype: torch.dtype = torch.float64, device: Device = "cpu") -> Float[Tensor, " count"]:
        return torch.tensor(self.positions, dtype=torch.float64, device=device).to(dtype)

    def part(self, first: int, count: int) -> "UnevenAxis":
        positions = self.positions[first : first + count]
        return replace(self, count=len(positions), start=positions[0], positions=positions)


Axes = tuple[Axis, ...]
T = TypeVar("T")


class ByAxes(dict[int, T]):
    """Values by number of axes; for more axes than the largest key, its value is taken."""

    def __missing__(self, axes: int) -> T:
        return self[max(self)]


def render_axes(
    shape: int | tuple[int, ...], grid: tuple[int, ...], alignment: Alignment = "pixel", footprint: Footprint = "point"
) -> Axes:
    """The axes of a render of ``shape`` outputs of a signal whose own grid is ``grid``, with as many axes.

    One number is the length of a row, or both lengths of a picture.
    """
    one = len(grid) if len(grid) <= 2 else 1
    lengths = (shape,) * one if isinstance(shape, int) else _checks.lengths("shape", shape)
    if len(lengths) != len(grid):
        raise _checks.wrong("shape", f"{len(grid)} lengths, one per axis", lengths)
    return tuple(Axis.render(m, n, alignment, footprint) for m, n in zip(lengths, grid, strict=True))


def lattice_points(axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu") -> Float[Tensor, "*grid d"]:
    """Every point of the lattice that the axes span, first axis slowest."""
    positions = [axis.points(dtype, device) for axis in axes]
    return torch.stack(torch.meshgrid(*positions, indexing="ij"), dim=-1)


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
