"""Impulse and rectangle: the shifted bases of nearest-neighbour interpolation."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings.encoders.parameters import Parameter
from coordnet.encodings.encoders.shifted import ShiftedBasis

_TIE = 1e-3  # of a node spacing: edges that rounding blurs fall to the same side for every node


class Impulse(ShiftedBasis):
    """φ(u) = δ(u): 1 at the node nearest to x, the lower one of two, and 0 at the others.

    Parameters
    ----------
    features : int
        K.
    **place
        See ``ShiftedBasis``.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 4, where positions lie on the nodes; the nearest node extends it to any.
    """

    name = "impulse"
    summary = "1 at the nearest node"

    def encode_part(self, x: Float[Tensor, "*points"], part: slice) -> Float[Tensor, "*points _"]:
        """Columns of one-hot rows."""
        first, last = self.nodes.start, self.nodes.stop - self.nodes.spacing
        return super().encode_part(x.clamp(first, last), part)

    @property
    def support(self) -> float:
        """A spacing of the nodes; positions beyond the outermost nodes count as theirs."""
        return self.nodes.spacing

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 within half a spacing of the node."""
        return box(distance / self.nodes.spacing + _TIE)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = 1 at δ = 0, else 0."""
        return (delta == 0).to(delta)

    def stable_rank(self, samples: int) -> float:
        """N."""
        return float(samples)


class Rectangle(ShiftedBasis):
    """φ(u) = 1 where -d/2 ≤ u < d/2; with K = N and d of one spacing, nearest-neighbour interpolation.

    Its derivative in d is zero almost everywhere; a learnable d is trained by the derivative of the rectangle whose
    edges are logistic curves of a tenth of d.

    Parameters
    ----------
    features : int
        K.
    width : float
        d, in units of the unit interval.
    **place
        See ``ShiftedBasis``.

    Notes
    -----
    Zheng et al. (ECCV 2022), section 4. The half-open edge lets every position reach as many nodes as any other. The
    surrogate derivative is the straight-through estimator of Bengio et al. (2013), arXiv:1308.3432.
    """

    name = "rectangle"
    summary = "a box at each node"
    scales = (Parameter("width", "length", "1px", "width of the box"),)

    def __init__(self, features: int, width: float, **place: Any) -> None:
        super().__init__(features, width=width, **place)

    @property
    def support(self) -> float:
        """Half of d, and what ties move the edge by."""
        return self.scale("width") / 2 + _TIE * self.nodes.spacing

    def bump(self, distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """φ at a signed distance."""
        u = (distance + _TIE * self.nodes.spacing) / self.width
        return straight_through(box(u), torch.sigmoid(10 * (0.5 - u.abs()))) if self.learnable else box(u)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D(δ) = max(1 - |δ| / d, 0)."""
        return (1 - delta.abs() / self.width).clamp(min=0)

    def stable_rank(self, samples: int) -> float:
        """min(N, 1/d)."""
        return min(float(samples), 1 / self.scale("width"))


def box(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """1 where -1/2 ≤ u < 1/2, else 0."""
    return ((u >= -0.5) & (u < 0.5)).to(u)


def straight_through(hard: Float[Tensor, "*shape"], soft: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The values of ``hard`` with the derivatives of ``soft``."""
    return hard + (soft - soft.detach())
