"""Plates on large lattices of points: on coarser nodes where they are calm, else in tiles that fade into each other.

Coarser nodes tell as much of a calm plate, and are fewer. What a point adds to another one decays within a few mean
distances of the points, so that a tile with ``OVERLAP`` nodes around it, which is solved exactly, hardly differs from
the whole. Where a tile has no points, it is tied to a plate on coarse nodes.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from tqdm import tqdm

from coordnet.encodings.blending import Blending
from coordnet.priors.plates.field import BLENDED_POINTS, Field, Sparse, blend_rows, plate_energy
from coordnet.priors.plates.solve import PlateSolution, solve
from coordnet.sampling.axes import Axis, ByAxes

# Nodes of a tile without its overlap along the first axis, and along the others: narrow strips, as the band of their
# factorization is as wide as a strip. Squares of 40 nodes take two and a half times the time in two dimensions.
LONG_CORE = ByAxes({2: 512, 3: 64})
CORE = ByAxes({2: 16, 3: 5})
# Nodes around it. In two dimensions 8 and 16 give the same errors to 3 % for orders 2, 3 and 6; in three, where tiles
# cost more, 3 have half as large an error again as 4.
OVERLAP = ByAxes({2: 12, 3: 5})
BRIDGE_CUTOFF = 2.0  # radians a coarse node above which the coarse plate is smoothed
LENGTH = 4  # coarse nodes without points after which a tile returns to the coarse plate
LEAST_TIE = 1e-9  # weight of that return relative to the energy's at least: rounding would hide a smaller one
BAR = 30  # tiles from which on a bar is shown

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


@dataclass(frozen=True)
class Window:
    """The nodes of a tile along one axis, and their weights in the sum of tiles, which are 1 in all."""

    first: int
    weights: Float[np.ndarray, " size"]
    periodic: bool = False

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.weights)


def windows(count: int, core: int, overlap: int, *, periodic: bool) -> list[Window]:
    """Return the windows that cover an axis; those of a circle may begin before its first node."""
    if count <= core + 2 * overlap:
        return [Window(0, np.ones(count), periodic)]
    edges = np.linspace(0, count, round(count / core) + 1).astype(int)
    covering = []
    for a, b in itertools.pairwise(edges):
        low, high = a - overlap, b + overlap
        if not periodic:
            low, high = max(low, 0), min(high, count)
        nodes, ones = np.arange(low, high) + 0.5, np.ones(high - low)
        left = fading((nodes - a) / overlap + 0.5) if periodic or a > 0 else ones
        right = fading((b - nodes) / overlap + 0.5) if periodic or b < count else ones
        covering.append(Window(int(low), left * right))
    return covering


def tiled_plate(
    field: Field,
    order: int | float,
    strength: float,
    corner: float = 0.0,
    *,
    coarse_order: int | float | None = None,
    progress: bool = False,
) -> tuple[np.ndarray, PlateSolution]:
    """Return the lattice signal f, (size, columns), of least misfit plus ``strength`` times the energy, and the solve.

    The coarse plate is of ``coarse_order`` if that is given, else of the same order.

    Raises
    ------
    SingularPlate
        If a tile or the coarse plate is singular.
    """
    used = [j for j, n in enumerate(field.lattice) if n > 1]
    lattice = tuple(field.lattice[j] for j in used)
    periodic = tuple(bool(field.periodic) and field.periodic[j] for j in used)
    field = replace(field, lattice=lattice, positions=field.positions[:, used], periodic=periodic)
    result, step = _bridge(field, coarse_order or order, 0.0 if coarse_order else corner)
    tie = least_tie(LENGTH * step, order)
    dims = len(lattice)
    cores = (LONG_CORE[dims], *(CORE[dims] for _ in lattice[1:]))
    axes = [windows(n, c, OVERLAP[dims], periodic=w) for n, c, w in zip(lattice, cores, periodic, strict=True)]
    energies: dict[tuple, Sparse] = {}
    tiles = list(itertools.product(*axes))
    strips, added, worst = _Strips(field), np.zeros_like(result), 0.0
    left = np.zeros_like(field.values) if field.drifts else None
    for tile in tqdm(tiles, "plates", disable=not progress or len(tiles) < BAR, dynamic_ncols=True):
        shape, wraps = tuple(w.size for w in tile), tuple(w.periodic for w in tile)
        if shape not in energies:
            energy = plate_energy(shape, order, field.frequency, wraps, corner)
            energies[shape] = strength * (energy + tie * sparse.eye_array(math.prod(shape)))
        rows, operator = strips.rows(tile)
        if len(rows):
            at = np.ix_(*((w.first + np.arange(w.size)) % n for w, n in zip(tile, lattice, strict=True)))
            start = result[at].reshape(math.prod(shape), -1)
            weighted = sparse.csr_array(operator.T * field.weights[rows])
            a = weighted @ operator + energies[shape]
            b = weighted @ field.values[rows] + strength * tie * start
            solution = solve(a, b, len(lattice), exactly=True)
            x, worst = solution.x, max(worst, solution.residual)
            fade = reduce(np.multiply.outer, [w.weights for w in tile])[..., None]
            added[at] += fade * (x - start).reshape(*shape, -1)
            if left is not None:
                share = operator @ fade.reshape(-1, 1)  # sums to 1 over the tiles, as blends keep constants
                left[rows] += share * (field.values[rows] - operator @ x)
    f = (result + added).reshape(math.prod(lattice), -1)
    return f, PlateSolution(f, "tiles", 0, worst, left)


def least_tie(nodes: float, order: int | float) -> float:
    """Return the weight, relative to the energy's, by which a plate returns to a coarse one after some nodes."""
    return max(nodes ** (-2.0 * order), LEAST_TIE)


