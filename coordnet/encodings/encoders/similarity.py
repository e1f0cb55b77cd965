"""Similarities without a closed form: means over pairs of positions, by Gauss-Legendre quadrature."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ORDER = 8  # nodes of a panel where ψ is smooth
QUADRATURE_ERROR = 1e-7  # largest difference between a rule and those with half and a quarter of its panels
MAX_NODES = 2**20  # nodes of a rule over all axes
CHUNK = 2**14  # nodes that are evaluated at once

Encode = Callable[[Tensor], Tensor]


@torch.no_grad()
def mean_similarity(
    encode: Encode, delta: Float[Tensor, "*shape d"], kinks: Sequence[Float[Tensor, "_"]] | None = None
) -> Float[Tensor, "*shape"]:
    """D(δ): the mean of ψ(x)·ψ(x + δ) over the pairs in the unit cube, divided by that at δ = 0.

    ``encode`` is ψ of positions (…, d), and ``delta`` has offsets within [-1, 1]. If ψ is multilinear between known
    ``kinks`` on each axis, two nodes on each piece give the mean exactly. Otherwise the panels are doubled until three
    results agree to ``QUADRATURE_ERROR``: rounding if ψ is smooth, about 1e-7 with unknown kinks in two dimensions.
    """
    zero = _mean_product(encode, delta.new_zeros(delta.shape[-1]).double(), kinks, None)
    means = [_mean_product(encode, offset, kinks, zero) for offset in delta.double().reshape(-1, delta.shape[-1])]
    return (torch.tensor(means, dtype=torch.float64) / zero).reshape(delta.shape[:-1]).to(delta)


def _mean_product(encode: Encode, offset: Tensor, kinks: Sequence[Tensor] | None, scale: float | None) -> float:
    """The mean, to an error of ``QUADRATURE_ERROR`` times ``scale`` or, without a scale, times itself."""
    start, span = (-offset).clamp(min=0), 1 - offset.abs()  # positions x for which x + δ is in the cube too

    def mean(breaks: list[Tensor], order: int) -> float:
        """The mean by the product rule with ``order`` nodes per axis on every piece between breaks."""
        t, w = (torch.from_numpy(part).to(offset) / 2 for part in np.polynomial.legendre.leggauss(order))
        nodes = [(b[:-1, None] + b.diff()[:, None] * (t + 0.5)).flatten() for b in breaks]
        weights = [(b.diff()[:, None] * w).flatten() for b in breaks]
        shape, total = [len(n) for n in nodes], 0.0
        for part in torch.arange(math.prod(shape), device=offset.device).split(CHUNK):
            index = torch.unravel_index(part, shape)
            x = start + span * torch.stack([n[i] for n, i in zip(nodes, index, strict=True)], dim=-1)
            weight = torch.stack([v[i] for v, i in zip(weights, index, strict=True)]).prod(0)
            total += float((encode(x) * encode(x + offset)).sum(-1) @ weight)
        return total

    if kinks is not None:
        both = (torch.cat([k.to(offset), k.to(offset) - u]) for k, u in zip(kinks, offset, strict=True))
        inner = [(k - a) / s for k, a, s in zip(both, start, span, strict=True)]
        pieces = [torch.cat([k[(k > 0) & (k < 1)], k.new_tensor([0, 1])]).sort().values for k in inner]
        if math.prod(2 * (len(p) - 1) for p in pieces) <= MAX_NODES:
            return mean(pieces, 2)
    values, panels = [], 1
    while panels == 1 or (ORDER * panels) ** len(offset) <= MAX_NODES:
        values.append(mean([torch.linspace(0, 1, panels + 1).to(offset)] * len(offset), ORDER))
        change = max(abs(values[-1] - value) for value in values[-3:])
        if len(values) > 2 and change < QUADRATURE_ERROR * abs(scale or values[-1]):
            break
        panels *= 2
    return values[-1]
