"""B-splines at unequal sites, against SciPy."""

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline, make_interp_spline

from coordnet.encodings import ComplexEncoding, encoding_from
from coordnet.encodings.encoders import UnevenSpline
from coordnet.sampling.axes import Axis


def sites(count, seed=0):
    return np.sort(np.random.default_rng(seed).uniform(0, 1, count))


@pytest.mark.parametrize(
    ("count", "degree", "allowed"), [(9, 1, 1), (9, 3, 3), (9, 5, 5), (5, 5, 3), (3, 3, 1), (1, 3, 0)]
)
def test_it_has_the_b_splines_of_scipys_interpolation(count, degree, allowed):
    x = sites(count)
    psi = UnevenSpline(count, tuple(x), degree=degree)
    expected = make_interp_spline(x, np.eye(count), allowed) if count > 1 else None
    knots, found = psi.knots
    assert found == allowed
    points = np.concatenate([x, np.linspace(-0.2, 1.2, 41)])
    if expected is not None:
        np.testing.assert_array_equal(knots, expected.t)
        basis = BSpline(np.array(knots), np.eye(count), allowed)(points)
        np.testing.assert_allclose(psi(torch.from_numpy(points)).numpy(), basis, atol=1e-12)
    else:
        assert bool((psi(torch.from_numpy(points)) == 1).all())


def test_derivatives_follow_the_points():
    psi = UnevenSpline(7, tuple(sites(7)), degree=3)
    points = torch.linspace(0.05, 0.95, 11, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(psi, (points,))


def test_features_are_spread_as_the_samples_are():
    assert UnevenSpline.like(Axis(8), features=15).sites == pytest.approx(np.arange(15) / 16)
    psi = UnevenSpline.like(Axis(6))
    assert psi.sites == pytest.approx(np.arange(6) / 6)
    twin = encoding_from(ComplexEncoding([psi]).configuration())
    assert twin.axis_encoders[0].sites == psi.sites


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, (0.0, 0.5)), "`sites`: expected 3 numbers, one for each feature, received 2"),
        ((3, (0.0, 0.5, 0.5)), "`sites`: expected increasing numbers, received 0.5, 0.5"),
        ((2, (0.0, 0.5), 2), "`degree`: expected an odd number, received 2"),
        ((2, (0.0, float("nan"))), "`sites`: expected a finite number"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        UnevenSpline(*arguments)