def fading(t: np.ndarray) -> np.ndarray:
    """Return the smooth step from 0 to 1 between 0 and 1, which is 1 with its mirror image."""
    t = t.clip(0, 1)
    return t * t * (3 - 2 * t)


def _first(index: np.ndarray, count: int, width: int) -> np.ndarray:
    """Return the first of some nodes along an axis, (n, nodes), that of those before the seam where they wrap.

    Sparse products sort the nodes of a blend in place, so that their order does not tell.
    """
    low = index.min(1)
    wraps = index.max(1) - low >= width
    if wraps.any():
        low[wraps] = np.where(index[wraps] >= count / 2, index[wraps], count).min(1)
    return low


class _Strips:
    """The samples of a field, from which those of one tile after another are taken, strip by strip."""

    def __init__(self, field: Field) -> None:
        self.field = field
        nodes = field.operator.indices.reshape(len(field.values), -1)
        self.width = round(nodes.shape[1] ** (1 / field.dims))  # nodes of a blend along each axis
        strides = [math.prod(field.lattice[j + 1 :]) for j in range(field.dims)]
        every = zip(strides, field.lattice, strict=True)  # one axis after another, for the memory of many samples
        self.corners = [_first(nodes // stride % count, count, self.width) for stride, count in every]
        self.strip: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=int))

    def rows(self, tile: tuple[Window, ...]) -> tuple[np.ndarray, Sparse]:
        """Return the numbers of the samples that depend on a tile's nodes alone, and their operator on these."""
        if self.strip[0] != tile[0].first:
            everything = np.arange(len(self.field.values))
            self.strip = (tile[0].first, everything[self._are_inside(0, tile[0], everything)])
        rows = self.strip[1]
        for j, window in enumerate(tile[1:], 1):
            rows = rows[self._are_inside(j, window, rows)]
        part = self.field.operator[rows]
        index = np.unravel_index(part.indices, self.field.lattice)
        own = [self._relative(j, w, i) for j, (w, i) in enumerate(zip(tile, index, strict=True))]
        columns = np.ravel_multi_index(own, [w.size for w in tile])
        size = math.prod(w.size for w in tile)
        return rows, sparse.csr_array((part.data, columns, part.indptr), shape=(len(rows), size))

    def _are_inside(self, j: int, window: Window, rows: np.ndarray) -> np.ndarray:
        first = self._relative(j, window, self.corners[j][rows])
        return (first >= 0) & (first <= window.size - (0 if window.periodic else self.width))

    def _relative(self, j: int, window: Window, nodes: np.ndarray) -> np.ndarray:
        relative = nodes - window.first
        return relative % self.field.lattice[j] if self.field.periodic[j] else relative


def _bridge(
    field: Field, order: int | float, corner: float = 0.0
) -> tuple[Float[np.ndarray, "*lattice columns"], float]:
    """Return a smoothed plate on coarse nodes, interpolated at the field's nodes, and the coarse nodes' distance."""
    step = bridging_step(field)
    normal, right, parts = 0.0, np.zeros(1), math.ceil(len(field.values) / BLENDED_POINTS)
    for rows in np.array_split(np.arange(len(field.values)), parts):
        coarse = coarsened(field.select(rows), step)
        weighted = sparse.csr_array(coarse.operator.T * coarse.weights)
        normal, right = normal + weighted @ coarse.operator, right + weighted @ coarse.values
    normal = normal + BRIDGE_CUTOFF ** (-2 * order) * coarse.energy(order, step * corner)
    nodes = solve(normal, right, coarse.dims, exactly=True).x
    return refined(field, coarse, nodes).reshape(*field.lattice, -1), step
