"""Blending: a scattered point as a combination of the lattice nodes around it."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.sampling.axes import Axes, Axis

Kind = Literal["similarity", "printed", "linear", "cubic"]


def similarity_weights(
    similarity: Callable[[Tensor], Tensor], spacing: float, fraction: Float[Tensor, " n"]
) -> Float[Tensor, "n 2"]:
    """The weights of the two nodes around a point, by which their encodings approximate the point's best.

    With the similarity D of an encoder, the nodes' distance d and the point's fraction β of it, least squares gives
    α = [D(0) D(βd) - D(d) D((1-β)d), D(0) D((1-β)d) - D(d) D(βd)] / (D(0)² - D(d)²).

    Parameters
    ----------
    similarity : function
        D.
    spacing : float
        d, in units of the unit interval.
    fraction : (n,)
        β in [0, 1].

    Notes
    -----
    The normal equations of min ‖ψ(x) - α₁ψ(x₀) - α₂ψ(x₀ + d)‖²; Zheng et al. (ECCV 2022), section 5.2. Where the
    nodes' encodings are the same (D(d) = D(0)) there is no such answer, and the linear weights are its limit.
    """
    zero, one = similarity(fraction.new_tensor([0.0, spacing]))
    near, far = similarity(fraction * spacing), similarity((1 - fraction) * spacing)
    determinant = zero.square() - one.square()
    if float(determinant) < 1e-12 * float(zero.square()):
        return torch.stack([1 - fraction, fraction], dim=-1)
    weights = torch.stack([zero * near - one * far, zero * far - one * near], dim=-1)
    return weights / determinant


def cubic_weights(fraction: Float[Tensor, " n"]) -> Float[Tensor, "n 4"]:
    """The weights of the four nodes around a point under Keys' cubic convolution with a = -1/2.

    Notes
    -----
    Keys, "Cubic convolution interpolation for digital image processing" (IEEE TASSP 1981), equation 15.
    """
    t = fraction.unsqueeze(-1) + torch.tensor([1.0, 0.0, -1.0, -2.0]).to(fraction)
    u = t.abs()
    inner = 1.5 * u**3 - 2.5 * u.square() + 1
    outer = -0.5 * u**3 + 2.5 * u.square() - 4 * u + 2
    return torch.where(u <= 1, inner, outer)


class Blending:
    """The sparse matrix S that evaluates a lattice signal at scattered points, with its adjoint.

    Parameters
    ----------
    axes : tuple of Axis
        The lattice.
    points : (n, d)
        In units of the unit interval; repeated points are allowed.
    encoders : sequence of Encoder, optional
        One an axis, for the weights that their similarity gives.
    kind : "similarity", "printed", "linear" or "cubic"
        Least squares with the encoders' similarity, or with the similarity that the papers print where that is
        another; or local interpolation.
    outside : "error" or "clamp"
        What to do with points beyond the outermost nodes: refuse them, or move them to the border. A point less
        than a spacing after the last node is always within reach.
    dtype : torch.dtype, optional
        Of the lattice signals; the points' own if not given.

    Raises
    ------
    ValueError
        If a point is outside the lattice, or the kind needs encoders that are not given.
    """

    def __init__(
        self,
        axes: Axes,
        points: Float[Tensor, "n d"],
        *,
        encoders: Sequence[Encoder] = (),
        kind: Kind = "similarity",
        outside: Literal["error", "clamp"] = "error",
        dtype: torch.dtype | None = None,
    ) -> None:
        _checks.choice("blending", kind, ("similarity", "printed", "linear", "cubic"))
        _checks.choice("outside", outside, ("error", "clamp"))
        if kind in ("similarity", "printed") and len(encoders) != len(axes):
            raise _checks.wrong("encoders", f"{len(axes)}, one an axis", len(encoders))
        self.lattice = tuple(axis.count for axis in axes)
        self.count = len(points)
        parts = []
        for j, axis in enumerate(axes):
            scaled = _node_positions(axis, points[:, j].double(), j, outside)
            parts.append(_axis_blend(axis, scaled, encoders[j] if encoders else None, kind))
        self.index, self.weights = _combine(parts, self.lattice, dtype or points.dtype)

    def forward(self, f: Float[Tensor, "*signals_lattice"]) -> Float[Tensor, "*signals n"]:
        """S f: the values at the points of lattice signals (*signals, *lattice).

        One gather for all signals at a time, summed as it goes.
        """
        rows = f.flatten(f.ndim - len(self.lattice)).reshape(-1, math.prod(self.lattice)).T.contiguous()
        out = embedding_bag(self.index, rows, per_sample_weights=self.weights, mode="sum")
        return out.T.reshape(*f.shape[: f.ndim - len(self.lattice)], self.count)

    def adjoint(self, values: Float[Tensor, "*signals n"]) -> Float[Tensor, "*signals_lattice"]:
        """Sᵀ y: lattice signals (*signals, *lattice) of values at the points."""
        out = values.new_zeros(*values.shape[:-1], math.prod(self.lattice))
        for index, weight in zip(self.index.unbind(1), self.weights.unbind(1), strict=True):
            out.index_add_(-1, index, values * weight)
        return out.reshape(*values.shape[:-1], *self.lattice)


def _node_positions(axis: Axis, x: Tensor, j: int, outside: str) -> Tensor:
    """Positions in units of the axis's spacing, from its first node, within it."""
    scaled = (x - axis.start) / axis.spacing
    slack = 1e-9 * axis.count
    beyond = (scaled < -slack) | (scaled >= axis.count + slack)
    if outside == "error" and bool(beyond.any()):
        span = f"[{axis.start:.6g}, {axis.stop:.6g}) on axis {j}"
        worst = float(x[beyond][0])
        raise _checks.wrong("points", f"coordinates within {span} (or outside='clamp')", f"{worst:.6g}")
    return scaled.clamp(0, axis.count - 1)


