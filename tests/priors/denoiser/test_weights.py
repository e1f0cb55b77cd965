"""What hidden samples, added noise, halves and other mosaics make of denoisers that suit and of those that do not."""

import functools
import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import avg_pool2d, pad

import coordnet as cn
from coordnet.fitting.choice import choose_prior, weighed
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.plan import CenteredValues, Fitted
from coordnet.priors.denoiser import areas, refined
from coordnet.priors.denoiser.areas import COLOR_STEPS, GRAY_STEPS, LEAST_HALF_ERROR
from coordnet.priors.denoiser.plug_and_play import NOISE_SHARE, Scale
from coordnet.priors.denoiser.refined import WEIGHED_ROUNDS, DenoisedNoisePlan
from coordnet.priors.local.demosaicing import LocalMosaicPlan
from coordnet.priors.local.weights import (
    ADDED,
    least_squares_share,
    least_squares_weight,
    share_deviation,
    sure_share,
    typical,
)
from coordnet.restore import weighed as weighed_module
from coordnet.restore.weighed import Stabilized, by_denoiser, weigh
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum

SIDE = 20
WHITE = cn.NoiseModel(floor=0.01)
TRUTH = synthetic_photograph(SIDE, SIDE)
BLUR = cn.operators.Blur(torch.full((5, 5), 1 / 25), (SIDE, SIDE))
KNOWN = torch.rand(SIDE, SIDE, generator=torch.Generator().manual_seed(0)) < 0.4


def identity(x, sigma):
    return x


def blur(x, sigma):
    return avg_pool2d(pad(x, (4, 4, 4, 4), mode="replicate"), 9, 1)


def constant(x, sigma):
    return torch.full_like(x, 0.5)


def smooth(x, sigma):
    """A field that has nothing to do with the picture."""
    return (0.5 + 0.3 * torch.linspace(0, 3, x.shape[3]).sin()).expand_as(x)


def saturated(x, sigma):
    """The identity in [0, 1], where it is told another range."""
    return x.clamp(0, 1)


def symmetric(picture):
    """Return a square picture, turned and mirrored in all ways."""
    return [t for k in range(4) for t in (picture.rot90(k), picture.rot90(k).flip(1))]


def oracle(truth):
    """The denoiser that knows the picture, whichever way it is turned, in the range of its known values."""
    known = truth[KNOWN]
    low, high = known.min(), known.max()

    def clean(x, sigma):
        targets = [(t.movedim(-1, 0) - low) / (high - low) for t in symmetric(truth)]
        return min(targets, key=lambda t: float((t - x[0]).square().mean())).unsqueeze(0)

    return clean


def known_in_any_range(x, sigma, truth=TRUTH):
    """The denoiser that knows the picture but for its range and the means of its channels."""
    mean, targets = x.mean((2, 3), keepdim=True), [t.movedim(-1, 0) for t in symmetric(truth)]
    parts = [t - t.mean((1, 2), keepdim=True) for t in targets]
    estimates = [mean + (x * t).sum() / t.square().sum() * t for t in parts]
    return min(estimates, key=lambda t: float((t - x).square().mean()))


UNSUITED = pytest.mark.parametrize("f", [identity, blur, constant], ids=lambda f: f.__name__)


def test_the_weight_is_least_squares_from_nothing_to_all(generator):
    error, other = torch.randn(2, 50, generator=generator, dtype=torch.float64)
    weight = least_squares_weight(error, other, 1)
    found = [(error + (weight + d) * (other - error)).square().sum() for d in (-0.01, 0.0, 0.01)]
    assert 0 < weight < 1 and min(found) == found[1]
    assert least_squares_weight(error, error, 1) == 0
    assert least_squares_weight(error, 2 * error, 1) == 0
    assert least_squares_weight(error, 0 * error, 1) == least_squares_weight(error, 0.5 * error, 1) == 1
    many = error.repeat(100)
    assert least_squares_weight(many, 0.999 * many, 1) == 0  # hardly better
    assert least_squares_weight(many, 0.98 * many, 1) == 1


def test_a_step_that_nothing_relates_to_the_errors_has_no_weight_but_by_chance(generator):
    errors, steps = torch.randn(2, 2000, 30, generator=generator, dtype=torch.float64)
    weights = torch.tensor([least_squares_weight(e, e + s, 1) for e, s in zip(errors, steps, strict=True)])
    assert 0.02 < (weights > 0).double().mean() < 0.08  # a normal variable is above √3 with probability 0.042
    assert least_squares_weight(errors[0], 0.9 * errors[0], 1) == 1
    assert least_squares_weight(errors[0], 0.9 * errors[0], 3) == 0


