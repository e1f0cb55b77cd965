"""Similarities that have no closed form: means over pairs of positions, by Gauss-Legendre quadrature."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ORDER = 8  # nodes a panel
TOLERANCE = 1e-8  # between a rule and the one of twice as many panels an axis
MOST = 2**14  # nodes of a rule


@torch.no_grad()
def averaged_similarity(
    encode: Callable[[Tensor], Tensor], delta: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape"]:
    """The mean of ψ(x)·ψ(x + δ) over the pairs of positions in the unit cube that are δ apart, over that at δ = 0.

    The panels of the rule are doubled until the value changes by less than ``TOLERANCE`` or there are ``MOST``
    nodes: exact to rounding where ψ is smooth at that resolution, less so where it has kinks.

    Parameters
    ----------
    encode : function
        ψ of positions (…, d).
    delta : (*shape, d)
        Offsets within [-1, 1].
    """
    offsets = delta.double().reshape(-1, delta.shape[-1])
    zero = _mean_product(encode, torch.zeros_like(offsets[0]))
    values = torch.stack([_mean_product(encode, offset) for offset in offsets]) / zero
    return values.reshape(delta.shape[:-1]).to(delta)


def panel_rule(breaks: Float[Tensor, " panels_1"], order: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre rules of some order between breaks, panel by panel."""
    nodes, weights = (
        torch.from_numpy(part).to(breaks) / 2 for part in np.polynomial.legendre.leggauss(order)
    )
    widths = breaks.diff().unsqueeze(-1)
    return (breaks[:-1].unsqueeze(-1) + widths * (nodes + 0.5)).flatten(), (widths * weights).flatten()


def _mean_product(encode: Callable[[Tensor], Tensor], offset: Float[Tensor, " d"]) -> Tensor:
    d, panels = len(offset), 1
    value = _with_panels(encode, offset, panels)
    while (2 * panels * ORDER) ** d <= MOST:
        panels, before = 2 * panels, value
        value = _with_panels(encode, offset, panels)
        if float((value - before).abs()) < TOLERANCE * float(value.abs()):
            break
    return value


def _with_panels(encode: Callable[[Tensor], Tensor], offset: Float[Tensor, " d"], panels: int) -> Tensor:
    x, w = panel_rule(torch.linspace(0, 1, panels + 1).to(offset), ORDER)
    nodes, weights = (torch.cartesian_prod(*[part] * len(offset)).reshape(-1, len(offset)) for part in (x, w))
    first = (-offset).clamp(min=0) + nodes * (1 - offset.abs())
    return (encode(first) * encode(first + offset)).sum(-1) @ weights.prod(-1)
