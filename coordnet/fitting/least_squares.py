"""Least squares on a whole lattice."""

import math
from dataclasses import dataclass
from typing import Any

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.designs import separable_inverse
from coordnet.fitting.plan import DirectPlan
from coordnet.linalg.kronecker import Kronecker, KroneckerLeastSquares
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class LeastSquares:
    """Minimize ‖A w - y‖² + λ ‖w‖² on a whole lattice, with λ = ``ridge``; take the minimizer of least norm.

    Singular values below ``rcond`` times the largest count as zero; by default it is ε max(N, K), with ε of the dtype.

    Raises
    ------
    ValueError
        If a number is negative, or ``rcond`` is above 1.
    """

    ridge: float = 0.0
    rcond: float | None = None

    def __post_init__(self) -> None:
        _checks.nonnegative("ridge", self.ridge)
        if self.rcond is not None:
            _checks.between("rcond", self.rcond, 0.0, 1.0)


class LeastSquaresPlan(DirectPlan):
    """Least squares, or ridge regression, of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Long axes of local encoders are factorized as banded matrices, at a cost linear in the samples; see
    ``encodings.designs``. A fit is a fixed sequence of matrix products, which never waits for a GPU.

    A ``RankWarning`` is given if an axis has a lower rank than its smaller dimension. An encoding without one encoder
    per axis, or a geometry that is not a whole lattice, raises a ``ValueError``.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, method: LeastSquares, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        if not self.encoding.axis_encoders:
            raise _checks.wrong("encoding", "a ComplexEncoding for LeastSquares()", type(encoding).__name__)
        if not geometry.is_whole_lattice:
            raise _checks.wrong("geometry", "a whole lattice for LeastSquares()", type(geometry).__name__)
        inverse = None
        if method.ridge == 0:
            inverse = separable_inverse(
                self.encoding, geometry.axes, rcond=method.rcond, dtype=self.dtype, device=self.device
            )
        if inverse is not None:
            operator, ranks = Kronecker(inverse), [min(a.shape) for a in inverse]
            freedom = float(math.prod(ranks))
        else:
            designs = self.encoding.matrices(geometry.axes, device=self.device)
            system = KroneckerLeastSquares(designs, ridge=method.ridge, rcond=method.rcond, dtype=self.dtype)
            operator, ranks, freedom = system.inverse, list(system.ranks), system.degrees_of_freedom
        self._prepare(operator, {"method": "least squares", "ranks": ranks, "degrees_of_freedom": freedom})
