"""Kriging: against general formulas, planted processes, and the dense best linear unbiased prediction."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator
from scipy.linalg import block_diag
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from scipy.stats import multivariate_normal

import coordnet as cn
from coordnet.cli.specs import parse_prior
from coordnet.encodings import FourierEncoding
from coordnet.fitting.choice import choose_prior
from coordnet.plans import matern
from coordnet.plans.kriged_lattices import Parts, meets_samples, predicted_nodes, relative_variance
from coordnet.plans.matern import (
    JITTER,
    SMOOTHNESSES,
    covariance,
    decomposed,
    left_out_errors,
    nearest,
    pivoted,
    restricted_likelihoods,
    windows_of,
)
from coordnet.priors.kriging import scale_search
from coordnet.priors.kriging.lattice_plans import KRIGED_SHARES
from coordnet.priors.kriging.plan import POINTS_SHARE, predicted
from coordnet.priors.kriging.scale_search import RELATIVE_SCALES, likeliest, searched
from coordnet.priors.plates.prior import NEARLY
from coordnet.priors.snapped import Snapped
from coordnet.priors.stack import trial
from coordnet.sampling.scattered import MARGIN

AT = np.array([0.0, 1.0, 2.5, 3.0, 7.0, 8.5, 12.0])
BETWEEN = np.abs(AT[:, None] - AT)


def process(smoothness, scale, count, seed, noise=0.0):
    """Return a row of a process of variance 1, with white noise."""
    generator, nodes = np.random.default_rng(seed), np.arange(count)
    k = covariance(smoothness, np.abs(nodes[:, None] - nodes) / scale) + 1e-9 * np.eye(count)
    return np.linalg.cholesky(k) @ generator.standard_normal(count) + noise * generator.standard_normal(count)


def fields(smoothness, scale, side, count):
    """Return fields of a process of variance 1 with one scale, or one for each axis."""
    nodes = np.indices((side, side)).reshape(2, -1).T / scale
    k = covariance(smoothness, cdist(nodes, nodes)) + 1e-9 * np.eye(len(nodes))
    drawn = np.linalg.cholesky(k) @ np.random.default_rng(0).standard_normal((len(nodes), count))
    return torch.from_numpy(drawn.T.reshape(count, side, side, 1))


def row(values, share=0.4, seed=0):
    known = torch.rand(len(values), generator=torch.Generator().manual_seed(seed)) < share
    return cn.sample(torch.as_tensor(values)[:, None], known)


def on_nodes(samples, prior):
    return cn.fit(samples, prior=prior).render(samples.grid, alignment="sample")[:, 0]


@pytest.mark.parametrize("smoothness", [nu for nu in SMOOTHNESSES if nu < math.inf])
def test_covariances_are_those_of_the_general_formula(smoothness):
    r = np.linspace(0.1, 9, 40)
    general = 2 ** (1 - smoothness) / gamma(smoothness) * r**smoothness * kv(smoothness, r)
    np.testing.assert_allclose(covariance(smoothness, r), general, rtol=1e-10)
    assert covariance(smoothness, np.zeros(1)) == pytest.approx(1)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize(("decompose", "nugget"), [(decomposed, 0.01), (decomposed, 1.0), (pivoted, 0.0)])
def test_the_likelihood_is_that_of_contrasts_whose_mean_is_zero(decompose, nugget, blocks):
    """It is relative to another scale's, as constants are left out; the variance is the one that maximizes it.

    Contrasts of several blocks are independent, and have one variance in each channel.
    """
    y = np.random.default_rng(blocks).standard_normal((7, blocks, 2)) * [1.0, 4.0] + 5
    contrasts = np.linalg.svd(np.eye(7) - 1 / 7)[0][:, :6]

    def greatest(scale, channel):
        k = contrasts.T @ (covariance(1.5, BETWEEN[:7, :7] / scale) + (nugget + JITTER) * np.eye(7)) @ contrasts
        k, z = block_diag(*[k] * blocks), (contrasts.T @ y[..., channel]).T.ravel()
        variances = z @ np.linalg.solve(k, z) / len(z) * np.linspace(0.5, 2, 1501)
        logs = [multivariate_normal(np.zeros(len(z)), v * k).logpdf(z) for v in variances]
        return max(logs), variances[int(np.argmax(logs))]

    tried = [decompose(covariance(1.5, BETWEEN[:7, :7] / scale)) for scale in (2.0, 5.0)]
    (first, variances), (second, _) = (restricted_likelihoods(k, y, np.array([nugget])) for k in tried)
    for channel in range(2):
        (expected, variance), (other, _) = greatest(2.0, channel), greatest(5.0, channel)
        assert first[channel, 0] - second[channel, 0] == pytest.approx(expected - other, abs=1e-5)
        assert variances[channel, 0] == pytest.approx(variance, rel=2e-3)


def test_the_likelihood_of_a_row_is_that_of_blocks_all_over_it(monkeypatch):
    """In the middle the row is smooth. Blocks, which are alike, are decomposed once."""
    smooth, rough = process(2.5, 20.0, 240, 0), [process(0.5, 20.0, 250, seed) for seed in (1, 2)]
    shift = [rough[0][-1] - smooth[0], rough[0][-1] - smooth[0] + smooth[-1] - rough[1][0]]
    y = np.concatenate([rough[0], smooth + shift[0], rough[1] + shift[1]])
    samples, calls = cn.sample(torch.from_numpy(y)[:, None], "full"), []
    monkeypatch.setattr(scale_search, "decomposed", lambda k: calls.append(k) or decomposed(k))
    assert cn.fit(samples, prior=cn.Kriging()).report.smoothness == 0.5
    assert len(calls) == len(SMOOTHNESSES) * len(RELATIVE_SCALES)


@pytest.mark.parametrize("smoothness", SMOOTHNESSES)
@pytest.mark.parametrize("weights", [None, 4.0])
def test_a_fit_is_the_prediction_from_its_noise_and_the_generalized_mean(smoothness, weights):
    """With weights w the noise of samples is divided by w."""
    y, known = process(0.5, 4.0, 40, 1), np.arange(40) % 3 == 0
    w = torch.from_numpy(np.where(known, weights or 1.0, 0.0))[:, None]
    samples = cn.Samples(cn.MaskedLattice((40,), weights=w), torch.from_numpy(y)[:, None])
    f = on_nodes(samples, cn.Kriging(smoothness, 5.0, 0.2)).numpy()
    x, nodes = np.flatnonzero(known), np.arange(40)
    k = covariance(smoothness, np.abs(x[:, None] - x) / 5) + 0.2 / (weights or 1.0) * np.eye(len(x))
    inverse = np.linalg.inv(k)
    mean = inverse.sum(0) @ y[x] / inverse.sum()
    expected = mean + covariance(smoothness, np.abs(nodes[:, None] - x) / 5) @ inverse @ (y[x] - mean)
    np.testing.assert_allclose(f, expected, atol=1e-7)


def test_samples_are_interpolated_without_noise_and_far_ones_are_the_mean():
    y = process(1.5, 6.0, 300, 2)
    known = torch.zeros(300, dtype=torch.bool)
    known[:60:4] = True
    f = on_nodes(cn.sample(torch.from_numpy(y)[:, None], known), cn.Kriging(1.5, 6.0, 0.0))
    np.testing.assert_allclose(f[known], y[known.numpy()], atol=1e-8)
    assert float(f[200:].std()) < 1e-6


@pytest.mark.parametrize(("smoothness", "noise"), [(0.5, 0.0), (2.5, 0.0), (2.5, 0.3)])
def test_planted_numbers_are_found(smoothness, noise):
    reports = [cn.fit(row(process(smoothness, 8.0, 400, seed, noise)), prior=cn.Kriging()).report for seed in range(8)]
    assert np.median([report.smoothness or 9 for report in reports]) == pytest.approx(smoothness, abs=1.01)
    assert 4 < np.exp(np.mean([np.log(report.scale) for report in reports])) < 16
    assert np.median([report.nugget for report in reports]) == pytest.approx(noise**2, abs=0.03)


def test_little_noise_of_a_smooth_process_is_found():
    fits = [cn.fit(row(process(2.5, 16.0, 400, seed, 0.01)), prior=cn.Kriging()) for seed in range(5)]
    assert np.median([fit.report.nugget for fit in fits]) == 1e-4


def test_fits_of_planted_processes_are_nearly_as_good_as_with_their_own_numbers():
    ratios = []
    for seed in range(12):
        y = process(1.5, 6.0, 240, seed, 0.0)
        errors = [
            (on_nodes(row(y, 0.25, seed), prior) - torch.from_numpy(y)).square().mean()
            for prior in (cn.Kriging(), cn.Kriging(1.5, 6.0, 0.0))
        ]
        ratios.append(float(errors[0] / errors[1]))
    assert np.exp(np.mean(np.log(ratios))) < 1.15


def test_every_second_node_of_a_smooth_process_is_not_fitted_like_its_own_half():
    """That half takes this process for a rougher one: by it alone the errors are 1.55 times those with its numbers."""
    ratios = []
    for seed in range(12):
        y = process(2.5, 4.0, 240, seed)
        samples = cn.sample(torch.from_numpy(y)[:, None], "every:2")
        f, best = (on_nodes(samples, prior).numpy() for prior in ("auto", cn.Kriging(2.5, 4.0, 0.0)))
        ratios.append(np.square(f - y).mean() / np.square(best - y).mean())
    assert np.exp(np.mean(np.log(ratios))) < 1.05


@pytest.mark.parametrize(("side", "least"), [(30, 1e-9), (12, 0.03)])
def test_lattices_are_predicted_from_parts_as_from_all_samples(side, least):
    """One part is all samples. Samples farther than six others change the prediction by hundredths of its error."""
    lattice = cn.Lattice((47, 46), (2, 2), (1, 0))
    y = fields(1.5, 9.0, 47, 1)[:, :, :46, 0]
    values, prior = y[(0, *lattice.slices)][None], cn.Kriging(1.5, 9.0, 0.0)
    parts = Parts(lattice.shape, lattice.steps, lattice.offsets, side, side // 2)
    found = predicted_nodes(prior.covariance, parts, values.flatten(1), lattice.grid)
    dense = predicted(prior, lattice, values)
    assert float((found - dense).square().mean()) < least**2 * float((dense - y).square().mean())


def test_parts_cover_every_node_once():
    parts = Parts((23, 5), (2, 1), (1, 0), 8, 4)
    assert set(parts.samples().ravel()) == set(range(23 * 5)) and parts.lengths == (8, 5)
    own, place = parts.owners(0, 46)
    assert np.array_equal(1 + 2 * parts.starts[0][own] + place, np.arange(46))
    assert place[own > 0].min() >= 2 and place[own < own.max()].max() <= 12


@pytest.mark.parametrize("shape", [(40, 24), (900,), (9, 10, 10)])
def test_a_whole_lattice_with_noise_is_predicted_as_the_samples_of_one_without_gaps(shape):
    y = torch.from_numpy(np.random.default_rng(0).standard_normal((*shape, 2)))
    prior, mask = cn.Kriging(1.5, 2.0, 0.5), torch.ones(*shape, 1, dtype=torch.float64)
    parts, dense = (
        on_nodes(cn.Samples(lattice, y), prior)
        for lattice in (cn.Lattice(shape), cn.MaskedLattice(shape, weights=mask))
    )
    assert float((parts - dense).square().mean()) < 1e-4 * float(dense.square().mean())


@pytest.mark.parametrize(("smoothness", "noise"), [(1.5, 0.1), (2.5, 0.3)])
def test_planted_numbers_of_whole_fields_with_noise_are_found(smoothness, noise):
    y = fields(smoothness, 8.0, 40, 4)
    y = y + noise * torch.from_numpy(np.random.default_rng(1).standard_normal(y.shape))
    reports = [cn.fit(cn.Samples(cn.Lattice((40, 40)), field), prior=cn.Kriging()).report for field in y]
    found = [np.median([getattr(report, name) for report in reports]) for name in ("smoothness", "scale", "nugget")]
    assert found == [smoothness, 8.0, pytest.approx(noise**2, rel=0.2)]


def test_samples_that_are_rougher_than_a_covariance_are_not_met_by_it():
    """A smooth row is met by both covariances, and with a little noise by the rough one alone."""
    t = np.arange(0.0, 100.0, 2.0)
    smooth, at = np.sin(t / 60), t[:, None]
    noisy = smooth + 0.01 * np.random.default_rng(0).standard_normal(len(t))
    priors = cn.Kriging(0.5, 128.0), cn.Kriging(3.5, 256.0)
    found = [[meets_samples(p.covariance(at, at), y[:, None, None]) for p in priors] for y in (smooth, noisy)]
    assert found == [[True, True], [True, False]]
    fit = cn.fit(cn.sample(torch.from_numpy(np.repeat(noisy, 2))[:, None], "every:2"), prior=cn.Kriging(nugget=0.0))
    np.testing.assert_allclose(fit.render((100,), alignment="sample")[::2, 0], noisy, atol=1e-4)


def kriged_and_spline_errors(truth):
    """The mean squared errors of kriging and of SciPy's cubic spline from every second node."""
    known = (slice(None, None, 2),) * truth.ndim
    spline = map_coordinates(truth[known], np.indices(truth.shape) / 2, order=3, mode="mirror")
    fit = cn.fit(cn.sample(torch.from_numpy(truth)[..., None], "every:2"), prior=cn.Kriging(nugget=0.0))
    kriged = fit.render(alignment="sample")[..., 0].numpy()
    return [np.square(f - truth).mean() for f in (kriged, spline)]


