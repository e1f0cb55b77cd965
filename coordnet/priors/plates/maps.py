"""Plates on the sphere: flat ones on maps of its parts, each solved exactly, that fade into each other.

A map keeps areas, so that nodes are as near to each other at the poles as elsewhere, and energies are those of the
sphere but for what the map distorts. Far from any point a part is tied to a coarse spline of the whole sphere.
"""

import math

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.interpolate import RBFInterpolator

from coordnet.priors.plates.field import Field, plate_energy
from coordnet.priors.plates.solve import PlateSolution, solve
from coordnet.priors.plates.tiles import LENGTH, OVERLAP, fading, interpolation, least_tie
from coordnet.sampling.axes import Axis
from coordnet.sampling.scattered import MARGIN
from coordnet.sampling.sphere import EqualAreaMap, over_poles, spread, vectors

PART_NODES = 48  # nodes between the centers of neighboring parts at most
WIDEST = math.radians(60)  # distance of these centers at most
FADED_AT = 0.8  # distance from a center at which its part has faded, relative to that of neighboring centers
MAP_RADIUS = math.radians(90)  # distance from a center at which a map ends: it is distorted by 1.4 there
OUTERMOST = 1.7  # radius on a map within which its corners have points, where distances are distorted by 1.9
COARSE_CELLS = 300  # cells on the whole sphere in which means of values are taken for the coarse spline


def sphere_plate(field: Field, order: int | float, strength: float, corner: float) -> tuple[np.ndarray, PlateSolution]:
    """Return the lattice signal f, (size, columns), of plates on maps of the sphere's parts, and the solve.

    Raises
    ------
    SingularPlate
        If a part is singular.
    """
    rows = min(field.lattice) // 2
    h = math.pi / rows
    apart = min(PART_NODES * h, WIDEST)
    centers = spread(math.ceil(4 * math.pi / apart**2))
    coarse, step = _coarse(field, h)
    nodes = _nodes(rows)
    total, weight, worst = np.zeros((*nodes.shape[:-1], field.values.shape[1])), np.zeros(nodes.shape[:-1]), 0.0
    left, shares = np.zeros_like(field.values), np.zeros((len(field.values), 1))
    tie, energy = least_tie(LENGTH * step, order), None
    for center in centers:
        angle = np.arccos(np.clip(nodes @ center, -1, 1))
        near = angle < FADED_AT * apart
        part, rows = flat_part(field, center, min(FADED_AT * apart + OVERLAP[2] * h, MAP_RADIUS))
        onto = EqualAreaMap(center)
        at = onto.onto_plane(nodes[near]) / h + (part.lattice[0] - 1) / 2
        if energy is None:
            own = plate_energy(part.lattice, order, field.frequency, corner=corner)
            energy = strength * (own + tie * sparse.eye_array(own.shape[0]))
        start = coarse(onto.from_plane(_plane(part.lattice, h)))
        if len(part.values):
            normal, right = part.normal
            solution = solve(normal + energy, right + strength * tie * start, 2, exactly=True)
            start, worst = solution.x, max(worst, solution.residual)
            away = np.arccos(np.clip(h * field.positions[rows] @ center, -1, 1))
            share = fading(1 - away / (FADED_AT * apart))[:, None]
            left[rows] += share * (part.values - part.operator @ start)
            shares[rows] += share
        fade = fading(1 - angle[near] / (FADED_AT * apart))
        total[near] += fade[:, None] * (interpolation(_axes(part.lattice), at) @ start)
        weight[near] += fade
    f = over_poles(total / weight[..., None])
    f = (f if field.latitude == 0 else f.swapaxes(0, 1)).reshape(math.prod(field.lattice), -1)
    return f, PlateSolution(f, "maps of a sphere", 0, worst, left / shares)


def flat_part(field: Field, center: Float[np.ndarray, " 3"], radius: float) -> tuple[Field, Int[np.ndarray, " n"]]:
    """Return the samples of a sphere up to an angle from a center on their map, and their numbers.

    The nodes of the map are as dense as those of the sphere, and reach further than the samples.
    """
    h = 2 * math.pi / min(field.lattice)
    reach = math.ceil(2 * math.sin(radius / 2) / h)
    count = 2 * (reach + MARGIN[2]) + 1
    mapped = EqualAreaMap(center).onto_plane(field.positions * h) / h
    rows = np.flatnonzero((np.abs(mapped).max(1) <= reach) & (np.square(mapped).sum(1) <= (OUTERMOST / h) ** 2))
    positions, lattice = mapped[rows] + (count - 1) / 2, (count, count)
    kept = {"values": field.values[rows], "weights": field.weights[rows], "on_nodes": False, "laid": True}
    kept["drifts"] = field.drifts
    operator, margin = interpolation(_axes(lattice), positions), MARGIN[2] + reach / 4
    return Field(lattice, positions, operator, periodic=(False, False), margin=margin, **kept), rows


def _nodes(rows: int) -> Float[np.ndarray, "latitudes longitudes 3"]:
    """Return the unit vectors of the nodes of a sphere, the latitudes first."""
    step = 180 / rows
    latitude, longitude = np.meshgrid(step * (np.arange(rows) + 0.5) - 90, step * np.arange(2 * rows), indexing="ij")
    return vectors(longitude, latitude)


def _coarse(field: Field, h: float) -> tuple[RBFInterpolator, float]:
    """Return a spline through means of the values in cells, a function of unit vectors, and a cell's edge in nodes."""
    edge = math.sqrt(4 * math.pi / COARSE_CELLS)
    places = field.positions * h
    cell = np.unique(np.floor(places / edge), axis=0, return_inverse=True)[1].ravel()
    total = np.bincount(cell, field.weights)[:, None]
    columns = [*places.T, *field.values.T]
    means = np.stack([np.bincount(cell, field.weights * column) for column in columns], 1) / total
    return RBFInterpolator(means[:, :3], means[:, 3:], kernel="linear"), edge / h


def _axes(lattice: tuple[int, ...]) -> tuple[Axis, ...]:
    return tuple(map(Axis, lattice))


def _plane(lattice: tuple[int, ...], h: float) -> Float[np.ndarray, "nodes 2"]:
    """Return the coordinates in radians of the nodes of a map around its middle."""
    along = [h * (np.arange(n) - (n - 1) / 2) for n in lattice]
    return np.stack(np.meshgrid(*along, indexing="ij"), -1).reshape(-1, 2)
