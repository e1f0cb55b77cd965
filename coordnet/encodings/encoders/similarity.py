"""Similarities without a closed form: means over pairs of positions, by Gauss-Legendre quadrature."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ORDER = 8  # nodes of a panel where ψ is smooth
TOLERANCE = 1e-7  # largest difference between a rule and those with half and a quarter of its panels
MAX_NODES = 2**20  # nodes of a rule over all axes
CHUNK = 2**14  # nodes that are evaluated at once

Encode = Callable[[Tensor], Tensor]


@torch.no_grad()
def mean_similarity(
    encode: Encode, delta: Float[Tensor, "*shape d"], kinks: Sequence[Float[Tensor, "_"]] | None = None
) -> Float[Tensor, "*shape"]:
    """D(δ): the mean of ψ(x)·ψ(x + δ) over the pairs in the unit cube, divided by that at δ = 0.

    Where ψ is multilinear between known kinks, two nodes on each piece give the mean exactly. Elsewhere the panels
    are doubled until three results agree to ``TOLERANCE``: exact to rounding where ψ is smooth at that resolution,
    to about 1e-7 in two dimensions where it has kinks that are not given.

    ``encode`` is ψ of positions (…, d), ``delta`` has offsets within [-1, 1], and ``kinks`` are the positions on each
    axis between which ψ is multilinear.
    """
    offsets = delta.double().reshape(-1, delta.shape[-1])
    zero = _mean_product(encode, torch.zeros_like(offsets[0]), kinks)
    means = [_mean_product(encode, offset, kinks, abs(float(zero))) for offset in offsets]
    return (torch.stack(means) / zero).reshape(delta.shape[:-1]).to(delta)


def _mean_product(encode: Encode, offset: Tensor, kinks: Sequence[Tensor] | None, scale: float | None = None) -> Tensor:
    """The mean to ``TOLERANCE`` times ``scale``, or times itself."""
    if kinks is not None:
        pieces = [_pieces(k.to(offset), u) for k, u in zip(kinks, offset, strict=True)]
        if math.prod(2 * (len(p) - 1) for p in pieces) <= MAX_NODES:
            return _composite_rule(encode, offset, pieces, 2)
    values, panels = [], 1
    while panels == 1 or (ORDER * panels) ** len(offset) <= MAX_NODES:
        values.append(_composite_rule(encode, offset, [torch.linspace(0, 1, panels + 1)] * len(offset), ORDER))
        change = max(float((values[-1] - value).abs()) for value in values[-3:])
        if len(values) > 2 and change < TOLERANCE * (scale or float(values[-1].abs())):
            break
        panels *= 2
    return values[-1]


def _pieces(kinks: Tensor, offset: Tensor) -> Float[Tensor, "_"]:
    """The ends and the kinks of ψ(x)·ψ(x + δ) along one axis, where x goes from 0 to 1 over the positions allowed."""
    span = 1 - offset.abs()
    inner = (torch.cat([kinks, kinks - offset]) - (-offset).clamp(min=0)) / span
    inner = inner[(inner > 0) & (inner < 1)].sort().values
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])


def _composite_rule(encode: Encode, offset: Tensor, breaks: list[Tensor], order: int) -> Tensor:
    """The mean of ψ(x)·ψ(x + δ) by a product rule with ``order`` nodes an axis on every piece between breaks."""
    t, w = (torch.from_numpy(part).to(offset) / 2 for part in np.polynomial.legendre.leggauss(order))
    ends = [b.to(offset) for b in breaks]
    nodes = [(b[:-1, None] + b.diff()[:, None] * (t + 0.5)).flatten() for b in ends]
    weights = [(b.diff()[:, None] * w).flatten() for b in ends]
    shape = tuple(len(n) for n in nodes)
    total = offset.new_zeros(())
    for part in torch.arange(math.prod(shape), device=offset.device).split(CHUNK):
        index = torch.unravel_index(part, shape)
        x = torch.stack([n[i] for n, i in zip(nodes, index, strict=True)], dim=-1)
        weight = torch.stack([v[i] for v, i in zip(weights, index, strict=True)]).prod(0)
        first = (-offset).clamp(min=0) + x * (1 - offset.abs())
        total = total + (encode(first) * encode(first + offset)).sum(-1) @ weight
    return total
