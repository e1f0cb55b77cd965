"""The choice of a plate's order and cut-off by the errors at hidden samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import product
from typing import Any, TypeVar

import numpy as np
import torch

from coordnet.metrics.scores import decibels
from coordnet.plans.hold_out import middle
from coordnet.priors.plates.bands import Band, NormalEquations
from coordnet.priors.plates.energy import polynomials
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.maps import MAP_RADIUS, flat_part
from coordnet.priors.plates.parameters import PlateParameters
from coordnet.priors.plates.plate import energy_weight, plate
from coordnet.priors.plates.solve import SingularPlate
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.points import NODES
from coordnet.sampling.sphere import spread

FOLDS_SEED = 2**19  # added to the seed, by which other priors hide samples of their own
CHOOSING = ByAxes({1: 2**16, 2: 64**2, 3: 20**3})  # nodes of the part that decides on their numbers: rows are cheap
# Nodes to which that part is enlarged at most: a plate on it takes a fraction of a second. Beyond it, in pictures with
# large holes or hardly any samples, the trial would take longer than the fit.
LARGEST_PART = ByAxes({1: 2**20, 2: 128**2, 3: 4 * 20**3})
CHOOSING_POINTS = ByAxes({1: 2**16, 2: 48**2, 3: 12**3})  # the same for points between nodes: half a second in all
BANDED_NODES = 80**2  # nodes of that part up to which all normal equations of its folds are factorized as bands
FEWEST = 100  # samples in that part, or it is enlarged
FOLDED = 3000  # samples below which several folds are hidden, so that about three hundred samples are
MOST_FOLDS = 5
LOWEST = 2  # the first order that is tried
# Those that are tried with cut-offs for points between nodes; of 3,000 noisy points of four functions 3.5 is the best.
POINT_ORDERS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)
MOST_PARTS = ByAxes({2: 4, 3: 2})  # parts of a large lattice of points, so that none of its regions decides alone
FEWEST_HERE = 30  # points in a part at least
CLUSTERED = 0.5  # occupied cells for each point below which points come in tracks; of uniform ones there are 0.63
HIDDEN_CELLS = 20  # cells of points of which some are hidden
POINT_ROUNDS = 3  # folds for points between nodes at most
HIGHEST, HIGHEST_LARGE = 6, 4  # the last one; the second on lattices of more than LARGE_NODES nodes
LARGE_NODES = ByAxes({1: 2**24, 2: 128**2, 3: 0})
ORDER_GAIN = 0.02  # relative fall of the hidden error below which an order or a cut-off is a failure
STEPS_WITHOUT_GAIN = 2  # orders or cut-offs without it after which the search ends
CUTOFFS = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # radians a sample
POINT_CUTOFFS = (4.0, 2.8, *CUTOFFS, 0.12, 0.08, 0.05, 0.03)  # radians a node, of which a point has two or more
NOISELESS = 1e-9  # hidden error below which samples have no noise, relative to their variance


P = TypeVar("P", bound=PlateParameters)


class FieldErrors:
    """The mean squared errors of plates, and of other fits, at hidden samples of a field."""

    def __init__(
        self, field: Field, prior: PlateParameters, rounds: int | None = None, others: Sequence[Field] = ()
    ) -> None:
        self.field, self.prior = field, prior
        most = POINT_ROUNDS if field.laid else MOST_FOLDS
        self.rounds = rounds or min(most, math.ceil(FOLDED / max(len(field.values), 1)))
        self.tried: dict[tuple[int | float, float], float] = {}
        self.others = [FieldErrors(other, prior, rounds) for other in others]
        self._energy = cache(field.energy)
        self._band = cache(lambda order: Band.of(field.energy(order)))

    @cached_property
    def folds(self) -> list[np.ndarray]:
        """The hidden samples of each fold, as a mask; none if there are too few samples, or none shall be hidden."""
        cells = self._cells if self.field.laid else None
        if cells is not None and self.prior.hold_out:
            found = (self._hidden_cells(cells, fold) & self.field.inner for fold in range(self.rounds))
            return [hidden for hidden in found if hidden.any()]
        generator = torch.Generator().manual_seed(FOLDS_SEED + self.prior.seed)
        count = len(self.field.values)
        known = torch.ones(1, 1, count)
        if self.field.on_nodes:
            known = torch.zeros(1, 1, *self.field.lattice)
            known.view(-1)[self.field.nodes] = 1.0
        mask = ForwardModel.mask(known)
        drawn = (mask.hide(self.prior.hold_out, generator) for _ in range(self.rounds if self.prior.hold_out else 0))
        flat = [hidden.flatten().numpy() > 0 for hidden in drawn if hidden is not None]
        if self.field.on_nodes:
            return [hidden[self.field.nodes] for hidden in flat]
        return [hidden for hidden in (one & self.field.inner for one in flat) if hidden.any()]

    @property
    def _cells(self) -> np.ndarray | None:
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

    def of_plate(self, order: int | float, cutoff: float) -> float:
        """Return the error of plates; infinity if the samples do not determine them."""
        if (order, cutoff) not in self.tried:
            try:
                self.tried[order, cutoff] = float(self.squares_of_plate(order, cutoff).mean())
            except SingularPlate:
                self.tried[order, cutoff] = math.inf
        return self.tried[order, cutoff]

    def squares_of_plate(self, order: int | float, cutoff: float) -> np.ndarray:
        """Return the squared error at each hidden sample, of the field and of the other ones."""
        own = self._squares_by_bands(order, cutoff) if self._has_bands else self._squares_by_solves(order, cutoff)
        return np.concatenate([own, *(other.squares_of_plate(order, cutoff) for other in self.others if other.folds)])

    @property
    def _has_bands(self) -> bool:
        """Whether the normal equations of folds are factorized as bands, which is faster on small lattices."""
        return self.field.laid and (self.field.dims == 1 or math.prod(self.field.lattice) <= BANDED_NODES)

    def _squares_by_solves(self, order: int | float, cutoff: float) -> np.ndarray:
        energy = self._energy(order)
        return self._squares(lambda _, shown: plate(shown, order, cutoff, energy)[0])

    def _squares_by_bands(self, order: int | float, cutoff: float) -> np.ndarray:
        if min(int(hidden.size - hidden.sum()) for hidden in self.folds) < polynomials(order, self.field.dims):
            raise SingularPlate("fewer points than polynomials without energy")
        energy, strength = self._band(order), energy_weight(order, cutoff)
        return self._squares(lambda fold, _: self._equations[fold].solve(energy, strength))

    @cached_property
    def _equations(self) -> list[NormalEquations]:
        return [NormalEquations(self.field.select(~hidden)) for hidden in self.folds]

    def record(self, chosen: PlateParameters) -> dict[str, Any]:
        """Return the numbers, and the PSNR at hidden samples of everything tried, as JSON holds it.

        A cut-off of None stands for samples that are interpolated.
        """
        order, cutoff = chosen.order or LOWEST, chosen.cutoff or math.inf
        error = self.of_plate(order, cutoff) if self.folds else math.inf
        psnr = {} if math.isinf(error) else {"plates": decibels(error)}
        tried = [{"order": p, "cutoff": _finite(w), "error": _finite(e)} for (p, w), e in self.tried.items()]
        return {"order": order, "cutoff": _finite(cutoff), "hold_out_psnr": psnr, "tried": tried}

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

    It is enlarged up to ``LARGEST_PART`` nodes until it has ``FEWEST`` samples; it has none in the middle of a hole.
    """
    while size < math.prod(field.lattice):
        part = field.part(middle(field.lattice, size))
        if len(part.values) >= FEWEST or 4 * size > LARGEST_PART[field.dims]:
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
    if math.prod(field.lattice) <= size or len(field.values) < FEWEST:
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

    Orders are raised while the hidden error of the interpolation falls. If that leaves more than rounding, cut-offs are
    tried with every order; for points on nodes that were laid for them, from two lower orders on, and half ones.
    """
    errors = _errors_of(field, prior)
    order, cutoff = prior.order or LOWEST, prior.cutoff or math.inf
    if prior.is_chosen or not errors.folds:
        return replace(prior, order=order, cutoff=cutoff), errors
    is_large = math.prod(field.lattice) > LARGE_NODES[field.dims] and (field.dims > 2 or not field.laid)
    whole = range(LOWEST, (HIGHEST_LARGE if is_large else HIGHEST) + 1)
    orders: Sequence[int | float] = whole if prior.order is None else [prior.order]
    order = _climb(orders, lambda p: errors.of_plate(p, cutoff))
    variance = errors.field.values[:, : errors.field.count].var()
    if prior.cutoff is None and errors.of_plate(order, cutoff) > NOISELESS * variance:
        if field.laid and prior.order is None:
            at = POINT_ORDERS.index(order)
            orders = POINT_ORDERS[at - 2 if order <= 3 else at :]
        best = _smoothing_points(errors, orders) if field.laid else _smoothing(errors, orders, CUTOFFS)
        if errors.of_plate(*best) < errors.of_plate(order, cutoff):
            order, cutoff = best
    return replace(prior, order=order, cutoff=cutoff), errors


def _errors_of(field: Field, prior: PlateParameters) -> FieldErrors:
    """Return the errors at hidden samples of the part, or the parts, that decide."""
    if not field.laid:
        return FieldErrors(deciding_part(field, CHOOSING[field.dims]), prior)
    first, *others = parts = deciding_parts(field)
    rounds = min(POINT_ROUNDS, math.ceil(FOLDED / max(sum(len(part.values) for part in parts), 1)))
    return FieldErrors(first, prior, rounds if field.dims < 3 else 1, others)  # a solve in space takes a second


def _smoothing_points(errors: FieldErrors, orders: Sequence[int | float]) -> tuple[int | float, float]:
    """Return the best order and its best cut-off for points.

    Whole orders with every second cut-off come first, the half orders and the cut-offs next to the best one then, and
    the least of the parabola through three errors last.
    """
    order, cutoff = _smoothing(errors, [p for p in orders if p % 1 == 0], POINT_CUTOFFS[::2], patience=1)
    at = POINT_CUTOFFS.index(cutoff)
    near = product([p for p in orders if p == order or abs(p - order) == 0.5], POINT_CUTOFFS[max(at - 1, 0) : at + 2])
    order, cutoff = min(near, key=lambda numbers: errors.of_plate(*numbers))
    at = POINT_CUTOFFS.index(cutoff)
    three = POINT_CUTOFFS[max(at - 1, 0) : at + 2]
    between = _least(three, [errors.of_plate(order, w) for w in three])
    return order, min((cutoff, between), key=lambda w: errors.of_plate(order, w))


def _least(cutoffs: Sequence[float], errors: Sequence[float]) -> float:
    """Return the cut-off at the least of the parabola through errors over logarithms, the middle one if there is none.

    The errors are those of three cut-offs, of which the middle one has the least; of fewer the first is returned.
    """
    if len(cutoffs) < 3 or not np.isfinite(errors).all():
        return cutoffs[0] if len(cutoffs) < 3 else cutoffs[1]
    a, b, _ = np.polyfit(np.log(cutoffs), errors, 2)
    return float(f"{np.clip(np.exp(-b / (2 * a)), min(cutoffs), max(cutoffs)):.3g}") if a > 0 else cutoffs[1]


def _smoothing(
    errors: FieldErrors, orders: Sequence[int | float], cutoffs: Sequence[float], *, patience: int = STEPS_WITHOUT_GAIN
) -> tuple[int | float, float]:
    """Return the best order and its best cut-off: the higher the order is, the lower its best cut-off."""
    best: dict[int | float, float] = {}

    def smoothed(p: int | float) -> float:
        lowest = min(best.values(), default=math.inf)
        best[p] = _climb([w for w in cutoffs if w <= lowest], lambda w: errors.of_plate(p, w), patience)
        return errors.of_plate(p, best[p])

    order = _climb(orders, smoothed)
    return order, best[order]


def _climb(candidates: Sequence[Any], error: Callable[[Any], float], patience: int = STEPS_WITHOUT_GAIN) -> Any:
    """Return the best candidate, trying one after another until some of them bring no gain."""
    best, least, failures = candidates[0], error(candidates[0]), 0
    for candidate in candidates[1:]:
        found = error(candidate)
        failures = 0 if found < (1 - ORDER_GAIN) * least else failures + 1
        if found < least:
            best, least = candidate, found
        if failures == patience:
            break
    return best


def _finite(number: float) -> float | None:
    """Return a number as JSON holds it: None for infinity."""
    return None if math.isinf(number) else number
