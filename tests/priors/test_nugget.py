"""White noise on samples of lattices with gaps: how much there seems to be, and how candidates are weighed with it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.signal import lfilter

import coordnet as cn
from coordnet.fitting.choice import choose_prior
from coordnet.plans.nugget import nugget, unpredicted
from coordnet.priors.stack.hidden_errors import HiddenErrors, Traits, at_all_nodes
from coordnet.priors.stack.prior import without_noise


def samples(shape, sigma, share=0.3, power=1.0, seed=0):
    """Return samples of a random field of a power law, of unit variance, with noise."""
    generator = np.random.default_rng(seed)
    grids = np.meshgrid(*(np.fft.fftfreq(n) for n in shape), indexing="ij")
    frequencies = np.sqrt(sum(np.square(g) for g in grids))
    frequencies.flat[0] = np.inf
    field = np.fft.ifftn(np.fft.fftn(generator.standard_normal(shape)) * frequencies**-power).real
    noisy = field / field.std() + sigma * generator.standard_normal(shape)
    known = torch.from_numpy(generator.random(shape) < share) if share else "every:2"
    return cn.sample(torch.from_numpy(noisy).unsqueeze(-1), known)


@pytest.mark.parametrize(("shape", "power"), [((2000,), 2.0), ((90, 100), 2.5), ((24, 26, 22), 3.0)])
def test_planted_noise_is_found_and_none_where_there_is_none(shape, power):
    assert nugget(samples(shape, 0.2, power=power)) == pytest.approx(0.2, rel=0.2)
    assert nugget(samples(shape, 0.0, power=power)) < 0.05


def test_planted_noise_is_found_around_holes_where_all_neighbors_are_as_far():
    holed = torch.ones(90, 100, 1, dtype=torch.float64)
    holed[20:35, 10:30] = holed[60:70, 70:95] = 0
    for seed in range(6):
        whole = samples((90, 100), 0.2, 1.0, 2.5, seed)
        noisy = cn.sample(whole.values, holed[..., 0] > 0)
        assert nugget(noisy) == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize(("shape", "power"), [((2000,), 2.0), ((90, 100), 3.0), ((36, 32, 34), 4.0), ((1, 900), 2.0)])
def test_planted_noise_is_found_on_lattices_that_skip_nodes(shape, power):
    for sigma in (0.2, 0.4):
        assert nugget(samples(shape, sigma, 0.0, power)) == pytest.approx(sigma, rel=0.1)
    assert nugget(samples(shape, 0.02, 0.0, power)) == nugget(samples(shape, 0.0, 0.0, power)) == 0


def test_texture_of_all_channels_of_a_lattice_is_no_noise():
    noise = [samples((90, 100), 0.2, 0.0, 2.5, seed) for seed in range(3)]
    texture = cn.Samples(noise[0].geometry, noise[0].values.expand(-1, -1, 3))
    assert nugget(noise[0]) > 0.1 and nugget(texture) == 0
    own = cn.Samples(noise[0].geometry, texture.values + 0.4 * torch.randn_like(texture.values))
    assert nugget(own) == pytest.approx(0.4, rel=0.2)


def test_white_texture_and_differences_of_it_are_no_noise():
    lattice = cn.sample(torch.zeros(96, 96, 1, dtype=torch.float64), "every:2").geometry
    noise = torch.randn(49, 48, 1, generator=torch.Generator().manual_seed(0)).double()
    for texture in (noise[:48], noise.diff(dim=0), noise.diff(dim=0).transpose(0, 1), torch.zeros(48, 48, 1).double()):
        assert nugget(cn.Samples(lattice, texture)) == 0


@pytest.mark.parametrize("power", [0.8, 1.0, 1.25])
def test_rough_fields_whose_windows_are_a_little_likelier_with_noise_have_none(power):
    rough = samples((90, 100), 0.0, 0.0, power)
    assert nugget(rough) == 0


def bumps(shape):
    """Return a smooth field, most of which is flat."""
    x, y = (np.arange(n) / n for n in shape)
    return np.exp(-(((x[:, None] - 0.3) ** 2 + (y - 0.6) ** 2) / 0.02))


@pytest.mark.parametrize("sigma", [0.01, 0.05])
def test_little_noise_is_found_on_a_lattice_whose_field_is_mostly_flat(sigma):
    noise = sigma * np.random.default_rng(0).standard_normal((90, 100))
    assert nugget(every_second(bumps((90, 100)) + noise)) == pytest.approx(sigma, rel=0.1)


def test_lines_that_do_not_tell_of_each_other_are_no_noise():
    lines = torch.randn(33, 20, 1, generator=torch.Generator().manual_seed(2)).cumsum(0)
    assert nugget(cn.sample(lines, "every:2")) == 0


@pytest.mark.parametrize("period", [23.7, 31.1])
def test_jumps_are_no_noise(period):
    """Most of a saw's errors are small, but a few are large."""
    x = np.arange(1200.0)
    assert nugget(every_second(x / period % 1 + 0.05 * np.sin(x / 5))) == 0


