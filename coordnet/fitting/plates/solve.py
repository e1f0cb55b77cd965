"""Solves of the sparse systems of thin plates, each with its residual checked."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from coordnet.sampling.axes import ByAxes

# Unknown points up to which the exact factorization is taken, by the number of axes: its fill grows faster in more.
EXACT = ByAxes({1: 2**24, 2: 128**2, 3: 12**3})
DROPS = (1e-5, 1e-6)  # of the incomplete factorization; the first fails for some systems of a high order
FILL = 20
TOLERANCE = 1e-9  # of the relative residual
ACCEPTED = 1e-6  # the relative residual above which a solve has failed
STEPS = {"incomplete": 30, "diagonal": 2000}
ORDERING = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}


@dataclass(frozen=True)
class PlateSolution:
    """The solution x, (n, columns), of A x = b, the method, the steps, and ‖b - A x‖ / ‖b‖ of the worst column."""

    x: np.ndarray
    method: str
    iterations: int
    residual: float


class SingularPlate(ValueError):
    """The samples do not determine the plate."""


def solve(a: sparse.csr_array, b: np.ndarray, dims: int) -> PlateSolution:
    """Solve A X = B with a sparse, symmetric and positive definite A.

    Small systems and rows are factorized exactly. Larger pictures are solved by conjugate gradients with an incomplete
    factorization, larger volumes with the diagonal. An incomplete factorization that fails is followed by a finer one,
    and by the exact one.

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
    scale = sparse.dia_array((diagonal[None] ** -0.5, [0]), shape=a.shape)
    a, b = (scale @ a @ scale).tocsc(), scale @ b
    found = _exact(a, b) if a.shape[0] <= EXACT[dims] else _iterated(a, b, dims)
    if not found.residual <= ACCEPTED:
        raise SingularPlate(f"relative residual {found.residual:.1g}")
    return PlateSolution(scale @ found.x, found.method, found.iterations, found.residual)


def _exact(a: sparse.csc_array, b: np.ndarray) -> PlateSolution:
    """Factorize A, and refine the solution once by its residual."""
    try:
        factor = linalg.splu(a, **ORDERING)
    except RuntimeError:  # SuperLU met a pivot of zero
        raise SingularPlate("a pivot of zero") from None
    x = factor.solve(b)
    x += factor.solve(b - a @ x)
    return PlateSolution(x, "sparse factorization", 0, _residual(a, b, x))


def _iterated(a: sparse.csc_array, b: np.ndarray, dims: int) -> PlateSolution:
    """Take conjugate gradients, and in two dimensions finer factorizations until one succeeds."""
    if dims > 2:
        return _conjugate_gradients(a, b, None, "diagonal")
    for drop in DROPS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.MatrixRankWarning)
            try:
                factor = linalg.spilu(a, drop_tol=drop, fill_factor=FILL, **ORDERING)
            except RuntimeError:
                continue
        found = _conjugate_gradients(a, b, factor.solve, "incomplete")
        if found.residual <= 10 * TOLERANCE:
            return found
    return _exact(a, b)


def _conjugate_gradients(
    a: sparse.csc_array, b: np.ndarray, precondition: Callable | None, kind: str
) -> PlateSolution:
    """Solve one column after another; the diagonal of A is 1."""
    steps = 0

    def count(x: np.ndarray) -> None:
        nonlocal steps
        steps += 1

    inverse = None if precondition is None else linalg.LinearOperator(a.shape, precondition, dtype=a.dtype)
    options = {"rtol": TOLERANCE, "maxiter": STEPS[kind], "M": inverse, "callback": count}
    x = np.stack([linalg.cg(a, column, **options)[0] for column in b.T], 1)
    return PlateSolution(x, f"conjugate gradients, {kind} factorization", steps, _residual(a, b, x))


def _residual(a: sparse.csc_array, b: np.ndarray, x: np.ndarray) -> float:
    """Return the largest ‖b - A x‖ / ‖b‖ of the columns that are not zero; infinity if x is not finite."""
    norms = np.linalg.norm(b, axis=0)
    left = np.linalg.norm(b - a @ x, axis=0)[norms > 0] / norms[norms > 0]
    return float(left.max()) if np.isfinite(left).all() else float("inf")
