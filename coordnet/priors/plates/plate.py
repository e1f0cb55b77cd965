"""The plate through the samples of a field, or near them, and its adjoint by which gradients flow to the samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from scipy.interpolate import BSpline, make_interp_spline
from scipy.sparse.linalg import splu
from scipy.spatial import ConvexHull, Delaunay, KDTree, QhullError
from torch import Tensor

from coordnet.priors.plates.field import Field, Sparse, polynomials
from coordnet.priors.plates.maps import sphere_plate
from coordnet.priors.plates.solve import ACCEPTED, FACTORIZED_NODES, PlateSolution, SingularPlate, solve
from coordnet.priors.plates.tiles import COARSENED, coarse_cutoff, coarsened, onto_coarse, refined, tiled_plate
from coordnet.sampling.extrapolation import FAR, beyond
from coordnet.sampling.node_spacing import NODES
from coordnet.sampling.sphere import spread

INTERPOLATED = 1e-8  # weight of the energy where samples between nodes are interpolated: their misfit is as small
SWING = 3.0  # ranges of the values by which a plate may leave them between the outermost points
JUDGED_NODES = 2**14  # nodes by which the share of a fit of points that is extrapolated is measured


def plate(
    field: Field,
    order: int | float,
    cutoff: float,
    corner: float = 0.0,
    *,
    energy: Sparse | None = None,
    progress: bool = False,
) -> tuple[np.ndarray, PlateSolution]:
    """Return the lattice signal f, (size, columns), of least energy fᵀK f through the samples, and the solve.

    Samples at nodes of a line give the ``natural_spline``. Those of other lattices are held fixed, and
    K_uu x = -K_uk y is solved for the unknown nodes. With a finite cut-off ω, and
    with samples between the nodes, (SᵀWS + λK) f = SᵀW y is solved for all nodes with λ = ω^(-2p). The ``energy`` K is
    computed if it is not given. Large lattices of points are solved in tiles, on coarser nodes where plates are calm;
    so are calm plates on small lattices where they are singular to rounding, as those of high orders are.
    With ``progress`` a bar is shown where there are many tiles.

    Raises
    ------
    SingularPlate
        If the samples do not determine the plate.
    """
    count, dims = len(field.values), field.dims
    if not corner and count < polynomials(order, dims):
        raise SingularPlate(f"{count} samples for the {polynomials(order, dims)} polynomials without energy")
    if is_spline(field, order, cutoff, corner):
        return natural_spline(field, int(order))
    strength = energy_weight(order, cutoff)
    if field.latitude is not None:
        return sphere_plate(field, order, strength, corner)
    if field.laid and dims in (2, 3) and math.prod(field.lattice) > FACTORIZED_NODES[dims]:
        if can_coarsen(field, cutoff):
            return _calm_plate(field, order, cutoff, corner, progress=progress)
        return tiled_plate(field, order, strength, corner, progress=progress)
    k = field.energy(order, corner) if energy is None else energy
    if field.on_nodes and cutoff == math.inf:
        f = np.zeros((k.shape[0], field.values.shape[1]))
        f[field.nodes] = field.values
        unknown = np.ones(len(f), dtype=bool)
        unknown[field.nodes] = False
        nodes = lengthwise(field.lattice)
        free = nodes[unknown[nodes]]
        rows = k[free]
        solution = solve(rows[:, free], -(rows @ f), dims)
        f[free] = solution.x
        return f, solution
    (normal, b), nodes = field.normal, lengthwise(field.lattice)
    a = normal + strength * k
    try:
        solution = solve(a[nodes][:, nodes] if field.lattice[0] < max(field.lattice) else a, b[nodes], dims)
    except SingularPlate:
        if not can_coarsen(field, cutoff):
            raise
        return _calm_plate(field, order, cutoff, corner, progress=progress)
    f = np.empty_like(solution.x)
    f[nodes] = solution.x
    return f, solution


def lengthwise(lattice: Sequence[int]) -> np.ndarray:
    """Return the flat indices of the nodes with the longest axis first, by which the bands of matrices are narrow."""
    return np.moveaxis(np.arange(math.prod(lattice)).reshape(lattice), int(np.argmax(lattice)), 0).ravel()


def can_coarsen(field: Field, cutoff: float) -> bool:
    """Return whether a plate of points is so calm that it may be solved on coarser nodes than the field's own."""
    return field.laid and field.dims in (2, 3) and field.step == 1 and cutoff < COARSENED


def coarsest(field: Field, order: int | float, cutoff: float, corner: float) -> tuple[Field, float, float]:
    """Return a field on as many nodes as a calm plate needs, and the cut-off and the corner of the plate there."""
    step = COARSENED / cutoff
    return coarsened(field, step), coarse_cutoff(order, cutoff, step, field.dims), step * corner


