"""The choice of a plate's order and cut-off by the errors at hidden samples."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from coordnet.metrics.scores import decibels
from coordnet.plans.hold_out import middle
from coordnet.priors.plates.coarse import coarse_cutoff, coarsened
from coordnet.priors.plates.energy import polynomials
from coordnet.priors.plates.field import Field, stretch
from coordnet.priors.plates.generalized import GeneralizedErrors
from coordnet.priors.plates.maps import MAP_RADIUS, flat_part
from coordnet.priors.plates.plate import can_coarsen, energy_weight, plate
from coordnet.priors.plates.search import (
    CORNERED,
    CUTOFFS,
    POINT_CUTOFFS,
    Error,
    Numbers,
    PlateParameters,
    by_hidden_points,
    by_orders,
    climb,
    least_near,
    whole_orders,
    with_corner,
)
from coordnet.priors.plates.solve import Band, NormalEquations, SingularPlate
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.forward import MIN_LEFT, ForwardModel
from coordnet.sampling.points import NODES
from coordnet.sampling.sphere import spread

FOLDS_SEED = 2**19  # added to the seed, by which other priors hide samples of their own
CHOOSING = ByAxes({1: 2**16, 2: 64**2, 3: 20**3})  # nodes of the part that decides on their numbers: rows are cheap
# Nodes to which that part is enlarged at most: a plate on it takes a fraction of a second. Beyond it, in pictures with
# large holes or hardly any samples, the trial would take longer than the fit.
LARGEST_PART = ByAxes({1: 2**20, 2: 128**2, 3: 4 * 20**3})
CHOOSING_POINTS = ByAxes({1: 2**16, 2: 48**2, 3: 12**3})  # the same for points between nodes: half a second in all
FEWEST_DECIDING = 100  # samples in that part, or it is enlarged
FOLDED = 3000  # samples below which several folds are hidden, so that about three hundred samples are
MOST_FOLDS = 5
FEWEST_SINGLE = 5  # samples from which on each is hidden alone
FEWEST_LEFT = MIN_LEFT + 2  # samples from which on parts of them are hidden instead
ROUGH = ByAxes({1: 1, 2: 1.5, 3: 2})  # order of the plates that such samples may have instead of ``LOWEST``
MUCH_BETTER = 0.5  # squared error of these at single hidden samples, relative to that of ``LOWEST``, at most
LOWEST = 2  # the first order that is tried
# Those that are tried with cut-offs for points between nodes; of 3,000 noisy points of four functions 3.5 is the best.
POINT_ORDERS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)
MOST_PARTS = ByAxes({2: 4, 3: 2})  # parts of a large lattice of points, so that none of its regions decides alone
FEWEST_HERE = 30  # points in a part at least
CLUSTERED = 0.5  # occupied cells for each point below which points come in tracks; of uniform ones there are 0.63
HIDDEN_CELLS = 20  # cells of points of which some are hidden
POINT_ROUNDS = 3  # folds for points between nodes at most
ROUGH_ORDER = 3  # order up to which half orders next to it are tried, too, for points that are interpolated
HIGHEST, HIGHEST_LARGE = 6, 4  # the last one; the second on lattices of more than LARGE_NODES nodes
LARGE_NODES = ByAxes({1: 2**24, 2: 128**2, 3: 0})
# Squared error that all points expect of a plate through noisy ones in space, relative to the hidden one of the
# interpolation, at most: hidden points of a part in space are near its faces, where smooth plates are extrapolated.
CLEAR = 0.5
NOISELESS = 1e-9  # hidden error below which samples have no noise, relative to their variance
# Hidden error below which points are of a smooth function, relative to their variance.
# A few hidden points hardly tell the highest two orders from each other there, and the higher one extrapolates better:
# it is the better one of 48 clouds of eleven functions wherever the two differ, by up to three times.
SMOOTH_ERROR = 1e-8
# Cut-off, in radians a node, that is tried for such points of a row: where they are interpolated, rounding hides the
# energy in wide gaps. Of 20,000 points the error is 7e-9 then, and 4e-13 so; from 1.5 to 4 it is about the same.
SMOOTH_CUTOFF = 2.0
ABOUT_AS_GOOD = 10.0  # hidden error up to which the highest order is taken for these, relative to the least


P = TypeVar("P", bound=PlateParameters)


class FieldErrors:
    """The mean squared errors of plates, and of other fits, at hidden samples of a field."""

    def __init__(
        self, field: Field, prior: PlateParameters, rounds: int | None = None, others: Sequence[Field] = ()
    ) -> None:
        self.field, self.prior = field, prior
        most = POINT_ROUNDS if field.laid else MOST_FOLDS
        self.rounds = rounds or min(most, math.ceil(FOLDED / max(len(field.values), 1)))
        self.tried: dict[Numbers, float] = {}
        self._energy = cache(field.energy)
        self._band = cache(lambda order, corner: Band.of(self._energy(order, corner)))
        self.others = [FieldErrors(other, prior, rounds) for other in others]
        for other in self.others:
            if other.field.lattice == field.lattice:
                other._energy, other._band = self._energy, self._band

    @cached_property
    def folds(self) -> list[np.ndarray]:
        """The hidden samples of each fold, as a mask; none if there are too few samples, or none shall be hidden."""
        cells = self.cells if self.field.laid else None
        if cells is not None and self.prior.hold_out:
            masks = (self._hidden_cells(cells, fold) & self.field.inner for fold in range(self.rounds))
            return [hidden for hidden in masks if hidden.any()]
        generator = torch.Generator().manual_seed(FOLDS_SEED + self.prior.seed)
        count = len(self.field.values)
        known = torch.ones(1, 1, count)
        if self.field.on_nodes:
            known = torch.zeros(1, 1, *self.field.lattice)
            known.view(-1)[self.field.nodes] = 1.0
        mask = ForwardModel.mask(known)
        drawn = (mask.hide(self.prior.hold_out, generator) for _ in range(self.rounds if self.prior.hold_out else 0))
        flat = [hidden.flatten().numpy() > 0 for hidden in drawn if hidden is not None]
        if self.hides_singly:
            flat = list(np.eye(count, dtype=bool))
        elif self.field.on_nodes:
            return [hidden[self.field.nodes] for hidden in flat]
        return [hidden for hidden in (one & self.field.inner for one in flat) if hidden.any()]

    @property
    def hides_singly(self) -> bool:
        """Whether each of few samples is hidden alone, as too few would be left of a part of them."""
        count, dims = len(self.field.values), self.field.dims
        is_small = self.field.latitude is None and math.prod(self.field.lattice) <= CHOOSING[dims]
        return bool(self.prior.hold_out) and is_small and FEWEST_SINGLE <= count < FEWEST_LEFT

    @property
    def cells(self) -> np.ndarray | None:
        """The cell of each point, a mean distance wide, where points come in tracks; None where they do not.

        Single points of a track are next to others of it, so that they tell nothing of the places between tracks.
        """
        cells = np.floor(self.field.positions / NODES[self.field.dims])
        number = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
        occupied = int(number.max(initial=-1)) + 1
        return number if HIDDEN_CELLS <= occupied < CLUSTERED * len(number) else None

    def _hidden_cells(self, cells: np.ndarray, fold: int) -> np.ndarray:
        count = int(cells.max()) + 1
        order = np.random.default_rng([FOLDS_SEED + self.prior.seed, fold]).permutation(count)
        return (order < max(1, round(count * self.prior.hold_out)))[cells]

    def of_plate(self, order: int | float, cutoff: float, corner: float = 0.0) -> float:
        """Return the error of plates; infinity if the samples do not determine them."""
        numbers = order, cutoff, corner
        if numbers not in self.tried:
            try:
                self.tried[numbers] = float(self.squares_of_plate(*numbers).mean())
            except SingularPlate:
                self.tried[numbers] = math.inf
        return self.tried[numbers]

    def squares_of_plate(self, order: int | float, cutoff: float, corner: float = 0.0) -> np.ndarray:
        """Return the squared error at each hidden sample, of the field and of the other ones."""
        own = self._own_squares(order, cutoff, corner)
        others = (other.squares_of_plate(order, cutoff, corner) for other in self.others if other.folds)
        return np.concatenate([own, *others])

    def _own_squares(self, order: int | float, cutoff: float, corner: float) -> np.ndarray:
        if self.field.has_narrow_band:
            try:
                return self._squares_by_bands(order, cutoff, corner)
            except SingularPlate:
                if not can_coarsen(self.field, cutoff):
                    raise
        return self._squares_by_solves(order, cutoff, corner)

    def _squares_by_solves(self, order: int | float, cutoff: float, corner: float) -> np.ndarray:
        energy = self._energy(order, corner)
        return self._squares(lambda _, shown: plate(shown, order, cutoff, corner, energy=energy)[0])

    def _squares_by_bands(self, order: int | float, cutoff: float, corner: float) -> np.ndarray:
        shown = min(int(hidden.size - hidden.sum()) for hidden in self.folds)
        if not corner and shown < polynomials(order, self.field.dims):
            raise SingularPlate("fewer points than polynomials without energy")
        energy, strength = self._band(order, corner), energy_weight(order, cutoff)
        return self._squares(lambda fold, _: self._equations[fold].solve(energy, strength))

    @cached_property
    def _equations(self) -> list[NormalEquations]:
        return [NormalEquations(self.field.select(~hidden)) for hidden in self.folds]

    def record(self, chosen: PlateParameters) -> dict[str, Any]:
        """Return the numbers, and the PSNR at hidden samples of everything tried, as JSON holds it.

        A cut-off of None stands for samples that are interpolated.
        """
        order, cutoff, corner = chosen.order or LOWEST, chosen.cutoff or math.inf, chosen.corner
        error = self.of_plate(order, cutoff, corner) if self.folds else math.inf
        psnr = {} if math.isinf(error) else {"plates": decibels(error)}
        tried = [
            {"order": p, "cutoff": _finite(w), "corner": c, "error": _finite(e)} for (p, w, c), e in self.tried.items()
        ]
        return {"order": order, "cutoff": _finite(cutoff), "corner": corner, "hold_out_psnr": psnr, "tried": tried}

    def _squares(self, estimate: Callable[[int, Field], np.ndarray]) -> np.ndarray:
        """Return the weighted squared errors at the hidden samples of all folds; the weights have the mean 1.

        The estimate is a function of a fold's number and the samples that it shows.
        """
        errors = []
        for fold, mask in enumerate(self.folds):
            shown, hidden = self.field.select(~mask), self.field.select(mask)
            f = estimate(fold, shown)
            left = hidden.without_drift(hidden.left_by(f), shown.drift_coefficients(f))
            errors.append(np.square(left).mean(1) * hidden.weights / hidden.weights.mean())
        return np.concatenate(errors)


def deciding_part(field: Field, size: int) -> Field:
    """Return the middle of a lattice of more than ``size`` nodes, or all of it.

    It is enlarged up to ``LARGEST_PART`` nodes until it has ``FEWEST_DECIDING`` samples, as it has none in the middle
    of a hole.
    """
    while size < math.prod(field.lattice):
        part = field.part(middle(field.lattice, size))
        if len(part.values) >= FEWEST_DECIDING or 4 * size > LARGEST_PART[field.dims]:
            return part
        size *= 4
    return field


def deciding_parts(field: Field) -> list[Field]:
    """Return parts of a lattice of points, each around one of them: up to ``MOST_PARTS``, or the whole lattice."""
    size = CHOOSING_POINTS[field.dims]
    side = math.ceil(size ** (1 / field.dims))
    if field.latitude is not None:
        h = 1 / float(np.linalg.norm(field.positions[0]))
        centers = (h * field.positions[(field.positions @ v).argmax()] for v in spread(MOST_PARTS[field.dims]))
        return [flat_part(field, center, min(side / 2 * h, MAP_RADIUS))[0] for center in centers]
    if math.prod(field.lattice) <= size or len(field.values) < FEWEST_DECIDING:
        return [field]
    along = np.argsort(field.positions[:, int(np.argmax(field.lattice))], kind="stable")
    most = MOST_PARTS[field.dims]
    count = most if math.prod(field.lattice) >= most * size else 1
    parts = []
    for k in range(count):
        center = field.positions[along[(2 * k + 1) * len(along) // (2 * count)]]
        starts = [max(0, min(int(x) - side // 2, n - side)) for x, n in zip(center, field.lattice, strict=True)]
        part = field.part(tuple(slice(a, min(a + side, n)) for a, n in zip(starts, field.lattice, strict=True)))
        if len(part.values) >= FEWEST_HERE:
            parts.append(part)
    return parts or [field]


def choose_plate(field: Field, prior: P) -> tuple[P, FieldErrors]:
    """Return a prior whose order and cut-off are given or chosen by hidden samples of a part, and what was tried.

    Few samples, each of which is hidden alone, decide between plates of order ``LOWEST`` and rough ones. Of more,
    orders are raised while the hidden error of the interpolation falls. If that leaves more than rounding, cut-offs are
    tried with every order; for points on nodes that were laid for them, from two lower orders on, and half ones: with
    all orders if no interpolation is better than the mean of the values.
    """
    errors = _errors_of(field, prior)
    order, cutoff, corner = prior.order or LOWEST, prior.cutoff or math.inf, prior.corner
    if prior.is_chosen or not errors.folds:
        return replace(prior, order=order, cutoff=cutoff), errors
    if errors.hides_singly:
        rough = prior.order or ROUGH[field.dims]
        is_rough = errors.of_plate(rough, cutoff) < MUCH_BETTER * errors.of_plate(order, cutoff)
        return replace(prior, order=rough if is_rough else order, cutoff=cutoff), errors
    is_large = math.prod(field.lattice) > LARGE_NODES[field.dims] and (field.dims > 2 or not field.laid)
    whole = range(LOWEST, (HIGHEST_LARGE if is_large else HIGHEST) + 1)
    orders: Sequence[int | float] = whole if prior.order is None else [prior.order]
    order = climb(orders, lambda p: errors.of_plate(p, cutoff))
    variance = errors.field.values[:, : errors.field.count].var()
    if field.laid and errors.of_plate(order, cutoff) < SMOOTH_ERROR * field.values[:, : field.count].var():
        cutoffs = (cutoff, SMOOTH_CUTOFF) if field.dims == 1 and prior.cutoff is None else (cutoff,)
        order, cutoff = _for_smooth_points(errors.of_plate, orders, cutoffs)
    if prior.cutoff is None and errors.of_plate(order, cutoff) > NOISELESS * variance:
        if field.laid and prior.order is None:
            at, is_told = POINT_ORDERS.index(order), errors.of_plate(order, cutoff) < variance
            orders = POINT_ORDERS[(at - 2 if order <= 3 else at) if is_told else 0 :]
        least = errors.of_plate(order, cutoff)
        best, expected = _smoothing_noise(field, errors, orders) if field.laid else ((order, cutoff, corner), math.inf)
        if field.dims < 3:
            expected = errors.of_plate(*best)
        if not expected < (least if field.dims < 3 else CLEAR * least):
            error = errors.of_plate
            cutoffs = [stretch(field.anisotropy) * w for w in CUTOFFS]
            best = by_hidden_points(error, orders) if field.laid else by_orders(error, orders, cutoffs)
            expected = error(*best)
        if expected < least:
            order, cutoff, corner = best
    if field.laid and prior.order is None and cutoff == math.inf and order <= ROUGH_ORDER:
        near = [p for p in POINT_ORDERS if abs(p - order) <= 0.5]
        order = min(near, key=lambda p: errors.of_plate(p, cutoff))
    return replace(prior, order=order, cutoff=cutoff, corner=corner), errors


def _for_smooth_points(
    error: Error, orders: Sequence[int | float], cutoffs: Sequence[float]
) -> tuple[int | float, float]:
    """Return the order and the cut-off of least error; of one cut-off, the highest order that is ``ABOUT_AS_GOOD``."""
    order, cutoff = min(itertools.product(orders, cutoffs), key=lambda numbers: error(*numbers))
    if len(cutoffs) > 1:
        return order, cutoff
    return max(p for p in orders if error(p, cutoff) <= ABOUT_AS_GOOD * error(order, cutoff)), cutoff


def _errors_of(field: Field, prior: PlateParameters) -> FieldErrors:
    """Return the errors at hidden samples of the part, or the parts, that decide."""
    if not field.laid:
        return FieldErrors(deciding_part(field, CHOOSING[field.dims]), prior)
    first, *others = parts = deciding_parts(field)
    rounds = min(POINT_ROUNDS, math.ceil(FOLDED / max(sum(len(part.values) for part in parts), 1)))
    return FieldErrors(first, prior, rounds if field.dims < 3 else 1, others)  # a solve in space takes a second


def _smoothing_noise(field: Field, errors: FieldErrors, orders: Sequence[int | float]) -> tuple[Numbers, float]:
    """Return the order and the cut-off for noisy points by all of them, and the error that these expect.

    That is infinite for points that are few or come in tracks, and for those that plates should nearly interpolate.
    Whole orders come first, those and the half ones next to the best with the cut-offs next to it then, on nodes as
    coarse as these allow, so that more points count; parts of a sphere are maps, which keep their nodes.
    """
    fields = [errors.field, *(other.field for other in errors.others)]
    if errors.cells is not None or sum(len(field.values) for field in fields) < FEWEST_DECIDING:
        return (LOWEST, math.inf, 0.0), math.inf
    error = GeneralizedErrors(fields).of_plate
    order, cutoff, _ = by_orders(error, whole_orders(orders), POINT_CUTOFFS, patience=1, gain=0.0)
    flat = field.dims == 2 and field.latitude is None
    if flat and fields[0] is not field and (cutoff < 1 or field.has_narrow_band):
        error = _coarse_errors(field, max(1.0, 1 / cutoff))
    best = with_corner(error, (order, cutoff, 0.0), CORNERED[field.dims]) if len(orders) > 1 else (order, cutoff, 0.0)
    if best[2] == 0:
        best = least_near(error, [p for p in orders if abs(p - order) <= 1], cutoff)
    return best, error(*best)


def _coarse_errors(field: Field, step: float) -> Error:
    """Return the errors of generalized cross-validation on coarser nodes, by orders and cut-offs on a field's own."""
    coarse = coarsened(field, step)
    errors = GeneralizedErrors([coarse] if coarse.has_narrow_band else deciding_parts(coarse))

    def error(order: int | float, cutoff: float, corner: float = 0.0) -> float:
        return errors.of_plate(order, coarse_cutoff(order, cutoff, step, field.dims), step * corner)

    return error


def _finite(number: float) -> float | None:
    """Return a number as JSON holds it: None for infinity."""
    return None if math.isinf(number) else number
