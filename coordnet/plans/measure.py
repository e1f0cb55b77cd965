"""The measurement of samples: a mask of a lattice, means over its cells, blends of its nodes, or an operator."""

import torch
from torch import Tensor

from coordnet.encodings import Encoding
from coordnet.encodings.blending import Blending
from coordnet.sampling.axes import Axes
from coordnet.sampling.forward import ForwardModel, Interpolation
from coordnet.sampling.samples import Geometry


def lattice_of(encoding: Encoding, geometry: Geometry) -> Axes:
    """Return the axes of the lattice on which an encoding is fitted to samples.

    They are the samples' own, but for means over cells of pixels whose encoding has a feature for each pixel: then they
    are the pixels, and priors say what is between the samples.
    """
    if encoding.axis_encoders:
        resolves = all(k >= n for k, n in zip(encoding.shape, geometry.grid, strict=True))
    else:
        resolves = getattr(encoding, "axes", None) == geometry.fine_axes
    return geometry.fine_axes if resolves else geometry.axes


def measure(
    encoding: Encoding, geometry: Geometry, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> ForwardModel:
    """Return the map from the lattice signal to the samples of a geometry, with their weights.

    A ``ValueError`` is raised if a point is outside the lattice, or the blending needs encoders that are missing.
    """

    def interpolate(points: Tensor) -> Interpolation:
        blending = Blending(geometry.closed_form_blend or "linear", geometry.axes)
        return blending.interpolation(points, encoding.axis_encoders, dtype, geometry.outside)

    return geometry.forward(lattice_of(encoding, geometry), interpolate, dtype, device)
