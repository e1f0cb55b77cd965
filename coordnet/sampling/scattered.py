"""Scattered points: values of a signal at points between the nodes of a lattice."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.ndimage import map_coordinates
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import is_tracked
from coordnet.sampling.arrays import check_values, check_weights
from coordnet.sampling.axes import Axes, Axis, ByAxes
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import BLENDS, Blend, Geometry, Interpolate, Outside, Samples

MARGIN = ByAxes({1: 10, 2: 10, 3: 4})  # nodes beyond the outermost points: a plate's free border is far from them


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
        How a point depends on the nodes around it: "linear", "cubic", "quintic" or "septic" interpolation, or
        "similarity", least squares by the similarity of the encoder ("printed": as the papers print it). By default
        closed-form fits take "cubic" in one and two dimensions and "linear" in more, thin plates "quintic", which all
        reproduce constants, and gradient fits evaluate the encoding at the points themselves.
    outside : "error" or "clamp"
        Whether points beyond the outermost nodes are refused or moved to the border. A point less than one spacing
        after the last node is always accepted.
    periodic : tuple of bool, optional
        Whether the lattice wraps around along each axis; none does if not given. An argument that does not fit the
        others raises a ``ValueError``.
    """

    grid: tuple[int, ...]
    points: Float[Tensor, "n d"]
    weights: Float[Tensor, "n _"] | None = None
    blending: Blend | None = None
    outside: Outside = "error"
    periodic: tuple[bool, ...] = ()
    is_nodal = False  # type: ignore[assignment]

    def __post_init__(self) -> None:
        Lattice(self.grid)
        check_values("points", self.points)
        if self.points.ndim != 2 or self.points.shape[1] != len(self.grid):
            raise _checks.wrong("points", f"{len(self.grid)} coordinates per point", tuple(self.points.shape))
        if self.weights is not None:
            check_weights(self.weights, (len(self.points),))
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
        periodic = self.periodic or (False,) * len(self.grid)
        return tuple(Axis(n, periodic=wraps) for n, wraps in zip(self.grid, periodic, strict=True))

    @property
    def pixels(self) -> Axes:
        return self.axes

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.points),)

    @property
    def gaps(self) -> None:
        """None: there is no lattice of which points are missing."""

    @property
    def closed_form_blend(self) -> Blend:
        """The named blending, or "cubic" in one and two dimensions and "linear" in more."""
        return self.blending or ("cubic" if len(self.grid) <= 2 else "linear")

    def positions(self, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
        return self.points.detach().to(device, dtype)

    def at_samples(self, fit: Any) -> Float[Tensor, "n channels"]:
        return fit(self.points.to(fit.offset))

    def inside(self, window: tuple[slice, ...]) -> Bool[Tensor, " n"]:
        """Return which points are in a window of nodes, ``MARGIN`` from its inner borders."""
        at = self.positions() * torch.tensor(self.grid)
        inside, margin = torch.ones(len(at), dtype=torch.bool), MARGIN[len(self.grid)]
        for x, side, n in zip(at.T, window, self.grid, strict=True):
            inside &= (x >= side.start + margin) | (side.start == 0)
            inside &= (x <= side.stop - 1 - margin) | (side.stop == n)
        return inside

    def within(self, window: tuple[slice, ...], values: Float[Tensor, "n channels"]) -> Samples:
        """Return the points ``inside`` a window, in which no axis wraps around, and there is no drift."""
        inside = self.inside(window)
        starts, counts = torch.tensor([[side.start, side.stop - side.start] for side in window]).T
        points = ((self.positions() * torch.tensor(self.grid) - starts) / counts)[inside].to(self.points)
        rows = self._selected(inside, window)
        part = replace(self, grid=tuple(counts.tolist()), points=points, periodic=(), **rows)
        return Samples(part, values[inside.to(values.device)])

    def _selected(self, inside: Bool[Tensor, " n"], window: tuple[slice, ...]) -> dict[str, Any]:
        """Return the attributes beside the places of some points, for those of them in a window of nodes."""
        return {"weights": None if self.weights is None else self.weights[inside.to(self.weights.device)]}

    def forward(
        self, lattice: Axes, interpolate: Interpolate, dtype: torch.dtype, device: torch.device | str
    ) -> ForwardModel:
        """Return the interpolation between nodes, with the weights of the points."""
        operator = interpolate(self.points.to(device))
        return ForwardModel(operator, self.stacked_weights(dtype, device), operator.weights.square().sum(1))

    def reweighted(self, weights: Float[Tensor, "n _"]) -> "ScatteredPoints":
        return replace(self, weights=weights)

    def blended(self, blend: Blend) -> "ScatteredPoints":
        """Return the points with a blending, unless they have one."""
        return replace(self, blending=self.blending or blend)

    def check_hideable(self) -> None:
        """Take all points: any of them may be hidden."""

    def check_blocks(self, argument: str, expected: str) -> None:
        """Take all points: blocks of them may be hidden."""

    def caption(self, channels: int) -> str:
        return f"samples ({len(self.points)} points)"

    def sample(self, signal: Float[Tensor, "*grid channels"]) -> Samples:
        """Return the cubic spline of a signal at the points, which has no gradient; see ``Scattered`` for errors."""
        if is_tracked(signal):
            expected = "`signal.detach()`: SciPy's splines between the samples have no gradient"
            raise _checks.wrong("signal", expected, "a signal to which gradients are followed")
        if bool(torch.isnan(signal).any()):
            raise _checks.wrong("signal", "one without NaN, for scattered samples", "NaN")
        where = (self.points * torch.tensor(self.grid)).T.numpy()
        channels = signal.cpu().double().movedim(-1, 0).numpy()
        values = np.stack([map_coordinates(channel, where, mode="mirror") for channel in channels], -1)
        return Samples(self, torch.from_numpy(values).to(signal))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return zeros: scattered points are not points of the grid."""
        return torch.zeros(*self.grid, channels, dtype=torch.bool)

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write every point's value into a tensor on the lattice, at the nearest node."""
        lengths = torch.tensor(self.grid)
        index = (self.points.cpu() * lengths).round().long().clamp(min=0)
        onto[tuple(torch.minimum(index, lengths - 1).T)] = values
