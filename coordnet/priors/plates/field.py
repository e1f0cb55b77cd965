"""Fields: the samples of a smooth signal, the lattice that they are tied to, and the energy of a plate on it."""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from coordnet.encodings.blending import Blending
from coordnet.sampling.forward import Outside
from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.node_spacing import NODES
from coordnet.sampling.samples import Blend, Geometry, Samples
from coordnet.sampling.scattered import ScatteredPoints
from coordnet.sampling.sphere import vectors

SMALL_NODES = 80**2  # nodes of a plane or a volume up to which a plate is solved in little time
BLENDED_POINTS = 2**16  # points of which the blends of nodes are found at a time: some hundred megabytes in space
# Points up to which their blend is of degree seven; a million would take a third of a gigabyte more. At 3,000 points of
# eight functions errors are 0.36 to 1.11 times those of degree five, 0.85 times in the mean of their logarithms.
SEPTIC_POINTS = 2**14
LEAST_LEFT = 1e-13  # mean square of what a plate leaves of a drift of variance 1 below which it is rounding

Sparse = Any  # a sparse array of SciPy, the operators of which its stubs do not describe


def plate_energy(
    lattice: tuple[int, ...],
    order: int | float,
    frequency: float = math.pi,
    periodic: tuple[bool, ...] = (),
    corner: float = 0.0,
    anisotropy: tuple[float, ...] = (),
) -> Sparse:
    """Return K = Σ p!/α! a^α (D^α)ᵀ D^α over |α| = p, with D^α = D₁^α₁ ⊗ … ⊗ D_d^α_d and first differences D_j.

    The ``anisotropy`` has the weights a_j of the squared frequencies along each axis, a^α = a₁^α₁ … a_d^α_d; all are 1
    if it is empty. The differences are those of the open lattice: each stays within it, so that polynomials of degree
    below p have no energy; those of a periodic axis go around it. K is (size, size) in float64, with the first axis of
    the lattice slowest. Below |ω|² is Σ a_j ω_j².

    The energy of order p + 1/2 is |ω|^(2p+1) in frequencies, which no differences have. In its place is its tangent,
    (ω₀ |ω|^2p + |ω|^(2p+2) / ω₀) / 2, at a ``frequency`` ω₀ in radians a node; it is nowhere below.

    With a ``corner`` κ in radians a node the energy of a whole order is Σ p!/q!(p-q)! κ^(2p-2q) K_q over q ≤ p, which
    is (κ² + |ω|²)^p in frequencies: its inverse is the covariance of Whittle and Matérn, of smoothness p - d/2.
    Lindgren, Rue and Lindström, "An explicit link between Gaussian fields and Gaussian Markov random fields" (2011).
    """
    if order % 1:
        lower = int(order)
        below, above = (plate_energy(lattice, p, periodic=periodic, anisotropy=anisotropy) for p in (lower, lower + 1))
        return sparse.csr_array(0.5 * (frequency * below + above / frequency))
    size, order, periodic = math.prod(lattice), int(order), periodic or (False,) * len(lattice)
    described = zip(lattice, periodic, anisotropy or (1.0,) * len(lattice), strict=True)
    axes = [[weight**a * _axis_energy(n, a, wraps) for a in range(order + 1)] for n, wraps, weight in described]
    total: Sparse = sparse.csr_array((size, size))
    for alpha in itertools.product(range(order + 1), repeat=len(lattice) - 1):
        if (left := order - sum(alpha)) >= 0:
            powers = range(0 if corner else left, left + 1)  # powers of the last axis, for the α of the others
            weights = [_multinomial(order, *alpha, a) * corner ** (2 * (left - a)) for a in powers]
            last = sum(weight * axes[-1][a] for weight, a in zip(weights, powers, strict=True))
            parts = [*(energies[a] for energies, a in zip(axes, alpha, strict=False)), last]
            total = total + reduce(lambda a, b: sparse.kron(a, b, "csr"), parts)
    return sparse.csr_array(total)


def _multinomial(order: int, *alpha: int) -> float:
    """Return p!/α!(p - |α|)!."""
    return math.factorial(order) / math.prod(map(math.factorial, (*alpha, order - sum(alpha))))


