"""Halves of a mask of every k-th node: every second known node is shown, and those between are hidden."""

from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from coordnet.sampling.samples import Geometry

FEWEST_ALONG = 16  # known nodes along an axis from which on every second one of them is hidden
MOST_HALVES = 4  # halves at most, of 2 to the power of the axes


@dataclass(frozen=True)
class Half:
    """The nodes of a lattice that a fit sees, and those where it is judged."""

    shown: Bool[np.ndarray, " nodes"]
    judged: Bool[np.ndarray, " nodes"]  # hidden nodes between the outermost ones that are shown


@dataclass(frozen=True)
class RegularPart:
    """The known nodes of a mask that knows every k-th one; some axes can be halved.

    - index: the numbers of each node along the axes of the lattice of known nodes, fractions for unknown nodes
    - halved: whether each axis is halved: those on which nodes are skipped
    """

    index: Float[np.ndarray, "nodes d"]
    halved: tuple[bool, ...]

    @classmethod
    def of(cls, geometry: Geometry) -> "RegularPart | None":
        """Return that of a mask; None for other samples, and where no axis has ``FEWEST_ALONG`` known nodes."""
        even: Any = geometry.without_gaps
        if even is geometry:
            return None
        nodes = np.indices(geometry.grid).reshape(len(geometry.grid), -1).T
        halved = [step > 1 and n >= FEWEST_ALONG for n, step in zip(even.shape, even.steps, strict=True)]
        return cls((nodes - even.offsets) / even.steps, tuple(halved)) if any(halved) else None

    def halves(self) -> list[Half]:
        """Return the halves of the lattice by where they begin along the axes, ``MOST_HALVES`` at most."""
        begins = product(*((0, 1) if halved else (0,) for halved in self.halved))
        return [self._every(2, begin) for begin in islice(begins, MOST_HALVES)]

    def quarter(self) -> Half:
        """Return the first half's half, judged at what the first half shows."""
        fewer, half = self._every(4, (0,) * len(self.halved)), self.halves()[0]
        return Half(fewer.shown, fewer.judged & half.shown)

    def _every(self, step: int, begin: tuple[int, ...]) -> Half:
        shown, inside = np.ones((2, len(self.index)), dtype=bool)
        for at, first, halved in zip(self.index.T, begin, self.halved, strict=True):
            if halved:
                shown &= at % step == first
                inside &= (at >= first) & (at <= first + (at.max() - first) // step * step)
        return Half(shown, inside & ~shown)