def test_the_deviation_of_the_weight_is_that_over_many_draws_of_the_noise(generator):
    first, other = 0.3 * torch.randn(2, 400, generator=generator, dtype=torch.float64)
    noise = torch.linspace(0.1, 1.0, 400) * torch.randn(500, 400, generator=generator, dtype=torch.float64)
    shares = torch.tensor([least_squares_share(first - n, other - n) for n in noise])
    told = [share_deviation(first - n, other - n, float(w)) for n, w in zip(noise, shares, strict=True)]
    assert 0 < shares.min() and shares.max() < 1
    assert sum(told) / len(told) == pytest.approx(float(shares.std()), rel=0.1)
    assert share_deviation(first, first, 0.0) == 0


def weighed_against_an_offset(side, offset, height, seed):
    """Weigh a denoiser that adds a chessboard, alike from all sides, to gray, against a filter that adds an offset."""
    x = torch.arange(side)
    chessboard = height * (1 - 2 * ((x + x[:, None]) % 2))
    noisy = 0.5 + 0.1 * torch.randn(side, side, 1, generator=torch.Generator().manual_seed(seed))
    known = cn.Denoiser(lambda x, sigma: (0.5 + chessboard).expand_as(x), channels=1, multiple=1)
    return weigh(known, lambda noisier, _: torch.full_like(noisier, 0.5 + offset), noisy, WHITE, 1.0, seed + 1)


def test_added_noise_gives_nearly_the_weight_of_two_errors_that_are_known():
    for seed in range(3):
        best = 0.1**2 / (0.1**2 + 0.07**2)
        found = weighed_against_an_offset(111, 0.1, 0.07, seed)
        assert found.weight == pytest.approx(best, abs=0.02)
        left = ((1 - found.weight) * 0.1) ** 2 + (found.weight * 0.07) ** 2
        assert found.ratio == pytest.approx(left / 0.1**2, rel=0.1)


def test_a_denoiser_that_changes_nothing_has_no_weight_where_few_points_tell_the_noise():
    """The weight found is the error of the variance, which is more certain the larger the picture is."""
    for side, known in ((24, False), (240, True)):
        noisy = 0.5 + 0.1 * torch.randn(side, side, 1, generator=torch.Generator().manual_seed(side))
        unchanged = cn.Denoiser(identity, channels=1, multiple=1)
        model = cn.NoiseModel(floor=0.08**2)
        found = weigh(unchanged, lambda noisier, _: torch.full_like(noisier, 0.5), noisy, model, 1.0, 7)
        assert bool(found.weight) == known
        if known:
            share = (0.1**2 / 0.08**2 - 1) / (0.1**2 / 0.08**2 + ADDED**2)
            assert found.weight == pytest.approx(share, rel=0.15)


def test_half_a_deviation_is_added_to_the_weight_that_noise_gives(monkeypatch):
    weights = {}
    for added in (0.0, 0.5, 1.0):
        monkeypatch.setattr(weighed_module, "ADDED_DEVIATIONS", added)
        weights[added] = weighed_against_an_offset(111, 0.1, 0.07, 0).weight
    best = 0.1**2 / (0.1**2 + 0.07**2)
    assert weights[0.0] == pytest.approx(best, abs=0.02)
    assert weights[0.0] < weights[0.5] < weights[1.0] < 1
    assert weights[0.5] == pytest.approx((weights[0.0] + weights[1.0]) / 2)