def _calm_plate(
    field: Field, order: int | float, cutoff: float, corner: float, *, progress: bool
) -> tuple[np.ndarray, PlateSolution]:
    """Return a plate of a low cut-off on a large lattice of points, solved on as many nodes as that needs.

    A point changes such a plate far around it, beyond the overlap of tiles on finer nodes.
    """
    coarse, cutoff, corner = coarsest(field, order, cutoff, corner)
    if math.prod(coarse.lattice) > FACTORIZED_NODES[field.dims]:
        f, solution = tiled_plate(coarse, order, energy_weight(order, cutoff), corner, progress=progress)
    else:
        f, solution = plate(coarse, order, cutoff, corner)
    left = coarse.left_by(f) if solution.left is None else solution.left
    return refined(field, coarse, f), replace(solution, left=left)


def energy_weight(order: int | float, cutoff: float) -> float:
    """Return the weight λ = ω^(-2p) of the energy, or that where samples between nodes are interpolated."""
    return INTERPOLATED if cutoff == math.inf else cutoff ** (-2 * order)


def is_spline(field: Field, order: int | float, cutoff: float, corner: float) -> bool:
    """Return whether a plate is a natural spline: on a line, through samples at nodes, of a whole order, no corner."""
    return not corner and field.dims == 1 and field.on_nodes and cutoff == math.inf and order % 1 == 0


def natural_spline(field: Field, order: int) -> tuple[np.ndarray, PlateSolution]:
    """Return the plate of a line through samples at nodes: the natural spline of degree 2 ``order`` - 1, by SciPy.

    It has the least integral of the squared derivative of the order (Wahba 1990, section 1.3), which the energy of
    differences approximates. Beyond the samples it is a polynomial of degree ``order`` - 1.

    Raises
    ------
    SingularPlate
        If rounding keeps the spline from the samples.
    """
    if len(field.values) == 1:
        return (f := np.repeat(field.values, math.prod(field.lattice), 0)), PlateSolution(f, "natural spline", 0, 0.0)
    spline, at = spline_through(field, order)
    x = field.nodes[at].astype(np.float64)
    nodes = np.arange(math.prod(field.lattice), dtype=np.float64)
    f, inside = np.empty((len(nodes), field.values.shape[1])), np.clip(nodes, x[0], x[-1])
    f[:] = spline(inside)
    for degree in range(1, order):
        f += spline(inside, degree) * ((nodes - inside) ** degree / math.factorial(degree))[:, None]
    residual = float(np.abs(f[field.nodes] - field.values).max() / max(np.abs(field.values).max(), 1e-300))
    if not (np.isfinite(f).all() and residual <= ACCEPTED):
        raise SingularPlate(f"relative residual {residual:.1g}")
    f[field.nodes] = field.values
    return f, PlateSolution(f, "natural spline", 0, residual)


def spline_through(field: Field, order: int) -> tuple[BSpline, np.ndarray]:
    """Return the natural spline of degree 2 ``order`` - 1 through samples at nodes of a line, and their ranks."""
    at = np.argsort(field.nodes)
    x, y = field.nodes[at].astype(np.float64), field.values[at]
    ends = [(derivative, np.zeros(y.shape[1])) for derivative in range(order, 2 * order - 1)] or None
    return make_interp_spline(x, y, k=2 * order - 1, bc_type=(ends, ends)), at


def swings(field: Field, f: np.ndarray) -> bool:
    """Return whether a plate on nodes that were laid for points leaves their values by ``SWING`` of their ranges.

    The nodes between the outermost points count. High orders leave them so between clusters far from each other, of
    which no hidden point tells. Parts of a sphere are tied to a calm spline as they are.
    """
    if not field.laid or field.latitude is not None or field.dims not in (2, 3):
        return False
    ends = zip(field.positions.min(0), field.positions.max(0), field.periodic, strict=True)
    inside = [slice(None) if wraps else slice(math.floor(a), math.ceil(b) + 1) for a, b, wraps in ends]
    nodes = f.reshape(*field.lattice, -1)[tuple(inside)]
    low, high = field.values.min(0), field.values.max(0)
    return bool(((nodes < low - SWING * (high - low)) | (nodes > high + SWING * (high - low))).any())


