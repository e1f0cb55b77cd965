"""Closed-form fits by least squares on a whole lattice."""

import math
from typing import Any

import torch

from coordnet import _checks
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.designs import designs, separable_inverse
from coordnet.fit.centred import Centred
from coordnet.fit.fused import Renderer
from coordnet.fit.plan import Plan, Solved
from coordnet.linalg.kronecker import KroneckerLeastSquares
from coordnet.linalg.precision import Precision, check_precision
from coordnet.linalg.separable import Stages
from coordnet.sampling.axes import Alignment, render_axes
from coordnet.sampling.samples import Lattice


class LeastSquaresPlan(Plan):
    """Least squares (or ridge) of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Long axes of local encoders are factorised as bands, at a cost linear in the samples: see ``banded``. A fit is a
    fixed sequence of matrix products, which never waits for a GPU.

    Parameters
    ----------
    encoding, geometry, center
        See ``Plan``.
    ridge, rcond
        See ``KroneckerLeastSquares``.
    precision : "float32", "tf32" or "bf16"
        Of the matrix products; see ``precision.multiply``.
    dtype, device
        Of the values to come.

    Warns
    -----
    RankWarning
        Where an axis has a lower rank than it has columns, or its band is singular.
    """

    direct = True

    def __init__(
        self,
        encoding: ComplexEncoding,
        geometry: Lattice,
        *,
        ridge: float = 0.0,
        rcond: float | None = None,
        center: bool = True,
        precision: Precision = "float32",
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center, dtype=dtype)
        assert isinstance(self.encoding, ComplexEncoding)
        self.precision: Precision = check_precision(precision, dtype)
        self.device = device
        kind: dict[str, Any] = {"rcond": rcond, "dtype": dtype}
        inverse = None
        if _checks.nonnegative("ridge", ridge) == 0:
            inverse = separable_inverse(self.encoding, geometry.axes, device=device, **kind)
        if inverse is not None:
            self.stages = Stages(inverse)
            self.ranks = tuple(min(a.shape) for a in inverse)
            self.degrees_of_freedom = float(math.prod(self.ranks))
        else:
            matrices = self.encoding.matrices(geometry.axes, device=device)
            system = KroneckerLeastSquares(matrices, ridge=ridge, **kind)
            self.stages = Stages(system.analysis, system.gain, system.synthesis)
            self.ranks, self.degrees_of_freedom = system.ranks, system.degrees_of_freedom
        self._ready = self.stages.ready(self.precision, dtype)

    def solve(self, values: Centred) -> Solved:
        """Return the weights of centred values, with ranks and degrees of freedom."""
        report = {
            "method": "least squares",
            "ranks": list(self.ranks),
            "degrees_of_freedom": self.degrees_of_freedom,
        }
        return Solved(values.through(self._ready, self.encoding.shape), report)

    def renderer(self, shape: tuple[int, ...] | None = None, alignment: Alignment = "pixel") -> Renderer:
        """Return what fits and renders at once: one operator an axis, where no gain stands between."""
        assert isinstance(self.encoding, ComplexEncoding)
        axes = render_axes(shape or self.geometry.grid, self.geometry.grid, alignment)
        onto = designs(self.encoding, axes, device=self.device)
        return Renderer(self.centred, self.stages.then(onto).ready(self.precision, self.dtype), axes)
