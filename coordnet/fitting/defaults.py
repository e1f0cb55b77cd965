"""Which encoder and encoding suit which prior and samples."""

from typing import Literal

from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import BSpline, Encoder, Gaussian, JointEncoder, Triangle
from coordnet.networks.heads import Head
from coordnet.priors.base import Prior, Setting
from coordnet.sampling.samples import Geometry

Solver = Literal["closed-form", "gradient"]
Kind = Literal["complex", "simple"]
Family = type[Encoder] | type[JointEncoder] | type[FourierEncoding]

COMPARED: tuple[Family, ...] = (Gaussian, Triangle, BSpline)  # the encoders of a comparison that names none


def default_encoder(geometry: Geometry, prior: Prior | None, solver: Solver = "closed-form") -> Family:
    """The encoder that suits a prior: Gaussians, or Fourier's where a closed form needs its fast transforms.

    Fourier's is for priors that learn from the samples, for axes that are too long for a matrix, for smooth rows that
    skip samples, and for priors at unequal coordinates, by blending.
    """
    smooth_row = len(geometry.grid) == 1 and geometry.is_strided and prior is not None
    if geometry.blending in ("similarity", "printed"):  # these blend along encoders of the axes
        return Gaussian
    blends = not geometry.is_even and prior is not None
    fourier = blends or (prior is not None and prior.learns) or Setting(geometry).is_long or smooth_row
    return FourierEncoding if fourier and solver == "closed-form" else Gaussian


def default_encoding(head: Head, family: Family | None = None) -> Kind:
    """The complex encoding for a linear head, unless the encoder is of several axes jointly; the simple one else."""
    return "simple" if head.widths or getattr(family, "joint", False) else "complex"