def test_noise_is_added_as_clipping_left_it():
    """On black, noise of variance (1/2 - 1/2π) σ² is left."""
    mean, given = torch.where(torch.arange(100) < 20, 0.0, 0.5).expand(100, 100).unsqueeze(-1), []
    noisy = (mean + 0.1 * torch.randn(mean.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    unchanged = cn.Denoiser(identity, channels=1, multiple=1)
    weigh(unchanged, lambda noisier, _: given.append(noisier) or noisier, noisy, WHITE, 1.0, 1)
    more = (given[0] - noisy)[..., 0]
    left = math.sqrt(1 / 2 - 1 / (2 * math.pi))
    assert float(more[:, :18].std() / more[:, 22:].std()) == pytest.approx(left, rel=0.15)  # of means that vary
    assert float(more[:, 22:].std()) == pytest.approx(0.1 * ADDED, rel=0.15)


class Mean:
    """A lattice denoiser that changes nothing."""

    def mean(self, x, sigma):
        return x


def test_layers_are_rounded_where_the_error_to_expect_hides_it(monkeypatch):
    asked = []
    monkeypatch.setattr(
        weighed_module, "LatticeDenoiser", lambda *_, rounded_from: asked.append(rounded_from) or Mean()
    )
    noisy = torch.rand(16, 16, 3, generator=torch.Generator().manual_seed(1))
    model = cn.NoiseModel(floor=1e-4)
    for error in (None, 1e-4, 1e-2):
        by_denoiser(cn.Denoiser(identity), noisy, noisy, model, 1.0, error)
    by_denoiser(cn.Denoiser(identity), 100 * noisy, 100 * noisy, model, 1.0, 1e-2)
    assert asked == [math.inf, math.inf, 0.0, math.inf]


@pytest.mark.parametrize(("count", "one"), [(5, 1.0), (20, 2.0)])
def test_few_values_beyond_the_range_of_pictures_do_not_change_it(count, one):
    pilot, levels = torch.full((1000, 1, 1), 0.5), []
    pilot[:count], pilot[-1] = 2.0, 0.0
    by_denoiser(cn.Denoiser(lambda x, sigma: levels.append(sigma) or x), pilot, pilot, WHITE, 1.0, None)
    assert levels == pytest.approx(8 * [math.sqrt(3) * 0.1 / one])


def test_a_denoiser_has_no_weight_where_noise_hides_which_estimate_is_better():
    assert [weighed_against_an_offset(9, 0.01, 0.01, seed).weight for seed in range(20)] == 20 * [0]


def test_a_few_large_errors_do_not_hide_what_suits_the_others():
    error = torch.linspace(-1.0, 1.0, 200, dtype=torch.float64)
    error[7], second = 100.0, 0.5 * error
    assert sure_share(error, second, 1) == 0
    kept = typical(error)
    assert kept.sum() == 199 and not kept[7]
    assert sure_share(error[kept], second[kept], 1) == 1
    assert sure_share(error[kept], error[kept], 1) == 0


SMALL = synthetic_photograph(20, 20)
GIVEN = {
    "inpaint": (TRUTH, KNOWN),
    "denoise": (SMALL + 0.1 * torch.randn(SMALL.shape, generator=torch.Generator().manual_seed(1)),),
    "demosaic": (0.9 * synthetic_photograph(8, 8)[..., 0],),
    "upscale": (synthetic_photograph(48, 48),),
}


@functools.cache
def without(name):
    """Return what a function makes without a denoiser, once for all tests."""
    return getattr(cn, name)(*GIVEN[name])


@pytest.mark.slow
@UNSUITED
def test_gaps_are_filled_as_without_a_denoiser_that_does_not_suit(f):
    ours, weighed = without("inpaint"), cn.inpaint(TRUTH, KNOWN, prior=cn.Denoiser(f))
    assert torch.equal(ours.signal, weighed.signal)
    assert weighed.report.prior == ours.report.prior
    weights = {c.prior: c.weight for c in weighed.report.fit.candidates}
    assert weights[f"denoiser:{f.__name__}"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["denoise", "demosaic", "upscale"])
@pytest.mark.parametrize("f", [identity, blur, constant, smooth, saturated], ids=lambda f: f.__name__)
def test_the_other_functions_are_as_without_it_too(name, f):
    prior = cn.Denoiser(f, range=(0.0, 255.0 if f is saturated else 1.0))
    ours, weighed = without(name), getattr(cn, name)(*GIVEN[name], prior=prior)
    assert torch.equal(weighed.signal, ours.signal)
    assert weighed.report.prior == ours.report.prior and "denoiser" not in str(weighed.fit.report.prior)


@pytest.mark.slow
@pytest.mark.parametrize("name", GIVEN)
def test_a_denoiser_without_finite_results_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match="`f`: expected a function with finite results, received NaN or infinity\\Z"):
        getattr(cn, name)(*GIVEN[name], prior=cn.Denoiser(lambda x, sigma: x * math.nan))


@pytest.mark.slow
def test_mosaics_with_noise_are_filled_as_without_a_denoiser_that_does_not_suit(generator):
    noisy = 0.9 * TRUTH[..., 0] + 0.1 * torch.randn(SIDE, SIDE, generator=generator)
    ours, weighed = (cn.demosaic(noisy, sigma=0.1, prior=prior) for prior in ("auto", cn.Denoiser(constant)))
    assert torch.equal(weighed.signal, ours.signal)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["full", "bayer:RGGB"])
def test_noisy_lattices_take_the_weight_of_a_denoiser_that_knows_the_picture(pattern, generator):
    noisy = TRUTH + 0.1 * torch.randn(TRUTH.shape, generator=generator)
    ours = cn.fit(cn.sample(noisy, pattern), prior=cn.Local(noise=0.1))
    found = cn.fit(cn.sample(noisy, pattern), prior=cn.Denoiser(known_in_any_range, noise=0.1))
    assert found.report.weight > 0.5
    assert cn.psnr(found.render(), TRUTH) > cn.psnr(ours.render(), TRUTH) + 3


def test_more_noise_gives_the_weight_of_two_errors_that_are_known(monkeypatch, generator):
    """The first estimate is the values with their noise and more, of variance v; the second has an offset c."""
    side, level, offset = 64, 0.1, 0.1
    weights = torch.where(torch.rand(side, side, 1, generator=generator) < 0.5, 4.0, 1.0)
    weights = weights * cn.sample(torch.ones(side, side, 3), "bayer:RGGB").geometry.full_weights
    truth = synthetic_photograph(side, side).movedim(-1, 0)
    noise = level * torch.randn(truth.shape, generator=generator) * refined.inverse_root(weights.movedim(-1, 0))
    geometry = cn.MaskedLattice((side, side), weights=weights)
    own = FitReport(method="the values")
    monkeypatch.setattr(LocalMosaicPlan, "_solve", lambda _, values: Fitted(values, own))
    plan = cn.Denoiser(identity, noise=level, pilot=cn.Local()).plan(cn.FourierEncoding.like(geometry), geometry)
    monkeypatch.setattr(DenoisedNoisePlan, "refined", lambda *_: truth + offset)
    variance = level**2 * (1 + ADDED**2) * float((1 / weights[weights > 0]).mean())
    expected = variance / (variance + offset**2)
    assert plan.weighed(truth + noise, truth)[0] == pytest.approx(expected, abs=0.03)


