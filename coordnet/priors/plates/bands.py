"""Plates on small lattices for many orders and cut-offs: normal equations and energies as bands, which are added."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

from coordnet.priors.plates.energy import Sparse
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.solve import ACCEPTED, SINGULAR, SingularPlate


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
        """Return f, (size, columns), refined once by its residual.

        Raises
        ------
        SingularPlate
            If the samples do not determine it: with a diagonal scaled to 1, the solution for white noise has about the
            norm of the inverse.
        """
        band = np.zeros((max(len(self.normal.lower), len(energy.lower)), len(self.right)), order="F")
        band[: len(self.normal.lower)] = self.normal.lower
        band[: len(energy.lower)] += strength * energy.lower
        if not (band[0] > 0).all():
            raise SingularPlate("a point without energy")
        scale = (band[0] ** -0.5)[:, None]
        try:
            factor = cholesky_banded(band, lower=True, overwrite_ab=True, check_finite=False), True
        except LinAlgError:
            raise SingularPlate("a matrix that is singular to rounding") from None
        found = cho_solve_banded(factor, np.hstack([self.right, self.probe / scale]), check_finite=False)
        if not np.linalg.norm(found[:, -1:] / scale) < SINGULAR:
            raise SingularPlate("a matrix that is singular to rounding")
        f = found[:, :-1]
        f = f + cho_solve_banded(factor, self._left(f, energy, strength), check_finite=False)
        left, norms = (np.linalg.norm(scale * b, axis=0) for b in (self._left(f, energy, strength), self.right))
        if not (left <= ACCEPTED * norms).all():
            raise SingularPlate(f"relative residual {float((left / norms).max()):.1g}")
        return f

    def _left(self, f: np.ndarray, energy: Band, strength: float) -> np.ndarray:
        return self.right - self.normal.matrix @ f - strength * (energy.matrix @ f)
