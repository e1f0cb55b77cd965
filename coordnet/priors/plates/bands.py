"""Plates on small lattices for many orders and cut-offs: normal equations and energies as bands, which are added."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

from coordnet.priors.plates.energy import Sparse
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.solve import ACCEPTED, PLATE_TOLERANCE, SINGULAR, SingularPlate


@dataclass(frozen=True)
class Band:
    """A symmetric sparse matrix, and its lower band: row k has the entries (j + k, j).

    The band is in Fortran's order, in which LAPACK factorizes it where it is.
    """

    matrix: Sparse
    lower: np.ndarray

    @classmethod
    def of(cls, matrix: Sparse) -> "Band":
        """Return the band of a matrix."""
        part = sparse.tril(matrix, format="coo")
        offset = part.row - part.col
        lower = np.zeros((int(offset.max(initial=0)) + 1, matrix.shape[0]), order="F")
        lower[offset, part.col] = part.data
        return cls(sparse.csr_array(matrix), lower)


class NormalEquations:
    """The normal equations (SᵀWS + λK) f = SᵀW y of a field, whose band is made once for all energies λK."""

    def __init__(self, field: Field) -> None:
        weighted = sparse.csr_array(field.operator.T * field.weights)
        self.normal, self.right = Band.of(weighted @ field.operator), np.asarray(weighted @ field.values)
        self.probe = np.random.default_rng(0).normal(size=(len(self.right), 1))

    def solve(self, energy: Band, strength: float) -> np.ndarray:
        """Return f, (size, columns), refined once by its residual if that is above ``PLATE_TOLERANCE``.

        Raises
        ------
        SingularPlate
            If the samples do not determine it: with a diagonal scaled to 1, the solution for white noise has about the
            norm of the inverse.
        """
        wide, narrow = self.normal.lower, strength * energy.lower
        if len(wide) < len(narrow):
            wide, narrow = narrow, wide
        band = wide.copy(order="F")
        band[: len(narrow)] += narrow
        if not (band[0] > 0).all():
            raise SingularPlate("a point without energy")
        scale = (band[0] ** -0.5)[:, None]
        try:
            factor = cholesky_banded(band, lower=True, overwrite_ab=True, check_finite=False), True
        except LinAlgError:
            raise SingularPlate("a matrix that is singular to rounding") from None
        columns = cho_solve_banded(factor, np.hstack([self.right, self.probe / scale]), check_finite=False)
        if not np.linalg.norm(columns[:, -1:] / scale) < SINGULAR:
            raise SingularPlate("a matrix that is singular to rounding")
        f, norms = columns[:, :-1], np.linalg.norm(scale * self.right, axis=0)
        for allowed in (PLATE_TOLERANCE, ACCEPTED):
            left = self.right - self.normal.matrix @ f - strength * (energy.matrix @ f)
            residuals = np.linalg.norm(scale * left, axis=0)
            if (residuals <= allowed * norms).all():
                return f
            if allowed == PLATE_TOLERANCE:
                f = f + cho_solve_banded(factor, left, check_finite=False)
        raise SingularPlate(f"relative residual {float((residuals / norms).max()):.1g}")
