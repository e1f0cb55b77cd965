"""Tables of feature rows on the nodes of a lattice, with multilinear interpolation between them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet.encodings.encoders.quadrature import panel_rule
from coordnet.linalg.kronecker import mode_product
from coordnet.sampling.axes import Axes, Axis


def neighbours(
    x: Float[Tensor, "*points"], axis: Axis
) -> tuple[Int[Tensor, "*points"], Float[Tensor, "*points"]]:
    """The index of the node below x, at most the last but one, and how far x is on the way to the next, in [0, 1]."""
    u = ((x - axis.start) / axis.spacing).clamp(0, axis.count - 1)
    index = u.detach().floor().clamp(max=max(axis.count - 2, 0)).long()
    return index, u - index


@torch.no_grad()
def tables_similarity(
    tables: Sequence[tuple[Tensor, Axes]], delta: Float[Tensor, "*shape d"]
) -> Float[Tensor, "*shape"]:
    """D(δ): the mean of ψ(x)·ψ(x + δ) over the pairs of points in the unit cube that are δ apart, over that at δ = 0.

    ψ interpolates tables T, side by side, so that the mean is the sum over them of Σ T_i·T_i' Π_j M_j[i_j, i_j'],
    with M_j the means of products of two hat functions δ_j apart: exact, and never per point.

    Parameters
    ----------
    tables : sequence of ((n₁, …, n_d, K), axes)
        Each T and its nodes.
    delta : (*shape, d)
        Offsets within [-1, 1].
    """
    rows = [(table.detach().double().movedim(-1, 0), axes) for table, axes in tables]

    def mean(offset: list[float]) -> Tensor:
        each = [[hat_products(a, u).to(t) for a, u in zip(axes, offset, strict=True)] for t, axes in rows]
        return torch.stack(
            [(t * mode_product(t, m)).sum() for (t, _), m in zip(rows, each, strict=True)]
        ).sum()

    values = torch.stack([mean(offset) for offset in delta.double().reshape(-1, delta.shape[-1]).tolist()])
    return (values / mean([0.0] * delta.shape[-1])).reshape(delta.shape[:-1]).to(delta)


def hat_products(axis: Axis, delta: float) -> Float[Tensor, "n n"]:
    """M: the means of h_i(x) h_i'(x + δ) over the x in [0, 1] with x + δ in it, h the hat functions of the nodes.

    By the Gauss-Legendre rule of two nodes between kinks, which is exact.
    """
    start, span = max(-delta, 0.0), 1 - abs(delta)
    nodes = axis.points()
    kinks = (torch.cat([nodes, nodes - delta]) - start) / span if span > 0 else nodes[:0]
    inner = kinks[(kinks > 0) & (kinks < 1)].sort().values
    t, w = panel_rule(torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)]), 2)
    x = start + span * t
    products, last = torch.zeros(axis.count, axis.count, dtype=torch.float64), axis.count - 1
    (i, r), (j, s) = neighbours(x, axis), neighbours(x + delta, axis)
    for a, near in ((0, 1 - r), (1, r)):
        for b, far in ((0, 1 - s), (1, s)):
            where = ((i + a).clamp(max=last), (j + b).clamp(max=last))
            products.index_put_(where, w * near * far, accumulate=True)
    return products
