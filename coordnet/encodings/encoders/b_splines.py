"""B-splines: at regular nodes the box, the triangle and splines of higher degrees, or one for each unequal site."""

import itertools
import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.feature_map import Encoder, Scale
from coordnet.encodings.encoders.scale_parameters import Parameter, Spacings
from coordnet.encodings.encoders.shifted import MAX_DENSITY, TIE, ShiftedBasis, box, straight_through
from coordnet.linalg.banded import BandedMatrix, Block
from coordnet.sampling.axes import Axes, Axis


def b_spline(u: Float[Tensor, "*shape"], degree: int) -> Float[Tensor, "*shape"]:
    """The centered B-spline of unit knots, B_p(u) = (1/p!) Σ_k (-1)^k C(p+1, k) max(u + (p+1)/2 - k, 0)^p.

    It is evaluated at -|u|, where the fewest terms are not zero. Degree 0 is 1 on [-1/2, 1/2).

    Source: de Boor, "A Practical Guide to Splines" (2001), chapter IX; Schoenberg (1946).
    """
    if degree == 0:
        return box(u)
    shifted = (degree + 1) / 2 - u.abs()
    total = torch.zeros_like(u)
    for k in range(degree // 2 + 1):
        total = total + (-1) ** k * math.comb(degree + 1, k) * (shifted - k).clamp(min=0) ** degree
    return total / math.factorial(degree)


def b_spline_integral(u: Float[Tensor, "*shape"], degree: int) -> Float[Tensor, "*shape"]:
    """∫B_p from -∞ to u = Σ_k B_{p+1}(u - 1/2 - k), k = 0 … p + 1, since B_{p+1}'(u) = B_p(u + 1/2) - B_p(u - 1/2).

    Source: de Boor, "A Practical Guide to Splines" (2001), chapter X.
    """
    u = u.clamp(-(degree + 1) / 2, (degree + 1) / 2)  # all of B_p lies there
    return sum((b_spline(u - 0.5 - k, degree + 1) for k in range(degree + 2)), torch.zeros_like(u))


class SplineBasis(ShiftedBasis):
    """φ(u) = B_p(u / h), the centered B-spline of ``degree`` p whose knots are at a spacing h, the scale parameter."""

    def reach(self, rounding: float) -> float:
        """(p + 1) h / 2 plus the shift of the edge."""
        return 0.5 * (self.degree + 1) * self.scale(self.scales[0].name) + TIE * self.nodes.spacing

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        edge = TIE * self.nodes.spacing if self.degree == 0 else 0.0
        return b_spline((distance + edge) / getattr(self, self.scales[0].name), self.degree)

    def bump_mean(self, distance: Float[Tensor, "*shape"], width: float | Tensor) -> Float[Tensor, "*shape"]:
        """The difference of ∫B_p at the two ends of a cell, times h / w: B_{p+1}(u / h) for a cell of w = h."""
        knots = getattr(self, self.scales[0].name)
        ends = [b_spline_integral((distance + sign * width / 2) / knots, self.degree) for sign in (1, -1)]
        return (ends[0] - ends[1]) * (knots / width)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = B_{2p+1}(δ/h) / B_{2p+1}(0): two B-splines convolve to one."""
        u, order = delta.double() / getattr(self, self.scales[0].name), 2 * self.degree + 1
        return (b_spline(u, order) / b_spline(torch.zeros_like(u), order)).to(delta)

    def stable_rank(self, samples: int) -> float:
        """min(N, ∫φ² / (∫φ)²) = min(N, B_{2p+1}(0) / h), as the papers derive it for their bumps."""
        peak = float(b_spline(torch.zeros((), dtype=torch.float64), 2 * self.degree + 1))
        return min(float(samples), peak / self.scale(self.scales[0].name))


class Rectangle(SplineBasis):
    """φ(u) = 1 where -d/2 ≤ u < d/2; with K = N and d of one spacing, nearest-neighbor interpolation.

    The width d is in units of the unit interval; see ``ShiftedBasis`` for the other arguments. A learnable d is trained
    by the derivative of a rectangle whose edges are logistic curves of width d / 10, the straight-through estimator of
    Bengio et al. (2013), arXiv:1308.3432, because its own is zero almost everywhere.

    Source: Zheng et al. (ECCV 2022), section 4. With half-open edges every position reaches the same number of nodes.
    """

    name = "rectangle"
    summary = "a box at each node"
    scales = (Parameter("width", "length", Spacings(1.0), "width of the box"),)
    degree = 0
    width: Scale

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.is_followed("width"):
            return super().bump(distance)
        u = (distance + TIE * self.nodes.spacing) / self.width
        return straight_through(box(u), torch.sigmoid(10 * (0.5 - u.abs())))


class Triangle(SplineBasis):
    """φ(u) = max(1 - |u| / h, 0); with K = N and h of one spacing, linear interpolation.

    The half width h, half the width d of the papers, is in units of the unit interval; see ``ShiftedBasis`` for the
    rest. Source: Zheng et al. (ECCV 2022), section 4; their printed similarity, ``printed_similarity``, is not the
    autocorrelation of the triangle, which is the cubic B-spline that ``similarity`` gives.
    """

    name = "triangle"
    summary = "a triangle at each node"
    scales = (Parameter("half_width", "length", Spacings(1.0), "distance from the peak to zero"),)
    degree = 1
    half_width: Scale

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """¼ max(d - |δ|, 0)², scaled to 1 at δ = 0, as Zheng et al. (ECCV 2022) print it."""
        return (1 - delta.abs() / (2 * self.half_width)).clamp(min=0).square().to(delta)


class BSpline(SplineBasis):
    """φ(u) = B_p(u / h), the centered B-spline of degree p (0 to 5) whose knots are at a spacing h.

    h is in units of the unit interval; see ``ShiftedBasis`` for the other arguments. If h is the spacing of the nodes,
    the basis spans all splines of degree p on uniform knots. Degree 0 cannot be learned: use ``Rectangle`` for that.

    Source: Unser, "Splines: a perfect fit for signal and image processing" (IEEE Signal Processing Magazine, 1999).
    """

    name = "bspline"
    summary = "a B-spline of degree 0 to 5 at each node"
    scales = (Parameter("spacing", "length", Spacings(1.0), "distance of the knots"),)
    spacing: Scale
    degree: int = 3

    def __post_init__(self, generator: torch.Generator | None) -> None:
        super().__post_init__(generator)
        if _checks.integer("degree", self.degree, 0) > 5:
            raise _checks.wrong("degree", "0 to 5", self.degree)
        if self.degree == 0 and self.learnable:
            raise _checks.wrong("learnable", "a degree of at least 1 (or the rectangle encoder)", "degree 0")


class UnevenSpline(Encoder):
    """The B-splines of an odd degree whose knots are at the sites of the samples, as many as there are sites.

    The (degree - 1) / 2 sites beside each end are no knots ("not-a-knot"), so that one spline goes through any values
    at the sites. Beyond the ends it continues as the same polynomial. Two or three sites have lines, four or five at
    most cubic splines. ``features`` is the number of sites, which increase, in units of the unit interval.

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
        if axis.even is not axis:
            return None

        def block(first: int, last: int) -> Block:
            rows = self.on_axis(axis.part(first, last - first))
            columns = rows.any(0).nonzero().flatten()
            left, right = int(columns[0]), int(columns[-1]) + 1
            return Block(first, left, rows[:, left:right].to(dtype))

        band = BandedMatrix.build((axis.count, self.features), block)
        return band if band.density <= MAX_DENSITY else None

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        """Put a site at each sample, or ``features`` sites that are spread as the samples are."""
        x = axes[0].points().numpy()
        count = features or len(x)
        spread = np.interp(np.linspace(0, len(x) - 1, count), np.arange(len(x)), x)
        return {"features": count, "sites": tuple(spread.tolist())}
