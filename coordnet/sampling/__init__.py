"""Axes, samples of a signal, and the patterns by which they are drawn."""

from coordnet.sampling import operators
from coordnet.sampling.axes import Axis, lattice_points, render_axes
from coordnet.sampling.grids import AreaLattice, Lattice, MaskedLattice
from coordnet.sampling.measurements import Measurements
from coordnet.sampling.patterns import Area, Bayer, Every, Random, Scattered, sample
from coordnet.sampling.points import Points, points
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints

__docformat__ = "numpy"
__all__ = [
    "Area",
    "AreaLattice",
    "Axis",
    "Bayer",
    "Every",
    "Lattice",
    "MaskedLattice",
    "Measurements",
    "Points",
    "Random",
    "RectilinearLattice",
    "Samples",
    "Scattered",
    "ScatteredPoints",
    "lattice_points",
    "operators",
    "points",
    "render_axes",
    "sample",
]
