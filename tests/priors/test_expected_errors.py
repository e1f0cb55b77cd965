"""The expected fall of errors from a lattice's half to all samples: against fits to draws of the very process."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import gmean

import coordnet as cn
from coordnet.plans.matern import covariance
from coordnet.priors.stack.expected_errors import falls

SIDE, DRAWS = 32, 300
FIXED = tuple(prior for order in (2, 3) for prior in (cn.Spline(2 * order - 3), cn.ThinPlate(order, cutoff=np.inf)))


def drawn_error(prior, fields, step):
    """Return the mean squared error of fits to every ``step``-th node of fields, between samples in the middle."""
    samples = cn.sample(fields, f"every:{step}", dimensions=2)
    fit = cn.fit(samples, prior=prior).render((SIDE, SIDE), alignment="sample")
    middle = slice(SIDE // 2 - step, SIDE // 2 + step)
    squares = (fit - fields)[middle, middle].square().mean(-1)
    cells = squares.reshape(2, step, 2, step).movedim(2, 1)[:, :, :: step // 2, :: step // 2]
    return float(cells.mean())


@pytest.mark.parametrize(("smoothness", "scale"), [(0.5, 6.0), (1.5, 2.0), (3.5, 1.5)])
def test_errors_fall_from_a_lattices_half_as_those_of_draws_do(smoothness, scale):
    nodes = np.indices((SIDE, SIDE)).reshape(2, -1).T / scale
    k = covariance(smoothness, cdist(nodes, nodes)) + 1e-9 * np.eye(SIDE**2)
    drawn = np.linalg.cholesky(k) @ np.random.default_rng(0).standard_normal((SIDE**2, DRAWS))
    fields = torch.from_numpy(drawn.reshape(SIDE, SIDE, DRAWS))
    kriging = cn.Kriging(smoothness, scale, 0.0)
    expected = falls(FIXED, kriging.covariance, cn.Lattice((SIDE, SIDE), (2, 2)), (2, 2))
    errors = [[drawn_error(prior, fields, step) for step in (2, 4)] for prior in (*FIXED, kriging)]
    fallen = np.array([whole / half for whole, half in errors])
    np.testing.assert_allclose(expected, fallen / gmean(fallen), rtol=0.1)
