"""Similarities that have no closed form: means over pairs of positions, by Gauss-Legendre quadrature."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ORDER = 8  # nodes a panel
TOLERANCE = 1e-7  # between a rule and those of a half and a quarter of its panels an axis
MOST = 2**20  # nodes of a rule
CHUNK = 2**14  # nodes at once


@torch.no_grad()
def averaged_similarity(
    encode: Callable[[Tensor], Tensor], delta: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape"]:
    """The mean of ψ(x)·ψ(x + δ) over the pairs of positions in the unit cube that are δ apart, over that at δ = 0.

    The panels of the rule are doubled until three results agree to ``TOLERANCE`` or there are ``MOST`` nodes: exact to
    rounding where ψ is smooth at that resolution, to about 1e-7 in two dimensions where it has kinks.

    Parameters
    ----------
    encode : function
        ψ of positions (…, d).
    delta : (*shape, d)
        Offsets within [-1, 1].
    """
    offsets = delta.double().reshape(-1, delta.shape[-1])
    zero = _mean_product(encode, torch.zeros_like(offsets[0]))
    values = torch.stack([_mean_product(encode, offset, abs(float(zero))) for offset in offsets]) / zero
    return values.reshape(delta.shape[:-1]).to(delta)


def panel_rule(breaks: Float[Tensor, " panels_1"], order: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre rules of some order between breaks, panel by panel."""
    nodes, weights = (
        torch.from_numpy(part).to(breaks) / 2 for part in np.polynomial.legendre.leggauss(order)
    )
    widths = breaks.diff().unsqueeze(-1)
    return (breaks[:-1].unsqueeze(-1) + widths * (nodes + 0.5)).flatten(), (widths * weights).flatten()


def _mean_product(
    encode: Callable[[Tensor], Tensor], offset: Float[Tensor, " d"], scale: float | None = None
) -> Tensor:
    """The mean to ``TOLERANCE`` of ``scale``, or of itself."""
    values, panels = [_with_panels(encode, offset, 1)], 1
    while (2 * panels * ORDER) ** len(offset) <= MOST:
        panels *= 2
        values.append(_with_panels(encode, offset, panels))
        change = max(float((values[-1] - value).abs()) for value in values[-3:-1])
        if len(values) > 2 and change < TOLERANCE * (scale or float(values[-1].abs())):
            break
    return values[-1]


def _with_panels(encode: Callable[[Tensor], Tensor], offset: Float[Tensor, " d"], panels: int) -> Tensor:
    x, w = panel_rule(torch.linspace(0, 1, panels + 1).to(offset), ORDER)
    total, shape = offset.new_zeros(()), (len(x),) * len(offset)
    for node in torch.arange(len(x) ** len(offset), device=x.device).split(CHUNK):
        index = torch.stack(torch.unravel_index(node, shape), dim=-1)
        first = (-offset).clamp(min=0) + x[index] * (1 - offset.abs())
        total = total + (encode(first) * encode(first + offset)).sum(-1) @ w[index].prod(-1)
    return total