def test_a_volume_with_a_step_is_filled_nearly_as_by_a_cubic_spline():
    """The Gaussian covariance would be likelier than others, with 300 times the spline's squared error."""
    x, y, z = np.indices((24, 24, 24)) / 24
    error, spline = kriged_and_spline_errors((x > 0.5) + np.sin(6 * y) * np.sin(6 * z + 0.5))
    assert error < 2 * spline


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_fields_that_vary_faster_along_one_axis_are_filled_better_than_by_a_cubic_spline(seed):
    """The Gaussian covariance would be likelier than others, with one to five times the spline's squared error."""
    error, spline = kriged_and_spline_errors(gaussian_filter(np.random.default_rng(seed).normal(size=(64, 64)), (2, 9)))
    assert error < 0.3 * spline


def test_the_variance_of_the_farthest_node_is_that_of_its_error():
    parts = Parts((6, 6), (2, 2), (0, 0), 6, 6)
    x = 2.0 * np.indices((6, 6)).reshape(2, -1).T
    k, near = (covariance(1.5, cdist(x, at) / 4) for at in (x, [[5.0, 5.0]]))
    expected = 1 - (near.T @ np.linalg.solve(k, near))[0, 0]
    assert relative_variance(cn.Kriging(1.5, 4.0).covariance, parts) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("smoothness", "scale", "share"), [(2.5, 5.0, 0.8), (1.5, 4.0, 0.15), (0.5, 5.0, 0.0)])
