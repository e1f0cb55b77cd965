"""Noise on whole rows: its level on smooth and rough processes, and kriging against the posterior mean."""

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

import coordnet as cn
from coordnet.noise.white import noise_level
from coordnet.plans.matern import covariance
from coordnet.plans.nugget import SharedNoise
from coordnet.plans.row_noise import row_noise

NODES = np.arange(700)
BETWEEN = np.abs(NODES[:, None] - NODES)


def process(smoothness, scale, seed):
    """Return a row of a process of variance 1."""
    k = covariance(smoothness, BETWEEN / scale) + 1e-9 * np.eye(len(NODES))
    return np.linalg.cholesky(k) @ np.random.default_rng(seed).standard_normal(len(NODES))


def noise(sigma, seed=9):
    return sigma * np.random.default_rng(seed).standard_normal(len(NODES))


def rms(signal, truth):
    return float(np.sqrt(np.square(np.asarray(signal)[:, 0] - truth).mean()))


@pytest.mark.parametrize(("smoothness", "scale"), [(0.5, 300.0), (1.5, 15.0), (2.5, 8.0)])
@pytest.mark.parametrize("sigma", [0.1, 0.4])
def test_the_level_of_noise_on_a_process_is_found(smoothness, scale, sigma):
    """A walk has as much energy at the highest frequencies as noise."""
    y = process(smoothness, scale, 0) + noise(sigma)
    assert row_noise(y[:, None]) == pytest.approx(sigma, rel=0.25)
    assert noise_level(torch.from_numpy(y)[:, None]) == pytest.approx(sigma, rel=0.25)


def test_walks_steps_and_constants_have_no_noise_and_white_noise_is_all_noise():
    steps = np.repeat(np.random.default_rng(0).random(20), 35)
    for clean in (process(0.5, 60.0, 1), steps, np.ones(700)):
        assert row_noise(clean[:, None]) < 0.02
    assert row_noise(noise(1.0)[:, None]) == pytest.approx(1, rel=0.1)
    assert row_noise(noise(1.0)[:, None] + [[5.0, -3.0]]) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("coefficient", [0.2, 0.5])
def test_rows_that_vary_nearly_like_noise_are_not_smoothed(coefficient):
    """The noise on an autoregression can hardly be told from it, and smoothing more than that loses."""
    x = lfilter([1.0], [1.0, -coefficient], np.random.default_rng(4).standard_normal(len(NODES)))
    y = x + noise(0.3)
    assert row_noise(y[:, None]) < 0.35
    assert rms(cn.denoise(y[:, None]).signal, x) < 1.02 * 0.3


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.5])
def test_the_level_of_noise_among_tones_is_the_floor_of_their_spectrum(sigma):
    """No process whose power falls with the frequency explains a tone, with noise or without."""
    x = np.sin(0.9 * NODES) + 0.7 * np.sin(1.3 * NODES + 1)
    y = (x + noise(sigma))[:, None]
    assert row_noise(y) == pytest.approx(sigma, rel=0.3, abs=1e-3)
    assert rms(cn.denoise(y).signal, x) <= 0.7 * sigma + 1e-3


def test_a_resonance_has_no_noise_though_its_spectrum_has_a_floor():
    """With noise the floor of the spectrum of its autoregression is flat, and without noise it is not."""
    x = lfilter([1.0], [1.0, -0.86, 0.9], np.random.default_rng(4).standard_normal(len(NODES)))
    assert row_noise(x[:, None]) < 0.02
    assert row_noise((x + noise(2.0))[:, None]) == pytest.approx(2.0, rel=0.1)


def test_many_tones_do_not_hide_their_noise():
    """Processes of windows explain them nearly as well without noise, but one autoregression is far likelier."""
    x = sum(np.cos(frequency * NODES + k) for k, frequency in enumerate((0.07, 0.2, 0.45, 0.8, 1.1)))
    assert row_noise((x + noise(0.1, 1))[:, None]) == pytest.approx(0.1, rel=0.15)


def test_the_floor_of_damped_resonances_is_not_taken_for_noise():
    x = sum(
        size * lfilter([1.0], [1.0, -2 * r * np.cos(angle), r * r], np.random.default_rng(seed).standard_normal(1100))
        for size, r, angle, seed in ((1.0, 0.95, 0.4, 24), (2.0, 0.98, 1.2, 25))
    )[500:]
    assert row_noise(x[:, None]) < 0.01 * x.std()