def every_second(field):
    return cn.sample(torch.from_numpy(field).unsqueeze(-1), "every:2")


@pytest.mark.parametrize("shape", [(90, 100), (300,)])
def test_noise_is_removed_from_the_samples_of_a_lattice_before_they_are_interpolated(shape):
    truth = bumps((90, 100)) if len(shape) == 2 else np.sin(np.arange(300) / 20)
    noisy = every_second(truth + 0.05 * np.random.default_rng(0).standard_normal(shape))
    prior = cn.Stack((cn.Spline(1), cn.Spline(3)), lattice_noise=0.05)
    freed = without_noise(noisy.values.movedim(-1, 0)[None], 0.05)[0].movedim(0, -1)
    expected = cn.fit(cn.Samples(noisy.geometry, freed), prior=replace(prior, lattice_noise=0.0)).render(shape)
    fit = cn.fit(noisy, prior=prior)
    torch.testing.assert_close(fit.render(shape), expected)
    assert fit.report.method.startswith("white noise of 0.05 removed; tensor spline")
    inner = tuple(slice(None, None, 2) for _ in shape)
    assert (freed[..., 0] - torch.from_numpy(truth[inner])).square().mean() < 0.05**2 / 5
    assert choose_prior(noisy).lattice_noise == pytest.approx(0.05, rel=0.1)


def test_gradients_flow_through_the_removal_of_noise():
    noisy = every_second(bumps((60, 70)) + 0.05 * np.random.default_rng(0).standard_normal((60, 70)))
    values = noisy.values.clone().requires_grad_()
    fit = cn.fit(cn.Samples(noisy.geometry, values), prior=cn.Stack((cn.Spline(1), cn.Spline(3)), lattice_noise=0.05))
    fit.render((60, 70))[20, 30, 0].backward()
    assert 0 < float(values.grad[10, 15, 0]) < 0.5 and float(values.grad.sum()) == pytest.approx(1, abs=1e-6)


def test_a_noisy_lattice_is_fitted_as_one_with_gaps():
    noisy = samples((48, 40), 0.3, 0.0, 3.0)
    known = torch.zeros(48, 40, dtype=torch.bool)
    known[::2, ::2] = True
    values = torch.zeros(48, 40, 1, dtype=torch.float64)
    values[::2, ::2] = noisy.values
    prior = cn.Stack((cn.Adaptive(), cn.ThinPlate(2, math.inf, 0.0), cn.ThinPlate(2, 0.5, 0.0)), nugget=0.3)
    fits = [cn.fit(given, prior=prior) for given in (noisy, cn.sample(values, known))]
    a, b = (fit.render((48, 40)) for fit in fits)
    assert torch.allclose(a, b, atol=1e-9)
    assert fits[0].report.candidates[2].weight > 0.5


@pytest.mark.slow
def test_the_default_smooths_noise_on_a_lattice():
    x, y = np.meshgrid(np.arange(64) / 64, np.arange(56) / 56, indexing="ij")
    truth = torch.from_numpy(np.sin(6 * x + 2) * np.cos(5 * y)).unsqueeze(-1)
    noisy = cn.sample(
        truth + 0.2 * torch.randn(64, 56, 1, generator=torch.Generator().manual_seed(0)).double(), "every:2"
    )
    error = (cn.fit(noisy).render((64, 56), alignment="sample") - truth).square().mean()
    assert error < 0.2**2 / 10


def test_it_follows_offsets_and_factors_and_is_the_root_mean_square_of_channels():
    plain = samples((60, 70), 0.2, power=2.5)
    assert nugget(cn.Samples(plain.geometry, 3 * plain.values - 7)) == pytest.approx(3 * nugget(plain))
    both = cn.Samples(plain.geometry, torch.cat([plain.values, 2 * plain.values], -1))
    assert nugget(both) == pytest.approx(nugget(plain) * math.sqrt(2.5))