def test_kriging_has_a_share_beside_the_weight_of_hidden_samples_by_how_little_nodes_vary(smoothness, scale, share):
    samples = cn.sample(fields(smoothness, scale, 32, 1)[0], "every:2")
    candidates = cn.fit(samples).report.candidates
    weight = sum(each.weight for each in candidates if each.prior == "kriging:nugget=0")
    assert share in {0.0, *KRIGED_SHARES.values()} and sum(each.weight for each in candidates) == pytest.approx(1)
    assert weight == 0 if share == 0 else weight >= share
    assert any(each.prior == "kriging:nugget=0" and each.hold_out_psnr for each in candidates) == (share > 0)


@pytest.mark.slow
def test_smooth_processes_gain_by_the_fall_of_errors_that_they_let_expect(monkeypatch):
    truth, errors = fields(3.5, 1.0, 40, 4), []
    for _ in range(2):
        fits = [cn.fit(cn.sample(f, "every:2")).render((40, 40), alignment="sample") for f in truth]
        errors.append(float((torch.stack(fits) - truth).square().mean()))
        monkeypatch.setattr(trial, "falls", lambda linear, *_: np.ones(len(linear) + 1))
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize(("rows", "share"), [(12, 0.8), (10, 0.0)])
def test_five_samples_along_an_axis_are_too_few_for_a_share(rows, share):
    samples = cn.sample(fields(2.5, 5.0, 32, 1)[0][:rows], "every:2")
    plan = cn.plan(FourierEncoding.like(samples), samples.geometry, cn.Kriging(nugget=0.0), dtype=torch.float64)
    assert plan.share(samples.centered().unsqueeze(0)) == share


