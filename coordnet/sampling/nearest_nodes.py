"""The nodes nearest to scattered points, as a lattice with gaps."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.samples import Geometry, Samples

MOST_BOX_NODES = 2**19  # nodes of the box around points at most: the priors of pictures take minutes for more
LEAST_KNOWN = 0.1  # share of the nodes in the box that are nearest to a point at least; clusters and tracks leave fewer


@dataclass(frozen=True)
class NearestNodes:
    """The box of the nodes that are nearest to points, with gaps where a node has none."""

    box: tuple[slice, ...]  # where the box is in the lattice of the points
    geometry: MaskedLattice  # the nodes in the box; those that are nearest to a point of a positive weight are known
    index: Int[Tensor, " n"]  # the flat index in the box of the node nearest to each point

    @classmethod
    def of(cls, points: Geometry, least: float = LEAST_KNOWN) -> "NearestNodes | None":
        """Return the nodes nearest to points in a plane.

        None is returned where a picture's priors do not suit these: on other lattices, on those that wrap around, for a
        drift, for weights that differ, and for points in clusters or tracks, which leave less than the ``least`` share
        of the nodes known.
        """
        wraps = any(axis.periodic for axis in points.axes)
        if len(points.grid) != 2 or min(points.grid) < 2 or wraps or points.drift is not None or not points.is_binary:
            return None
        row, column = points.nodes // points.grid[1], points.nodes % points.grid[1]
        box = tuple(slice(int(at.min()), int(at.max()) + 1) for at in (row, column))
        lengths = tuple(side.stop - side.start for side in box)
        if lengths[0] * lengths[1] > MOST_BOX_NODES:
            return None
        index = (row - box[0].start) * lengths[1] + column - box[1].start
        weights = points.full_weights
        count = weights.new_zeros(lengths[0] * lengths[1], weights.shape[1]).index_add(0, index, weights)
        if int((count > 0).sum()) < least * count.numel():
            return None
        geometry = MaskedLattice(lengths, weights=count.clamp(max=1).reshape(*lengths, -1))
        return cls(box, geometry, index)

    def samples(self, values: Float[Tensor, "n channels"], weights: Float[Tensor, "n _"]) -> Samples:
        """Return the mean of the known values at each node."""
        size = self.geometry.grid[0] * self.geometry.grid[1]
        weights = weights.to(values)
        total = values.new_zeros(size, values.shape[1]).index_add(0, self.index, weights * values)
        count = values.new_zeros(size, weights.shape[1]).index_add(0, self.index, weights)
        return Samples(self.geometry, (total / count.clamp(min=1)).reshape(*self.geometry.grid, -1))