@pytest.mark.slow
def test_a_noisy_mosaic_is_weighed_in_few_rounds(monkeypatch, generator):
    rounds, solve = [], LocalMosaicPlan._solve
    monkeypatch.setattr(LocalMosaicPlan, "_solve", lambda plan, y: rounds.append(plan.prior.rounds) or solve(plan, y))
    cn.demosaic(torch.rand(8, 8, generator=generator), sigma=0.1, prior=cn.Denoiser(identity))
    assert rounds == [cn.Local().rounds, WEIGHED_ROUNDS]


def test_the_noise_of_a_whole_lattice_is_removed_at_once(generator):
    geometry, (start, values) = cn.Lattice((SIDE, SIDE)), torch.rand(2, 3, SIDE, SIDE, generator=generator)
    plan = cn.Denoiser(lambda x, sigma: x + sigma, noise=0.1).plan(cn.FourierEncoding.like(geometry), geometry)
    torch.testing.assert_close(plan.refined(start, values, ()), values + 0.1)


def test_the_variance_of_the_noise_is_in_inverse_proportion_to_the_weights_of_samples():
    weights = torch.tensor([[[1.0], [4.0]], [[0.0], [0.25]]])
    geometry = cn.MaskedLattice((2, 2), weights=weights)
    prior = cn.Denoiser(identity, noise=0.3, pilot=cn.Local())
    plan = DenoisedNoisePlan(cn.FourierEncoding.like(geometry), geometry, prior, cn.Local())
    found = plan.nearest(torch.ones(1, 2, 2), Scale(0.0, 2.0))(torch.zeros(1, 2, 2), 0.1)
    variances = NOISE_SHARE * 0.15**2 / torch.tensor([[[1.0, 4.0], [torch.inf, 0.25]]])
    variances[0, 1, 0] = torch.inf  # nothing is known there
    torch.testing.assert_close(found, 0.5 / (1 + variances / 0.1**2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["upscale", "demosaic", "blurred"])
def test_denoisers_are_given_pictures_with_their_colors(name):
    side, given = (48 if name == "upscale" else 16), []
    picture = 0.4 * synthetic_photograph(side, side) + torch.tensor([0.0, 0.6, 0.3])
    mosaic = picture[..., 1].clone()
    mosaic[::2, ::2], mosaic[1::2, 1::2] = picture[::2, ::2, 0], picture[1::2, 1::2, 2]
    prior = cn.Denoiser(lambda x, sigma: given.append(x.mean((0, 2, 3))) or x)
    if name == "blurred":
        operator = cn.operators.Blur(torch.full((3, 3), 1 / 9), (side, side))
        cn.fit(cn.Measurements(operator, operator(picture.movedim(-1, 0)).movedim(0, -1)), prior=prior)
    else:
        getattr(cn, name)(picture if name == "upscale" else mosaic, prior=prior)
    means, (low, high) = picture.mean((0, 1)), picture.aminmax()
    assert given
    expected = ((means - low) / (high - low)).expand(len(given), 3)
    torch.testing.assert_close(torch.stack(given), expected, atol=0.1, rtol=0)


def test_a_row_of_means_is_divided_as_without_a_denoiser(generator):
    row = torch.rand(1, 20, 1, generator=generator)
    ours, found = (cn.upscale(row, 2.0, prior=prior) for prior in ("auto", cn.Denoiser(blur)))
    assert torch.equal(found.signal, ours.signal)


def test_noise_is_told_where_the_pilot_takes_none():
    samples = cn.Measurements(BLUR, BLUR(TRUTH.movedim(-1, 0)).movedim(0, -1))
    plan = cn.Denoiser(blur, noise=0.1).plan(cn.FourierEncoding.like(samples), samples.geometry)
    assert plan.pilot == cn.Adaptive()


@pytest.fixture(scope="module")
def blurred():
    """A blurred picture with noise, and our fit."""
    values = cn.Measurements.of(BLUR, TRUTH, sigma=0.003, generator=torch.Generator().manual_seed(1)).values
    return cn.Measurements(BLUR, values), cn.fit(cn.Measurements(BLUR, values))


@pytest.mark.slow
@pytest.mark.parametrize("f", [blur, constant])
def test_measurements_are_fitted_as_without_a_denoiser_that_does_not_suit(f, blurred):
    samples, ours = blurred
    found = cn.fit(samples, prior=cn.Denoiser(f))
    assert torch.equal(found.render(), ours.render())
    assert "denoiser" not in str(found.report.prior)


@pytest.mark.slow
def test_measurements_take_the_weight_that_suits_hidden_ones(blurred):
    samples, ours = blurred
    found = cn.fit(samples, prior=cn.Denoiser(known_in_any_range))
    assert found.report.denoiser == "known_in_any_range" and found.report.weight > 0.8
    assert cn.psnr(found.render(), TRUTH) > cn.psnr(ours.render(), TRUTH) + 5


@pytest.mark.slow
def test_a_mosaic_of_the_estimate_in_another_phase_gives_the_weight(monkeypatch):
    known = torch.zeros(SIDE, SIDE, 3)
    known[::2, ::2, 0] = known[::2, 1::2, 1] = known[1::2, ::2, 1] = known[1::2, 1::2, 2] = 1
    geometry, truth = cn.MaskedLattice((SIDE, SIDE), weights=known), TRUTH.movedim(-1, 0)
    plan = cn.Denoiser(known_in_any_range).plan(cn.FourierEncoding.like(geometry), geometry)
    assert plan.weight_for(truth) > 0.9
    truths, estimate = [], 0.9 * truth
    monkeypatch.setattr(type(plan), "weight_for", lambda other, f: truths.append((f, other._known)) or 0.5)
    mosaic = torch.where(known.movedim(-1, 0) > 0, truth, 0.0)
    assert plan.weighed(mosaic, estimate)[0] == 0.5
    assert torch.equal(truths[0][0], estimate)
    assert torch.equal(truths[0][1], known.roll(1, 1).movedim(-1, 0) > 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_mosaic_that_gives_the_weight_has_no_measured_value(monkeypatch, axis):
    stripes = torch.eye(3).repeat(4, 1)  # one color in each row, or in each column
    known = stripes.unsqueeze(1 - axis).expand(12, 12, 3).contiguous()
    geometry, given = cn.MaskedLattice((12, 12), weights=known), []
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.like(geometry), geometry)
    monkeypatch.setattr(type(plan), "weight_for", lambda other, f: given.append(other._known) or 0.0)
    plan.weighed(torch.zeros(3, 12, 12), torch.zeros(3, 12, 12))
    assert torch.equal(given[0].sum(0), torch.ones(12, 12)) and not (given[0] & plan._known).any()


@pytest.mark.parametrize(("channels", "steps"), [(3, COLOR_STEPS), (1, GRAY_STEPS)])
def test_the_steps_of_an_enlargement_are_multiples_of_the_error_of_the_picture_s_half(monkeypatch, channels, steps):
    truth = synthetic_photograph(48, 48).movedim(-1, 0)[:channels]
    geometry, given = cn.AreaLattice((96, 96), (2, 2)), []
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    monkeypatch.setattr(type(plan), "refined", lambda _, start, half, sigmas: given.append((start, sigmas)) or start)
    _, sigmas = plan.weighed(truth, 3 * truth)
    ((start, tried),) = given
    assert len(tried) == len(sigmas) == steps[2]
    ends = torch.tensor(steps[:2]) * (start - truth).square().mean().sqrt()
    torch.testing.assert_close(torch.tensor([tried[0], tried[-1]]), ends / (start.max() - start.min()))
    torch.testing.assert_close(torch.tensor([sigmas[0], sigmas[-1]]), ends / (3 * (truth.max() - truth.min())))


def test_an_enlargement_is_tried_from_what_its_pilot_made_of_the_middle_of_the_half(monkeypatch):
    monkeypatch.setattr(areas, "MOST_HALVED", 30**2)
    truth, given = synthetic_photograph(64, 65), []
    truth = (truth - truth.mean((0, 1))).movedim(-1, 0)
    geometry = cn.AreaLattice((128, 130), (2, 2))
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    monkeypatch.setattr(type(plan), "refined", lambda _, start, half, sigmas: given.append((start, half)) or start)
    fitted = plan.start.solve(CenteredValues.of(truth.unsqueeze(0)))
    plan.after(fitted).weighed(truth, 3 * truth)
    ((start, half),) = given
    torch.testing.assert_close(half, avg_pool2d(truth, 2)[:, 1:-1, 1:-1])
    torch.testing.assert_close(start, fitted.halved[0][:, 2:-2, 2:-2])
    error = (fitted.halved[0] - truth[..., :64]).square().mean()
    assert fitted.report.hold_out_psnr["local"] == pytest.approx(-10 * math.log10(error), abs=1e-3)


def test_smooth_pictures_are_enlarged_without_a_denoiser_whose_least_noise_is_more_than_their_errors():
    x = torch.arange(48.0)
    smooth = (0.5 + 0.4 * torch.sin(x / 7)[:, None] * torch.cos(x / 5)).unsqueeze(-1)
    assert torch.equal(cn.upscale(smooth, prior=cn.Denoiser(blur)).signal, cn.upscale(smooth).signal)


@pytest.mark.parametrize(("error", "tries"), [(0.9 * LEAST_HALF_ERROR, 0), (1.1 * LEAST_HALF_ERROR, 1)])
def test_a_denoiser_of_enlargements_is_tried_where_the_half_has_more_than_the_least_error(monkeypatch, error, tries):
    truth, given = synthetic_photograph(48, 48).movedim(-1, 0), []
    truth[:, 0, :2] = torch.tensor([0.0, 1.0])
    geometry = cn.AreaLattice((96, 96), (2, 2))
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    plan.halved = (truth + error).unsqueeze(0)
    monkeypatch.setattr(type(plan), "refined", lambda _, start, half, sigmas: given.append(sigmas) or start)
    plan.weighed(truth, truth)
    assert len(given) == tries


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_denoiser_of_enlargements_has_to_be_better_than_chance(monkeypatch, everywhere):
    truth, error = synthetic_photograph(48, 48).movedim(-1, 0), torch.full((3, 48, 48), 0.02)
    error[:, 20, 20] = 0.02 if everywhere else 1.0
    geometry = cn.AreaLattice((96, 96), (2, 2))
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    plan.halved = (truth + error).unsqueeze(0)
    monkeypatch.setattr(type(plan), "refined", lambda *_: truth + (0.0 if everywhere else error.clamp(max=0.02)))
    monkeypatch.setattr(type(plan), "_in_phase", lambda *_: 0.0)
    assert plan.weighed(truth, truth)[0] == everywhere


@pytest.mark.parametrize(
    ("half", "in_phase", "weight"), [(0.5, 0.9, 0.5), (0.5, 0.6, 0.0), (0.3, 0.9, 0.0), (1.0, 0.6, 0.0)]
)
def test_a_small_gain_at_the_half_has_to_suit_another_phase_of_the_estimate(monkeypatch, half, in_phase, weight):
    truth, generator = synthetic_photograph(48, 48).movedim(-1, 0), torch.Generator().manual_seed(0)
    error, other = (0.02 * torch.randn(truth.shape, generator=generator) for _ in range(2))
    energy = 0.15 / half**2  # of a step that takes 0.15 of the squared error away
    step = math.sqrt(energy - (half * energy) ** 2) * other - half * energy * error
    geometry = cn.AreaLattice((96, 96), (2, 2))
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    plan.halved = (truth + error).unsqueeze(0)
    monkeypatch.setattr(type(plan), "refined", lambda *_: truth + error + step)
    monkeypatch.setattr(type(plan), "_in_phase", lambda *_: in_phase)
    assert plan.weighed(truth, truth)[0] == pytest.approx(weight, abs=0.05)


def test_another_phase_has_cells_of_the_estimate_that_are_moved_by_half_of_one(monkeypatch):
    truth, given = synthetic_photograph(96, 90).movedim(-1, 0), []
    geometry = cn.AreaLattice((96, 90), (2, 3))
    plan = cn.Denoiser(identity).plan(cn.FourierEncoding.on(geometry.pixels), geometry)
    monkeypatch.setattr(type(plan), "refined", lambda _, pilot, means, steps: given.append(means) or pilot)
    plan._in_phase(truth, 48 * 30, 0.1)
    torch.testing.assert_close(given[0], avg_pool2d(truth[:, 1:-1, 1:-2], (2, 3)))


@pytest.mark.slow
def test_a_denoiser_that_knows_the_picture_has_all_the_weight():
    centered = TRUTH - TRUTH[KNOWN].mean(0)
    ours, weighed = without("inpaint"), cn.inpaint(TRUTH, KNOWN, prior=cn.Denoiser(oracle(centered)))
    assert weighed.report.prior == "denoiser:clean"
    assert cn.psnr(weighed.signal, TRUTH, ~KNOWN) > cn.psnr(ours.signal, TRUTH, ~KNOWN) + 20
    assert torch.equal(weighed.signal[KNOWN], TRUTH[KNOWN])
    fits = weighed.report.fit.fits
    assert fits[0].denoiser == "clean" and fits[0].weight > 0.99


def test_it_is_weighed_beside_all_that_suit_samples_with_noise(generator):
    noisy = synthetic_photograph(24, 24)
    noisy = noisy + 0.1 * torch.randn(noisy.shape, generator=generator)
    samples = cn.sample(noisy, torch.rand(24, 24, generator=generator) < 0.4)
    others, prior = choose_prior(samples), weighed(cn.Denoiser(identity), samples)
    assert prior == replace(others, priors=(*others.priors, cn.Denoiser(identity, noise=others.nugget)))
    told = weighed(cn.Denoiser(identity, noise=0.2), samples)
    priors = (*others.priors, cn.Local(noise=0.2), cn.Denoiser(identity, noise=0.2))
    assert told == replace(others, priors=priors, nugget=0.2)
    assert prior.nugget > 0.05 and cn.Local(noise=float(f"{prior.nugget:.3g}")) in prior.priors


def noisy_samples(truth):
    """Return four tenths of a picture with noise of 0.1."""
    generator = torch.Generator().manual_seed(2)
    known = torch.rand(truth.shape[:2], generator=generator) < 0.4
    return cn.sample(truth + 0.1 * torch.randn(truth.shape, generator=generator), known.float())


@pytest.mark.slow
def test_gaps_between_samples_with_noise_are_filled_by_what_surely_suits_and_known_ones_stay():
    texture = 0.6 * torch.rand(SIDE, SIDE, 3, generator=torch.Generator().manual_seed(3))  # cannot be guessed
    known = functools.partial(known_in_any_range, truth=texture)
    for truth, f in ((TRUTH, identity), (TRUTH, blur), (TRUTH, constant), (texture, known)):
        samples = noisy_samples(truth)
        there, encoding = samples.geometry.known(1)[..., 0], cn.FourierEncoding.like(samples)
        priors = (cn.Local(noise=0.1), cn.Denoiser(f, noise=0.1))
        ours, found = (cn.fit_closed_form(encoding, samples, prior=prior).render() for prior in priors)
        assert torch.equal(found[there], ours[there])
        assert torch.equal(found, ours) == (f is not known)
    assert cn.psnr(found, texture, ~there) > cn.psnr(ours, texture, ~there) + 3


def test_a_sum_has_to_be_surely_better_than_it_as_than_the_local_estimate():
    samples = cn.sample(TRUTH, KNOWN.float())
    encoding = cn.FourierEncoding.like(samples)
    local, denoiser = (prior.plan(encoding, samples.geometry) for prior in (cn.Local(), cn.Denoiser(identity)))
    assert local.understates and denoiser.understates
    assert denoiser.refines and not local.refines


def test_kriging_is_not_promising_for_what_a_denoiser_gains():
    denoiser, local = cn.Denoiser(identity), cn.Local()
    assert denoiser.stationary == cn.Adaptive() and replace(denoiser, pilot=local).stationary == local.pilot
    samples = cn.sample(torch.zeros(256, 256, 1), "random:0.5")
    kriging = cn.Kriging().plan(cn.FourierEncoding.like(samples), samples.geometry)
    assert kriging.is_promising({cn.Adaptive(): 1.0}, 1.0)
    assert not kriging.is_promising({cn.Adaptive(): 9.0, denoiser: 1.0}, 9.0)


@pytest.mark.slow
def test_it_is_compared_at_all_hidden_samples_that_gave_its_weight():
    """A few windows of this picture tell that only fits remain that hid samples themselves."""
    truth = synthetic_photograph(96, 96)

    def halfway(x, sigma):
        return (x + known_in_any_range(x, sigma, truth)) / 2

    fit = cn.fit(cn.sample(truth, "random:0.5", generator=torch.Generator().manual_seed(0)), prior=cn.Denoiser(halfway))
    candidate = next(c for c in fit.report.candidates if c.prior.startswith("denoiser"))
    assert candidate.weight > 0.99
    assert candidate.hold_out_psnr == pytest.approx(fit.report.fits[0].hold_out_psnr["denoiser"], abs=1e-3)


def test_alone_it_starts_at_a_pilot():
    samples = cn.sample(TRUTH, KNOWN.float())
    encoding = cn.FourierEncoding.like(samples)
    found = cn.fit_closed_form(encoding, samples, prior=cn.Denoiser(identity, pilot=cn.Adaptive()))
    expected = cn.fit_closed_form(encoding, samples, prior=cn.Adaptive())
    assert torch.equal(found.render(), expected.render())


@pytest.mark.slow
def test_every_second_pixel_and_clips_are_filled():
    samples = cn.sample(TRUTH, "every:2")
    assert torch.equal(cn.fit(samples, prior=cn.Denoiser(identity)).render(), cn.fit(samples).render())
    clip = TRUTH[:8, :8, :1].expand(4, 8, 8, 1)
    known = torch.rand(4, 8, 8, generator=torch.Generator().manual_seed(1)) < 0.4
    assert torch.equal(cn.inpaint(clip, known, prior=cn.Denoiser(identity)).signal, cn.inpaint(clip, known).signal)


@pytest.mark.parametrize("missing", [[1, 3], [2], []])
def test_it_has_no_part_where_frames_have_no_samples(missing):
    clip, chance = torch.rand(2, 5, 8, 8, 1, generator=torch.Generator().manual_seed(1))
    known = chance[..., 0] < 0.9
    known[missing] = False
    samples = cn.sample(clip, known.float(), dimensions=3)
    others, prior = choose_prior(samples), weighed(cn.Denoiser(identity), samples)
    assert prior.priors[: len(others.priors)] == others.priors
    assert (prior == others) == bool(missing)


def test_what_it_does_not_suit_is_refused():
    row = cn.sample(TRUTH[0], "random:0.5", generator=torch.Generator().manual_seed(0), dimensions=1)
    with pytest.raises(ValueError, match="`geometry`: expected samples on the lattice of a picture"):
        cn.fit_closed_form(cn.FourierEncoding.like(row), row, prior=cn.Denoiser(identity))
    clip = cn.sample(torch.rand(4, 8, 8, 1), "area:2", dimensions=3)
    with pytest.raises(ValueError, match="`geometry`: .* or means of a picture"):
        cn.fit(clip, prior=cn.Denoiser(identity))
    samples = cn.sample(TRUTH, KNOWN.float())
    with pytest.raises(ValueError, match="`encoding`: expected a FourierEncoding"):
        encoding = cn.ComplexEncoding.like(cn.Gaussian, samples)
        cn.fit_closed_form(encoding, samples, prior=cn.Denoiser(identity))
    strided = cn.sample(TRUTH, "every:2")
    with pytest.raises(ValueError, match="`noise`: expected 0 on a lattice that skips samples"):
        cn.fit(strided, prior=cn.Denoiser(identity, noise=0.1))
    tracked = cn.Samples(samples.geometry, samples.values.clone().requires_grad_())
    with pytest.raises(ValueError, match="gradient"):
        cn.fit_closed_form(cn.FourierEncoding.like(samples), tracked, prior=cn.Denoiser(identity))


@pytest.mark.slow
def test_a_denoiser_that_knows_the_picture_removes_noise_that_is_told_or_estimated(generator):
    truth = synthetic_photograph(32, 32)

    def clean(x, sigma):
        targets = [t.movedim(-1, 0) for t in symmetric(truth)]
        return min(targets, key=lambda t: float((t - x[0]).square().mean())).unsqueeze(0)

    noisy = truth + 0.1 * torch.randn(truth.shape, generator=generator)
    ours = cn.psnr(cn.denoise(noisy).signal, truth)
    for given in ({}, {"sigma": 0.1}, {"noise": cn.NoiseModel(floor=0.01)}):
        made = cn.denoise(noisy, prior=cn.Denoiser(clean), **given)
        assert made.report.prior == "denoiser" and made.noise is None
        assert cn.psnr(made.signal, truth) > ours + 5
        assert made.report.noise["kind"] == "white"


@pytest.mark.parametrize("model", [cn.NoiseModel(gain=0.02, floor=0.001), cn.NoiseModel(floor=0.01)])
def test_stabilized_noise_is_white_and_the_mean_of_it_gives_that_of_the_values(model, generator):
    values = torch.linspace(0.4, 1.0, 10, dtype=torch.float64)
    noise = torch.randn(100_000, 10, generator=generator, dtype=torch.float64)
    stabilized = Stabilized(model).into(values + model.variance(values).sqrt() * noise)
    torch.testing.assert_close(stabilized.std(0), torch.ones(10).double(), atol=0.04, rtol=0)
    torch.testing.assert_close(Stabilized(model).back(stabilized.mean(0)), values, atol=2e-3, rtol=0)


@pytest.mark.slow
def test_a_camera_s_noise_is_removed_by_a_denoiser_that_sees_it_white(generator):
    """The denoiser knows the stabilized picture, in the range of that of one from 0 to 1."""
    truth, given = 0.2 + 0.7 * synthetic_photograph(32, 32), []
    model = cn.NoiseModel(gain=0.02, floor=0.001)
    noisy = truth + model.variance(truth).sqrt() * torch.randn(truth.shape, generator=generator)
    low, high = Stabilized(model).into(torch.tensor([0.0, 1.0]))
    targets = [(t.movedim(-1, 0) - low) / (high - low) for t in symmetric(Stabilized(model).into(truth))]

    def clean(x, sigma):
        known = min(targets, key=lambda t: float((t - x[0]).square().mean()))
        given.append(float((x[0] - known).std()) / sigma)
        return known.unsqueeze(0)

    ours = cn.denoise(noisy, noise=model)
    made = cn.denoise(noisy, noise=model, prior=cn.Denoiser(clean))
    assert given[-1] == pytest.approx(1, abs=0.1)
    assert made.report.prior == "denoiser" and made.report.noise["kind"] == "camera"
    assert cn.psnr(made.signal, truth) > cn.psnr(ours.signal, truth) + 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=0.01),
        cn.NoiseModel(gain=0.03),
        cn.NoiseModel(floor=0.01, magnitude=True),
    ],
    ids=["colored", "camera", "rician"],
)
@UNSUITED
def test_noise_of_other_kinds_is_removed_as_without_a_denoiser_that_does_not_suit(model, f):
    noisy = GIVEN["denoise"][0].abs()
    ours, found = (cn.denoise(noisy, noise=model, prior=prior) for prior in ("auto", cn.Denoiser(f)))
    assert torch.equal(found.signal, ours.signal) and found.report.prior == ours.report.prior


def test_signals_that_are_no_pictures_are_not_denoised_with_a_denoiser():
    for signal in (TRUTH[0], TRUTH[:8, :8].expand(2, 2, 8, 8, 3)):
        with pytest.raises(ValueError, match="`signal`: expected a picture, a clip or a volume for a denoiser"):
            cn.denoise(signal, prior=cn.Denoiser(identity), dimensions=signal.ndim - 1)
