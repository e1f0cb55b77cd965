"""The weights of a stack: least squares at hidden samples, not negative and of sum one."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

RIDGE = 0.02  # pull of the weights to the best candidate, relative to its mean squared error
FEW_HIDDEN = 10.0  # hidden samples at which that pull is as strong as the errors themselves
HOPELESS = 1e12  # mean square, relative to the least one, above which the ridge is lost in rounding
Errors = Float[np.ndarray, " hidden"]


def stacked_weights(gram: Float[np.ndarray, "n n"], count: int | float) -> Float[np.ndarray, " n"]:
    """Return the w ≥ 0 with Σ w = 1 that minimizes wᵀG w + ρ |w - e|², with e the best single candidate.

    The sum has no greater error than the best candidate, and the weights depend neither on the order of the candidates
    nor on the units of the errors.

    Parameters
    ----------
    gram : (n, n)
        The mean products G of the candidates' errors at hidden samples. Every set of candidates that may have a weight
        is tried, so that n is to be small. Those of more than ``HOPELESS`` times the least mean square have none.
    count : float
        The number of hidden samples. ρ is ``RIDGE`` + ``FEW_HIDDEN`` / count times the least mean square: the fewer
        samples there are, the nearer the weights are to the best candidate. Infinity leaves ``RIDGE`` alone.
    """
    n, best = len(gram), int(np.argmin(gram.diagonal()))
    scale = float(gram[best, best])
    target = np.eye(n)[best]
    if not scale > 0:
        return target
    ridge = (RIDGE + FEW_HIDDEN / max(count, 1)) * np.eye(n)
    matrix, right = gram / scale + ridge, ridge @ target

    def objective(w: Float[np.ndarray, " n"]) -> float:
        return float(w @ matrix @ w - 2 * right @ w)

    result, least = target, objective(target)
    near = np.flatnonzero(gram.diagonal() <= HOPELESS * scale)
    for size in range(1, len(near) + 1):
        for some in map(list, itertools.combinations(near, size)):
            free, ones = np.linalg.solve(matrix[np.ix_(some, some)], np.stack([right[some], np.ones(size)], 1)).T
            w = np.zeros(n)
            w[some] = free + (1 - free.sum()) / ones.sum() * ones
            if (w >= 0).all() and objective(w) < least:
                result, least = w, objective(w)
    return result


def at_all_nodes(errors: Mapping[int, Errors], keeps: Mapping[int, bool], variance: float, density: float) -> dict:
    """Return errors whose mean squares and products are those at all nodes, up to a constant; two for each hidden one.

    A share ``density`` of the nodes has samples with noise of a ``variance`` s². A candidate's squared error at hidden
    samples is H = e² + s². One that ``keeps`` samples has the noise n at known nodes. Others are taken to weigh a
    sample by κ = e²/H against what its neighbors say, as is best: their error is κ n + (1 - κ) e, whose square is κ s².
    """
    result = {}
    for k, e in errors.items():
        energy = float(np.square(e).mean())
        kept = 1.0 if keeps[k] else max(energy - variance, 0.0) / energy
        noise = math.sqrt(variance) * np.resize([1.0, -1.0], len(e))
        known = kept * noise + math.sqrt(kept * (1 - kept) * variance / energy) * e
        result[k] = np.concatenate([math.sqrt(2 * (1 - density)) * e, math.sqrt(2 * density) * known])
    return result