def test_errors_at_all_nodes_are_those_of_simulated_estimates():
    """Where a candidate weighs a noisy sample and its neighbors as is best, and where one keeps the sample."""
    generator, n, s, q = np.random.default_rng(0), 200_000, 0.8, 0.3
    e, noise = 0.6 * generator.standard_normal(n), s * generator.standard_normal(n)
    kappa = 0.36 / (0.36 + s**2)
    known = {0: kappa * noise + (1 - kappa) * e, 1: noise}
    found = at_all_nodes({0: e - noise, 1: e - noise}, {0: False, 1: True}, s**2, q)
    for j, k in ((0, 0), (1, 1), (0, 1)):
        expected = (1 - q) * np.square(e - noise).mean() + q * (known[j] * known[k]).mean()
        assert (found[j] * found[k]).mean() == pytest.approx(expected, rel=0.02)


def test_patches_are_tried_with_the_noise_that_there_seems_to_be():
    noisy, clean = samples((40, 48), 0.3, power=2.5), samples((40, 48), 0.0, power=2.5)
    levels = [[p.noise for p in choose_prior(s).priors if isinstance(p, cn.Local)] for s in (noisy, clean)]
    assert levels[0] == [0, round(nugget(noisy), 3)] and max(levels[1]) < 0.05


@pytest.mark.parametrize("share", [0.19, 0.21])
def test_patches_with_noise_are_fitted_where_it_is_a_fifth_of_the_hidden_errors(share):
    few = samples((16, 16), 0.0)
    plan = cn.plan(cn.FourierEncoding.like(few), few.geometry, cn.Local(noise=0.3), dtype=torch.float64)
    assert plan.is_promising({cn.Adaptive(): 0.3**2 / share}, 1.0) == (share > 0.2)


def oscillation(count, radius, frequency):
    """Return samples of y_t = 2 r cos ω y_{t-1} - r² y_{t-2} + white noise of variance 1, and their coefficients."""
    coefficients = np.array([-2 * radius * np.cos(frequency), radius**2])
    noise = np.random.default_rng(0).standard_normal(count + 200)
    return lfilter([1.0], [1.0, *coefficients], noise)[200:], coefficients


@pytest.mark.parametrize(("radius", "frequency"), [(0.0, 0.0), (0.75, 1.0), (0.85, 2.5)])
def test_what_neighbors_do_not_predict_is_the_error_of_interpolation(radius, frequency):
    """Of an autoregressive process that is 1 / (1 + Σ φ²) (Kolmogorov 1941)."""
    y, coefficients = oscillation(20000, radius, frequency)
    assert np.square(unpredicted(y[:, None])).mean() == pytest.approx(1 / (1 + np.square(coefficients).sum()), rel=0.03)


def test_what_neighbors_do_not_predict_of_white_noise_on_a_plane_is_its_variance():
    y = 2 * np.random.default_rng(0).standard_normal((60, 80, 2))
    assert np.square(unpredicted(y + np.arange(80)[:, None])).mean() == pytest.approx(4, rel=0.05)


def test_a_narrow_band_is_not_taken_for_noise():
    """A trend with noise of the same variance has it."""
    y, _ = oscillation(600, 0.9, 2.5)
    trend = np.sin(np.arange(600) / 30)
    levels = []
    for fine in (y / y.std(), np.random.default_rng(1).standard_normal(600)):
        row = torch.zeros(1200, 1, dtype=torch.float64)
        row[::2, 0] = torch.from_numpy(trend + fine)
        levels.append(nugget(cn.sample(row, "every:2")))
    assert levels == [0, pytest.approx(1, rel=0.1)]


def test_known_samples_count_where_noise_is_a_good_part_of_the_errors():
    errors = np.random.default_rng(0).standard_normal((2, 20))
    errors = dict(enumerate(errors / errors.std(1, keepdims=True) * [[0.95], [1.0]]))
    traits = [Traits(keeps_samples=True), Traits()]
    for deviation, best in ((0.3, 0), (0.8, 1)):
        losses = HiddenErrors(traits, errors, np.arange(20), deviation, density=0.5).losses
        assert min(losses, key=lambda k: np.square(losses[k]).mean()) == best


@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_texture_that_moves_is_not_taken_for_noise(sigma):
    """White noise in the plane, smoothed, moves by 1.1 nodes a frame; a tenth of the samples is missing."""
    rng = np.random.default_rng(0)
    texture, at = gaussian_filter(rng.standard_normal((40, 80)), 0.8), np.arange(40, dtype=float)
    places = [np.meshgrid(at, at + 1.1 * t, indexing="ij") for t in range(12)]
    clip = np.stack([map_coordinates(texture, place, order=5) for place in places])
    known = torch.from_numpy(rng.random(clip.shape) < 0.9).float()
    noisy = clip / np.ptp(clip) + sigma * rng.standard_normal(clip.shape)
    found = nugget(cn.sample(torch.from_numpy(noisy).float().unsqueeze(-1), known))
    assert found == pytest.approx(sigma, rel=0.2)
