"""Hidden samples among scattered points, alone or in blocks as wide as the gaps between these."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.hold_out import inner_part, left_over, middle, spread_middles
from coordnet.sampling.forward import MIN_LEFT
from coordnet.sampling.gap_blocks import PARTS, between_others, blocks_of
from coordnet.sampling.samples import Geometry, Samples
from coordnet.sampling.scattered import MARGIN


@dataclass(frozen=True)
class HiddenPoints:
    """Scattered samples of which some are hidden, (n, channels); the methods are those of ``HeldOut``."""

    asked: Samples
    hidden: Bool[Tensor, "n channels"]
    blocks: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None = None  # see ``blocks_of``; None without gaps
    is_exhausted = False

    @classmethod
    def draw(
        cls, samples: Samples, share: float, seed: int, others: "Sequence[HiddenPoints]" = ()
    ) -> "HiddenPoints | None":
        """Hide a random share of the points, or a part of the blocks that are as wide as their gaps, if they have some.

        Points beyond the hull of the others stay there. No point is in other parts. The result is None if too few
        points are left. Blocks gain 0.5 dB in the mean of 70 clouds of 250 to 400 points in clusters, in tracks or
        around a hole, and 0.2 dB of 58 clouds of other functions.
        """
        known = samples.geometry.full_weights.to(samples.values.device) > 0
        left, share = left_over(known, share, others)
        blocks = others[0].blocks if others else _gap_blocks(samples.geometry)
        if blocks is None:
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.rand(len(known), 1, generator=generator, dtype=torch.float32) < share
        else:
            part = between_others(samples.geometry.positions().numpy(), blocks[1] == len(others))
            drawn = torch.from_numpy(part)[:, None]
        hidden = drawn.to(left.device) & left
        if int(hidden.sum()) < 2 or int((known & ~hidden).sum()) < MIN_LEFT:
            return None
        return cls(samples, hidden.expand_as(samples.values), blocks)

    @property
    def is_clustered(self) -> bool:
        """Whether whole blocks are hidden, as wide as the gaps of the points."""
        return self.blocks is not None

    @property
    def samples(self) -> Samples:
        """The points that were shown."""
        return self.asked.without(self.hidden)

    @property
    def clusters(self) -> Int[np.ndarray, " hidden"]:
        """The numbers, from 0, of the points, or of the blocks, for each hidden value: its channels err alike."""
        rows = self.hidden.any(1).cpu().numpy()
        number = np.cumsum(rows) - 1
        if self.blocks is not None:
            number[rows] = np.unique(self.blocks[0][rows], return_inverse=True)[1]
        return number[self.hidden.nonzero()[:, 0].cpu().numpy()]

    def windows(self, size: int, count: int) -> "list[HiddenPoints]":
        """Return windows of about ``size`` nodes together, without their margins, that have hidden points.

        All points are one window if the lattice has no more nodes, if an axis wraps around, and in volumes, whose
        windows would take longer than the whole.
        """
        geometry = self.asked.geometry
        wraps = any(axis.periodic for axis in geometry.axes)
        if wraps or len(geometry.grid) > 2 or math.prod(geometry.grid) <= size:
            return [self]
        margin = 2 * MARGIN[len(geometry.grid)]
        inner = middle(geometry.grid, size // count)
        lengths = [min(s.stop - s.start + margin, n) for s, n in zip(inner, geometry.grid, strict=True)]
        windows = (self._window(at, lengths) for at in spread_middles(geometry.grid, lengths, count))
        return [window for window in windows if window is not None] or [self]

    def _window(self, middles: Sequence[float], lengths: Sequence[int]) -> "HiddenPoints | None":
        """Return the points in a window, or None if too few of them are hidden or shown."""
        geometry: Any = self.asked.geometry
        parts = zip(middles, lengths, geometry.grid, strict=True)
        begins = [min(max(0, round(at - m / 2)), n - m) for at, m, n in parts]
        window = tuple(slice(a, a + m) for a, m in zip(begins, lengths, strict=True))
        inside = geometry.inside(window).to(self.hidden.device)
        judged = geometry.inside(inner_part(window, geometry.grid)).to(self.hidden.device)
        hidden = (self.hidden & judged[:, None])[inside]
        if not hidden.any() or int((~hidden).sum()) < MIN_LEFT:
            return None
        rows = inside.cpu().numpy()
        blocks = self.blocks and (self.blocks[0][rows], self.blocks[1][rows])
        return HiddenPoints(geometry.within(window, self.asked.values), hidden, blocks)

    def errors_of(self, fit: Reconstruction) -> Float[Tensor, " hidden"]:
        """Return the errors of a fit to what was shown, in float64."""
        return (self.asked.geometry.at_samples(fit).double() - self.asked.values.double())[self.hidden]


def _gap_blocks(geometry: Geometry) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None:
    cells = geometry.cells_like_gaps
    return None if cells is None else blocks_of(cells, PARTS)
