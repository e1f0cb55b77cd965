"""The covariance of rows that skip nodes: against closed formulas, and tones."""

import numpy as np
import pytest
import torch
from scipy.interpolate import make_interp_spline
from scipy.spatial.distance import cdist

import coordnet as cn
from coordnet.plans.kriged_lattices import Parts
from coordnet.plans.matern import JITTER, covariance
from coordnet.plans.row_spectra import CIRCLE, TOP, covariance_of_nodes, innovations


def matern(x, z):
    return covariance(1.5, cdist(x / 3, z / 3))


def peak(at, width=0.02):
    """Return a gain of 1 with a peak of 100 at a frequency, in turns of the Nyquist frequency, and at its mirror."""
    turns = 2 * np.minimum(np.arange(CIRCLE), CIRCLE - np.arange(CIRCLE)) / CIRCLE
    return 1 + 99 * np.exp(-(((turns - at) / width) ** 2))


def test_innovations_of_a_process_by_its_own_covariance_are_white_and_have_no_mean():
    parts = Parts((300,), (2,), (0,), 100, 100)
    k = matern(parts.places, parts.places)
    drawn = np.linalg.cholesky(k + JITTER * np.eye(100)) @ np.random.default_rng(0).standard_normal((100, 600))
    u = innovations(matern, parts, drawn.reshape(100, 300, 2) * [1.0, 50.0] + 7)
    np.testing.assert_allclose(u @ u.T / 600, np.eye(100), atol=0.25)
    np.testing.assert_allclose(np.square(u).reshape(100, 300, 2).mean((0, 1)), 1)


@pytest.mark.parametrize("step", [2, 3])
def test_the_samples_have_the_spectrum_of_their_gain_and_without_one_the_covariance_stays(step):
    plain, gain = (covariance_of_nodes(matern, g, step) for g in (np.ones(CIRCLE), peak(0.7)))
    np.testing.assert_allclose(plain[:500], matern(np.arange(500.0)[:, None], np.zeros((1, 1)))[:, 0], atol=2 * JITTER)
    before, after = (np.fft.fft(table[::step]).real for table in (plain, gain))
    np.testing.assert_allclose(after / after[0], before / before[0] * peak(0.7) / peak(0.7)[0], rtol=1e-6)


@pytest.mark.parametrize(("at", "is_shared"), [(0.3, False), (0.8, False), (1 - TOP / 2, True)])
def test_a_peak_belongs_to_the_lowest_frequency_unless_it_is_next_to_the_nyquist_frequency(at, is_shared):
    plain, peaked = (np.fft.fft(covariance_of_nodes(matern, g, 2)).real for g in (np.ones(CIRCLE), peak(at)))
    own = round(at * CIRCLE / 2)
    gains = [float(peaked[k] / plain[k] * plain[0] / peaked[0]) for k in (own, CIRCLE - own)]
    assert gains[1] == pytest.approx(peak(at)[own] if is_shared else 1, rel=1e-3)
    assert sum(g * plain[k] for g, k in zip(gains, (own, CIRCLE - own), strict=True)) == pytest.approx(
        peak(at)[own] * (plain[own] + plain[CIRCLE - own]), rel=1e-6
    )


@pytest.mark.parametrize(("step", "frequency"), [(2, 1.1), (2, 1.4), (3, 0.9)])
def test_every_second_node_of_a_tone_below_the_nyquist_frequency_is_a_tone(step, frequency):
    """The Nyquist frequency is π over the step; the half of these samples shows the tone at another frequency."""
    t = torch.arange(600, dtype=torch.float64)
    y = torch.sin(frequency * t + 1) + 0.3 * torch.sin(0.2 * t)
    fit = cn.fit(cn.sample(y[:, None], f"every:{step}"))
    inner = slice(60, 540)
    error = (fit.render((600,), alignment="sample")[:, 0] - y)[inner].square().mean()
    cubic = make_interp_spline(t[::step].numpy(), y[::step].numpy(), 3)(t.numpy())
    assert float(error) < 1e-3 * np.square(cubic - y.numpy())[inner].mean()
