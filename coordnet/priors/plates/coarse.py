"""Fields on coarser nodes: of a calm plate they tell as much, and are fewer."""

import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from coordnet.encodings.blending import Blending
from coordnet.priors.plates.field import Field, Sparse, blend_rows
from coordnet.sampling.axes import Axis, ByAxes

# Cut-off in radians a node to which nodes are coarsened: eight nodes for the shortest wave that is left.
COARSENED = 0.8
FEWEST_COARSE = 8  # nodes of the coarse lattice along an axis at least, for quintic interpolation
COARSE_NODES = ByAxes({2: 64**2, 3: 12**3})  # nodes of the lattice that bridges regions without points at most


def coarsened(field: Field, step: float) -> Field:
    """Return the samples on nodes that are ``step`` times as far apart, nearly so along a periodic axis."""
    counts = tuple(
        n if n == 1 else max(FEWEST_COARSE, round(n / step) if wraps else math.ceil((n - 1) / step) + 1)
        for n, wraps in zip(field.lattice, field.periodic, strict=True)
    )
    positions = field.positions / _steps(field, counts, step)
    operator = interpolation(_axes(counts, field.periodic), positions)
    return replace(field, lattice=counts, positions=positions, operator=operator, step=step * field.step)


def refined(
    field: Field, coarse: Field, f: Float[np.ndarray, "coarse_size columns"]
) -> Float[np.ndarray, "size columns"]:
    """Return the quintic interpolation of a lattice signal on coarse nodes at the nodes of a field."""
    return _along_axes([along.toarray() for along in _refinements(field, coarse)], coarse.lattice, f)


def onto_coarse(
    field: Field, coarse: Field, g: Float[np.ndarray, "size columns"]
) -> Float[np.ndarray, "coarse_size columns"]:
    """Return the adjoint of ``refined`` at a lattice signal on the nodes of a field."""
    return _along_axes([along.toarray().T for along in _refinements(field, coarse)], field.lattice, g)


def bridging_step(field: Field) -> float:
    """Return the step to the finest nodes that are at most ``COARSE_NODES``."""
    most = COARSE_NODES[field.dims]
    step = max(1.0, (math.prod(field.lattice) / most) ** (1 / field.dims))
    while math.prod(max(FEWEST_COARSE, math.ceil((n - 1) / step) + 1) for n in field.lattice if n > 1) > most:
        step *= 1.05
    return step


def coarse_cutoff(order: int | float, cutoff: float, step: float, dims: int) -> float:
    """Return the cut-off ω' in radians a coarse node of the same energy, ω'^(-2p) = s^(d - 2p) ω^(-2p)."""
    return cutoff * step ** (1 - dims / (2 * order))


def interpolation(axes: tuple[Axis, ...], nodes: Float[np.ndarray, "n d"]) -> Sparse:
    """Return the quintic interpolation at positions in nodes, as a sparse matrix."""
    unit = torch.from_numpy(nodes / [axis.count for axis in axes])
    return blend_rows(Blending("quintic", axes), unit)


def _steps(field: Field, counts: tuple[int, ...], step: float) -> list[float]:
    """Return the step along each axis: that which closes a periodic one."""
    return [n / m if wraps else step for n, m, wraps in zip(field.lattice, counts, field.periodic, strict=True)]


def _axes(counts: tuple[int, ...], periodic: tuple[bool, ...]) -> tuple[Axis, ...]:
    return tuple(Axis(n, periodic=wraps) for n, wraps in zip(counts, periodic, strict=True))


def _refinements(field: Field, coarse: Field) -> list[Sparse]:
    """Return the quintic interpolation along each axis, from coarse nodes to those of a field."""
    steps = _steps(field, coarse.lattice, coarse.step / field.step)
    axes = _axes(coarse.lattice, field.periodic)
    nodes = (np.arange(n)[:, None] / step for n, step in zip(field.lattice, steps, strict=True))
    return [interpolation((axis,), x) for axis, x in zip(axes, nodes, strict=True)]


def _along_axes(
    matrices: list[np.ndarray], lattice: tuple[int, ...], f: Float[np.ndarray, "size columns"]
) -> Float[np.ndarray, "others columns"]:
    """Return the product of a lattice signal with one matrix along each axis."""
    nodes = f.reshape(*lattice, -1)
    for j, matrix in enumerate(matrices):
        nodes = np.moveaxis(np.tensordot(matrix, nodes, (1, j)), 0, j)
    return nodes.reshape(-1, f.shape[1])
