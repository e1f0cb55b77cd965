"""Autoregressions of rows with gaps: against planted ones, their equations, and least squares of their innovations."""

import numpy as np
import pytest
import torch
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

import coordnet as cn
from coordnet.plans.autoregression import autoregression

DAMPING = np.array([1.0, -2 * 0.95 * np.cos(2.0), 0.95**2])  # poles of modulus 0.95 at 2 radians a step
GAPS = [slice(60, 80), slice(300, 390), slice(500, 504)]


def process(count, signals=1):
    noise = np.random.default_rng(0).standard_normal((count + 200, signals))
    return lfilter([1.0], DAMPING, noise, axis=0)[200:]


def mask(count, gaps=GAPS):
    known = np.ones(count, bool)
    for gap in gaps:
        known[gap] = False
    return known


def test_a_planted_autoregression_is_found_and_white_noise_has_none():
    found = autoregression(process(200, 20), 30).coefficients
    np.testing.assert_allclose(found[:3], DAMPING, atol=0.02)
    np.testing.assert_allclose(found[3:], 0, atol=0.05)
    noise = np.random.default_rng(0).standard_normal((400, 20))
    assert [len(autoregression(noise[:, k : k + 1], 30).coefficients) for k in range(9)].count(1) > 4


def test_signals_that_are_all_zero_have_none():
    assert list(autoregression(np.zeros((50, 2)), 12).coefficients) == [1.0]


def test_gaps_contribute_nothing_to_it():
    u, known = process(2000), mask(2000)
    found = autoregression(u, 30, known)
    np.testing.assert_allclose(found.coefficients[:3], DAMPING, atol=0.05)
    other = autoregression(np.where(known[:, None], u, 1e6), 30, known)
    np.testing.assert_array_equal(found.coefficients, other.coefficients)


def test_its_covariances_are_those_of_the_equations_of_yule_and_walker():
    found = autoregression(process(600), 8)
    order = len(found.coefficients) - 1
    r = found.covariances(200)
    np.testing.assert_allclose(solve_toeplitz(r[:order], -r[1 : order + 1]), found.coefficients[1:], atol=1e-8)
    for k in range(order, 200):
        assert np.dot(found.coefficients, r[k - np.arange(order + 1)]) == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(found.covariances(2), r[:2])


def test_a_gap_has_the_least_squares_of_innovations():
    """Far from the ends the prediction is that of Janssen, Veldhuis and Vries."""
    y, known = process(800)[:, 0], mask(800)
    fit = cn.fit(cn.sample(torch.from_numpy(y)[:, None], torch.from_numpy(known)), prior=cn.Autoregressive())
    f = fit.render((800,), alignment="sample")[:, 0].numpy()
    found = autoregression((y - y[known].mean())[:, None], 200, known)
    a = found.coefficients
    rows = np.array([np.roll(np.pad(a[::-1], (0, 800 - len(a))), k) for k in range(801 - len(a))])
    level = y[known].mean()  # not the generalized mean, which kriging has
    z = np.where(known, y - level, 0.0)
    z[~known] = np.linalg.lstsq(rows[:, ~known], -rows @ z)[0]
    np.testing.assert_allclose(f[~known], z[~known] + level, atol=0.05)
    np.testing.assert_allclose(f[known], y[known], atol=1e-6)


def test_tones_go_on_through_a_gap_by_default():
    """Kriging by Matérn's covariance returns to the mean."""
    t = np.arange(1200.0)
    y = np.sin(0.31 * t) + 0.5 * np.sin(0.17 * t + 1) + 0.02 * np.random.default_rng(1).standard_normal(1200)
    known = mask(1200, [slice(500, 620)])
    samples = cn.sample(torch.from_numpy(y)[:, None], torch.from_numpy(known))
    fit = cn.fit(samples)
    error, matern = (
        np.square(made.render((1200,), alignment="sample")[:, 0].numpy() - y)[~known].mean()
        for made in (fit, cn.fit(samples, prior=cn.Kriging()))
    )
    assert error < 0.01 * matern and error < 0.003
    assert {c.prior: c.weight for c in fit.report.candidates}["autoregressive"] > 0.9


def test_channels_share_it_and_differ_in_size():
    y = process(900, 2) * [1.0, 1000.0] + 5
    known = mask(900)
    both = cn.fit(cn.sample(torch.from_numpy(y), torch.from_numpy(known)), prior=cn.Autoregressive())
    swapped = cn.fit(cn.sample(torch.from_numpy(y[:, ::-1].copy()), torch.from_numpy(known)), prior=cn.Autoregressive())
    f, g = (made.render((900,), alignment="sample") for made in (both, swapped))
    torch.testing.assert_close(f, g.flip(-1), rtol=1e-6, atol=1e-6)


def test_other_samples_than_nodes_of_a_row_are_refused():
    with pytest.raises(ValueError, match="more axes than that of a row"):
        cn.fit(cn.sample(torch.rand(30, 30, 1), torch.rand(30, 30) < 0.9), prior=cn.Autoregressive())


def test_random_nodes_are_not_tried():
    y = torch.from_numpy(process(400))
    known = torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.5
    assert "autoregressive" not in [c.prior for c in cn.fit(cn.sample(y, known)).report.candidates]
