"""Continuation of lattice signals beyond their borders."""

import torch
from jaxtyping import Float
from torch import Tensor

Signals = Float[Tensor, "signals channels *lattice"]
Periodic = Float[Tensor, "signals channels *shape"]
OVERSHOOT = 10.0  # largest ratio of a continuation to its signal; above it the signal's modes are lost in rounding


def reflect(f: Signals, before: tuple[int, ...], after: tuple[int, ...]) -> Float[Tensor, "signals channels *longer"]:
    """Add samples before and after each axis by reflection about the first and last samples, which are not repeated."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True), start=2):
        length = f.shape[axis]
        period = max(2 * (length - 1), 1)
        at = torch.arange(-first, length + last, device=f.device).remainder(period)
        f = f.index_select(axis, torch.minimum(at, (period - at).abs()))
    return f


def make_periodic(f: Signals, shape: tuple[int, ...]) -> Periodic:
    """Extend a signal to one period of a continuous function: its reflections at the two ends fade into each other.

    The Fourier series of the result does not ring at the borders. The signal stays at the start of every axis.
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


def continue_smoothly(f: Signals, shape: tuple[int, ...], order: int) -> Periodic:
    """Extend a signal to one period of a smooth function: the added nodes have the least differences of an order.

    Along each axis the sum of squared periodic differences is minimized, so that the Fourier series of a smooth signal
    has its accuracy up to the borders. The signal stays at the start of every axis. The order is lower where the signal
    is shorter, or where the continuation would be ``OVERSHOOT`` times as large, as across wide gaps after rough ends.

    The differences of twice the order vanish in the gap (Euler's equation): there the signal is the polynomial through
    as many nodes as the order on either side.
    """
    for axis, padded in enumerate(shape):
        length, missing = f.shape[axis + 2], padded - f.shape[axis + 2]
        if missing > 0:
            nodes, largest = f.movedim(axis + 2, -1), OVERSHOOT * f.abs().max()
            for near in range(min(order, length), 0, -1):
                ends = torch.cat([nodes[..., length - near :], nodes[..., :near]], dim=-1)
                added = ends @ _gap_weights(near, missing).to(f).T
                if bool(added.abs().max() <= largest):
                    break
            f = torch.cat([f, added.movedim(-1, axis + 2)], dim=axis + 2)
    return f


def _gap_weights(near: int, missing: int) -> Float[Tensor, "missing nodes"]:
    """Return the polynomial weights of a gap's points on the ``near`` nodes before and after it (barycentric form)."""
    before = torch.arange(1 - near, 1, dtype=torch.float64)
    nodes = torch.cat([before, before + near + missing])
    differences = nodes.unsqueeze(1) - nodes
    differences.fill_diagonal_(1)
    weights = 1 / (differences.prod(1) * (torch.arange(1, missing + 1).unsqueeze(1) - nodes))
    return weights / weights.sum(1, keepdim=True)


def zero_pad(f: Signals, shape: tuple[int, ...]) -> Periodic:
    """Append zeros to a signal along every axis, up to the lengths of ``shape``."""
    margins = [n - m for n, m in zip(shape, f.shape[2:], strict=True)]
    return torch.nn.functional.pad(f, [width for margin in reversed(margins) for width in (0, margin)])