def polynomials(order: int | float, dims: int) -> int:
    """Return the number of monomials of a degree below the order, rounded down, which have no energy."""
    return math.comb(int(order) - 1 + dims, dims)


def _axis_energy(count: int, power: int, periodic: bool) -> Sparse:
    """Return (D^a)ᵀ D^a on an axis; zero where it is too short for the difference."""
    if power >= count:
        return sparse.csr_array((count, count))
    rows = count if periodic else count - power
    columns = (np.arange(rows)[:, None] + np.arange(power + 1)) % count
    binomial = np.tile([(-1.0) ** (power - k) * math.comb(power, k) for k in range(power + 1)], rows)
    starts = np.arange(0, rows * (power + 1) + 1, power + 1)
    difference: Sparse = sparse.csr_array((binomial, columns.ravel(), starts), shape=(rows, count))
    return sparse.csr_array(difference.T @ difference)


@dataclass(frozen=True)
class Field:
    """Values y = S f + noise of a lattice signal f at n samples, all in float64.

    Attributes
    ----------
    lattice : tuple of int
        The lengths of the lattice.
    positions : (n, d)
        The samples' places, in spacings of the lattice; on a sphere those in space, (n, 3), around its middle.
    operator : (n, size)
        The sparse matrix S.
    values : (n, columns)
        The columns are channels, those of every signal of a batch.
    weights : (n,)
        The weights of the squared errors.
    on_nodes : bool
        Whether every sample is a node of the lattice.
    periodic : tuple of bool
        Whether the lattice wraps around along each axis; none does if it is empty.
    laid : bool
        Whether the nodes were laid for the samples (``Points``), so that they are denser than these and reach beyond.
    latitude : int, optional
        The axis of latitudes of nodes on a sphere; None elsewhere.
    margin : float
        The nodes at the lattice's borders near which no sample is hidden, as what is around a part is not seen by it.
    drifts : int
        The number of the last columns that are those of a drift, on which the values depend linearly.
    anisotropy : tuple of float
        The weights of the squared frequencies along each axis in the energy; all are 1 if it is empty.
    step : float
        The distance of the nodes relative to that of those that were laid for the samples.
    """

    lattice: tuple[int, ...]
    positions: np.ndarray
    operator: Sparse
    values: np.ndarray
    weights: np.ndarray
    on_nodes: bool
    periodic: tuple[bool, ...] = ()
    laid: bool = False
    latitude: int | None = None
    margin: float = 0.0
    drifts: int = 0
    anisotropy: tuple[float, ...] = ()
    step: float = 1.0

    @classmethod
    def of(cls, geometry: Geometry, values: Float[Tensor, "columns *samples"], channel: int = 0) -> "Field":
        """Return the samples of a geometry on its signal's own grid, with the weights of one channel."""
        columns = values.detach().cpu().double().flatten(1).T.numpy()
        drifts = 0 if geometry.drift is None else len(geometry.drift.names)
        if geometry.drift is not None:
            columns = np.hstack([columns, geometry.drift.standardized])
        weight = geometry.full_weights[..., channel].cpu().double().flatten().numpy()
        blending = Blending.of(geometry.blended("quintic"))
        if blending is None:
            index = geometry.nodes.numpy()
            positions = np.stack(np.unravel_index(index, geometry.grid), -1).astype(float)
            operator = sparse_rows(index[:, None], np.ones((len(weight), 1)), math.prod(geometry.grid))
        else:
            points = geometry.positions()
            operator = blend_rows(blending, points, geometry.outside)
            positions = points.numpy() * np.array(geometry.grid)
            if geometry.latitude is not None:
                positions = _in_space(positions, geometry.grid[0], geometry.latitude)
        periodic = tuple(axis.periodic for axis in geometry.axes)
        kind = {"on_nodes": blending is None, "laid": geometry.is_laid, "latitude": geometry.latitude}
        field = cls(geometry.grid, positions, operator, columns, weight, periodic=periodic, drifts=drifts, **kind)
        return field if (weight > 0).all() else field.select(weight > 0)  # a million samples have half a gigabyte

    @property
    def count(self) -> int:
        """The number of columns without those of a drift."""
        return self.values.shape[1] - self.drifts

    def left_by(self, f: Float[np.ndarray, "size columns"]) -> Float[np.ndarray, "n columns"]:
        """Return what a lattice signal leaves of the values."""
        return self.values - self.operator @ f

    def without_drift(
        self, columns: Float[np.ndarray, "rows columns"], coefficients: Float[np.ndarray, "drifts values"]
    ) -> Float[np.ndarray, "rows values"]:
        """Return the columns of the values less those of the drift times its coefficients."""
        return columns[:, : self.count] - columns[:, self.count :] @ coefficients

    def drift_coefficients(
        self, f: Float[np.ndarray, "size columns"], left: Float[np.ndarray, "n columns"] | None = None
    ) -> Float[np.ndarray, "drifts values"]:
        """Return β = (DᵀW(D - SD))⁻¹ DᵀW(y - Sy) for the plates f = (Sy, SD) and what they ``left`` at the samples.

        It is the β of least misfit and energy together. A drift of which a plate leaves nothing, such as a polynomial
        in the coordinates, has none. Wahba (1990), section 9.1; it is the generalized least squares of universal
        kriging.
        """
        if not self.drifts:
            return np.zeros((0, self.count))
        left = self.left_by(f) if left is None else left
        weighted = (self.values[:, self.count :] * self.weights[:, None]).T
        gram, right = weighted @ left[:, self.count :], weighted @ left[:, : self.count]
        sizes, axes = np.linalg.eigh((gram + gram.T) / 2)
        kept = sizes > LEAST_LEFT * len(left)
        return axes[:, kept] @ (axes[:, kept].T @ right / sizes[kept, None])

    @property
    def dims(self) -> int:
        """The number of axes of more than one node, at least 1."""
        return dimensions(self.lattice)

    def energy(self, order: int | float, corner: float = 0.0) -> Sparse:
        """Return the energy of plates on the lattice; see ``plate_energy``."""
        return plate_energy(self.lattice, order, self.frequency, self.periodic, corner, self.anisotropy)

    @property
    def frequency(self) -> float:
        """The Nyquist frequency of the samples in radians a node: that of their mean distance where nodes were laid."""
        if self.laid:
            return self.step * math.pi / NODES[self.dims]
        return stretch(self.anisotropy) * nyquist(len(self.values) / math.prod(self.lattice), self.dims)

    @property
    def is_small(self) -> bool:
        """Whether a plate of points on nodes that were laid for them is solved in little time, as of any row."""
        return self.laid and (self.dims == 1 or math.prod(self.lattice) <= SMALL_NODES)

    @cached_property
    def normal(self) -> tuple[Sparse, Float[np.ndarray, "size columns"]]:
        """The matrix SᵀWS and the columns SᵀWy of the normal equations, which hold for every energy."""
        weighted = sparse.csr_array(self.operator.T * self.weights)
        return weighted @ self.operator, weighted @ self.values

    @property
    def nodes(self) -> np.ndarray:
        """The flat indices of the samples, where they are nodes."""
        return self.operator.indices

    @property
    def inner(self) -> np.ndarray:
        """Whether each sample is within the margin."""
        if self.margin == 0:
            return np.ones(len(self.positions), dtype=bool)
        ends = np.array(self.lattice) - 1 - self.margin
        return np.all((self.positions >= self.margin) & (self.positions <= ends), axis=1)

    def select(self, rows: np.ndarray) -> "Field":
        """Return some of the samples, by a mask or by their numbers."""
        parts = {name: getattr(self, name)[rows] for name in ("positions", "operator", "values", "weights")}
        return replace(self, **parts)

    def part(self, slices: tuple[slice, ...]) -> "Field":
        """Return a part of the lattice, with the samples that depend on it alone."""
        lattice = tuple(s.stop - s.start for s in slices)
        inside = np.zeros(self.lattice, dtype=bool)
        inside[slices] = True
        beyond = (self.operator.data != 0) & ~inside.ravel()[self.operator.indices]
        rows = ~np.logical_or.reduceat(beyond, self.operator.indptr[:-1])
        kept, first = self.select(rows), np.array([s.start for s in slices])
        operator = sparse.csr_array(kept.operator[:, np.flatnonzero(inside)])
        whole = zip(self.periodic, lattice, self.lattice, strict=False)
        periodic = tuple(wraps and m == n for wraps, m, n in whole)
        positions = kept.positions - first
        return replace(kept, lattice=lattice, positions=positions, operator=operator, periodic=periodic)

    def samples(self) -> Samples:
        """Return the samples on their lattice, or as scattered points, in float64."""
        values = torch.from_numpy(self.values)
        if not self.on_nodes:
            points = torch.from_numpy(self.positions / np.array(self.lattice))
            weights = torch.from_numpy(self.weights)[:, None]
            geometry = ScatteredPoints(self.lattice, points, weights, outside="clamp", periodic=self.periodic)
            return Samples(geometry, values)
        weights = torch.zeros(math.prod(self.lattice), 1, dtype=torch.float64)
        weights[self.nodes, 0] = torch.from_numpy(self.weights)
        whole = torch.zeros(len(weights), values.shape[1], dtype=torch.float64)
        whole[self.nodes] = values
        geometry = MaskedLattice(self.lattice, weights=weights.reshape(*self.lattice, 1))
        return Samples(geometry, whole.reshape(*self.lattice, -1))


