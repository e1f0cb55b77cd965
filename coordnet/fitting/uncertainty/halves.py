"""Halves of a lattice of every k-th node: every second known node is shown, and those between are hidden."""

from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Geometry

# Known nodes along an axis with a step from which on fits to half of them tell the errors, and from which on a fit to a
# quarter tells how errors fall.
FEWEST_HALVED, FEWEST_QUARTERED = 8, 16
MOST_HALVES = 4  # halves at most, of 2 to the power of the axes


@dataclass(frozen=True)
class Half:
    """A lattice that a fit sees, and the nodes where it is judged."""

    lattice: Lattice
    judged: Bool[np.ndarray, " nodes"]  # hidden nodes between the outermost ones that are shown

    @property
    def shown(self) -> Bool[np.ndarray, " nodes"]:
        """The nodes of the lattice."""
        return self.lattice.known(1).flatten().numpy()


@dataclass(frozen=True)
class RegularPart:
    """A lattice of every k-th node, whose halves have every second one of its nodes along the axes with a step."""

    lattice: Lattice

    @classmethod
    def of(cls, geometry: Geometry) -> "RegularPart | None":
        """Return that of a lattice that skips nodes, or of a mask that knows every k-th one.

        It is None for other samples, and where fewer than ``FEWEST_HALVED`` nodes are known along an axis with a step:
        errors at nodes that are hidden along other axes alone are smaller.
        """
        even: Any = geometry.without_gaps
        if not even.is_strided:
            return None
        regular = cls(even)
        return regular if regular._fewest >= FEWEST_HALVED else None

    @property
    def _fewest(self) -> int:
        return min(n for n, step in zip(self.lattice.shape, self.lattice.steps, strict=True) if step > 1)

    def halves(self) -> list[Half]:
        """Return the halves of the lattice by where they begin along the axes, ``MOST_HALVES`` at most."""
        begins = product(*((0, 1) if step > 1 else (0,) for step in self.lattice.steps))
        return [self._every(2, begin) for begin in islice(begins, MOST_HALVES)]

    def quarter(self) -> Half | None:
        """Return the first half's half, judged at what the first half shows; None of a short lattice."""
        if self._fewest < FEWEST_QUARTERED:
            return None
        fewer, half = self._every(4, (0,) * len(self.lattice.steps)), self.halves()[0]
        return Half(fewer.lattice, fewer.judged & half.shown)

    def distances(self) -> Float[np.ndarray, "*grid"]:
        """Return the distance from shown nodes, in a half, of hidden nodes whose errors are like those of each node.

        A half has twice the step, and hides nodes midway between those that it shows. Along an axis every node between
        two known coordinates counts as midway, since nodes nearer to one err nearly as much: its distance is a step.
        Beyond the outermost known coordinate distances are doubled, and at known nodes they are 0.
        """
        own, squared = self.lattice, np.zeros(self.lattice.grid)
        for axis, (n, first, count, step) in enumerate(zip(own.grid, own.offsets, own.shape, own.steps, strict=True)):
            x = np.arange(n)
            apart = np.abs(x - first - step * np.clip(np.rint((x - first) / step), 0, count - 1))
            along = np.where(apart > 0, np.maximum(2 * apart, step), 0)
            squared += np.square(np.expand_dims(along, tuple(k for k in range(squared.ndim) if k != axis)))
        return np.sqrt(squared)

    def _every(self, times: int, begin: tuple[int, ...]) -> Half:
        own = self.lattice
        steps = tuple(times * step if step > 1 else 1 for step in own.steps)
        offsets = (offset + first * step for offset, first, step in zip(own.offsets, begin, own.steps, strict=True))
        lattice = Lattice(own.grid, steps, tuple(offsets))
        inside = np.zeros(own.grid, dtype=bool)
        ends = zip(lattice.offsets, lattice.shape, lattice.steps, strict=True)
        inside[tuple(slice(a, a + (n - 1) * k + 1) for a, n, k in ends)] = True
        return Half(lattice, inside.ravel() & ~lattice.known(1).flatten().numpy())
