"""How samples depend on a lattice: at a scattered point by a weighted sum of the values at the nodes around it."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.encoders import Encoder
from coordnet.sampling.axes import Axes, Axis
from coordnet.sampling.forward import ForwardModel, Interpolation, Outside
from coordnet.sampling.samples import Blend, Geometry

POLYNOMIAL_NODES = {"quintic": 6, "septic": 8}  # nodes of polynomials of degree five and seven


def similarity_weights(
    similarity: Callable[[Tensor], Tensor], spacing: float, fraction: Float[Tensor, " n"]
) -> Float[Tensor, "n 2"]:
    """Return the weights of the two nodes around a point whose encodings approximate the point's best.

    With the similarity D of an encoder as a function of distance, the nodes' distance d (``spacing``, in units of the
    unit interval) and the point's fraction β of it, in [0, 1], least squares gives
    α = [D(0) D(βd) - D(d) D((1-β)d), D(0) D((1-β)d) - D(d) D(βd)] / (D(0)² - D(d)²).
    These solve min ‖ψ(x) - α₁ψ(x₀) - α₂ψ(x₀ + d)‖²; Zheng et al. (ECCV 2022), section 5.2. Where D(d) = D(0) the
    equations are singular, and the linear weights are their limit.
    """
    zero, one = similarity(fraction.new_tensor([0.0, spacing]))
    near, far = similarity(fraction * spacing), similarity((1 - fraction) * spacing)
    determinant = zero.square() - one.square()
    singular = determinant < 1e-12 * zero.square()
    weights = torch.stack([zero * near - one * far, zero * far - one * near], dim=-1)
    linear = torch.stack([1 - fraction, fraction], dim=-1)
    return torch.where(singular, linear, weights / torch.where(singular, 1.0, determinant))


def cubic_weights(fraction: Float[Tensor, " n"]) -> Float[Tensor, "n 4"]:
    """Return the weights of the four nodes around a point in Keys' cubic convolution with a = -1/2.

    Source: Keys, "Cubic convolution interpolation for digital image processing" (IEEE TASSP 1981), equation 15.
    """
    t = fraction.unsqueeze(-1) + torch.tensor([1.0, 0.0, -1.0, -2.0]).to(fraction)
    u = t.abs()
    inner = 1.5 * u**3 - 2.5 * u.square() + 1
    outer = -0.5 * u**3 + 2.5 * u.square() - 4 * u + 2
    return torch.where(u <= 1, inner, outer)


def polynomial_weights(position: Float[Tensor, " n"], count: int) -> Float[Tensor, "n count"]:
    """Return Lagrange's weights Π (x - j) / (k - j) over j ≠ k of the nodes k = 0 … count - 1, for positions x."""
    nodes = torch.arange(count).to(position)
    others = [torch.cat([nodes[:k], nodes[k + 1 :]]) for k in range(count)]
    columns = [((position.unsqueeze(-1) - o) / (k - o)).prod(-1) for k, o in enumerate(others)]
    return torch.stack(columns, dim=-1)


@dataclass(frozen=True)
class Blending:
    """The blend of a lattice's values by which a model is fitted and evaluated between the nodes.

    With the lattice's values F and the sparse blending matrix B, the model at scattered points is vec(F)ᵀB. The kinds
    are those of ``ScatteredPoints``. "similarity" and "printed" need the encoder of each axis, and the methods raise a
    ``ValueError`` without them.

    Source: Zheng et al. (ECCV 2022), equations 13 to 15.
    """

    kind: Blend
    lattice: Axes

    @classmethod
    def of(cls, geometry: Geometry) -> "Blending | None":
        """Return the blending of closed-form fits of scattered points; None for samples on a lattice."""
        blend = geometry.closed_form_blend
        return None if blend is None else cls(blend, geometry.axes)

    def interpolation(
        self, points: Float[Tensor, "n d"], encoders: Sequence[Encoder], dtype: torch.dtype, outside: Outside = "clamp"
    ) -> Interpolation:
        """Return Bᵀ, the sparse matrix that maps a lattice signal of a dtype to values at points.

        With ``outside="error"`` points beyond the lattice raise a ``ValueError``; else they are moved to its border.
        """
        parts = []
        for j, (axis, encoder) in enumerate(zip(self.lattice, self._by_axis(encoders), strict=True)):
            scaled = _node_positions(axis, points[:, j].double(), j, outside)
            parts.append(_axis_blend(axis, scaled, encoder, self.kind))
        lattice = tuple(axis.count for axis in self.lattice)
        strides = [math.prod(lattice[j + 1 :]) for j in range(len(lattice))]
        indices, weights = [], []
        for corner in itertools.product(*(range(weight.shape[1]) for _, weight in parts)):
            chosen = [(index[:, k], weight[:, k]) for (index, weight), k in zip(parts, corner, strict=True)]
            indices.append(sum(i * stride for (i, _), stride in zip(chosen, strides, strict=True)))
            weights.append(reduce(torch.mul, [weight for _, weight in chosen]).to(dtype))
        return Interpolation(lattice, torch.stack(indices, 1), torch.stack(weights, 1))

    def at_points(
        self, nodes: Float[Tensor, "*lattice c"], points: Float[Tensor, "*points d"], encoders: Sequence[Encoder]
    ) -> Float[Tensor, "*points c"]:
        """Return the blend of the nodes' values at points."""
        operator = self.interpolation(points.reshape(-1, points.shape[-1]), encoders, nodes.dtype)
        return operator(nodes.movedim(-1, 0)).T.reshape(*points.shape[:-1], nodes.shape[-1])

    def on_axes(
        self, nodes: Float[Tensor, "*lattice c"], axes: Axes, encoders: Sequence[Encoder]
    ) -> Float[Tensor, "*result c"]:
        """Return the blend of the nodes' values on the lattice of some axes, one axis after another."""
        for j, (own, axis, encoder) in enumerate(zip(self.lattice, axes, self._by_axis(encoders), strict=True)):
            if axis == own:
                continue
            scaled = _node_positions(own, axis.points(device=nodes.device), j, "clamp")
            index, weight = _axis_blend(own, scaled, encoder, self.kind)
            shape = [1] * j + [-1] + [1] * (nodes.ndim - j - 1)
            columns = zip(index.unbind(1), weight.to(nodes).unbind(1), strict=True)
            nodes = sum(nodes.index_select(j, i) * w.reshape(shape) for i, w in columns)  # type: ignore[assignment]
        return nodes

    def _by_axis(self, encoders: Sequence[Encoder]) -> Sequence[Encoder | None]:
        if self.kind not in ("similarity", "printed"):
            return [None] * len(self.lattice)
        if len(encoders) != len(self.lattice):
            expected = "linear, cubic, quintic or septic for an encoding without encoders per axis"
            raise _checks.wrong("blending", expected, self.kind)
        return encoders


