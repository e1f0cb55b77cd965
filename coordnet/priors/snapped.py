"""The priors of pictures for points between nodes, which are moved to the nearest ones."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.blending import Blending
from coordnet.linalg.borders import continue_smoothly
from coordnet.linalg.machine import is_tracked
from coordnet.networks.fit_reports import FitReport, PlateReport, StackReport
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.priors.base import Prior
from coordnet.priors.kriging import Kriging
from coordnet.priors.plates import ThinPlate
from coordnet.priors.stack import Stack
from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.points import Points
from coordnet.sampling.samples import Geometry, Samples

MOST_BOX_NODES = 2**20  # nodes of the box around points at most: the priors of pictures take minutes for more
LEAST_KNOWN = 0.1  # share of the nodes in the box that are nearest to a point at least; clusters and tracks leave fewer
ROUGH_ORDER = 3  # order of the plates that suit rough signals at most: photographs and terrain have 1.5 to 3
ROUGH_CUTOFF = 1.4  # their cut-off in radians a node at least: nodes are as near as half the points' mean distance

ROUGH_ERROR = 0.002  # their squared error at hidden points, relative to the variance of the values, at least
DECIDING = 2**15  # nodes of the middle of a lattice that decides on the weights of candidates: that of 8,000 points
FEWEST_DECIDING = 1000  # points in that middle at least, or all points decide


@dataclass(frozen=True)
class NearestNodes:
    """The box of the nodes that are nearest to points, with gaps where a node has none."""

    box: tuple[slice, ...]  # where the box is in the lattice of the points
    geometry: MaskedLattice  # the nodes in the box; those that are nearest to a point of a positive weight are known
    index: Int[Tensor, " n"]  # the flat index in the box of the node nearest to each point

    @classmethod
    def of(cls, points: Geometry, least: float = LEAST_KNOWN) -> "NearestNodes | None":
        """Return the nodes nearest to points in a plane.

        None is returned where a picture's priors do not suit these: on other lattices, on those that wrap around, for a
        drift, for weights that differ, and for points in clusters or tracks, which leave less than the ``least`` share
        of the nodes known.
        """
        wraps = any(axis.periodic for axis in points.axes)
        if len(points.grid) != 2 or min(points.grid) < 2 or wraps or points.drift is not None or not points.is_binary:
            return None
        row, column = points.nodes // points.grid[1], points.nodes % points.grid[1]
        box = tuple(slice(int(at.min()), int(at.max()) + 1) for at in (row, column))
        lengths = tuple(side.stop - side.start for side in box)
        if lengths[0] * lengths[1] > MOST_BOX_NODES:
            return None
        index = (row - box[0].start) * lengths[1] + column - box[1].start
        weights = points.full_weights
        count = weights.new_zeros(lengths[0] * lengths[1], weights.shape[1]).index_add(0, index, weights)
        if int((count > 0).sum()) < least * count.numel():
            return None
        geometry = MaskedLattice(lengths, weights=count.clamp(max=1).reshape(*lengths, -1))
        return cls(box, geometry, index)

    def samples(self, values: Float[Tensor, "n channels"], weights: Float[Tensor, "n _"]) -> Samples:
        """Return the mean of the known values at each node."""
        size = self.geometry.grid[0] * self.geometry.grid[1]
        weights = weights.to(values)
        total = values.new_zeros(size, values.shape[1]).index_add(0, self.index, weights * values)
        count = values.new_zeros(size, weights.shape[1]).index_add(0, self.index, weights)
        return Samples(self.geometry, (total / count.clamp(min=1)).reshape(*self.geometry.grid, -1))


@dataclass(frozen=True)
class Snapped(Prior):
    """Priors of lattices, for points between nodes: plates move their values to the nearest nodes.

    With plates f through points x, the value y at x is taken for y + f(x') - f(x) at the nearest node x'. Further
    plates fit what the fit of the nodes leaves at the points. Hidden points weigh the sum against plates and kriging.
    Signals that are smooth by their plates are fitted by these two alone.
    """

    name: ClassVar[str] = "snapped"
    learns: ClassVar[bool] = True
    prior: Prior  # the prior of the nodes, which are known where a point is near
    plates: ThinPlate = ThinPlate()  # the plates
    is_weighed: bool = True  # whether the fit is to be weighed against plates and kriging

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return (WeighedPlan if self.is_weighed else SnappedPlan)(encoding, geometry, self, **options)

    @property
    def text(self) -> str:
        """The name, with that of the prior."""
        return f"{self.name}:{self.prior.text}"

    @property
    def start(self) -> Prior:
        return self.plates

    @property
    def stationary(self) -> Prior:
        return self.plates

    def seeded(self, seed: int) -> "Snapped":
        return replace(self, prior=self.prior.seeded(seed), plates=self.plates.seeded(seed))

    def settled(self, report: FitReport) -> Prior:
        """Return the candidates with the numbers of a fit that weighed them, and with its weights."""
        if not self.is_weighed:
            return replace(self, prior=self.prior.weighed_as(report))
        if not isinstance(report, StackReport):
            return self.plates.settled(report)
        plates = next((self.plates.settled(fit) for fit in report.fits if isinstance(fit, PlateReport)), self.plates)
        return self.beside(plates).fixed(report)

    def beside(self, plates: ThinPlate, *, is_rough: bool = True) -> Stack:
        """Return the candidates beside plates with their numbers, without itself for a signal that is not rough."""
        own = replace(self, plates=plates, is_weighed=False)
        return Stack((Kriging(), plates, own) if is_rough else (Kriging(), plates))


class WeighedPlan(Plan):
    """Fit plates, and weigh them against kriging, and for signals that are rough by them also the fit of nearest nodes.

    The parameters are those of ``plan``, for points that have ``NearestNodes``. Gradients flow to the values through
    plates, which are all that is fitted then.
    """

    has_gradient = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Snapped, **options: Any) -> None:
        self.prior, self._options = prior, options
        self.plates = prior.plates.plan(encoding, geometry, **options)
        super().__init__(self.plates.encoding, self.plates.geometry, **options)

    def _solve(self, values: Float[Tensor, "1 channels n"]) -> Fitted:
        fitted = self.plates.solve(CenteredValues.of(values))
        report = cast(PlateReport, fitted.report)
        if is_tracked(values):
            return replace(fitted, report=replace(report, prior=repr(self.prior.plates)))
        is_rough = _is_rough(report, float(values.square().mean()))
        stack = self.prior.beside(self.prior.plates.settled(report), is_rough=is_rough)
        trial = self._trial(stack, values)
        if trial is not None:
            stack = stack.weighed_as(trial)
        fitted = stack.plan(self.encoding, self.geometry, **self._options).solve(CenteredValues.of(values))
        if trial is None:
            return fitted
        weighed = {"candidates": trial.candidates, "hold_out_psnr": trial.hold_out_psnr}
        return replace(fitted, report=replace(fitted.report, **weighed))

    def _trial(self, stack: Stack, values: Float[Tensor, "1 channels n"]) -> StackReport | None:
        """Return the report of the fit to the middle of many points, which weighs candidates; None for few points."""
        if math.prod(self.geometry.grid) <= DECIDING:
            return None
        part = cast(Points, self.geometry).within(middle(self.geometry.grid, DECIDING), values[0].T)
        if len(part.values) < FEWEST_DECIDING:
            return None
        fit = stack.plan(FourierEncoding.like(part), part.geometry, **self._options).fit(part.values)
        return cast(StackReport, fit.report)


def _is_rough(report: PlateReport, variance: float) -> bool:
    """Return whether plates, by their numbers and their hidden error, suit a rough signal of a variance."""
    if report.order > ROUGH_ORDER or (report.cutoff or math.inf) < ROUGH_CUTOFF:
        return False
    return any(10 ** (-psnr / 10) > ROUGH_ERROR * variance for psnr in (report.hold_out_psnr or {}).values())


class SnappedPlan(Plan):
    """Move values to the nearest nodes by plates, fit these, and fit plates to what is left at the points.

    Beyond the box of the nodes the fit differs from the plates by as much as at the nearest node of the box. A
    ``ValueError`` is raised for points without ``NearestNodes``, whatever their density.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Snapped, **options: Any) -> None:
        self.prior, self._options = prior, options
        self.plates = prior.plates.plan(encoding, geometry, **options)
        super().__init__(self.plates.encoding, self.plates.geometry, **options)
        near = NearestNodes.of(geometry, least=0.0)  # few are left where some of many points are hidden
        if near is None:
            raise _checks.wrong("prior", "cn.ThinPlate() for these points", repr(prior))
        self.near = near

    def _solve(self, values: Float[Tensor, "1 channels n"]) -> Fitted:
        between = cast(Blending, Blending.of(self.geometry)).interpolation(
            self.geometry.positions(device=values.device), [], values.dtype
        )
        f = self._plates(values)
        moved = values - between(f) + f[(..., *self.near.box)].flatten(2)[..., self.near.index]
        samples = self.near.samples(moved[0].T, self.geometry.full_weights)
        plan = self.prior.prior.plan(FourierEncoding.like(samples), samples.geometry, **self._options)
        fit = plan.fit(samples.values)
        inner = fit.render(alignment="sample").movedim(-1, 0)[None]
        f = f + _continued(inner - f[(..., *self.near.box)], self.near.box, self.geometry.grid)
        f = f + self._plates(values - between(f))
        coefficients = continue_smoothly(f, cast(Any, self.encoding).shape, 2)
        return Fitted(coefficients, fit.report)

    def _plates(self, values: Float[Tensor, "1 channels n"]) -> Float[Tensor, "1 channels *lattice"]:
        """Return the plates through values at the nodes."""
        return self.plates.solve(CenteredValues.of(values)).signal(self.geometry.grid)


def _continued(f: Float[Tensor, "1 channels *box"], box: tuple[slice, ...], lattice: tuple[int, ...]) -> Tensor:
    """Return a signal of a part of a lattice on all of it, with the value of the nearest node beyond the part."""
    margins = [(side.start, n - side.stop) for side, n in zip(box, lattice, strict=True)]
    return pad(f, [width for ends in reversed(margins) for width in ends], mode="replicate")
