"""The measurement of samples: a mask of a lattice, means over its cells, blends of its nodes, or an operator."""

import torch
from torch import Tensor

from coordnet.encodings import Encoding
from coordnet.encodings.blending import Blending
from coordnet.fitting.areas import lattice_of
from coordnet.sampling.forward import ForwardModel, Interpolation
from coordnet.sampling.samples import Geometry


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
