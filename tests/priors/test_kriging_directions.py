"""Kriging of planes along directions between the axes."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import coordnet as cn
from coordnet.cli.specs import parse_prior
from coordnet.plans.matern import covariance
from coordnet.priors.kriging.plan import predicted
from coordnet.priors.kriging.scale_search import stretched

GRID = (20, 20)


def turned(places, degrees, scales):
    """Return places in units of scales along axes that are turned from the first axis towards the second."""
    angle = math.radians(degrees)
    along = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    return np.stack([places @ direction / scale for direction, scale in zip(along, scales, strict=True)], 1)


def test_a_function_of_one_direction_is_told_from_few_points():
    """With scales of the axes alone the largest error is 0.17."""

    def cliff(x):
        return np.tanh(9 * (x[:, 1] - x[:, 0]))

    generator = np.random.default_rng(0)
    points, places = generator.random((120, 2)), 0.05 + 0.9 * generator.random((500, 2))
    fit = cn.fit(cn.points(points, cliff(points)), prior=cn.Kriging())
    across, along = fit.report.scale
    assert fit.report.angle == pytest.approx(135) and along > 8 * across
    assert np.abs(np.asarray(fit(places)).ravel() - cliff(places)).max() < 0.005


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [20.0, 70.0])
def test_directions_of_a_process_are_found_and_those_of_points_are_nearly_as_good(degrees):
    errors = {"found": 0.0, "planted": 0.0, "axes": 0.0}
    for seed in range(3):
        generator = np.random.default_rng(seed)
        x = 14 * generator.random((300, 2))
        u = turned(x, degrees, (1.0, 8.0))
        y = np.linalg.cholesky(covariance(1.5, cdist(u, u)) + 1e-8 * np.eye(300)) @ generator.standard_normal(300)
        samples = cn.points(x[:200], y[:200], scales=[1.0, 1.0])
        step = samples.geometry.lattice.steps[0]
        fit = cn.fit(samples, prior=cn.Kriging())
        assert abs((fit.report.angle - degrees + 90) % 180 - 90) < 12
        planted = cn.fit(samples, prior=cn.Kriging(1.5, (1 / step, 8 / step), 0.0, degrees))
        axes = cn.fit(samples, prior=cn.Kriging(1.5, (2 / step, 2 / step), 0.0))
        for name, one in (("found", fit), ("planted", planted), ("axes", axes)):
            errors[name] += float(np.square(np.asarray(one(x[200:])).ravel() - y[200:]).mean())
    assert errors["planted"] < 1.01 * errors["found"] < 1.3 * errors["planted"]
    assert errors["found"] < 0.7 * errors["axes"]


def test_covariances_are_those_of_turned_places_and_angles_pass_through_text_and_reports():
    field = torch.from_numpy(np.random.default_rng(0).standard_normal((*GRID, 1)))
    samples, prior = cn.sample(field, "random:0.4"), cn.Kriging(1.5, (2.0, 12.0), 0.01, 30.0)
    assert parse_prior(prior.text) == prior and prior.settled(cn.fit(samples, prior=prior).report) == prior
    nodes = np.indices(GRID).reshape(2, -1).T.astype(float)
    u = turned(nodes, 30.0, (2.0, 12.0))
    np.testing.assert_allclose(prior.covariance(nodes, nodes), covariance(1.5, cdist(u, u)), atol=1e-12)
    plain = cn.Kriging(1.5, (2.0, 12.0), 0.01)
    across = cn.Kriging(1.5, (12.0, 2.0), 0.01, 90.0)
    f, g = (predicted(one, samples.geometry, samples.values.movedim(-1, 0)) for one in (plain, across))
    torch.testing.assert_close(f, g, rtol=0, atol=1e-9)


def test_steps_along_axes_and_diagonals_double_and_halve_one_length():
    prior = cn.Kriging(1.5, (3.0, 5.0), 0.0, 25.0)
    lengths = [one.lengths(GRID) - prior.lengths(GRID) for one in stretched(prior, GRID)]
    assert len(lengths) == 8
    for step in lengths:
        assert sorted(np.abs(np.linalg.eigvalsh(step))) == pytest.approx([0.0, 1.0], abs=1e-9)
    there = next(stretched(prior, GRID))
    back = list(stretched(there, GRID))[1]
    np.testing.assert_allclose(back.lengths(GRID), prior.lengths(GRID), atol=1e-12)
    assert len(list(stretched(cn.Kriging(1.5, 3.0, 0.0), (20, 1)))) == 2
    assert len(list(stretched(cn.Kriging(1.5, 3.0, 0.0), (8, 8, 8)))) == 6


@pytest.mark.parametrize("scale", [None, 2.0, (1.0, 2.0, 3.0)])
def test_an_angle_without_two_scales_is_refused(scale):
    with pytest.raises(ValueError, match="angle"):
        cn.Kriging(scale=scale, angle=30.0)
