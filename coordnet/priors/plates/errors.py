"""The numbers of a plate, and the errors that are expected of plates: at hidden ones of some samples, or by all."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from coordnet import _checks
from coordnet.metrics.scores import decibels
from coordnet.plans.hold_out import middle
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.maps import MAP_RADIUS, flat_part
from coordnet.priors.plates.plate import plate
from coordnet.priors.plates.solve import SingularPlate
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.forward import MIN_LEFT, ForwardModel
from coordnet.sampling.node_spacing import NODES
from coordnet.sampling.sphere import spread

CUTOFF_BOUNDS = (1e-9, 1e9)  # radians a sample: the powers of others, up to the 16th, are beyond the range of float64
ORDERS = (1.0, 8.0)  # the lowest and the highest order: above, float64 does not hold the solution
FOLDS_SEED = 2**19  # added to the seed, by which other priors hide samples of their own
CHOOSING = ByAxes({1: 2**16, 2: 64**2, 3: 20**3})  # nodes of the part that decides on their numbers: rows are cheap
# Nodes to which the part of ``CHOOSING`` nodes is enlarged at most: a plate on it takes a fraction of a second. Beyond
# it, in pictures with large holes or hardly any samples, the trial would take longer than the fit.
LARGEST_PART = ByAxes({1: 2**20, 2: 128**2, 3: 4 * 20**3})
CHOOSING_POINTS = ByAxes({1: 2**16, 2: 48**2, 3: 12**3})  # nodes of parts for points: half a second in all
FEWEST_DECIDING = 100  # samples in the part that decides, or it is enlarged
MOST_PARTS = ByAxes({2: 4, 3: 2})  # parts of a large lattice of points, so that none of its regions decides alone
FEWEST_HERE = 30  # points in a part at least
FOLDED = 3000  # samples below which several folds are hidden, so that about three hundred samples are
MOST_FOLDS = 5
FEWEST_SINGLE = 5  # samples from which on each is hidden alone
FEWEST_LEFT = MIN_LEFT + 2  # samples from which on parts of them are hidden instead
LOWEST = 2  # the first order that is tried
CLUSTERED = 0.5  # occupied cells for each point below which points come in tracks; of uniform ones there are 0.63
HIDDEN_CELLS = 20  # cells of points of which some are hidden
POINT_ROUNDS = 3  # folds for points between nodes at most
PROBES = 12  # random signs for each point that estimate the trace, to 2 % of it for 500 points
PROBES_SEED = 2**18
FEWEST_FREE = 0.5  # degrees of freedom that a plate leaves for each point at least: leverages of more are too unequal

Numbers = tuple[int | float, float, float]  # an order, a cut-off and a corner
Error = Callable[..., float]  # the error of plates of these numbers, without a corner if that is not given


@dataclass(frozen=True)
class PlateParameters:
    """The parameters of ``ThinPlate``, as its plans take them; it says what they are."""

    order: int | float | None = None
    cutoff: float | None = None
    hold_out: float = 0.1
    seed: int = 0
    corner: float = 0.0
    anisotropy: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.order is not None:
            if 2 * _checks.between("order", self.order, *ORDERS) % 1:
                raise _checks.wrong("order", f"a multiple of 1/2 from {ORDERS[0]:g} to {ORDERS[1]:g}", self.order)
            object.__setattr__(self, "order", int(self.order) if self.order % 1 == 0 else float(self.order))
        if self.cutoff is not None and self.cutoff != math.inf:
            _checks.between("cutoff", self.cutoff, *CUTOFF_BOUNDS)
        if self.corner:
            object.__setattr__(self, "corner", float(_checks.between("corner", self.corner, *CUTOFF_BOUNDS)))
            if self.order is None or self.order % 1:
                raise _checks.wrong("order", "a whole one beside a corner", self.order)
        for weight in self.anisotropy:
            _checks.positive("anisotropy", weight)
        if self.hold_out != 0 or not self.is_chosen:
            if not 0 < _checks.positive("hold_out", self.hold_out) < 1:
                expected = "a number above 0 and below 1, or 0 where nothing is chosen"
                raise _checks.wrong("hold_out", expected, self.hold_out)
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))

    @property
    def is_chosen(self) -> bool:
        """Whether both numbers are given, so that samples are hidden for the report alone."""
        return self.order is not None and self.cutoff is not None


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
        self.others = [FieldErrors(other, prior, rounds) for other in others]
        for other in self.others:
            if other.field.lattice == field.lattice:
                other._energy = self._energy

    @cached_property
    def folds(self) -> list[np.ndarray]:
        """The hidden samples of each fold, as a mask; none if there are too few samples, or none shall be hidden."""
        cells = self.cells if self.field.laid else None
        if cells is not None and self.prior.hold_out:
            masks = (self._hidden_cells(cells, fold) & self.field.inner for fold in range(self.rounds))
            return [hidden for hidden in masks if hidden.any()]
        generator = torch.Generator().manual_seed(FOLDS_SEED + self.prior.seed)
        count = len(self.field.values)
        known, values = torch.ones(1, 1, count), torch.from_numpy(self.field.values.T[: self.field.count]).unsqueeze(0)
        if self.field.on_nodes:
            known = torch.zeros(1, 1, *self.field.lattice)
            known.view(-1)[self.field.nodes] = 1.0
            values = self.field.samples().values[..., : self.field.count].movedim(-1, 0).unsqueeze(0)
        mask = ForwardModel.mask(known)
        rounds = self.rounds if self.prior.hold_out else 0
        drawn = (mask.hide(self.prior.hold_out, generator, values) for _ in range(rounds))
        flat = [hidden.flatten().numpy() > 0 for hidden in drawn if hidden is not None]
        if self.hides_singly:
            flat = list(np.eye(count, dtype=bool))
        elif self.field.on_nodes:
            return [hidden[self.field.nodes] for hidden in flat]
        return [hidden for hidden in (one & self.field.inner for one in flat) if hidden.any()]

    @cached_property
    def _parts(self) -> list[tuple[Field, Field]]:
        """The samples that each fold shows, and those that it hides."""
        return [(self.field.select(~mask), self.field.select(mask)) for mask in self.folds]

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
        energy = self._energy(order, corner)
        return self._squares(lambda shown: plate(shown, order, cutoff, corner, energy=energy)[0])

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

    def _squares(self, estimate: Callable[[Field], np.ndarray]) -> np.ndarray:
        """Return the weighted squared errors at the hidden samples of all folds; the weights have the mean 1."""
        errors = []
        for shown, hidden in self._parts:
            f = estimate(shown)
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


def errors_of(field: Field, prior: PlateParameters) -> FieldErrors:
    """Return the errors at hidden samples of the part, or the parts, that decide."""
    if not field.laid:
        return FieldErrors(deciding_part(field, CHOOSING[field.dims]), prior)
    first, *others = parts = deciding_parts(field)
    rounds = min(POINT_ROUNDS, math.ceil(FOLDED / max(sum(len(part.values) for part in parts), 1)))
    return FieldErrors(first, prior, rounds if field.dims < 3 else 1, others)  # a solve in space takes a second


class GeneralizedErrors:
    """The errors n Σ w(y - Sy)² / tr(I - S)² that generalized cross-validation expects of smoothers S of some fields.

    Hidden points are a part of all, and their own noise hides how plates differ; here every point counts, with the
    plate through all. The trace is zᵀ(I - S)z in the mean over random signs z, the same for all plates. The smoothers
    include the drift.

    Notes
    -----
    Craven and Wahba, "Smoothing noisy data with spline functions" (1979); Hutchinson, "A stochastic estimator of the
    trace of the influence matrix for Laplacian smoothing splines" (1989).
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        generator = np.random.default_rng(PROBES_SEED)
        self.signs = [generator.choice([-1.0, 1.0], (len(field.values), PROBES)) for field in fields]
        self.fields = [_beside(field, signs) for field, signs in zip(fields, self.signs, strict=True)]
        lattices = [field.lattice for field in fields]
        self.alike = [lattices.index(lattice) for lattice in lattices]  # the first field of each lattice
        self._energy = cache(lambda k, order, corner: self.fields[k].energy(order, corner))
        self.of_plate = cache(self._of_plate)

    def _of_plate(self, order: int | float, cutoff: float, corner: float = 0.0) -> float:
        """Return the error of plates; infinity if the points do not determine them, or they nearly interpolate."""
        squares, free, count = 0.0, 0.0, 0
        for k, (field, signs) in enumerate(zip(self.fields, self.signs, strict=True)):
            try:
                f = plate(field, order, cutoff, corner, energy=self._energy(self.alike[k], order, corner))[0]
            except SingularPlate:
                return np.inf
            left = field.without_drift(field.left_by(f), field.drift_coefficients(f))
            weights = field.weights / field.weights.mean()
            squares += float(weights @ np.square(left[:, :-PROBES]).mean(1))
            free += float((signs * left[:, -PROBES:]).sum()) / PROBES
            count += len(weights)
        return count * squares / free**2 if free > FEWEST_FREE * count else np.inf


def _beside(field: Field, columns: Float[np.ndarray, "n columns"]) -> Field:
    """Return a field with further columns of values, before those of a drift."""
    values, drift = np.hsplit(field.values, [field.count])
    return replace(field, values=np.hstack([values, columns, drift]))


def _finite(number: float) -> float | None:
    """Return a number as JSON holds it: None for infinity."""
    return None if math.isinf(number) else number