def test_every_second_node_of_smooth_fields_is_not_fitted_like_their_half():
    """By that half alone the squared errors are 1.4 times those of the process's own numbers."""
    ratios = []
    for y in fields(2.5, 5.0, 32, 3):
        samples = cn.sample(y, "every:2")
        f, best = (cn.fit(samples, prior=prior) for prior in ("auto", cn.Kriging(2.5, 5.0, 0.0)))
        errors = [float((g.render((32, 32), alignment="sample") - y).square().mean()) for g in (f, best)]
        ratios.append(errors[0] / errors[1])
    assert np.exp(np.mean(np.log(ratios))) < 1.1


def test_errors_of_samples_that_are_left_out_are_those_of_predictions_by_the_others():
    k, y = covariance(1.5, BETWEEN / 2) + 0.1 * np.eye(len(AT)), np.random.default_rng(0).standard_normal((len(AT), 2))
    expected = []
    for left in range(len(AT)):
        kept = np.arange(len(AT)) != left
        inverse = np.linalg.inv(k[np.ix_(kept, kept)])
        mean = inverse.sum(0) @ y[kept] / inverse.sum()
        expected.append(y[left] - mean - k[left, kept] @ inverse @ (y[kept] - mean))
    np.testing.assert_allclose(left_out_errors(k, y, np.ones(len(AT))), expected, rtol=1e-6)


def on_plane(field, sampling, prior):
    """Return the report and the squared error of kriging a field of some samples, or of all with noise."""
    noise = 0.2 * torch.from_numpy(np.random.default_rng(1).standard_normal(field.shape))
    samples = cn.sample(field + noise if sampling == "full" else field, sampling)
    prior = cn.Kriging(nugget=0.0) if sampling == "every:2" and prior.searches else prior
    fit = cn.fit(samples, prior=prior)
    return fit.report, float((fit.render(field.shape[:2], alignment="sample") - field).square().mean())


