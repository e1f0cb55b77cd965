"""Solves of the sparse systems of thin plates, each with its residual checked."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded
from scipy.sparse import linalg

from coordnet.priors.plates.field import Sparse
from coordnet.sampling.axes import ByAxes

# Unknown points up to which the exact factorization is taken, by the number of axes: its fill grows faster in more.
FACTORIZED_NODES = ByAxes({1: 2**24, 2: 128**2, 3: 12**3})
DROPS = (1e-6, 1e-8)  # drop tolerances of the incomplete factorization; 1e-5 fails for some systems of a high order
FILL = 20
# Numbers in the band of a picture or a volume up to which it is factorized, three times as fast as by SuperLU: half a
# gigabyte for a picture of 200 by 300 points between nodes, whose incomplete factorization takes longer still. A row's
# band is factorized where its square has no more numbers than the row: that of a circle is as wide as the circle.
BANDED_NUMBERS = 2**26
# Products of a band's factorization, for each number of a volume's matrix, above which conjugate gradients are faster;
# settled on one volume of 14×16×18 nodes.
STEPS_PRICE = 2**13
PLATE_TOLERANCE = 1e-9  # relative residual to which plates are solved
ACCEPTED = 1e-6  # the relative residual above which a solve has failed
SINGULAR = 1e14  # the norm of the inverse above which rounding hides the solution
PLATE_STEPS = 2000  # most steps of conjugate gradients
RESTART = 30  # steps of GMRES after which it starts anew
ORDERING = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}


@dataclass(frozen=True)
class PlateSolution:
    """The solution x, (n, columns), of A x = b, the method, the steps, and ‖b - A x‖ / ‖b‖ of the worst column.

    Tiles have what they ``left`` of the values at the samples, (n, columns), before they fade into each other.
    """

    x: np.ndarray
    method: str
    iterations: int
    residual: float
    left: np.ndarray | None = None


class SingularPlate(ValueError):
    """The samples do not determine the plate."""


def solve(a: Sparse, b: np.ndarray, dims: int, *, exactly: bool = False) -> PlateSolution:
    """Solve A X = B with a sparse, symmetric and positive definite A.

    Small systems and rows are factorized exactly, by their band if it is narrow. Others are solved by GMRES with an
    incomplete factorization, larger volumes by conjugate gradients with the diagonal. An incomplete factorization that
    fails is followed by a finer one, and by the exact one. With ``exactly`` a system of any size is factorized.

    Raises
    ------
    SingularPlate
        If the matrix is singular to rounding: the samples do not determine the plate.
    """
    diagonal = a.diagonal()
    if a.shape[0] == 0 or not b.any():
        return PlateSolution(np.zeros_like(b), "nothing to solve", 0, 0.0)
    if not (diagonal > 0).all():
        raise SingularPlate("a point without energy")
    scale = diagonal**-0.5
    a = sparse.csr_array(a).T  # A is symmetric, so that its columns need no copy
    column = np.repeat(np.arange(len(scale)), np.diff(a.indptr))
    a, b = sparse.csc_array((a.data * scale[a.indices] * scale[column], a.indices, a.indptr)), scale[:, None] * b
    offset, is_large = a.indices - column, len(scale) > FACTORIZED_NODES[dims] and not exactly
    width = int(offset.max()) + 1
    iterates = is_large and dims > 2 and width**2 * len(scale) > STEPS_PRICE * a.nnz
    is_narrow = width**2 <= len(scale) if dims == 1 else width * len(scale) <= BANDED_NUMBERS
    if is_narrow and not iterates:
        solution = _banded(a, b, offset, column)
    else:
        solution = _iterated(a, b, dims) if is_large else _exact(a, b)
    if not solution.residual <= ACCEPTED:
        raise SingularPlate(f"relative residual {solution.residual:.1g}")
    return PlateSolution(scale[:, None] * solution.x, solution.method, solution.iterations, solution.residual)


def _exact(a: Sparse, b: np.ndarray) -> PlateSolution:
    """Factorize A, and refine the solution once by its residual."""
    try:
        factor = linalg.splu(a, **ORDERING)
    except RuntimeError:  # SuperLU met a pivot of zero
        raise SingularPlate("a pivot of zero") from None
    return _refined(factor.solve, a, b, "sparse factorization")


def _banded(a: Sparse, b: np.ndarray, offset: np.ndarray, column: np.ndarray) -> PlateSolution:
    """Factorize the band of A by Cholesky's method; refine the solution once by its residual.

    The entries of A are by their ``column`` and their ``offset`` from the diagonal. A ``SingularPlate`` is raised if A
    is singular to rounding.
    """
    lower = offset >= 0
    band = np.zeros((int(offset.max()) + 1, a.shape[0]), order="F")
    band[offset[lower], column[lower]] = a.data[lower]
    return _refined(_inverse(band), a, b, "band factorization")


def _inverse(band: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Factorize a lower band in its own place, and return the product of its matrix's inverse with columns."""
    try:
        factor = cholesky_banded(band, lower=True, overwrite_ab=True, check_finite=False)
    except LinAlgError:
        raise SingularPlate("a matrix that is singular to rounding") from None
    return lambda y: cho_solve_banded((factor, True), y, check_finite=False)


