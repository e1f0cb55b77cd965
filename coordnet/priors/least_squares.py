"""Least squares on a whole lattice."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.designs import separable_inverse
from coordnet.linalg.kronecker import Kronecker, KroneckerLeastSquares, default_rcond
from coordnet.networks.fit_reports import LeastSquaresReport
from coordnet.plans.plan import DirectPlan, Plan
from coordnet.priors.base import Prior
from coordnet.sampling.samples import Geometry

HELD = "`encoding.requires_grad_(False)`, or solver='gradient' to train its scales"


@dataclass(frozen=True)
class LeastSquares(Prior):
    """Minimize ‖A w - y‖² + λ ‖w‖² on a whole lattice, with λ = ``ridge``; take the minimizer of least norm.

    Singular values below ``rcond`` times the largest count as zero; by default it is ε max(N, K), with ε of the dtype.

    Raises
    ------
    ValueError
        If a number is negative, or ``rcond`` is above 1.
    """

    name: ClassVar[str] = "least-squares"
    usage: ClassVar[str] = "[:ridge=0.01]"
    follows_scales: ClassVar[bool] = True
    ridge: float = 0.0
    rcond: float | None = None

    def __post_init__(self) -> None:
        _checks.nonnegative("ridge", self.ridge)
        if self.rcond is not None:
            _checks.between("rcond", self.rcond, 0.0, 1.0)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return LeastSquaresPlan(encoding, geometry, self, **options)


class LeastSquaresPlan(DirectPlan):
    """Least squares, or ridge regression, of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Long axes of local encoders are factorized as banded matrices, at a cost linear in the samples; see
    ``encodings.designs``. A fit is a fixed sequence of matrix products, which never waits for a GPU.

    A ``RankWarning`` is given if an axis has a lower rank than its smaller dimension. An encoding without one encoder
    per axis, or a geometry that is not a whole lattice, raises a ``ValueError``.

    Gradients flow to learnable scales of the encoding, to which a fit then refers, without a ridge and at full rank.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, method: LeastSquares, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        if not self.encoding.axis_encoders:
            raise _checks.wrong("encoding", "a ComplexEncoding for LeastSquares()", type(encoding).__name__)
        geometry.check_filled("geometry", "a whole lattice for LeastSquares()")
        inverse = None
        if self.followed:
            inverse = self._followed_inverse(method)
        elif method.ridge == 0:
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
        report = LeastSquaresReport(method="least squares", ranks=ranks, degrees_of_freedom=freedom)
        self._prepare(operator, report)

    def _followed_inverse(self, method: LeastSquares) -> list[Tensor]:
        """Return the pseudo-inverse of every axis, as a function of its scales (Golub and Pereyra 1973)."""
        designs = self.encoding.matrices(self.geometry.axes, device=self.device)
        conditions = [float(torch.linalg.cond(a.detach())) for a in designs]
        cut = default_rcond([n for a in designs for n in a.shape], self.dtype) if method.rcond is None else method.rcond
        if method.ridge or not math.prod(conditions) * cut < 1:
            found = f"a ridge of {method.ridge:g}" if method.ridge else "one that is singular to rounding"
            expected = f"{HELD}, unless least squares have no ridge and full rank"
            raise _checks.wrong("encoding", expected, f"learnable scales and {found}")
        return [torch.linalg.pinv(a) for a in designs]