def _node_positions(axis: Axis, x: Tensor, j: int, outside: str) -> Tensor:
    """Return positions relative to the axis's first node, in spacings: clamped, or around a circle."""
    scaled = (x - axis.start) / axis.spacing
    if axis.periodic:
        return scaled.remainder(axis.count)
    slack = 1e-9 * axis.count
    beyond = (scaled < -slack) | (scaled >= axis.count + slack)
    if outside == "error" and bool(beyond.any()):
        span = f"[{axis.start:.6g}, {axis.stop:.6g}) on axis {j}"
        worst = float(x[beyond][0])
        raise _checks.wrong("points", f"coordinates within {span} (or outside='clamp')", f"{worst:.6g}")
    return scaled.clamp(0, axis.count - 1)


def _axis_blend(axis: Axis, scaled: Tensor, encoder: Encoder | None, blend: Blend) -> tuple[Tensor, Tensor]:
    """Return the indices (n, m) of the nodes around each point along one axis, and their weights (n, m)."""
    if axis.count == 1:
        return scaled.long().unsqueeze(-1), torch.ones_like(scaled).unsqueeze(-1)
    if blend in POLYNOMIAL_NODES:
        nodes = min(POLYNOMIAL_NODES[blend], axis.count)
        first = scaled.detach().floor() - POLYNOMIAL_NODES[blend] // 2 + 1
        first = first if axis.periodic else first.clamp(0, axis.count - nodes)
        index = first.long().unsqueeze(-1) + torch.arange(nodes, device=scaled.device)
        return index.remainder(axis.count), polynomial_weights(scaled - first, nodes)
    left = scaled.floor() if axis.periodic else scaled.floor().clamp(0, axis.count - 2)
    fraction = scaled - left
    nearest = fraction.round()
    at_node = (fraction - nearest).abs() < 1e-9 * axis.count
    fraction = fraction + torch.where(at_node, nearest - fraction, 0.0).detach()  # the gradient stays
    first = 0
    if blend == "cubic":
        first, weights = -1, cubic_weights(fraction)
    elif blend == "linear" or encoder is None:
        weights = torch.stack([1 - fraction, fraction], dim=-1)
    else:
        similarity = encoder.similarity if blend == "similarity" else encoder.printed_similarity
        weights = similarity_weights(similarity, axis.spacing, fraction)
    offsets = torch.arange(first, first + weights.shape[-1], device=scaled.device)
    index = left.long().unsqueeze(-1) + offsets
    return index.remainder(axis.count) if axis.periodic else index.clamp(0, axis.count - 1), weights


def lattice_of(encoding: Encoding, geometry: Geometry) -> Axes:
    """Return the axes of the lattice on which an encoding is fitted to samples.

    They are the samples' own, but for means over cells of pixels whose encoding has a feature for each pixel: then they
    are the pixels, and priors say what is between the samples.
    """
    if encoding.axis_encoders:
        resolves = all(k >= n for k, n in zip(encoding.shape, geometry.grid, strict=True))
    else:
        resolves = getattr(encoding, "axes", None) == geometry.fine_axes
    return geometry.fine_axes if resolves else geometry.axes


def measure(
    encoding: Encoding, geometry: Geometry, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> ForwardModel:
    """Return the map from the lattice signal to the samples of a geometry, with their weights.

    A ``ValueError`` is raised if a point is outside the lattice, or the blending needs encoders that are missing.
    """

    def interpolate(points: Tensor) -> Interpolation:
        blending = Blending(geometry.closed_form_blend or "linear", geometry.axes)
        return blending.interpolation(points, encoding.axis_encoders, dtype, geometry.outside)

    return geometry.forward(lattice_of(encoding, geometry), interpolate, dtype, device)
