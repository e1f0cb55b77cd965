"""The errors of candidates at all nodes where samples have noise: hidden samples stand for known ones, too."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

Errors = Float[np.ndarray, " hidden"]


def at_all_nodes(errors: Mapping[int, Errors], keeps: Mapping[int, bool], variance: float, density: float) -> dict:
    """Return errors whose mean squares and products are those at all nodes, up to a constant; two for each hidden one.

    A share ``density`` of the nodes has samples with noise of a ``variance`` s². A candidate's squared error at hidden
    samples is H = e² + s². One that ``keeps`` samples has the noise n at known nodes. Others are taken to weigh a
    sample by κ = e²/H against what its neighbors say, as is best: their error is κ n + (1 - κ) e, whose square is κ s².
    """
    found = {}
    for k, e in errors.items():
        energy = float(np.square(e).mean())
        kept = 1.0 if keeps[k] else max(energy - variance, 0.0) / energy
        noise = math.sqrt(variance) * np.resize([1.0, -1.0], len(e))
        known = kept * noise + math.sqrt(kept * (1 - kept) * variance / energy) * e
        found[k] = np.concatenate([math.sqrt(2 * (1 - density)) * e, math.sqrt(2 * density) * known])
    return found