@pytest.mark.parametrize(("sampling", "most"), [("random:0.3", 2.5), ("every:2", 1.15), ("full", 1.15)])
def test_a_scale_for_each_axis_is_found_and_fits_are_nearly_as_good_as_with_the_planted_ones(sampling, most):
    """With one scale for both axes the squared errors are 5, 1.2 and 2.2 times those with the planted ones."""
    ratios, scales, nugget = [], (2.0, 12.0), 0.04 if sampling == "full" else 0.0
    for field in fields(1.5, scales, 36, 3):
        report, error = on_plane(field, sampling, cn.Kriging())
        assert 3 <= report.scale[1] / report.scale[0] <= 12
        ratios.append(error / on_plane(field, sampling, cn.Kriging(1.5, scales, nugget))[1])
    assert np.exp(np.mean(np.log(ratios))) < most


@pytest.mark.parametrize("sampling", ["random:0.3", "every:2", "full"])
def test_axes_that_are_alike_have_one_scale(sampling):
    for field in fields(1.5, 5.0, 36, 3):
        assert isinstance(on_plane(field, sampling, cn.Kriging())[0].scale, float)


@pytest.mark.parametrize(("rise", "scale"), [(-1.0, (1.0, 8.0)), (1.0, 1.0)])
def test_likelier_scales_of_axes_are_taken_if_samples_are_predicted_better(rise, scale):
    """The planted scales are likelier either way; along edges of pictures they often predict worse."""

    def distance(tried):
        return float(np.abs(np.log(tried.by_axis((9, 9)) / [1.0, 8.0])).sum())

    def likeliest(tried):
        return max(((-100.0 * distance(one), one) for one in tried), key=lambda pair: pair[0])

    found = searched(cn.Kriging(1.5), 1.0, (9, 9), likeliest, lambda tried: -rise * distance(tried))
    assert found.scale == pytest.approx(scale) if rise < 0 else isinstance(found.scale, float)


def test_a_volume_has_a_scale_along_each_axis():
    nodes = np.indices((10, 10, 10)).reshape(3, -1).T / [2.0, 2.0, 12.0]
    y = np.linalg.cholesky(covariance(1.5, cdist(nodes, nodes)) + 1e-9 * np.eye(1000))
    y = torch.from_numpy(y @ np.random.default_rng(0).standard_normal(1000)).reshape(10, 10, 10, 1)
    scale = cn.fit(cn.sample(y, "random:0.5"), prior=cn.Kriging()).report.scale
    assert scale[2] > 2 * max(scale[:2])


def test_scales_of_axes_are_those_of_stretched_places_and_pass_through_text_and_reports():
    field = fields(1.5, (2.0, 12.0), 20, 1)[0]
    samples, prior = cn.sample(field, "random:0.4"), cn.Kriging(1.5, (2.0, 12.0), 0.01)
    fit = cn.fit(samples, prior=prior)
    assert prior.settled(fit.report) == prior and parse_prior(prior.text) == prior
    known = samples.geometry.known(1)[..., 0].numpy()
    x, nodes = (np.stack(np.nonzero(mask), 1) / [2.0, 12.0] for mask in (known, np.ones((20, 20))))
    inverse, y = np.linalg.inv(covariance(1.5, cdist(x, x)) + 0.01 * np.eye(len(x))), field[..., 0].numpy()[known]
    mean = inverse.sum(0) @ y / inverse.sum()
    expected = mean + covariance(1.5, cdist(nodes, x)) @ inverse @ (y - mean)
    np.testing.assert_allclose(fit.render((20, 20), alignment="sample").flatten(), expected, atol=1e-7)
    with pytest.raises(ValueError, match="scale"):
        cn.fit(samples, prior=cn.Kriging(scale=(2.0, 3.0, 4.0)))