def _refined(inverse: Callable[[np.ndarray], np.ndarray], a: Sparse, b: np.ndarray, name: str) -> PlateSolution:
    """Return the solution by a factorization, refined once by its residual.

    The solution for white noise has a norm of about that of the inverse, which shows a singular matrix.
    """
    both = inverse(np.hstack([b, np.random.default_rng(0).normal(size=(len(b), 1))]))
    if not np.linalg.norm(both[:, -1]) < SINGULAR:
        raise SingularPlate("a matrix that is singular to rounding")
    x = both[:, :-1]
    x = x + inverse(b - a @ x)
    return PlateSolution(x, name, 0, _residual(a, b, x))


def _iterated(a: Sparse, b: np.ndarray, dims: int) -> PlateSolution:
    """Iterate, in two dimensions with finer and finer incomplete factorizations until one succeeds."""
    if dims > 2:
        return _krylov(linalg.cg, a, b, "conjugate gradients", maxiter=PLATE_STEPS)
    for drop in DROPS:
        try:
            factor = linalg.spilu(a, drop_tol=drop, fill_factor=FILL, **ORDERING)
        except RuntimeError:  # SuperLU met a pivot of zero
            continue
        # The factorization is not quite symmetric, which conjugate gradients do not bear.
        inverse: Any = linalg.LinearOperator(a.shape, matvec=factor.solve)  # type: ignore[call-arg]
        options = {"M": inverse, "restart": RESTART, "maxiter": 2}
        solution = _krylov(linalg.gmres, a, b, "GMRES, incomplete factorization", callback_type="pr_norm", **options)
        if solution.residual <= 10 * PLATE_TOLERANCE:
            return solution
    return _exact(a, b)


def _krylov(method: Callable, a: Sparse, b: np.ndarray, name: str, **options: Any) -> PlateSolution:
    """Solve one column after another; the diagonal of A is 1."""
    steps = itertools.count()
    x = np.stack([method(a, y, rtol=PLATE_TOLERANCE, callback=lambda _: next(steps), **options)[0] for y in b.T], 1)
    return PlateSolution(x, name, next(steps), _residual(a, b, x))


def _residual(a: Sparse, b: np.ndarray, x: np.ndarray) -> float:
    """Return the largest ‖b - A x‖ / ‖b‖ of the columns that are not zero; infinity if x is not finite."""
    norms = np.linalg.norm(b, axis=0)
    left = np.linalg.norm(b - a @ x, axis=0)[norms > 0] / norms[norms > 0]
    return float(left.max()) if np.isfinite(left).all() else float("inf")
