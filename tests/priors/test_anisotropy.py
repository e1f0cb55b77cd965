"""The anisotropy of planes: scales of the axes from variograms, and what hidden samples make of them."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.plans.nugget import nugget
from coordnet.priors.plates.search import anisotropies, variogram_scales


def field(scales, seed=0, shape=(48, 56)):
    """Return a process with Matérn's covariance of smoothness 3/2 and a scale along each axis, drawn on a torus."""
    doubled = [2 * n for n in shape]
    lags = [np.minimum(np.arange(n), n - np.arange(n)) / scale for n, scale in zip(doubled, scales, strict=True)]
    r = np.sqrt(3) * np.hypot(lags[0][:, None], lags[1][None])
    spectrum = np.fft.fft2((1 + r) * np.exp(-r)).real.clip(0)
    white = np.random.default_rng(seed).standard_normal(doubled)
    return np.fft.ifft2(np.sqrt(spectrum) * np.fft.fft2(white)).real[: shape[0], : shape[1]]


def sampled(values, share=0.3, seed=0):
    known = np.random.default_rng(seed).random(values.shape) < share
    return cn.sample(torch.from_numpy(values).unsqueeze(-1), torch.from_numpy(known))


@pytest.mark.parametrize("ratio", [1, 3, 8])
def test_variograms_tell_the_ratio_of_two_scales(ratio):
    logarithms = []
    for seed in range(6):
        rough, smooth = variogram_scales(sampled(field((2.0, 2.0 * ratio), seed), seed=seed))
        assert rough == 1 or ratio == 1
        logarithms.append(np.log(smooth / rough))
    assert np.exp(np.mean(logarithms)) == pytest.approx(ratio, rel=0.2)


def test_weights_are_those_of_the_axis_that_varies_less_and_no_planes_without_one_have_any():
    for seed in range(2):
        values = field((2.0, 12.0), seed, (32, 40))
        found, turned = anisotropies(sampled(values)), anisotropies(sampled(values.T))
        assert set(found) == {1, 2, 3}
        assert all(weights[0] == 1 and weights[1] >= 4 for weights in found.values())
        assert all(weights[1] == 1 and weights[0] >= 4 for weights in turned.values())
        assert anisotropies(sampled(field((3.0, 3.0), seed, (32, 40)))) == {}
    samples = cn.sample(torch.from_numpy(values).unsqueeze(-1), "every:2")
    assert anisotropies(samples) == {}


def test_a_change_of_units_changes_no_weights():
    values = field((2.0, 12.0))
    assert anisotropies(sampled(-1e3 * values + 5e4)) == anisotropies(sampled(values))


@pytest.mark.parametrize("seed", [0, 3])
def test_a_rough_axis_is_no_noise_and_noise_beside_it_is_found(seed):
    values = field((2.0, 20.0), seed)
    values /= values.std()
    clean, noisy = sampled(values), sampled(values + 0.2 * np.random.default_rng(9).standard_normal(values.shape))
    assert nugget(clean, anisotropies(clean)[2]) == 0 and nugget(clean) > 0.05
    assert nugget(noisy, anisotropies(noisy)[2]) == pytest.approx(0.2, rel=0.3)


@pytest.mark.slow
def test_a_function_of_one_axis_times_noise_of_the_other_is_interpolated_along_the_first():
    x = np.linspace(0, 1, 36)
    values = np.random.default_rng(0).standard_normal((20, 1)) * np.sin(5 * x + 0.3)
    samples = sampled(values, 0.4)
    known = samples.geometry.known(1)[..., 0].numpy()
    lines = np.stack([np.interp(x, x[k], row[k]) for row, k in zip(values, known, strict=True)])
    fit = cn.fit(samples)
    error = fit.render(alignment="sample")[..., 0].numpy() - values
    assert np.square(error[~known]).mean() < 0.2 * np.square((lines - values)[~known]).mean()
    assert any("anisotropy" in candidate.prior and candidate.weight > 0.1 for candidate in fit.report.candidates)