def plate_blend(geometry: Geometry) -> Blend:
    """Return how points depend on the nodes of plates: by polynomials of degree seven where it pays, or five.

    The error of a blend of degree five is h⁶ times a sixth derivative, for nodes h apart. Of 3,000 points of a smooth
    function it is more than what the points leave open.
    """
    is_picture = geometry.is_laid and dimensions(geometry.grid) == 2 and geometry.latitude is None
    return "septic" if is_picture and geometry.shape[0] <= SEPTIC_POINTS else "quintic"


def _in_space(nodes: Float[np.ndarray, "n 2"], around: int, latitude: int) -> Float[np.ndarray, "n 3"]:
    """Return places in space, for places in spacings of the 2m by 2m nodes on a sphere, in the same spacings."""
    step = 360 / around
    return vectors(step * nodes[:, 1 - latitude], step * (nodes[:, latitude] + 0.5) - 90) / np.radians(step)


def dimensions(lattice: tuple[int, ...]) -> int:
    """Return the number of axes of more than one node, at least 1: a picture of one column is a row."""
    return max(1, sum(n > 1 for n in lattice))


def nyquist(density: float, dims: int) -> float:
    """Return the Nyquist frequency, in radians a node, of samples at equal distances with a density, at most π."""
    return math.pi * min(1.0, density) ** (1 / dims)


