"""The thin plate: when it suits samples, and its plan."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet.encodings import Encoding
from coordnet.networks.fit_reports import FitReport, PlateReport
from coordnet.plans.plan import Plan
from coordnet.priors.base import Learned, Prior, Setting
from coordnet.priors.plates.field import dimensions, nyquist
from coordnet.priors.plates.plan import ThinPlatePlan
from coordnet.priors.plates.search import PlateParameters
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

# Nodes of the largest lattice on which plates are taken unasked; those of a row need half a kilobyte each.
LARGEST_UNASKED = ByAxes({1: 2**21, 2: 2**19, 3: 2**18})
NEARLY = 3.0  # cut-off in radians a node, just below the nodes' Nyquist frequency
# Orders of plates without other free numbers, lowest first.
INTERPOLATING = ByAxes({1: (1, 2, 3), 2: (2, 2.5, 3), 3: (2,)})
SMOOTHED = 3, (1.0, 0.35)  # order of plates that smooth, and cut-offs relative to the samples' own Nyquist frequency
MOSTLY = 0.5  # share of the nodes that is known from which on plates smooth unasked only where noise was seen


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
    usage: ClassVar[str] = "[:order=4,cutoff=1]"
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True  # SciPy solves for it there, wherever the samples are

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        return ThinPlatePlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[ThinPlate, ...]":
        """Return plates that interpolate, and one whose numbers hidden samples choose, where samples skip nodes.

        Nodes that were laid for points have the latter alone. Through points between other nodes, plates go with the
        cut-off ``NEARLY``: where there are more points than nodes around, plates through all of them are wild, which
        hidden points need not show. Short rows have none that smooth by given numbers, as ``Kriging`` finds better
        ones. On lattices that skip samples cut-offs would be chosen too low, as a hidden sample is twice as far from
        its neighbors as the points between samples are.
        """
        geometry = setting.geometry
        if not (geometry.hides_alike and setting.fourier) or setting.robust:
            return ()
        if geometry.is_laid and len(geometry.grid) <= 3:
            return (cls(),)
        if len(geometry.grid) > 3 or math.prod(geometry.grid) > LARGEST_UNASKED[dimensions(geometry.grid)]:
            return ()
        highest = math.inf if geometry.closed_form_blend is None else NEARLY
        plates = tuple(cls(order, highest, 0.0) for order in INTERPOLATING[dimensions(geometry.grid)])
        if not geometry.is_whole_lattice:
            is_row = dimensions(geometry.grid) == 1
            frequency = nyquist(geometry.density, dimensions(geometry.grid))
            if setting.is_short_row:
                return (*plates, cls())
            is_exact = geometry.density >= MOSTLY and not setting.nugget
            order, cutoffs = SMOOTHED if not is_exact else (SMOOTHED[0], ())
            smoothed = *(cls(order, round(c * frequency, 3), 0.0) for c in cutoffs), cls()
            return (*plates, *smoothed, cls(1)) if is_row else (*plates, *smoothed)
        return (*plates, cls(cutoff=math.inf)) if geometry.is_strided and geometry.is_nodal else ()

    @property
    def text(self) -> str:
        """The prior as the command line reads it, without what does not matter where both numbers are given."""
        return self._text("order", "cutoff", *["corner"] * (self.corner > 0)) if self.is_chosen else super().text

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

    def seeded(self, seed: int) -> "ThinPlate":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, seed=seed)
