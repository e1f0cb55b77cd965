"""The measurement of a geometry's samples: a mask of a lattice, blends of its nodes at points, or an operator."""

import torch

from coordnet.encodings import Encoding
from coordnet.encodings.blending import Blending
from coordnet.sampling.measurements import Measurement
from coordnet.sampling.samples import Geometry


def measure(
    encoding: Encoding, geometry: Geometry, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Measurement:
    """Return the map from the lattice signal to the samples of a geometry, with their weights.

    A ``ValueError`` is raised if a point is outside the lattice, or the blending needs encoders that are missing.
    """
    weights = torch.ones(*geometry.shape, 1) if geometry.weights is None else geometry.weights
    weights = weights.movedim(-1, 0).unsqueeze(0).to(device, dtype).contiguous()
    if geometry.operator is not None:
        return Measurement(geometry.operator.to(device, dtype), weights, is_general=True)
    blending = Blending.of(geometry)
    if blending is None:
        return Measurement.mask(weights)
    points = geometry.points.to(device)
    operator = blending.interpolation(points, encoding.axis_encoders, dtype, geometry.outside)
    return Measurement(operator, weights, operator.weights.square().sum(1))
