"""The measurement of samples: a mask of a lattice, means over its cells, blends of its nodes, or an operator."""

import math

import torch

from coordnet.encodings import Encoding
from coordnet.encodings.blending import Blending
from coordnet.fitting.areas import lattice_of
from coordnet.sampling.areas import CellMeans
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.samples import Geometry


def measure(
    encoding: Encoding, geometry: Geometry, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> ForwardModel:
    """Return the map from the lattice signal to the samples of a geometry, with their weights.

    A ``ValueError`` is raised if a point is outside the lattice, or the blending needs encoders that are missing.
    """
    weights = torch.ones(*geometry.shape, 1) if geometry.weights is None else geometry.weights
    weights = weights.movedim(-1, 0).unsqueeze(0).to(device, dtype).contiguous()
    if geometry.operator is not None:
        return ForwardModel(geometry.operator.to(device, dtype), weights, is_general=True)
    blending = Blending.of(geometry)
    if blending is None and lattice_of(encoding, geometry) == geometry.axes:
        return ForwardModel.mask(weights)
    if blending is None:
        cells = tuple(n // m for n, m in zip(geometry.grid, geometry.shape, strict=True))
        return ForwardModel(CellMeans(geometry.grid, cells), weights, 1 / math.prod(cells))
    points = geometry.points.to(device)
    operator = blending.interpolation(points, encoding.axis_encoders, dtype, geometry.outside)
    return ForwardModel(operator, weights, operator.weights.square().sum(1))
