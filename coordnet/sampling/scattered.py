"""Scattered points: values of a signal at points between the nodes of a lattice."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.axes import Axes, Axis
from coordnet.sampling.lattices import Lattice
from coordnet.sampling.samples import BLENDS, Blend, Geometry, Outside, check_values, check_weights


@dataclass(frozen=True)
class ScatteredPoints(Geometry):
    """Points anywhere in [0, 1)^d, tied to a lattice.

    Parameters
    ----------
    grid : tuple of int
        The lengths of the lattice on which the reconstruction lives.
    points, weights
        Coordinates (n, d) in units of the unit interval, which may be repeated, and weights (n, 1) or (n, channels) of
        the squared errors; 1 if not given.
    blending : str, optional
        How a point depends on the nodes around it: "linear", "cubic" or "quintic" interpolation, or "similarity", least
        squares by the similarity of the encoder ("printed": as the papers print it). By default closed-form fits take
        "cubic" in one and two dimensions and "linear" in more, thin plates "quintic", which all reproduce constants,
        and gradient fits evaluate the encoding at the points themselves.
    outside : "error" or "clamp"
        Whether points beyond the outermost nodes are refused or moved to the border. A point less than one spacing
        after the last node is always accepted. An argument that does not fit the others raises a ``ValueError``.
    """

    grid: tuple[int, ...]
    points: Float[Tensor, "n d"]
    weights: Float[Tensor, "n _"] | None = None
    blending: Blend | None = None
    outside: Outside = "error"
    is_scattered = True

    def __post_init__(self) -> None:
        Lattice(self.grid)
        check_values("points", self.points)
        if self.points.ndim != 2 or self.points.shape[1] != len(self.grid):
            raise _checks.wrong("points", f"{len(self.grid)} coordinates per point", tuple(self.points.shape))
        if self.weights is not None:
            check_weights(self.weights)
            if self.weights.ndim != 2 or len(self.weights) != len(self.points):
                raise _checks.wrong("weights", f"shape ({len(self.points)}, 1)", tuple(self.weights.shape))
        if self.blending is not None:
            _checks.choice("blending", self.blending, BLENDS)
        _checks.choice("outside", self.outside, ("error", "clamp"))

    def __repr__(self) -> str:
        """Return the lengths of the lattice, and the number of points for each of its nodes."""
        return f"ScatteredPoints({self.grid}, points={len(self.points)}, density={self.density:.3g})"

    @property
    def density(self) -> float:
        """The number of points for each node of the lattice."""
        return len(self.points) / math.prod(self.grid)

    @property
    def axes(self) -> Axes:
        """The whole lattice, j / N along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points."""
        return (len(self.points),)

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return zeros: scattered points are not points of the grid."""
        return torch.zeros(*self.grid, channels, dtype=torch.bool)

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write every point's value into a tensor on the lattice, at the nearest node."""
        lengths = torch.tensor(self.grid)
        index = (self.points.cpu() * lengths).round().long().clamp(min=0)
        onto[tuple(torch.minimum(index, lengths - 1).T)] = values
