"""The thin plate, for smooth fields: when it suits samples, and its plan."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import continue_smoothly
from coordnet.linalg.machine import is_tracked, stage
from coordnet.networks.fit_reports import FitReport, PlateReport
from coordnet.plans.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.priors.base import Learned, Prior, Setting
from coordnet.priors.plates.errors import LOWEST, PlateParameters
from coordnet.priors.plates.field import Field, dimensions, nyquist, plate_blend, stretch
from coordnet.priors.plates.plate import FollowedPlate, adjoint, energy_weight, plate, share_beyond, swings
from coordnet.priors.plates.search import LARGEST_UNASKED, choose_plate
from coordnet.priors.plates.solve import PlateSolution, SingularPlate
from coordnet.priors.plates.tiles import tiled_plate
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

NEARLY = 3.0  # cut-off in radians a node, just below the nodes' Nyquist frequency
# Orders of plates without other free numbers, lowest first.
INTERPOLATING = ByAxes({1: (1, 2, 3), 2: (2, 2.5, 3), 3: (2,)})
SMOOTHED = 3, (1.0, 0.35)  # order of plates that smooth, and cut-offs relative to the samples' own Nyquist frequency
MOSTLY = 0.5  # share of the nodes that is known from which on plates smooth unasked only where noise was seen
NOISY = 2.0  # squared hidden error of interpolated noise, relative to the least possible one, at most, 3 dB
CLOSE = 10**0.1  # squared hidden error of the last plates that were tried, relative to the best, at most: 1 dB
SMOOTH_ERROR = 1e-4  # squared hidden error relative to the mean square of the samples (-40 dB) of signals without edges


@dataclass(frozen=True)
class ThinPlate(PlateParameters, Prior):
    """The energy Σ p!/α! ‖D^α f‖² of a lattice signal f over all derivatives of order |α| = p, by first differences D.

    The lattice is open: nothing is assumed beyond its borders, where the plate is free. A polynomial of degree below
    the order p has no energy. Samples of a row are interpolated by natural splines, which have the least energy of
    derivatives themselves. It suits smooth fields, as physics and geography have them; photographs have edges, which
    it does not suit.

    Attributes
    ----------
    order : int or half-integer, optional
        The order p of the derivatives, from 1 to 8; hidden samples choose a whole one if it is not given. In two
        dimensions those of order 1.5, 2, 2.5 and 3.5 are like radial basis functions r, r² log r, r³ and r⁵; of order
        p + 1/2 the energy is the tangent of |ω|^(2p+1) at the samples' own Nyquist frequency (``plate_energy``).
    cutoff : float, optional
        The frequency ω, in radians a sample of the lattice, above which samples count as noise, from 1e-9 to 1e9: the
        energy has the weight ω^(-2p) against squared errors of weight 1. With ``math.inf`` samples are interpolated.
        Hidden samples choose it if it is not given.
    hold_out : float
        The fraction of the samples that is hidden for a choice, or for the report; 0 where neither is wanted.
    seed : int
        The seed of the hidden samples.
    corner : float
        The frequency κ, in radians a sample, below which the energy is that of white noise: with it the energy is
        (κ² + |ω|²)^p at frequencies ω, and a signal returns to its mean far from samples. Points with noise choose it
        where neither the order nor the cut-off is given; 0 for none.
    anisotropy : tuple of float
        The weight a_j of the squared frequencies along each axis of a lattice, Σ a_j ω_j² in the place of |ω|², for
        signals that vary more along one axis than along another; all are 1 if it is empty.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    Duchon, "Splines minimizing rotation-invariant semi-norms in Sobolev spaces" (1977), has the continuous energy;
    Wahba, "Spline Models for Observational Data" (1990), chapter 2.
    """

    name: ClassVar[str] = "plates"
    usage: ClassVar[str] = "[:order=4,cutoff=1,anisotropy=1x25]"
    learns: ClassVar[bool] = True
    axes: ClassVar[range] = range(1, 4)
    on_cpu: ClassVar[bool] = True  # SciPy solves for it there, wherever the samples are

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        return ThinPlatePlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[ThinPlate, ...]":
        """Return plates that interpolate, and one whose numbers hidden samples choose, where samples skip nodes.

        Nodes that were laid for points have the latter alone, unless they are a row. Through points between nodes,
        plates go with the cut-off ``NEARLY``: where there are more points than nodes around, plates through all of them
        are wild, which hidden points need not show. Short rows have none that smooth by given numbers, as ``Kriging``
        finds better ones. On lattices that skip samples cut-offs would be chosen too low, as a hidden sample is twice
        as far from its neighbors as the points between samples are.
        """
        geometry = setting.geometry
        if not (geometry.hides_alike and setting.fourier):
            return ()
        if geometry.is_laid and not (dimensions(geometry.grid) == 1 and setting.has_plain_points):
            return (cls(),)
        if math.prod(geometry.grid) > LARGEST_UNASKED[dimensions(geometry.grid)]:
            return ()
        highest = math.inf if geometry.closed_form_blend is None else NEARLY
        plates = tuple(cls(order, highest, 0.0) for order in INTERPOLATING[dimensions(geometry.grid)])
        if setting.sampled != "lattice":
            is_row = dimensions(geometry.grid) == 1
            weighted = setting.anisotropies
            plates += tuple(cls(order, math.inf, 0.0, anisotropy=weights) for order, weights in weighted.items())
            weights = weighted.get(LOWEST, ())
            frequency = stretch(weights) * nyquist(geometry.density, dimensions(geometry.grid))
            if setting.is_short_row or geometry.is_laid:
                return (*plates, cls())
            is_exact = geometry.density >= MOSTLY and not setting.nugget
            order, cutoffs = SMOOTHED if not is_exact else (SMOOTHED[0], ())
            fixed = (cls(order, round(c * frequency, 3), 0.0, anisotropy=weights) for c in cutoffs)
            smoothed = *fixed, cls(anisotropy=weights)
            return (*plates, *smoothed, cls(1)) if is_row else (*plates, *smoothed)
        return (*plates, cls(cutoff=math.inf)) if geometry.is_strided and geometry.is_nodal else ()

    @property
    def text(self) -> str:
        """The prior as the command line reads it, without what does not matter where both numbers are given."""
        others = [name for name in ("corner", "anisotropy") if getattr(self, name)]
        return self._text("order", "cutoff", *others) if self.is_chosen else super().text

    @property
    def keeps_samples(self) -> bool:
        """Whether samples are interpolated."""
        return self.cutoff == math.inf

    @property
    def searches(self) -> bool:
        """Whether its order or its cut-off is to be chosen."""
        return not self.is_chosen

    def settled(self, report: FitReport) -> "ThinPlate":
        """Return the prior with the order and the cut-off of a fit, where hidden samples chose them for all of it."""
        if self.is_chosen or not isinstance(report, PlateReport):
            return self
        numbers: Any = {"order": report.order, "cutoff": report.cutoff or math.inf, "corner": report.corner}
        return replace(self, **numbers, hold_out=0.0)

    def taught(self, fits: Sequence[Learned]) -> "ThinPlate":
        """Return the prior with the order and the cut-off of the first fit."""
        return self.settled(fits[0][0])


class ThinPlatePlan(Plan):
    """Minimize the energy of a thin plate through the samples, or near them, on the signal's own grid.

    The plate is solved for in float64 on the CPU (see ``plates.plate``), for each mask of the channels. The Fourier
    encoding interpolates the resulting lattice, which is continued smoothly beyond its borders. Scattered points depend
    on the lattice by ``plate_blend``, unless their geometry names another. Gradients flow to the values, while
    the numbers of the prior are held fixed.

    The parameters are those of ``plan``; the encoding of a strided lattice is replaced by that of the signal's grid. A
    ``ValueError`` is raised if the encoding is not Fourier's, and by ``fit`` if the samples do not determine a plate.
    """

    has_gradient = has_drift = has_poles = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: PlateParameters, **options: Any) -> None:
        if encoding.axis_encoders:
            raise _checks.wrong("encoding", "a FourierEncoding for thin plates", type(encoding).__name__)
        geometry.check_point_values("prior", "cn.Smoothness or cn.Adaptive", "cn.ThinPlate")
        if getattr(encoding, "axes", geometry.pixels) != geometry.pixels:
            encoding = FourierEncoding.on(geometry.pixels)
        if prior.anisotropy and (geometry.is_laid or len(prior.anisotropy) != len(geometry.grid)):
            expected = "none for points, whose coordinates have scales" if geometry.is_laid else "one weight per axis"
            raise _checks.wrong("anisotropy", expected, prior.anisotropy)
        super().__init__(encoding, geometry.blended(plate_blend(geometry)), **options)
        self.prior, self.faster = prior, geometry.blended("quintic")

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether numbers are given, or hidden samples that choose them may find better ones than were tried.

        One of the same order or the highest that was tried, or one that smooths, must be the best of all, or close,
        unless the least error is that of a smooth signal, at whose hidden samples near the border all err alike. One
        that smooths by a given number does not help where all that interpolate are further off than noise explains.
        """
        tried = {prior: error for prior, error in errors.items() if isinstance(prior, PlateParameters)}
        if self.prior.is_chosen or not errors:
            interpolating = [error for prior, error in tried.items() if prior.cutoff == math.inf]
            smooths = self.prior.cutoff != math.inf and bool(interpolating)
            return not smooths or min(interpolating) <= NOISY * min(errors.values())
        if not tried:
            return self.geometry.is_laid
        if min(errors.values()) <= SMOOTH_ERROR * energy:
            return True
        orders = {max(prior.order or 0 for prior in tried), self.prior.order}
        ends = [error for prior, error in tried.items() if prior.order in orders or prior.cutoff != math.inf]
        return min(ends) <= CLOSE * min(errors.values())

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values; where hidden samples choose, each signal has its own choice."""
        with stage("fitting plates", shown=self.progress):
            return self._solve(values.subtracted()) if self.prior.is_chosen else solve_each(self._solve, values)

    def _solve(self, values: Float[Tensor, "signals channels *samples"]) -> Fitted:
        weights = self.geometry.weights
        masks = 1 if weights is None else weights.shape[-1]
        parts = [values] if masks == 1 else values.split(1, dim=1)
        fields = [self._field(self.geometry, part, channel) for channel, part in enumerate(parts)]
        chosen, errors = choose_plate(self._deciding(fields[0], parts[0]), self.prior)
        solved = [
            solve_plate(field, chosen, warns=self.prior.order is not None, progress=self.progress) for field in fields
        ]
        drifts = [field.drift_coefficients(f, part.left) for field, (f, _, part) in zip(fields, solved, strict=True)]
        lattices = [
            self._followed(part, field, field.without_drift(f, drift), replace(chosen, order=order), channel)
            for channel, (part, field, drift, (f, order, _)) in enumerate(
                zip(parts, fields, drifts, solved, strict=True)
            )
        ]
        order = max(order for _, order, _ in solved)
        shape: Any = self.encoding.shape
        extended = continue_smoothly(torch.cat(lattices, dim=1), shape, math.ceil(order))
        solutions = [solution for *_, solution in solved]
        report = PlateReport(
            method=f"thin plates, {solutions[0].method}",
            device="cpu",
            **errors.record(replace(chosen, order=order)),
            iterations=max(solution.iterations for solution in solutions),
            relative_residual=max(solution.residual for solution in solutions),
            beyond_samples=max(map(share_beyond, fields)),
        )
        if self.geometry.drift is None:
            return Fitted(extended.to(values), report)
        learned = self._drift(drifts, len(values))
        named = zip(self.geometry.drift.names, learned["drift"][0].tolist(), strict=True)
        return Fitted(extended.to(values), replace(report, drift=dict(named)), learned)

    def _deciding(self, field: Field, values: Float[Tensor, "signals channels *samples"]) -> Field:
        """Return the field that decides on order and cut-off: by the quintic blend, whose many solves are faster."""
        if self.faster.closed_form_blend == self.geometry.closed_form_blend or self.prior.is_chosen:
            return field
        return self._field(self.faster, values)

    def _field(self, geometry: Geometry, values: Float[Tensor, "signals channels *samples"], channel: int = 0) -> Field:
        return replace(Field.of(geometry, values.flatten(0, 1), channel), anisotropy=self.prior.anisotropy)

    def _drift(self, found: list[np.ndarray], signals: int) -> dict[str, Tensor]:
        """Return the coefficients, (signals, k, channels), for columns in the user's units, and these columns' means.

        They are found for standardized columns, (k, signals * channels) for each mask of the channels.
        """
        drift: Any = self.geometry.drift
        parts = [torch.from_numpy((b / drift.scales[:, None]).reshape(len(b), signals, -1)) for b in found]
        means = torch.from_numpy(drift.means).expand(signals, -1)
        return {"drift": torch.cat(parts, -1).movedim(0, 1).contiguous(), "drift_means": means.contiguous()}

    def _followed(self, values: Tensor, field: Field, f: np.ndarray, chosen: PlateParameters, channel: int) -> Tensor:
        """Return the plate f of some values as a tensor, (signals, channels, *grid), through which gradients flow."""
        plate = torch.from_numpy(f.T.reshape(*values.shape[:2], *self.geometry.grid))
        if not is_tracked(values):
            return plate
        if field.latitude is not None or field.drifts:
            kind = "on a sphere" if field.latitude is not None else "with a drift"
            raise _checks.wrong("values", f"ones without gradients, {kind}", "values to which they are followed")
        weights = self.geometry.weights
        known = slice(None) if weights is None else (weights[..., channel].flatten() > 0).cpu()

        def onto_samples(gradient: Tensor) -> Tensor:
            g = gradient.reshape(-1, f.shape[0]).T.numpy()
            back = torch.from_numpy(
                adjoint(field, chosen.order or 1, chosen.cutoff or math.inf, chosen.corner, g).T.copy()
            )
            result = torch.zeros(values.shape, dtype=torch.float64).flatten(2)
            result[..., known] = back.reshape(*values.shape[:2], -1)
            return result.reshape(values.shape).to(values)

        return FollowedPlate.apply(values, plate, onto_samples)


def solve_plate(
    field: Field, prior: PlateParameters, *, warns: bool = True, progress: bool = False
) -> tuple[np.ndarray, int | float, PlateSolution]:
    """Return the plate with a prior's numbers, its order and the solve.

    A system that is singular to rounding is solved with a lower order, which ``warns`` with a ``CoordnetWarning`` where
    the order was asked for; if there is none, a ``ValueError`` is raised. Where it was not, plates that swing between
    clusters of points are tied to a membrane there.
    """
    given = prior.order or 1
    for order in (given, *range(math.ceil(given) - 1, 0, -1)):
        try:
            f, solution = plate(field, order, prior.cutoff or math.inf, prior.corner, progress=progress)
        except SingularPlate as error:
            reason = str(error)
            continue
        if not warns and swings(field, f):
            strength = energy_weight(order, prior.cutoff or math.inf)
            f, solution = tiled_plate(field, order, strength, prior.corner, coarse_order=1)
        if order < given and warns:
            text = f"`prior`: the samples do not determine plates of order {given}; those of order {order} are taken"
            warnings.warn(text, _checks.CoordnetWarning, stacklevel=2)
        return f, order, solution
    raise _checks.wrong("prior", "samples that determine a plate", reason)