def test_gradients_are_those_of_a_linear_fit_with_the_numbers_held_fixed():
    samples = row(process(1.5, 6.0, 60, 3))
    values = samples.values.clone().requires_grad_()
    chosen = cn.fit(samples, prior=cn.Kriging()).report
    fixed = cn.Kriging(chosen.smoothness or math.inf, chosen.scale, chosen.nugget)
    towards = torch.randn(60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (found,) = torch.autograd.grad(on_nodes(cn.Samples(samples.geometry, values), cn.Kriging()) @ towards, values)
    step = torch.randn(values.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    change = on_nodes(cn.Samples(samples.geometry, samples.values + step), fixed) - on_nodes(samples, fixed)
    assert float((found * step).sum()) == pytest.approx(float(change @ towards), rel=1e-6)


def test_lattices_with_gaps_and_rows_that_skip_nodes_are_kriged_and_long_rows_and_differing_masks_are_not():
    y = torch.rand(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert cn.Kriging() in choose_prior(row(y[:300])).priors
    for count in (10, 4000):
        assert cn.Kriging(nugget=0.0) in choose_prior(cn.sample(y[:count, None], "every:2")).priors
    for shape in ((30, 30, 1), (8, 9, 9, 1)):
        assert cn.Kriging() in choose_prior(cn.sample(y[: math.prod(shape)].reshape(shape), "random:0.4")).priors
    masks = torch.rand(30, 30, 2, generator=torch.Generator().manual_seed(0)) < 0.4
    others = [row(y), cn.sample(y[:8, None], "every:2"), cn.sample(y[:1800].reshape(30, 30, 2), masks)]
    assert not any(isinstance(p, cn.Kriging) for s in others for p in choose_prior(s).priors)


@pytest.mark.slow
def test_noisy_planes_with_gaps_are_nearly_as_good_as_the_best_linear_prediction():
    """By patches and plates alone the errors are 1.43 times those with the numbers of the process."""
    ratios, generator, chosen = [], torch.Generator().manual_seed(0), cn.Kriging(math.inf, 4.0, 0.01)
    for f in fields(math.inf, 4.0, 36, 3):
        noisy = f + 0.1 * torch.randn(f.shape, generator=generator, dtype=torch.float64)
        samples = cn.sample(noisy, torch.rand(f.shape[:2], generator=generator) < 0.3)
        fits = [cn.fit(samples, prior=prior).render(f.shape[:2]) for prior in ("auto", chosen)]
        ours, best = (float((fit - f).square().mean()) for fit in fits)
        ratios.append(ours / best)
    assert np.exp(np.mean(np.log(ratios))) < 1.2


def test_a_few_samples_of_a_row_are_kriged():
    x = torch.arange(60, dtype=torch.float64)
    known = torch.zeros(60, dtype=torch.bool)
    known[[2, 9, 15, 22, 30, 37, 43, 50, 58]] = True
    fit = cn.fit(cn.sample(torch.sin(x / 9)[:, None], known))
    assert fit.report.used("auto") == "kriging"
    assert float((fit.render((60,), alignment="sample")[:, 0] - torch.sin(x / 9)).abs().max()) < 0.02


def clusters(smoothness, count, seed):
    """Return points in clusters, others between these, and a process of scale 0.2 at both."""
    generator = np.random.default_rng(seed)
    near = generator.random((10, 2))[generator.integers(10, size=count)] + 0.03 * generator.normal(size=(count, 2))
    places = np.concatenate([near, generator.uniform(0.1, 0.9, (200, 2))])
    k = covariance(smoothness, cdist(places, places) / 0.2) + 1e-9 * np.eye(len(places))
    return places[:count], places[count:], np.linalg.cholesky(k) @ generator.standard_normal(len(places)), k


@pytest.mark.slow
def test_points_in_clusters_are_nearly_as_good_as_the_best_linear_prediction():
    """That is E[f | y] of the planted process; errors are mean squares over two draws."""
    squares = []
    for seed in range(2):
        places, between, y, k = clusters(1.5, 120, seed)
        best = k[120:, :120] @ np.linalg.solve(k[:120, :120], y[:120])
        priors = "auto", cn.ThinPlate()
        fits = [cn.fit(cn.points(places, y[:120]), prior=prior)(torch.from_numpy(between))[:, 0] for prior in priors]
        squares.append([np.square(f - y[120:]).mean() for f in (best, *(f.numpy() for f in fits))])
    best, ours, plates = np.mean(squares, 0)
    assert ours < 1.5 * best < plates


def test_points_are_kriged_unless_distances_or_a_drift_are_in_the_way():
    x, y = np.random.default_rng(0).random((2000, 2)), np.arange(2000.0)
    in_rows = [cn.ThinPlate(order, NEARLY, 0.0) for order in (1, 2, 3)]
    for places, fixed in ((x[:300], []), (x[:, :1], in_rows), (np.hstack([x, x[::-1, :1]]), [])):
        priors = choose_prior(cn.points(places, y[: len(places)])).priors
        assert [*priors] == [*fixed, cn.Kriging(), cn.ThinPlate()]
    others = [
        cn.points(x[:4], y[:4]),
        cn.points(x[:300], y[:300], drift=x[:300] ** 2),
        cn.points(x[:300], y[:300], period={"x": 2}),
        cn.points(x[:300], y[:300], sphere=("x", "y")),
    ]
    assert [choose_prior(points) for points in others] == 4 * [cn.ThinPlate()]
    assert isinstance(choose_prior(cn.points(x, y)), Snapped)


def test_windows_cover_every_node_once_and_have_few_points():
    x = np.concatenate([np.random.default_rng(0).random((300, 2)) * [39, 24], np.full((50, 2), 7.5)])
    count = np.zeros((40, 25), int)
    for window in windows_of(x, (slice(0, 40), slice(0, 25)), 20):
        count[window] += 1
        low, high = np.array([[side.start, side.stop] for side in window]).T
        inside = x[((x >= low) & (x < high)).all(1)]
        assert len(inside) <= 20 or 1 in high - low
    assert (count == 1).all()


def test_the_nearest_points_are_those_of_least_distance_from_a_node_of_the_window():
    x = np.random.default_rng(0).random((200, 2)) * 20
    nodes = np.stack(np.mgrid[5:9, 0:16], -1).reshape(-1, 2)
    near = nearest(x, (slice(5, 9), slice(0, 16)), 120)
    outside = np.delete(np.arange(200), near)
    inside_box = np.maximum(np.maximum([5, 0] - x, x - [8, 15]), 0).max(1) == 0
    assert len(set(near)) == 120 and inside_box[near].sum() == inside_box.sum()
    assert cdist(x[near], nodes).min(1).max() < cdist(x[outside], nodes).min(1).min() + 0.71


@pytest.mark.parametrize(("neighbors", "least"), [(400, 1e-9), (120, 0.02)])
def test_nodes_are_predicted_from_the_nearest_points_as_from_all(monkeypatch, neighbors, least):
    """Points that are farther than 120 others hardly change the prediction."""
    x = np.random.default_rng(0).random((400, 2))
    y = np.linalg.cholesky(covariance(1.5, cdist(x, x) / 0.2)) @ np.random.default_rng(1).standard_normal(400)
    samples = cn.points(x, y, scales=[1.0, 1.0])
    prior = cn.Kriging(1.5, 0.2 / samples.geometry.lattice.steps[0], 1e-3)
    dense = predicted(prior, samples.geometry, samples.values.T)
    monkeypatch.setattr(matern, "MOST_DENSE", 0)
    monkeypatch.setattr(matern, "NEIGHBORS", {2: neighbors})
    monkeypatch.setattr(matern, "WINDOWED", {2: neighbors // 4})
    near = predicted(prior, samples.geometry, samples.values.T)
    within = (near - dense)[:, MARGIN[2] : -MARGIN[2], MARGIN[2] : -MARGIN[2]]
    assert float(within.square().mean()) < least**2 * float(dense.var())


def test_the_likelihood_of_points_is_that_of_points_all_over_them():
    """In the middle fifth of these points the signal is smooth; many are taken in blocks, and few are drawn."""
    generator = np.random.default_rng(0)
    x = np.sort(generator.random(1100))[:, None]
    rough = np.cumsum(generator.standard_normal(1100))
    y = np.where(np.abs(x[:, 0] - 0.5) < 0.1, 30 * np.sin(9 * x[:, 0]), rough)
    for part in (np.abs(x[:, 0] - 0.5) < 0.45, slice(None)):
        assert cn.fit(cn.points(x[part], y[part]), prior=cn.Kriging()).report.smoothness == 0.5


def test_nodes_are_predicted_in_parts_as_they_are_together(monkeypatch):
    samples, prior = cn.points(np.random.default_rng(0).random((30, 2)), np.arange(30.0)), cn.Kriging(1.5, 4.0, 0.1)
    together = predicted(prior, samples.geometry, samples.values.T)
    monkeypatch.setattr(matern, "PREDICTED", 100)
    torch.testing.assert_close(predicted(prior, samples.geometry, samples.values.T), together, rtol=0, atol=1e-12)


def test_wrong_numbers_are_refused():
    for wrong in ({"smoothness": 1.0}, {"scale": 0.0}, {"scale": (1.0, 0.0)}, {"nugget": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            cn.Kriging(**wrong)


@pytest.mark.parametrize("side, is_tried", [(40, True), (100, False)])
def test_few_samples_are_kriged_though_another_prior_is_far_better_in_windows(side, is_tried):
    known = torch.arange(side * side).reshape(side, side) % 2 == 0
    lattice = cn.sample(torch.zeros(side, side, 1), known).geometry
    plan = cn.Kriging().plan(cn.FourierEncoding.like(lattice), lattice)
    assert plan.is_promising({cn.Adaptive(): 4.0, cn.Local(): 1.0}, 1.0) == is_tried
    assert plan.is_promising({cn.Adaptive(): 1.0, cn.Local(): 1.0}, 1.0)


def test_points_between_given_nodes_are_kriged(generator):
    """A smooth field of forty points, of which SciPy's thin plate has over four times the error."""

    def wave(x):
        return torch.sin(7 * x[:, 0]) * torch.cos(5 * x[:, 1])

    points = 0.9 * torch.rand(40, 2, generator=generator, dtype=torch.float64)
    samples = cn.Samples(cn.ScatteredPoints((16, 16), points), wave(points)[:, None])
    nodes = torch.cartesian_prod(*2 * [torch.arange(1, 14) / 16]).double()
    fit = cn.fit(samples)
    weights = {candidate.prior: candidate.weight for candidate in fit.report.candidates}
    assert weights["kriging"] > 0.5
    error, others = (fit(nodes)[:, 0] - wave(nodes)).square().mean(), RBFInterpolator(points, wave(points))(nodes)
    assert 16 * float(error) < float(np.square(others - wave(nodes).numpy()).mean())


def test_a_scale_between_the_powers_of_two_is_found_where_the_likelihood_tells_it_sharply():
    def missed(one):
        return float(np.abs(np.log2(one.by_axis((20, 20)) / 3.4)).sum())

    def likeliest(tried):
        return max(((-100 * missed(one), one) for one in tried), key=lambda likely: likely[0])

    found = searched(cn.Kriging(1.5, None, 0.0), 1.0, (20, 20), likeliest, missed)
    assert isinstance(found.scale, float) and abs(math.log2(found.scale / 3.4)) < 0.13


def test_points_of_a_row_with_a_step_are_fitted_by_kriging_and_by_lines():
    """Kriging, which swings around the step, has a half of the weight; with searching plates it had all of it."""
    x = np.sort(np.random.default_rng(2).random(60))
    between = np.linspace(x[0], x[-1], 300)
    values, truth = (np.sin(6 * at) + (at > 0.5) for at in (x, between))
    samples = cn.points(x, values)
    fit, kriged = cn.fit(samples), cn.fit(samples, prior=cn.Kriging())
    weights = {candidate.prior: candidate.weight for candidate in fit.report.candidates}
    assert weights["kriging"] >= POINTS_SHARE and weights["plates:order=1,cutoff=3"] > 0
    ours, without = (np.square(np.asarray(each.at(between)).ravel() - truth).mean() for each in (fit, kriged))
    assert ours < 0.8 * without


def test_kriged_points_of_a_volume_depend_on_the_nodes_by_quintic_blends(generator):
    """Linear ones err by far more than kriging does at the nodes."""

    def wave(x):
        return torch.sin(4 * x[:, 0]) + torch.cos(3 * x).sum(1)

    points, places = torch.rand(120, 3, generator=generator, dtype=torch.float64), torch.full((9, 3), 0.5).double()
    places += 0.3 * (torch.rand(9, 3, generator=generator, dtype=torch.float64) - 0.5)
    fit = cn.fit(cn.points(points.numpy(), wave(points).numpy()), prior=cn.Kriging(math.inf, None, 0.0))
    error = torch.as_tensor(fit(places)).ravel() - wave(places)
    assert float(error.square().mean()) < 1e-6 * float(wave(points).var())


@pytest.mark.parametrize("seed", [4, 7, 10])
def test_points_of_a_rough_row_have_noise_only_if_it_was_added(seed):
    """By the greatest likelihood alone these Brownian motions have noise, and one of them is smooth beside."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.random(60))
    rough = np.cumsum(generator.standard_normal(60) * np.sqrt(np.diff(x, prepend=0)))
    smooth = np.sin(6 * x) + 0.1 * generator.standard_normal(60)
    geometry = cn.ScatteredPoints((100,), torch.from_numpy(x)[:, None])
    plain, noisy = (
        cn.fit(cn.Samples(geometry, torch.from_numpy(y)[:, None]), prior=cn.Kriging()).report for y in (rough, smooth)
    )
    assert (plain.smoothness, plain.nugget) == (0.5, 0.0) and noisy.nugget > 0


def test_noise_is_taken_where_it_gains_more_than_the_doubt():
    x = np.arange(40.0)[:, None]
    y = process(1.5, 10.0, 40, 0) + 0.1 * np.random.default_rng(0).standard_normal(40)
    block, one, nuggets = (x, np.ones(40), y[:, None, None]), cn.Kriging(1.5, 10.0), np.array([0.0, 0.01, 0.1])
    found = restricted_likelihoods(decomposed(one.covariance(x, x)), y[:, None, None], nuggets)[0][0]
    gain = found[1:].max() - found[0]
    assert gain > 1
    for doubt, expected in ((gain - 0.01, nuggets[found.argmax()]), (gain + 0.01, 0.0)):
        assert likeliest([block], nuggets, [one], doubt)[1].nugget == expected