def share_beyond(field: Field) -> float:
    """Return the share of the lattice's nodes that are outside the convex hull of the samples.

    Where nodes were laid for points, only nodes between the outermost points count, and those far from any point are
    beyond them too; a part of the nodes stands for all of them.
    """
    if field.latitude is not None:
        radius = float(np.linalg.norm(field.positions[0]))
        return float((KDTree(field.positions).query(radius * spread(JUDGED_NODES))[0] > FAR * NODES[2]).mean())
    if field.laid:
        return _share_extrapolated(field)
    nodes = np.stack(np.meshgrid(*map(np.arange, field.lattice), indexing="ij"), -1).reshape(-1, len(field.lattice))
    if len(field.lattice) == 1:
        low, high = field.positions.min(), field.positions.max()
        return float(((nodes < low) | (nodes > high)).mean())
    try:
        hull = field.positions[ConvexHull(field.positions).vertices]
        return float((Delaunay(hull).find_simplex(nodes, tol=1e-9) < 0).mean())
    except QhullError:  # the samples are in a plane
        return 1.0


def _share_extrapolated(field: Field) -> float:
    low, high = field.positions.min(0), field.positions.max(0)
    each = max(2, round(JUDGED_NODES ** (1 / field.dims)))
    axes, periods = [], []
    for a, b, n, wraps in zip(low, high, field.lattice, field.periodic, strict=True):
        axes.append(np.linspace(0, n - 1, min(n, each)) if wraps else np.linspace(a, b, each if b > a else 1))
        periods.append(float(n) if wraps else None)
    return float(beyond(field.positions, axes, periods, NODES[field.dims]).mean())


class FollowedPlate(torch.autograd.Function):
    """A plate that was found for values, (columns, *samples), with a function that returns its adjoint's product."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, plate: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the plate."""
        ctx.adjoint = adjoint
        return plate.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return the adjoint's product with the gradient."""
        return ctx.adjoint(gradients[0]), None, None


def adjoint(
    field: Field, order: int | float, cutoff: float, corner: float, g: Float[np.ndarray, "size columns"]
) -> np.ndarray:
    """Return Tᵀ g, (n, columns), for the linear map T of the samples' values to ``plate``'s lattice signal.

    The systems are symmetric, so that it takes one more solve of the same system.
    """
    if is_spline(field, order, cutoff, corner):
        return _spline_adjoint(field, int(order), g)
    k = field.energy(order, corner)
    if field.on_nodes and cutoff == math.inf:
        unknown = np.ones(len(g), dtype=bool)
        unknown[field.nodes] = False
        rows = k[np.flatnonzero(unknown)]
        x = solve(rows[:, np.flatnonzero(unknown)], g[unknown], field.dims).x
        return g[field.nodes] - (rows.T @ x)[field.nodes]
    weighted = sparse.csr_array(field.operator.T * field.weights)
    strength = energy_weight(order, cutoff)
    try:
        return weighted.T @ solve(weighted @ field.operator + strength * k, g, field.dims).x
    except SingularPlate:
        if not can_coarsen(field, cutoff):
            raise
    coarse, cutoff, corner = coarsest(field, order, cutoff, corner)
    return adjoint(coarse, order, cutoff, corner, onto_coarse(field, coarse, g))


def _spline_adjoint(field: Field, order: int, g: np.ndarray) -> np.ndarray:
    """Return that of the natural spline, whose coefficients c solve A c = (0, y, 0): at the nodes it is E c."""
    spline, at = spline_through(field, order)
    t, degree, x = spline.t, spline.k, field.nodes[at].astype(np.float64)
    nodes = np.arange(math.prod(field.lattice), dtype=np.float64)
    inside = np.clip(nodes, x[0], x[-1])
    onto = BSpline.design_matrix(inside, t, degree).tocsr()
    left, right = ([_derivative(spline, end, p) for p in range(1, 2 * order - 1)] for end in (x[0], x[-1]))
    for derivatives, outside in ((left, np.minimum(nodes - x[0], 0)), (right, np.maximum(nodes - x[-1], 0))):
        for p in range(1, order):
            onto = onto + sparse.csr_array((outside**p / math.factorial(p))[:, None]) @ derivatives[p - 1]
    values = BSpline.design_matrix(x, t, degree)
    system = sparse.vstack([*left[order - 1 :], values, *right[order - 1 :]]).tocsc()
    at_knots = splu(sparse.csc_array(system.T)).solve(np.asarray(onto.T @ g))[order - 1 : order - 1 + len(x)]
    result = np.empty_like(at_knots)
    result[at] = at_knots
    return result


def _derivative(spline: BSpline, end: float, power: int) -> Any:
    """Return the derivatives of all basis functions at an end of a spline, of which the outermost are not zero."""
    count, degree = len(spline.t) - spline.k - 1, spline.k
    columns = np.arange(degree + 1) + (0 if end == spline.t[0] else count - degree - 1)
    some = np.zeros((count, degree + 1))
    some[columns, np.arange(degree + 1)] = 1.0
    row = BSpline(spline.t, some, degree)(end, power)
    return sparse.csr_array((row, (np.zeros(degree + 1, dtype=int), columns)), shape=(1, count))
