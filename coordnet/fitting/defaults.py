"""The policy of the library: which prior, encoder and encoding suit which samples."""

import math
from typing import Literal

import torch

from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import BSpline, Encoder, Gaussian, JointEncoder, Triangle
from coordnet.fitting.effort import local_seconds
from coordnet.networks.heads import Head
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local
from coordnet.priors.plates import ThinPlate
from coordnet.priors.smoothness import POWER, Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

Prior = Smoothness | Adaptive | Local | ThinPlate
Solver = Literal["closed-form", "gradient"]
Kind = Literal["complex", "simple"]
Family = type[Encoder] | type[JointEncoder] | type[FourierEncoding]

# What lies between the samples of a strided lattice. Held-out figures at every second sample of sixteen photographs:
# 27.58 dB (27.33 without a prior).
STRIDED = ByAxes({1: Smoothness(2.5, 0.01), 2: Smoothness(1.5, 0.03)})
# Between the samples of a row: splines of an order that hidden samples choose. Cut-offs would be chosen too low, as a
# hidden sample is twice as far from its neighbors as the points between samples are.
STRIDED_ROW = ThinPlate(cutoff=math.inf)
LONGEST_ROW = 2**21  # points of a row up to which it takes them: they need half a kilobyte each
LONGEST_LOCAL = 60.0  # seconds that a fit with the local prior takes by default at most, by ``local_seconds``
LONGEST = 8192  # samples along an axis up to which its design matrix is factorized by default
COMPARED: tuple[Family, ...] = (Gaussian, Triangle, BSpline)  # the encoders of a comparison that names none


def default_prior(
    geometry: Geometry,
    *,
    channels: int = 3,
    device: torch.device | str = "cpu",
    fourier: bool = True,
    robust: bool = False,
) -> Prior | None:
    """The prior that suits the samples of a geometry.

    A whole lattice with every sample needs none, unless an axis is too long for its design matrix to be factorized:
    then it is a weak smoothness. Pictures and clips with gaps take the local prior, if the encoding may be
    Fourier's (``fourier``) and ``LONGEST_LOCAL`` seconds suffice for the ``channels`` on the ``device``; among lattices
    that skip samples only pictures do. Rows that skip samples take splines (``STRIDED_ROW``) up to ``LONGEST_ROW``
    points, if the encoding may be Fourier's. All means over the cells of a picture take the local prior too; other
    means need no prior where all are known, else the adaptive one. Otherwise lattices that skip samples take a
    smoothness, and other samples the adaptive prior. Where outliers are expected (``robust``) it is a smoothness with
    Huber's loss, which the other priors do not have.
    """
    dims = len(geometry.grid)
    if robust:
        return Smoothness(POWER[dims], 1e-3 if geometry.is_whole_lattice else 1e-2, loss="huber")
    if fourier and _has_gaps(geometry) and local_seconds(geometry, channels, device) <= LONGEST_LOCAL:
        return Local()
    if geometry.has_cells:
        return None if geometry.is_whole_lattice and not _is_long(geometry) else Adaptive()
    if geometry.operator is not None:
        return Adaptive()
    if not geometry.is_whole_lattice:
        return Adaptive()
    if geometry.shape != geometry.grid:
        splines = fourier and geometry.is_even and dims == 1 and geometry.grid[0] <= LONGEST_ROW
        return STRIDED_ROW if splines else STRIDED[dims]
    return Smoothness(POWER[dims], 1e-3) if _is_long(geometry) else None


def default_encoder(geometry: Geometry, prior: Prior | None, solver: Solver = "closed-form") -> Family:
    """The encoder that suits a prior: Gaussians, or Fourier's where a closed form needs its fast transforms.

    Fourier's is for priors that learn from the samples, for axes that are too long for a matrix, for smooth rows that
    skip samples, and for priors at unequal coordinates, by blending.
    """
    is_strided_row = len(geometry.grid) == 1 and geometry.is_whole_lattice and geometry.shape != geometry.grid
    smooth_row = is_strided_row and prior is not None
    if geometry.blending in ("similarity", "printed"):  # of the encoders of axes, which Fourier's encoding has not
        return Gaussian
    blends = not geometry.is_even and prior is not None
    fourier = blends or getattr(prior, "learns", False) or _is_long(geometry) or smooth_row
    return FourierEncoding if fourier and solver == "closed-form" else Gaussian


def default_encoding(head: Head, family: Family | None = None) -> Kind:
    """The complex encoding for a linear head, unless the encoder is of several axes jointly; the simple one else."""
    return "simple" if head.widths or getattr(family, "joint", False) else "complex"


def _has_gaps(geometry: Geometry) -> bool:
    """Whether a geometry is a picture or a clip with gaps or cells that the local prior fills better than others do."""
    weights, dims = geometry.weights, len(geometry.grid)
    if geometry.is_scattered or geometry.operator is not None or not geometry.is_even or dims not in (2, 3):
        return False
    if weights is None:
        return dims == 2 and geometry.shape != geometry.grid
    return not geometry.has_cells and bool(((weights == 0) | (weights == 1)).all())


def _is_long(geometry: Geometry) -> bool:
    return max(axis.count for axis in geometry.axes) > LONGEST
