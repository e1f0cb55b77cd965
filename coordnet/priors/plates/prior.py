"""The thin plate: when it suits samples, and its plan."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet.encodings import Encoding
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior, Setting
from coordnet.priors.plates.parameters import PlateParameters
from coordnet.priors.plates.plan import ThinPlatePlan
from coordnet.sampling.points import Points
from coordnet.sampling.samples import Geometry

LONGEST_ROW = 2**21  # points of a row up to which it is taken unasked: they need half a kilobyte each


@dataclass(frozen=True)
class ThinPlate(PlateParameters, Prior):
    """The energy Σ p!/α! ‖D^α f‖² of a lattice signal f over all derivatives of order |α| = p, by first differences D.

    The lattice is open: nothing is assumed beyond its borders, where the plate is free. A polynomial of degree below
    the order p has no energy. Samples of a row are interpolated by natural splines, which have the least energy of
    derivatives themselves. It suits smooth fields, as physics and geography have them; photographs have edges, which
    it does not suit.

    Attributes
    ----------
    order : int or float, optional
        The order p of the derivatives, from 1 to 8, or half of an odd number (see ``plate_energy``); hidden samples
        choose it if it is not given.
    cutoff : float, optional
        The frequency ω, in radians a sample of the lattice, above which samples count as noise, from 1e-9 to 1e9: the
        energy has the weight ω^(-2p) against squared errors of weight 1. With ``math.inf`` samples are interpolated.
        Hidden samples choose it if it is not given.
    hold_out : float
        The fraction of the samples that is hidden for a choice.
    seed : int
        The seed of the hidden samples.

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
    learns: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = True  # SciPy solves for it there, wherever the samples are

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        return ThinPlatePlan(encoding, geometry, self, **options)

    @classmethod
    def suited(cls, setting: Setting) -> "ThinPlate | None":
        """Return splines for rows that skip samples, of an order that hidden samples choose.

        Cut-offs would be chosen too low, as a hidden sample is twice as far from its neighbors as the points between
        samples are. Smooth fields take plates if hidden samples say so (``fitting.choice``).
        """
        geometry = setting.geometry
        if isinstance(geometry, Points) and len(geometry.grid) <= 3 and setting.fourier and not setting.robust:
            return cls()
        skips = geometry.is_whole_lattice and not geometry.has_cells and geometry.shape != geometry.grid
        is_row = len(geometry.grid) == 1 and geometry.is_even and geometry.grid[0] <= LONGEST_ROW
        suits = skips and is_row and geometry.operator is None and setting.fourier and not setting.robust
        return cls(cutoff=math.inf) if suits else None

    def seeded(self, seed: int) -> "ThinPlate":
        """Return the prior with another seed of the hidden samples."""
        return replace(self, seed=seed)