def _axis_blend(axis: Axis, scaled: Tensor, encoder: Encoder | None, kind: Kind) -> tuple[Tensor, Tensor]:
    """Indices (n, m) of the nodes around each point along one axis, and their weights (n, m)."""
    if axis.count == 1:
        return torch.zeros(len(scaled), 1, dtype=torch.long, device=scaled.device), torch.ones_like(
            scaled
        ).unsqueeze(-1)
    left = scaled.floor().clamp(0, axis.count - 2)
    fraction = scaled - left
    nearest = fraction.round()
    fraction = torch.where((fraction - nearest).abs() < 1e-9 * axis.count, nearest, fraction)
    if kind == "cubic":
        offsets = torch.arange(-1, 3, device=scaled.device)
        weights = cubic_weights(fraction)
    else:
        offsets = torch.arange(2, device=scaled.device)
        weights = _pair_weights(axis, fraction, encoder, kind)
    index = (left.long().unsqueeze(-1) + offsets).clamp(0, axis.count - 1)
    return index, weights


def _pair_weights(axis: Axis, fraction: Tensor, encoder: Encoder | None, kind: Kind) -> Tensor:
    if kind == "linear" or encoder is None:
        return torch.stack([1 - fraction, fraction], dim=-1)
    similarity = encoder.similarity if kind == "similarity" else encoder.printed_similarity
    return similarity_weights(similarity, axis.spacing, fraction)


def _combine(
    parts: list[tuple[Tensor, Tensor]], lattice: tuple[int, ...], dtype: torch.dtype
) -> tuple[Int[Tensor, "n corners"], Float[Tensor, "n corners"]]:
    """Flat indices and tensor-product weights of every point's corners."""
    strides = [math.prod(lattice[j + 1 :]) for j in range(len(lattice))]
    indices, weights = [], []
    for corner in itertools.product(*(range(w.shape[1]) for _, w in parts)):
        chosen = [(i[:, k], w[:, k]) for (i, w), k in zip(parts, corner, strict=True)]
        indices.append(sum(i * stride for (i, _), stride in zip(chosen, strides, strict=True)))
        weights.append(math.prod(w for _, w in chosen).to(dtype))  # type: ignore[arg-type]
    return torch.stack(indices, 1), torch.stack(weights, 1)
