"""Distance preservation: how the inner product of two encodings falls with the distance of their points."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.sampling.axes import Axes


@torch.no_grad()
def distance_preservation(
    encoder: Encoder | JointEncoder,
    delta: Float[Tensor, " m"] | Float[Tensor, "m d"],
    center: float | tuple[float, ...] = 0.5,
) -> Float[Tensor, " m"]:
    """ψ(c)·ψ(c + δ) / ψ(c)·ψ(c), the measured twin of ``encoder.similarity(delta)``.

    The displacements δ are in units of the unit interval, (m, d) for a joint encoder. The position c is ``center``: one
    number for all axes, or one for each. The two agree if the encoder's nodes are dense around c. Source: Zheng et al.
    (ECCV 2022), section 3.
    """
    c = torch.as_tensor(center).to(delta).expand(delta.shape[1:])
    base = encoder(c)
    return encoder(c + delta) @ base / (base @ base)


@torch.no_grad()
def similarity_map(
    encoding: Encoding, axes: Axes, nodes: Int[Tensor, "m d"], dtype: torch.dtype = torch.float64
) -> Float[Tensor, "..."]:
    """The cosine Ψ(p)·Ψ(q) / (|Ψ(p)| |Ψ(q)|) between chosen nodes p of a lattice and all its points q.

    ``nodes`` holds the indices of p. The result is (m, *lattice), and 1 at q = p; for a complex encoding it is the
    product of the cosines of the axes. A ``ValueError`` is raised if the nodes do not have d indices. Source: figure 3
    of Li et al. (NeurIPS 2021).
    """
    if nodes.shape[1] != len(axes):
        raise _checks.wrong("nodes", f"{len(axes)} indices for each node", nodes.shape[1])
    factors = [torch.nn.functional.normalize(a, dim=-1) for a in encoding.matrices(axes, dtype)]
    lattice = tuple(axis.count for axis in axes)
    flat = torch.from_numpy(np.ravel_multi_index(tuple(nodes.T.numpy()), lattice))
    maps = torch.ones(len(nodes), 1, dtype=dtype)
    for rows, index in zip(factors, torch.unravel_index(flat, [len(a) for a in factors]), strict=True):
        maps = torch.einsum("ma,mb->mab", maps, rows[index] @ rows.T).flatten(1)
    return maps.reshape(len(nodes), *lattice)
