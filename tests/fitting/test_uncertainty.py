"""Intervals: the local scale of errors, quantiles of hidden errors, and what a fit keeps for them."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

import coordnet as cn
from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.uncertainty.conformal import POWER, Calibration, LocalScale, conformal_quantile, power_of_distance
from coordnet.fitting.uncertainty.folds import ALIKE_SHARE, FOLDS, FRAME_DISTANCE, Folded, FoldErrors, SampleTable
from coordnet.fitting.uncertainty.halves import RegularPart
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from tests.helpers import seeded, synthetic_photograph

PRIOR = Smoothness(1.5, 0.01)


def sampled(grid=(24, 20), channels=2, pattern="random:0.5", dtype=torch.float32):
    rows = math.isqrt(math.prod(grid))
    picture = synthetic_photograph(rows, -(-math.prod(grid) // rows), channels).to(dtype)
    signal = picture.flatten(0, 1)[: math.prod(grid)].reshape(*grid, channels)
    return signal, sample(signal, pattern, dimensions=len(grid), generator=seeded())


def planted(scale, seed, count=1152, side=48, deviation=None):
    """Errors of a planted scale at random nodes of a lattice, and at all nodes."""
    deviation = np.ones(side * side) if deviation is None else deviation
    draw = np.random.default_rng(seed)
    errors = draw.standard_t(4, size=(side * side, 1)) * scale.reshape(-1, 1)
    nodes = draw.permutation(side * side)[:count]
    hidden = FoldErrors(nodes, errors[nodes], np.ones((count, 1)), deviation[nodes], np.zeros(count, int), 0.8 * count)
    sought = np.ones((side * side, 1), dtype=bool)
    sought[nodes] = False
    return errors, hidden, sought


def learned(hidden, render, distances, deviation=None):
    deviation = np.ones(len(distances)) if deviation is None else deviation
    return LocalScale.learn(Folded(distances, deviation, hidden, hidden, hidden), render)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.98])
def test_planted_errors_are_covered_in_all_and_where_they_are_small_or_large(level):
    side = 48
    ramp = np.exp(np.linspace(0, 3, side))[None] * np.ones((side, 1))
    covered = []
    for seed in range(4):
        errors, hidden, sought = planted(ramp.ravel(), seed)
        render = np.zeros((side, side, 1))
        distances = np.ones((side * side, 1))
        found = Calibration(hidden, learned(hidden, render, distances), distances, sought, sought, 1.0)
        inside = np.where(sought, np.abs(errors) <= found.half_width(level), np.nan).reshape(side, side)
        covered.append([np.nanmean(inside), np.nanmean(inside[:, : side // 3]), np.nanmean(inside[:, -side // 3 :])])
        assert not found.half_width(level)[~sought].any()
    whole, small, large = np.mean(covered, axis=0)
    assert abs(whole - level) < 0.02
    assert abs(small - level) < 0.04 and abs(large - level) < 0.04


def test_a_planted_posterior_deviation_tells_large_errors_from_small_ones():
    side, covered = 48, []
    for seed in range(4):
        deviation = np.exp(np.random.default_rng(seed + 9).uniform(0, 3, side * side))
        errors, hidden, sought = planted(deviation, seed, deviation=deviation)
        render, distances = np.zeros((side, side, 1)), np.ones((side * side, 1))
        scale = learned(hidden, render, distances, deviation)
        inside = np.abs(errors) <= Calibration(hidden, scale, distances, sought, sought, 1.0).half_width(0.9)
        order = np.argsort(deviation)
        order = order[sought[order, 0]]
        covered.append([inside[order[: len(order) // 3]].mean(), inside[order[-len(order) // 3 :]].mean()])
    assert np.abs(np.mean(covered, axis=0) - 0.9).max() < 0.04


def test_the_mean_square_of_the_deviation_is_the_mean_squared_error_to_expect():
    errors, hidden, sought = planted(np.ones(48 * 48), 0)
    distances = np.ones((48 * 48, 1))
    scale = learned(hidden, np.zeros((48, 48, 1)), distances)
    found = Calibration(hidden, scale, distances, sought, sought, 1.0)
    assert found.mean_squared_error == pytest.approx(np.mean(hidden.error**2), rel=1e-6)
    assert Calibration(hidden, scale, distances, sought, sought, 0.5).mean_squared_error == pytest.approx(
        found.mean_squared_error / 2
    )


def test_the_quantile_is_the_order_statistic_that_a_further_score_exceeds_rarely_enough():
    scores = np.arange(1.0, 20.0)
    assert conformal_quantile(scores, 0.9) == 18.0
    assert conformal_quantile(scores, 0.95) == 19.0
    with pytest.raises(ValueError, match=r"`level`: expected at most 0.95 for so few samples"):
        conformal_quantile(scores, 0.96)


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_a_planted_power_of_the_distance_is_found(power):
    distance = np.random.default_rng(0).uniform(1, 9, 4000)
    noise = np.random.default_rng(1).exponential(size=4000)
    assert power_of_distance(noise * distance**power, distance) == pytest.approx(power, abs=0.1)


def test_errors_fall_by_the_mean_of_the_planted_and_the_usual_power_of_the_number_of_samples():
    def errors(shown):
        size = np.full((100, 1), shown**-1.5)
        size[:10] = 10 * shown**-4.0
        return FoldErrors(np.arange(100), size, np.ones((100, 1)), np.ones(100), np.zeros(100, int), 100 * shown)

    folded = Folded(np.ones((200, 1)), np.ones(200), errors(0.8), errors(0.8), errors(0.6))
    table = SampleTable(sampled((20, 10), 1)[1])
    table.known = np.ones((200, 1), dtype=bool)
    table.known[100:] = False
    found = Calibration.of(table, folded, torch.zeros(20, 10, 1))
    few, fewer = (0.9 * shown**-3 + 10 * shown**-8 for shown in (0.8, 0.6))
    assert found.growth == pytest.approx(0.8 ** ((math.log(fewer / few, 0.8 / 0.6) + POWER) / 2))
    in_shape = dataclasses.replace(folded, in_shape=True)
    assert Calibration.of(table, in_shape, torch.zeros(20, 10, 1)).growth == 1.0
    table.has_moving_gaps = True
    assert Calibration.of(table, in_shape, torch.zeros(20, 10, 1)).growth == pytest.approx(0.8**POWER)


def test_slopes_are_learned_from_errors_of_fits_that_did_not_see_the_sample():
    """Errors of one fit say nothing of others; each has a twin beside it in a fit that saw the sample."""
    side, draw = 128, np.random.default_rng(0)
    nodes = np.repeat(draw.permutation(side * side // 2)[:300] * 2, 2) + np.tile([0, 1], 300)
    fit, size = np.tile([0, 1], 300), np.repeat(np.exp(draw.normal(size=300)), 2)
    hidden = FoldErrors(nodes, size[:, None], np.ones((600, 1)), np.ones(600), fit, 480.0)
    render, distances = np.zeros((side, side, 1)), np.ones((side * side, 1))
    mixed = replace(hidden, fit=np.zeros(600, int))
    own, all_ = (np.log(learned(h, render, distances).of_nodes).std() for h in (hidden, mixed))
    assert own < 0.2 * all_


def test_the_scale_of_errors_is_not_extrapolated_beyond_gradients_of_hidden_samples():
    """Errors fall with the gradient, which hardly varies where samples are hidden, and is much less elsewhere."""
    side = 48
    at = np.arange(side, dtype=float)
    slope = np.where(at < side / 2, 1 + 1e-3 * at, 0.01)
    render = np.broadcast_to(np.cumsum(slope)[:, None, None], (side, side, 1))
    nodes = np.random.default_rng(0).permutation(side * 12)[:60] + 4 * side
    size = np.exp(-0.2 * (nodes // side)) * np.exp(0.1 * np.random.default_rng(1).normal(size=60))
    hidden = FoldErrors(nodes, size[:, None], np.ones((60, 1)), np.ones(60), np.zeros(60, int), 48.0)
    scale = learned(hidden, render, np.ones((side * side, 1)))
    assert scale.of_nodes.max() < 4 * size.max()


@pytest.mark.parametrize("pattern", ["random:0.5", "entries:0.5", "scattered:0.5"])
def test_folds_hide_each_sample_once(pattern):
    table = SampleTable(sampled(pattern=pattern)[1])
    count = sum(fold.astype(int) for fold in table.folds())
    assert np.array_equal(count == 1, table.known)
    sizes = [fold.sum() for fold in table.folds()]
    assert len(sizes) == FOLDS and max(sizes) - min(sizes) <= 2


def test_folds_of_holes_have_the_shape_of_holes():
    known = torch.ones(32, 32)
    known[4:12, 6:14] = 0
    table = SampleTable(sample(synthetic_photograph(32, 32, 1), known))
    for fold in table.folds():
        rows = fold.reshape(32, 32).any(1)
        assert 32 <= fold.sum() <= 64 and rows.sum() <= 8 and not (fold & ~table.known).any()


def test_most_of_the_errors_in_gaps_count_as_one_within_their_width():
    """A tenth of 8×8 nodes is farther than 3 from the outside of their square; at most the largest error is taken."""
    known = torch.ones(40, 40)
    known[16:24, 16:24] = 0
    samples = sample(synthetic_photograph(40, 40, 1), known)
    table, fit = SampleTable(samples), cn.fit(samples, prior=PRIOR)
    folded = table.folded(lambda some: cn.fit(some, prior=PRIOR))
    assert folded.alike == ALIKE_SHARE * 6**2
    calibration = replace(Calibration.of(table, folded, fit.render()), alike=math.inf)
    scale, errors = calibration.scale, np.abs(folded.single.error)
    widest = scale.of_nodes * (errors / scale.of_errors).max()
    np.testing.assert_allclose(calibration.half_width(0.9), np.where(calibration.sought, widest, 0), rtol=1e-12)


def test_errors_that_are_alike_inside_of_gaps_are_covered():
    """Areas of 36 nodes err by one number each; two in five are unknown, the others are hidden in folds."""
    side, covered = 48, {True: [], False: []}
    area = np.add.outer(np.arange(side) // 6 * 8, np.arange(side) // 6).ravel()
    for seed in range(12):
        draw = np.random.default_rng(seed)
        fold = draw.permutation(np.repeat([-1, -1, 0, 1, 2, 3, 4, 4], 8))[area]
        errors = draw.standard_normal(64)[area][:, None]
        nodes, sought, ones = np.flatnonzero(fold >= 0), (fold < 0)[:, None], np.ones((side * side, 1))
        hidden = FoldErrors(nodes, errors[nodes], ones[nodes], ones[nodes, 0], fold[nodes], 1.0)
        for in_shape, found in covered.items():
            folded = Folded(ones, ones[:, 0], hidden, hidden, hidden, in_shape)
            scale = LocalScale.learn(folded, np.zeros((side, side, 1)))
            half = Calibration(hidden, scale, ones, sought, sought, 1.0).half_width(0.9)
            found.append((np.abs(errors) <= half)[sought].mean())
    assert abs(np.mean(covered[True]) - 0.9) < 0.05 < 0.9 - np.mean(covered[False])


def test_folds_of_clouds_are_those_of_other_frames():
    """Most of the field is hidden, so that unknown neighbors alone do not tell clouds from random points.

    Samples of other frames are farther than those of the same one, in the distances that errors grow with.
    """
    rows, columns = np.ogrid[:20, :24]
    known = np.stack([np.hypot(rows - 10 - 3 * np.sin(k), columns - 4 - 3 * k) < 7 for k in range(6)])
    signal = torch.from_numpy(np.random.default_rng(0).random((6, 20, 24, 1)))
    table = SampleTable(sample(signal, torch.from_numpy(known), dimensions=3))
    clouds = ~known & known.any(0)
    for fold in table.folds():
        for frame, seen in zip(fold.reshape(known.shape), known, strict=True):
            assert not frame.any() or any(np.array_equal(frame, cloud & seen) for cloud in clouds)
    places, apart = np.indices(known.shape).reshape(3, -1).T, [FRAME_DISTANCE, 1, 1]
    expected = cKDTree(places[known.ravel()] * apart).query(places * apart)[0]
    np.testing.assert_allclose(table.folded(lambda some: cn.fit(some, prior=PRIOR)).distance[:, 0], expected)


def test_the_errors_in_folds_are_those_of_refits():
    signal, samples = sampled()
    encoding = FourierEncoding.like(samples)
    table = SampleTable(samples)
    folded = table.folded(lambda part: fit_closed_form(encoding, part, PRIOR))
    hidden = torch.from_numpy(table.folds()[0].copy()).reshape(24, 20, 2)
    weights = samples.weights * ~hidden[..., :1]
    part = cn.Samples(cn.MaskedLattice((24, 20), weights=weights), samples.values * weights)
    estimate = fit_closed_form(encoding, part, PRIOR).render(alignment="sample")
    expected = (estimate - signal)[hidden].double().numpy()
    count = int(hidden[..., 0].sum())
    assert np.allclose(folded.single.error[:count].ravel(), expected, atol=1e-6)
    assert folded.pair.shown == pytest.approx(0.8 * float(table.known.sum()), abs=2)
    assert len(folded.together.node) == len(folded.pair.node)


@pytest.mark.parametrize(
    ("grid", "pattern", "dtype"),
    [
        ((150,), "random:0.6", torch.float64),
        ((12, 13), "entries:0.5", torch.float32),
        ((12, 13), "scattered:0.5", torch.float32),
        ((6, 5, 6), "random:0.5", torch.float64),
    ],
)
def test_a_fit_says_how_sure_it_is_on_any_lattice(grid, pattern, dtype):
    signal, samples = sampled(grid, 2, pattern, dtype)
    fit = fit_closed_form(FourierEncoding.like(samples), samples, PRIOR)
    lower, upper = fit.interval(0.8)
    std, center = fit.std(), fit.render(alignment="sample")
    known = samples.geometry.known(2)
    for found in (lower, upper, std):
        assert found.shape == signal.shape and found.dtype == dtype
    assert torch.equal(std == 0, known) and bool((lower <= center).all()) and bool((center <= upper).all())
    assert torch.equal(upper == lower, known)
    assert fit.expected_psnr(2.0) == pytest.approx(
        -10 * math.log10(float(std[~known].double().square().mean()) / 4), 1e-5
    )


@pytest.mark.slow
def test_the_folds_have_the_deviation_of_a_local_prior():
    samples = sampled((32, 32), 1, "random:0.5")[1]
    table = SampleTable(samples)
    refit = cn.fit(samples, prior=cn.Local((4, 4))).uncertainty.refit
    folded, fits = table.folded(refit), [refit(table._without(hidden)) for hidden in table.folds()]
    expected = np.stack([fit.learned["deviation"].flatten().numpy() for fit in fits])
    np.testing.assert_allclose(folded.deviation, expected.mean(0), rtol=1e-4)
    rows = np.concatenate([e[hidden[:, 0]] for e, hidden in zip(expected, table.folds(), strict=True)])
    np.testing.assert_allclose(folded.single.deviation, rows, rtol=1e-4)
    assert np.array_equal(table.folded(lambda part: cn.fit(part, prior=PRIOR)).deviation, np.ones(1024))


def test_six_refits_are_made_once_and_none_before():
    calls = []
    samples = sampled()[1]
    fit = cn.fit(samples, prior=PRIOR)
    refit = fit.uncertainty.refit
    fit.uncertainty.refit = lambda part: (calls.append(part), refit(part))[1]
    fit.interval(0.9), fit.std(), fit.interval(0.5)
    assert len(calls) == FOLDS + 1


def test_refits_show_a_bar_where_it_is_asked_for(capsys):
    quiet, shown = (cn.fit(sampled()[1], prior=PRIOR) for _ in range(2))
    quiet.interval(0.9)
    assert "refits" not in capsys.readouterr().err
    shown.std(progress=True)
    assert "refits" in capsys.readouterr().err


def test_inpainting_has_the_deviation_of_the_fit():
    signal, samples = sampled((16, 16), 1)
    mask = samples.weights[..., 0] > 0
    made = cn.inpaint(signal, mask, prior=PRIOR, uncertainty=True)
    fit = fit_closed_form(FourierEncoding.like(samples), cn.sample(signal, mask), PRIOR)
    assert torch.equal(made.std, fit.std()) and made.expected_psnr == fit.expected_psnr()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 2.0, math.nan])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(ValueError, match="`level`"):
        cn.fit(sampled()[1], prior=PRIOR).interval(level)


def test_a_geometry_without_gaps_is_refused():
    for pattern in ("full", "area:2"):
        with pytest.raises(ValueError, match="`samples`: expected a lattice with gaps or scattered points"):
            SampleTable(sampled(pattern=pattern)[1])
    with pytest.raises(ValueError, match=r"`samples`: expected at least 8 .* skipped, received \(8, 7\)"):
        SampleTable(sampled(pattern="every:3")[1])

    with pytest.raises(ValueError, match="`samples`: expected .* of which some are unknown"):
        SampleTable(cn.sample(sampled()[0], torch.ones(24, 20)))


def test_a_constant_is_certain():
    samples = sample(torch.full((12, 12, 1), 0.5), "random:0.6", generator=seeded())
    fit = fit_closed_form(FourierEncoding.like(samples), samples, PRIOR)
    assert float(fit.std().max()) < 1e-5 and fit.expected_psnr() > 100


def test_few_samples_are_refused():
    with pytest.raises(ValueError, match="`samples`: expected at least 50 of each channel for five folds"):
        SampleTable(sampled(pattern="random:0.05")[1])


def test_a_fit_without_its_samples_says_so(tmp_path):
    fit_closed_form(*(lambda s: (FourierEncoding.like(s), s, PRIOR))(sampled()[1])).save(tmp_path / "a.safetensors")
    loaded = cn.Reconstruction.load(tmp_path / "a.safetensors")
    for method in (loaded.std, loaded.interval, loaded.expected_psnr, lambda: loaded.draw(1)):
        with pytest.raises(ValueError, match="`fit`: expected one .* which a saved file does not hold"):
            method()


def test_the_uncertainty_of_tiles_or_a_batch_is_refused():
    signal, samples = sampled((300, 8), 1)
    mask = samples.weights[..., 0] > 0
    with pytest.raises(
        ValueError, match="`uncertainty`: expected one signal that is fitted as a whole, received tiles"
    ):
        cn.inpaint(signal, mask, largest=500, uncertainty=True)
    with pytest.raises(ValueError, match="received a batch"):
        cn.inpaint(signal[None], mask, uncertainty=True)


def test_an_equally_spaced_lattice_of_coordinates_is_as_sure_as_a_masked_one():
    signal, samples = sampled((24, 20), 1)
    missing = torch.where(samples.geometry.known(1), signal, torch.nan)
    lattice = cn.RectilinearLattice(np.arange(24), np.arange(20.0))
    widths = [fit.interval(0.8) for fit in (cn.fit(lattice.sample(missing), prior=PRIOR), cn.fit(samples, prior=PRIOR))]
    torch.testing.assert_close(widths[0], widths[1])


def test_halves_of_every_third_node_are_judged_between_the_nodes_that_they_show():
    known = torch.zeros(54, 2)
    known[1::3] = 1.0
    samples = sample(torch.zeros(54, 2, 1), known)
    regular = RegularPart.of(samples.geometry)
    shown = [np.flatnonzero(half.shown.reshape(54, 2)[:, 0]).tolist() for half in regular.halves()]
    judged = [np.flatnonzero((half.judged.reshape(54, 2) * known.numpy())[:, 1]).tolist() for half in regular.halves()]
    assert shown == [list(range(1, 54, 6)), list(range(4, 54, 6))]
    assert judged == [list(range(4, 49, 6)), list(range(7, 52, 6))]
    quarter = regular.quarter()
    assert np.flatnonzero(quarter.shown.reshape(54, 2)[:, 0]).tolist() == list(range(1, 54, 12))
    assert np.flatnonzero((quarter.judged.reshape(54, 2) * known.numpy())[:, 0]).tolist() == list(range(7, 49, 12))


def test_a_row_of_which_every_second_value_is_known_says_how_sure_it_is():
    """Its refits see every fourth value; a random part of every second one is no row for splines."""
    t = np.linspace(0, 1, 256)
    row = np.cumsum(np.cumsum(np.random.default_rng(0).standard_normal(256))) * 0.01 + np.sin(9 * t)
    known = np.arange(256) % 2 == 0
    fit = cn.fit(cn.sample(torch.from_numpy(row)[:, None], torch.from_numpy(known.astype(float))))
    lower, upper = (end[:, 0].numpy() for end in fit.interval(0.9))
    covered = (lower <= row) & (row <= upper)
    assert 0.8 < covered[~known].mean() < 1
    error = fit.render(alignment="sample")[:, 0].numpy() - row
    assert abs(fit.expected_psnr() + 10 * math.log10(np.square(error[~known]).mean())) < 4


@pytest.mark.parametrize("pattern", ["every:2", "every:3x1+1"])
def test_a_lattice_that_skips_nodes_is_as_sure_as_the_mask_of_its_nodes(pattern):
    signal, samples = sampled((50, 36), 2, pattern, torch.float64)
    masked = cn.sample(signal, samples.geometry.known(1).double())
    skipping, known = (cn.fit(s, prior=cn.ThinPlate(order=2.0)).interval(0.8) for s in (samples, masked))
    torch.testing.assert_close(skipping, known)


def test_nodes_between_every_third_are_as_far_as_the_hidden_ones_that_are_midway():
    """Twelve nodes along the first axis: 1, 4, 7 and 10 are known, 0 and 11 beyond them; every node of the second."""
    regular = RegularPart(cn.Lattice((12, 2, 7), (3, 1, 3), (1, 0, 0)))
    first, last = [3, 0, 3, 3, 0, 3, 3, 0, 3, 3, 0, 3], [0, 3, 3, 0, 3, 3, 0]
    expected = np.broadcast_to(np.hypot.outer(first, last)[:, None], (12, 2, 7))
    np.testing.assert_allclose(regular.distances(), expected)
    assert RegularPart(cn.Lattice((9,), (3,), (0,))).distances().tolist() == [0, 3, 3, 0, 3, 3, 0, 3, 4]
    samples = sampled((51, 48), 1, "every:3", torch.float64)[1]
    folded = SampleTable(samples).folded(lambda part: cn.fit(part, prior=cn.Spline()))
    inside = folded.distance.reshape(51, 48)[:49, :46]
    assert set(inside.ravel()) == {0.0, *folded.single.distance.ravel()}


@pytest.mark.parametrize("prior", [PRIOR, cn.Local(), cn.Adaptive(), cn.Spline(), None], ids=repr)
def test_every_fit_of_a_lattice_that_skips_nodes_says_how_sure_it_is(prior):
    signal, samples = sampled((40, 36), 1, "every:2")
    lower, upper = cn.fit(samples, prior=prior).interval(0.9)
    unknown = ~samples.geometry.known(1)
    assert 0.8 < float(((lower <= signal) & (signal <= upper))[unknown].float().mean())


@pytest.mark.parametrize(("side", "further"), [(40, [(8, 8)]), (26, [])])
def test_refits_of_a_lattice_that_skips_nodes_see_lattices(side, further):
    seen = []
    samples = sampled((side, 36), 1, "every:2")[1]

    def refit(part):
        seen.append(part.geometry)
        return cn.fit(part, prior=PRIOR)

    folded = SampleTable(samples).folded(refit)
    assert [lattice.steps for lattice in seen] == [(4, 4)] * 4 + further
    assert [lattice.offsets for lattice in seen[:4]] == [(0, 0), (0, 2), (2, 0), (2, 2)]
    assert not any(lattice.weights is not None for lattice in seen)
    assert (folded.together is None) == (not further)


def test_the_psnr_of_points_is_expected_within_their_hull():
    places = np.random.default_rng(0).uniform(0, 1, (80, 2))
    fit = cn.fit(cn.points(places, np.sin(4 * places[:, 0]) * places[:, 1] + np.cos(9 * places).sum(1)))
    within = fit.uncertainty.samples.geometry.within_hull
    inside = fit.std().reshape(-1)[torch.from_numpy(within)]
    assert within.sum() < 0.5 * within.size
    assert fit.expected_psnr() == pytest.approx(-10 * math.log10(float(inside.square().mean())), abs=1e-6)


@pytest.mark.slow
def test_between_unequal_coordinates_the_deviation_is_that_of_the_nodes_there():
    x = np.concatenate([[0.0], np.random.default_rng(0).uniform(0.5, 1.5, 63).cumsum()])
    fit = cn.fit(cn.RectilinearLattice(x).sample(np.random.default_rng(1).standard_normal(64).cumsum()))
    nodes = fit.uncertainty.std(fit)
    assert len(nodes) == 128 and fit.std().shape == (64, 1)
    places = np.arange(127)[:, None] / 126 * x[-1]  # the last node is half a coordinate's distance beyond
    torch.testing.assert_close(torch.from_numpy(fit.std(places)).to(nodes), nodes[:127], rtol=1e-4, atol=1e-6)
