"""B-splines for samples that are not equally spaced."""

import itertools
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder
from coordnet.encodings.encoders.shifted import MAX_DENSITY
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.sampling.axes import Axes, Axis


class UnevenSpline(Encoder):
    """The B-splines of an odd degree whose knots are at the sites of the samples, as many as there are sites.

    The (degree - 1) / 2 sites beside each end are no knots ("not-a-knot"), so that one spline goes through any values
    at the sites. Beyond the ends it continues as the same polynomial. Few sites lower the degree: two or three sites
    have lines, four or five at most cubic splines. ``features`` is the number of sites, which increase, in units of the
    unit interval. See ``FeatureMap`` for the other arguments.

    Source: de Boor, "A Practical Guide to Splines" (2001), chapter IX for the recurrence, chapter XIII for the knots.
    """

    name = "uneven-spline"
    summary = "a B-spline at each sample, which need not be equally spaced"
    sites: tuple[float, ...] | list[float]
    degree: int = 3

    def _draw(self, generator: torch.Generator) -> None:
        self.sites = tuple(_checks.finite("sites", x) for x in self.sites)
        if len(self.sites) != self.features:
            raise _checks.wrong("sites", f"{self.features} numbers, one for each feature", len(self.sites))
        for a, b in itertools.pairwise(self.sites):
            if b <= a:
                raise _checks.wrong("sites", "increasing numbers", f"{a:.6g}, {b:.6g}")
        if _checks.integer("degree", self.degree, 1) % 2 == 0:
            raise _checks.wrong("degree", "an odd number", self.degree)

    @property
    def knots(self) -> tuple[tuple[float, ...], int]:
        """The knots, with each end repeated degree + 1 times, and the degree that the sites allow."""
        x: tuple[float, ...] = tuple(self.sites)
        degree = min(self.degree, (len(x) - 2) | 1) if len(x) > 1 else 0
        ends = (degree + 1) // 2
        first, last = min(x), max(x)
        return (first,) * (degree + 1) + x[ends : len(x) - ends] + (last,) * (degree + 1), degree

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        knots, degree = self.knots
        if degree == 0:
            return torch.ones_like(x).unsqueeze(-1)
        t = x.new_tensor(knots)
        first = torch.searchsorted(t, x.detach().contiguous(), right=True) - 1
        first = first.clamp(degree, self.features - 1)
        values = [torch.ones_like(x)]
        for order in range(1, degree + 1):  # the recurrence of Cox and de Boor, for all that are not zero
            carried, raised = torch.zeros_like(x), []
            for r, value in enumerate(values):
                after, before = t[first + r + 1], t[first + r + 1 - order]
                share = value / (after - before)
                raised.append(carried + (after - x) * share)
                carried = (x - before) * share
            values = [*raised, carried]
        columns = first.unsqueeze(-1) - degree + torch.arange(degree + 1, device=x.device)
        features = torch.zeros(*x.shape, self.features, dtype=x.dtype, device=x.device)
        return features.scatter(-1, columns, torch.stack(values, -1))

    def banded(self, axis: Axis, dtype: torch.dtype = torch.float64) -> BandedMatrix | None:
        """The design matrix of an axis as a band, on the CPU; None where it is dense, or the axis is not even."""
        if not axis.is_even:
            return None

        def block(first: int, last: int) -> Block:
            rows = self.on_axis(axis.part(first, last - first))
            columns = rows.any(0).nonzero().flatten()
            left, right = int(columns[0]), int(columns[-1]) + 1
            return Block(first, left, rows[:, left:right].to(dtype))

        band = BandedMatrix.build((axis.count, self.features), block)
        return band if band.density <= MAX_DENSITY else None

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "UnevenSpline":
        """Construct an encoder with a site at each sample, or ``features`` sites that are spread as the samples are."""
        (axis,) = axes
        x = axis.points().numpy()
        count = features or len(x)
        spread = np.interp(np.linspace(0, len(x) - 1, count), np.arange(len(x)), x)
        return cls(count, tuple(spread.tolist()), **arguments)
