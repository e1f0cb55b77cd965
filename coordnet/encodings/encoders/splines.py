"""Uniform B-splines."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Parameter, Scale, Spacings
from coordnet.encodings.encoders.shifted import TIE, ShiftedBasis, box


def b_spline(u: Float[Tensor, "*shape"], degree: int) -> Float[Tensor, "*shape"]:
    """The centered B-spline of unit knots, B_p(u) = (1/p!) Σ_k (-1)^k C(p+1, k) max(u + (p+1)/2 - k, 0)^p.

    Evaluated at -|u|, where the fewest terms cancel. Degree 0 is 1 on [-1/2, 1/2).

    Source: de Boor, "A Practical Guide to Splines" (2001), chapter IX; Schoenberg (1946).
    """
    if degree == 0:
        return box(u)
    shifted = (degree + 1) / 2 - u.abs()
    total = torch.zeros_like(u)
    for k in range((degree + 1) // 2 + 1):
        total = total + (-1) ** k * math.comb(degree + 1, k) * (shifted - k).clamp(min=0) ** degree
    return total / math.factorial(degree)


class BSpline(ShiftedBasis):
    """φ(u) = B_p(u / h), the centered B-spline of degree p (0 to 5) whose knots are at a spacing h.

    h is in units of the unit interval; see ``ShiftedBasis`` for the other arguments. With h the spacing of the nodes
    its span is all splines of degree p on uniform knots. Degree 0 has no derivative in h: learn a ``Rectangle``'s.

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
            raise _checks.wrong("learnable", "a degree of at least 1, or the rectangle encoder", True)

    @property
    def support(self) -> float:
        """(p + 1) h / 2, and the shift of the edge."""
        return (0.5 * (self.degree + 1) + TIE) * self.scale("spacing")

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        u = distance / self.spacing
        return b_spline(u + TIE if self.degree == 0 else u, self.degree)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = B_{2p+1}(δ/h) / B_{2p+1}(0): two B-splines convolve to one."""
        u, order = delta.double() / self.spacing, 2 * self.degree + 1
        return (b_spline(u, order) / b_spline(torch.zeros_like(u), order)).to(delta)

    def stable_rank(self, samples: int) -> float:
        """min(N, ∫φ² / (∫φ)²) = min(N, B_{2p+1}(0) / h), as the papers derive it for their bumps."""
        peak = float(b_spline(torch.zeros((), dtype=torch.float64), 2 * self.degree + 1))
        return min(float(samples), peak / self.scale("spacing"))
