"""Projections: the parallel-beam transform of tomography."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape
from coordnet.linalg.sparse import SparseMatrix


class Projections(LinearOperator):
    """Line integrals of a picture along parallel rays, in units of the pixels' spacing.

    A ray steps through the rows or the columns, those it meets more steeply, with linear interpolation between two
    pixels (Joseph, 1982). A pixel's footprint on the detectors is then a triangle of area 1 and half-width
    m = max(|cos θ|, |sin θ|). A pixel in row r and column c from the middle ones, h // 2 and w // 2, is projected to
    the position c cos θ - r sin θ, from the middle detector, detectors // 2: the geometry of scikit-image's ``radon``
    with ``circle=False``. Of more than two axes the last two are the picture's; the others are slices.

    Parameters
    ----------
    angles : sequence of numbers
        The angles θ of the projections, in degrees.
    grid : tuple of int
        The lengths of the signal.
    detectors : int, optional
        The number of rays of each projection, one pixel's spacing apart; by default ⌈√2 max(h, w)⌉, which see all.

    Raises
    ------
    ValueError
        If no angle is given, one is not finite, the grid has fewer than two axes, or ``detectors`` is below 1.

    Notes
    -----
    The codomain is (*slices, detectors, angles). P. M. Joseph, "An improved algorithm for reprojecting rays through
    pixel images" (IEEE Transactions on Medical Imaging, 1982).
    """

    def __init__(self, angles: Sequence[float | int] | np.ndarray, grid: Shape, detectors: int | None = None) -> None:
        degrees = np.asarray(angles)
        if degrees.ndim != 1 or degrees.dtype.kind not in "iuf" or not len(degrees) or not np.isfinite(degrees).all():
            raise _checks.wrong("angles", "finite numbers of degrees, at least one", np.array2string(degrees))
        grid = _checks.lengths("grid", grid, fewest=2)
        plane = grid[-2], grid[-1]
        count = math.ceil(math.sqrt(2) * max(plane)) if detectors is None else detectors
        shape = (_checks.integer("detectors", count, 1), len(degrees))
        self._on_plane = SparseMatrix(_joseph(np.deg2rad(degrees.astype(np.float64)), plane, shape), plane, shape)
        self.domain, self.codomain = grid, (*grid[:-2], *shape)

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch_codomain"]:
        return self._on_plane(x)

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*batch_domain"]:
        """Return the back-projection, without a filter."""
        return self._on_plane.adjoint(y)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Projections":
        """Return the operator on another device, or for tensors of another dtype."""
        moved = object.__new__(Projections)
        moved.domain, moved.codomain = self.domain, self.codomain
        moved._on_plane = self._on_plane.to(device, dtype)
        return moved


def _joseph(angles: np.ndarray, plane: tuple[int, int], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the matrix from the pixels, row by row, to detectors × angles: each pixel reaches two rays at an angle."""
    height, width = plane
    detectors, count = shape
    row, column = np.mgrid[:height, :width].reshape(2, -1).astype(np.float64)
    rays, pixels, entries = [], [], []
    for a, angle in enumerate(angles):
        cos, sin = math.cos(angle), math.sin(angle)
        half = max(abs(cos), abs(sin))
        position = (column - width // 2) * cos - (row - height // 2) * sin + detectors // 2
        for neighbor in (0, 1):
            detector = np.floor(position) + neighbor
            entry = np.maximum(0, 1 - np.abs(detector - position) / half) / half
            kept = (entry > 0) & (detector >= 0) & (detector < detectors)
            rays.append(detector[kept].astype(np.int64) * count + a)
            pixels.append(np.flatnonzero(kept))
            entries.append(entry[kept])
    index = (np.concatenate(rays), np.concatenate(pixels))
    return sparse.csr_array((np.concatenate(entries), index), shape=(detectors * count, height * width))
