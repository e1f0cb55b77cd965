"""Continuation of lattice signals beyond their borders."""

import torch
from jaxtyping import Float
from torch import Tensor


def reflect(
    f: Float[Tensor, "signals channels *lattice"], before: tuple[int, ...], after: tuple[int, ...]
) -> Float[Tensor, "signals channels *longer"]:
    """Add samples before and after each axis by reflection about the first and last samples, which are not repeated."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True), start=2):
        length = f.shape[axis]
        period = max(2 * (length - 1), 1)
        at = torch.arange(-first, length + last, device=f.device).remainder(period)
        f = f.index_select(axis, torch.minimum(at, (period - at).abs()))
    return f


def make_periodic(
    f: Float[Tensor, "signals channels *lattice"], shape: tuple[int, ...]
) -> Float[Tensor, "signals channels *shape"]:
    """Extend a signal to one period of a continuous function: its reflections at the two ends fade into each other.

    The Fourier series of the result does not ring at the borders, as that of a zero-padded signal would. The signal
    stays at the start of every axis.
    """
    none = [0] * (f.ndim - 2)
    for axis, padded in enumerate(shape):
        length, missing = f.shape[axis + 2], padded - f.shape[axis + 2]
        if missing == 0:
            continue
        there = (*none[:axis], missing, *none[axis + 1 :])
        behind = reflect(f, tuple(none), there).narrow(axis + 2, length, missing)
        ahead = reflect(f, there, tuple(none)).narrow(axis + 2, 0, missing)
        position = torch.arange(1, missing + 1, device=f.device) / (missing + 1)
        fade = (0.5 - 0.5 * torch.cos(torch.pi * position)).to(f)
        fade = fade.reshape(-1, *(1,) * (len(shape) - 1 - axis))
        f = torch.cat([f, behind + fade * (ahead - behind)], dim=axis + 2)
    return f


def continue_smoothly(
    f: Float[Tensor, "signals channels *lattice"], shape: tuple[int, ...], order: int
) -> Float[Tensor, "signals channels *shape"]:
    """Extend a signal to one period of a smooth function: the added nodes have the least differences of an order.

    Along each axis the sum of squared periodic differences is minimized, which makes order - 1 derivatives continuous
    across the gap. The Fourier series of a smooth signal then has its accuracy up to the borders. The signal stays at
    the start of every axis. The differences are of a lower order where the gap is shorter than the order.
    """
    for axis, padded in enumerate(shape):
        length, missing = f.shape[axis + 2], padded - f.shape[axis + 2]
        if missing > 0:
            reach = min(order, missing)  # differences reach from the gap to as many nodes on either side
            nodes = f.movedim(axis + 2, -1)
            near = nodes if length <= 2 * reach else torch.cat([nodes[..., :reach], nodes[..., -reach:]], dim=-1)
            gap = _gap_matrix(near.shape[-1], missing, reach).to(f)
            added = (near @ gap.T).movedim(-1, axis + 2)
            f = torch.cat([f, added], dim=axis + 2)
    return f


def _gap_matrix(length: int, missing: int, order: int) -> Float[Tensor, "missing length"]:
    """Return the map from the nodes of an axis to those of the gap after it, of least periodic differences."""
    difference = torch.eye(length + missing, dtype=torch.float64)
    for _ in range(order):
        difference = difference.roll(-1, 0) - difference
    return torch.linalg.lstsq(difference[:, length:], -difference[:, :length]).solution


def zero_pad(
    f: Float[Tensor, "signals channels *lattice"], shape: tuple[int, ...]
) -> Float[Tensor, "signals channels *shape"]:
    """Append zeros to a signal along every axis, up to the lengths of ``shape``."""
    margins = [n - m for n, m in zip(shape, f.shape[2:], strict=True)]
    return torch.nn.functional.pad(f, [width for margin in reversed(margins) for width in (0, margin)])