def test_the_likeliest_explanation_tells_the_noise_after_its_parameters_are_counted(monkeypatch):
    """One window has a variance and a scale of its own beside the noise, and what all windows share one less."""
    monkeypatch.setattr("coordnet.plans.row_noise._alike", lambda _: (9.0, 4.0))
    for likelihood, without, deviation in ((10.1, 9.0, 1.0), (9.9, 9.8, 2.0), (10.1, 10.2, 0.0)):
        shared = SharedNoise(1.0, likelihood, np.array([without]))
        monkeypatch.setattr("coordnet.plans.row_noise.shared_noise", lambda *_, found=shared: found)
        assert row_noise(noise(1.0)[:64, None]) == deviation


def test_long_rows_tell_their_noise_by_some_windows(monkeypatch):
    monkeypatch.setattr("coordnet.plans.row_noise.MOST_WINDOWS", 3)
    is_seen = NODES % 318 < 64  # windows begin at 0, 318 and 636
    y = process(1.5, 15.0, 0) + noise(1.0) * np.where(is_seen, 0.1, 10.0)
    assert row_noise(y[:, None]) == pytest.approx(0.1, rel=0.25)


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_the_shortest_rows_are_denoised(length):
    assert torch.isfinite(cn.denoise(torch.rand(length, 1), dimensions=1).signal).all()


@pytest.mark.parametrize(("smoothness", "scale", "sigma"), [(1.5, 15.0, 0.1), (2.5, 30.0, 0.3), (0.5, 60.0, 0.3)])
def test_a_process_comes_back_nearly_as_from_its_posterior_mean(smoothness, scale, sigma):
    """The posterior mean is told the covariance and the noise, which are estimated."""
    truth, k = process(smoothness, scale, 3), covariance(smoothness, BETWEEN / scale)
    y = truth + noise(sigma)
    best = rms((k @ np.linalg.solve(k + sigma**2 * np.eye(len(NODES)), y))[:, None], truth)
    made = cn.denoise(y[:, None], dimensions=1)
    assert "kriging" in made.report.prior
    assert rms(made.signal, truth) < 1.1 * best


def test_a_row_that_changes_its_nature_takes_the_adaptive_prior():
    truth = np.sin(2 * np.pi * 9 / (0.2 + np.linspace(0, 1, 700)))
    y = (truth + noise(0.1))[:, None]
    made, kriged = (cn.denoise(y, prior=prior, dimensions=1) for prior in ("auto", cn.Kriging()))
    assert made.report.tried.keys() == {"adaptive", "kriging", "total-variation"} and "adaptive" in made.report.prior
    assert rms(made.signal, truth) < 0.85 * rms(kriged.signal, truth)


def test_a_clipped_row_is_freed_from_the_mean_of_its_noise():
    truth = 0.5 + 0.5 * np.sin(NODES / 30)
    made = cn.denoise(np.clip(truth + noise(0.2), 0, 1)[:, None], dimensions=1)
    assert made.report.sigma == pytest.approx(0.2, rel=0.2) and "kriging" in made.report.prior
    assert rms(made.signal, truth) < 0.04  # 0.055 with that mean


def test_rows_of_more_samples_than_kriging_takes_have_the_adaptive_prior(monkeypatch):
    y = (process(1.5, 15.0, 3) + noise(0.1))[:, None]
    monkeypatch.setattr("coordnet.restore.denoise_choice.MOST_KRIGED", {1: 699})
    made = cn.denoise(y, dimensions=1)
    assert made.report.prior == "adaptive" and made.report.tried is None


def test_kriging_is_asked_for_by_name_and_has_the_numbers_that_are_given():
    truth = process(1.5, 15.0, 3)
    y, k = truth + noise(0.1), covariance(1.5, BETWEEN / 15) + 0.01 * np.eye(len(NODES))
    inverse = np.linalg.inv(k)
    mean = inverse.sum(0) @ y / inverse.sum()
    expected = mean + (k - 0.01 * np.eye(len(NODES))) @ inverse @ (y - mean)
    made = cn.denoise(y[:, None], 0.1, prior=cn.Kriging(1.5, 15.0, 0.01), dimensions=1)
    np.testing.assert_allclose(np.asarray(made.signal)[:, 0], expected, atol=1e-6)
    assert made.expected_psnr == pytest.approx(20 * np.log10(np.ptp(expected) / rms(made.signal, truth)), abs=1)


def test_the_values_of_a_row_are_no_brightness(generator):
    """Its noise is white, as ``denoise`` takes it, even where it grows with the values."""
    row = 1.5 + torch.sin(60 * torch.linspace(0, 1, 16000, dtype=torch.float64))[:, None]
    noise = torch.randn(row.shape, generator=generator, dtype=torch.float64)
    assert cn.estimate_noise(row + 0.1 * (row - 0.4).sqrt() * noise, dimensions=1).kind == "white"