def stretch(anisotropy: tuple[float, ...]) -> float:
    """Return the geometric mean of the factors √a_j by which an anisotropy scales the frequencies along each axis."""
    return math.prod(anisotropy) ** (0.5 / max(len(anisotropy), 1))


def sparse_rows(index: np.ndarray, weights: np.ndarray, columns: int) -> Sparse:
    """Return the matrix with m weights in each row."""
    n, m = index.shape
    starts = np.arange(0, n * m + 1, m, dtype=np.int32 if n * m < 2**31 else np.int64)
    return sparse.csr_array((weights.ravel(), index.ravel(), starts), shape=(n, columns))


def blend_rows(blending: Blending, points: Float[Tensor, "n d"], outside: Outside = "clamp") -> Sparse:
    """Return the blend of the nodes at points, in units of the unit interval, as a matrix with a row for each point.

    Points are taken in parts, because a million of them would need gigabytes of intermediate results.
    """
    each = blending.interpolation(points[:1], [], torch.float64, outside).index.shape[1]
    index, weights = np.empty((len(points), each), dtype=np.int32), np.empty((len(points), each))
    for first in range(0, len(points), BLENDED_POINTS):
        part = slice(first, first + BLENDED_POINTS)
        blend = blending.interpolation(points[part], [], torch.float64, outside)
        index[part], weights[part] = blend.index.numpy(), blend.weights.numpy()
    return sparse_rows(index, weights, math.prod(axis.count for axis in blending.lattice))
