"""Weighted sums of candidates: the weights, what is hidden, and the fit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import make_smoothing_spline
from scipy.ndimage import gaussian_filter, label
from scipy.optimize import minimize

import coordnet as cn
from coordnet.encodings import FourierEncoding
from coordnet.fitting.choice import choose_prior
from coordnet.networks.fit_reports import StackReport
from coordnet.plans.hidden_points import HiddenPoints
from coordnet.plans.hold_out import INNER_MARGIN, HeldOut, outermost
from coordnet.priors.local import masks
from coordnet.priors.stack.hidden_errors import FEW_HIDDEN, RIDGE, TRUSTED, HiddenErrors, Traits, stacked_weights
from coordnet.priors.stack.trial import MOST_FOLDS, Trial
from coordnet.sampling.scattered import MARGIN
from tests.helpers import synthetic_photograph

STRIDES = ("every:2", "every:3", "every:2+1")
PLATES = tuple(cn.ThinPlate(order, math.inf, 0.0) for order in (2, 3))


def waves(height, width):
    rows, columns = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    return (torch.sin(7 * rows) * torch.cos(5 * columns + 1)).unsqueeze(-1).double()


def masked(signal, share, seed=0):
    known = torch.rand(signal.shape[:-1], generator=torch.Generator().manual_seed(seed)) < share
    return cn.sample(signal, known)


def on_grid(fit):
    return fit.render(alignment="sample")


@st.composite
def errors(draw):
    shape = draw(st.integers(5, 60)), draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shared, scales = generator.normal(size=(shape[0], 1)), 10.0 ** generator.uniform(-3, 1, shape[1])
    return (generator.normal(size=shape) + draw(st.floats(0, 5)) * shared) * scales


def gram(e):
    return e.T @ e / len(e)


@given(errors())
def test_weights_are_not_negative_have_the_sum_one_and_are_as_good_as_the_best_candidate(e):
    w = stacked_weights(gram(e), len(e))
    assert (w >= 0).all() and w.sum() == pytest.approx(1)
    assert np.square(e @ w).mean() <= np.square(e).mean(0).min() * (1 + 1e-9)


@given(errors(), st.randoms(use_true_random=False), st.floats(-6, 6))
def test_weights_depend_neither_on_the_order_nor_on_the_units(e, random, power):
    order = list(range(e.shape[1]))
    random.shuffle(order)
    w = stacked_weights(gram(e), len(e))
    np.testing.assert_allclose(stacked_weights(gram(e[:, order]), len(e)), w[order], atol=1e-7)
    np.testing.assert_allclose(stacked_weights(gram(10**power * e), len(e)), w, atol=1e-7)


@settings(max_examples=15)
@given(errors())
def test_weights_are_those_of_a_general_solver(e):
    g = gram(e)
    best = int(g.diagonal().argmin())
    g, ridge, target = g / g[best, best], RIDGE + FEW_HIDDEN / len(e), np.eye(len(g))[best]

    def objective(w):
        return w @ g @ w + ridge * np.square(w - target).sum()

    options = {"ftol": 1e-14, "maxiter": 1000}
    sums = {"type": "eq", "fun": lambda w: w.sum() - 1}
    peer = minimize(objective, target, bounds=[(0, 1)] * len(g), constraints=sums, options=options).x
    assert objective(stacked_weights(g, len(e))) <= objective(peer) + 1e-7


def test_errors_that_are_independent_are_averaged_by_their_precision():
    generator = np.random.default_rng(0)
    e = generator.normal(size=(400_000, 3)) * (1, 2, 3)
    precision = 1 / np.array([1, 4, 9])
    assert stacked_weights(gram(e), len(e)) == pytest.approx(precision / precision.sum(), abs=0.02)


def test_candidates_that_are_alike_on_a_lattices_half_share_the_weight():
    e = np.random.default_rng(0).normal(size=100_000)
    errors = {0: e, 1: (1 + 1e-6) * e}
    on_mask, on_lattice = (
        HiddenErrors([Traits()] * 2, errors, np.arange(len(e)), is_strided=is_strided).weights()
        for is_strided in (False, True)
    )
    assert on_mask.tolist() == [1, 0]
    # The least value of RIDGE (u² + v²) + RIDGE ((1 - u)² + v²) with u + v = 1.
    np.testing.assert_allclose(on_lattice, [0.75, 0.25], atol=3e-3)


def test_errors_of_a_lattices_half_are_weighed_as_they_are_expected_to_fall():
    generator = np.random.default_rng(0)
    errors = dict(enumerate(generator.normal(size=(2, 100_000))))
    weights = HiddenErrors([Traits()] * 2, errors, np.arange(100_000), falls={1: 1 / 16}, is_strided=True).weights()
    assert TRUSTED == 0.5  # the root of 1 / 16: a variance of 1 / 4 has four times the weight, but for the ridges
    np.testing.assert_allclose(weights, [0.2, 0.8], atol=0.02)


def test_without_errors_the_first_best_candidate_has_all_weight():
    assert stacked_weights(np.zeros((3, 3)), 10).tolist() == [1, 0, 0]


def test_hidden_entries_of_a_mask_are_known_and_not_shown():
    samples = masked(waves(20, 24), 0.4)
    held = HeldOut.draw(samples, 0.2, 3)
    known = samples.weights[..., 0] > 0
    assert torch.equal(held.shown[0] | held.hidden[0], known) and not bool((held.shown & held.hidden).any())
    assert 0.1 < float(held.hidden.sum() / known.sum()) < 0.3
    torch.testing.assert_close(held.samples.geometry.weights[..., 0] > 0, held.shown[0])
    assert float(held.errors(held.values).abs().max()) == 0


def test_the_outermost_samples_of_a_row_are_hidden_where_nodes_beyond_them_are_unknown():
    at = torch.arange(120)
    known = (at > 4) & (at < 112) & (at % 3 > 0)
    for seed in range(5):
        held = HeldOut.draw(cn.sample(torch.sin(at / 9)[:, None], known), 0.25, seed)
        assert held.hidden[0, [5, 110]].all()
    assert outermost(known[None]).nonzero()[:, 1].tolist() == [5, 110]
    assert outermost(known[None, 5:]).nonzero()[:, 1].tolist() == [105]  # a row that begins with a sample
    assert not outermost(known[None, 101:]).any()  # too few samples


def test_of_a_lattice_its_own_part_is_shown():
    signal = waves(21, 16)
    held = HeldOut.draw(cn.sample(signal, "every:2+1"), 0.2, 0)
    shown = held.samples
    torch.testing.assert_close(shown.values, signal[1::2, 1::2][1::2, 1::2])
    assert shown.grid == (10, 8) and held.is_exhausted
    hidden = held.hidden[0]
    assert not bool((hidden & held.shown[0]).any()) and int(hidden[0].sum()) == 4  # the row before the first samples


def test_of_few_samples_along_an_axis_every_second_one_is_shown():
    signal = waves(64, 28)
    held = HeldOut.draw(cn.sample(signal, "every:4+1"), 0.2, 0)
    assert held.steps == (4, 2)
    torch.testing.assert_close(held.samples.values, signal[1::4, 1::4][1::4, ::2])
    assert HeldOut.draw(cn.sample(signal, "every:5"), 0.2, 0) is None  # of 6 along the second axis 3 would be left


@pytest.mark.parametrize(("known", "hidden"), [(3, [1]), (4, [1]), (5, [1, 3]), (13, [3, 5, 7, 9])])
def test_of_a_clip_that_skips_frames_every_second_one_is_shown(known, hidden):
    held = HeldOut.draw(cn.sample(torch.rand(3 * known - 2, 6, 16, 1), "every:3x1x1"), 0.2, 0)
    assert held.shown[0, ::2].all() and not held.shown[0, 1::2].any()
    assert held.hidden[0].any(2).any(1).nonzero()[:, 0].tolist() == hidden
    assert held.hidden[0, hidden].all()  # up to the borders of the frames


def test_of_a_lattice_that_skips_no_node_nothing_is_hidden():
    signal = waves(9, 8)
    assert HeldOut.draw(cn.sample(signal, "full"), 0.15, 0) is None
    fit = cn.fit(cn.sample(signal, "full"), prior=cn.Stack((cn.ThinPlate(2, math.inf, 0.0), cn.Local())))
    torch.testing.assert_close(on_grid(fit), signal)


def test_hidden_parts_of_holes_have_their_shape():
    known = torch.ones(40, 40)
    known[10:16, 20:26] = 0
    held = HeldOut.draw(cn.sample(waves(40, 40), known), 0.1, 0)
    assert int(held.hidden.sum()) == 3 * 36 and int(held.clusters.max()) == 2
    (window,) = held.windows(20**2, 4)
    assert int(window.hidden.sum()) >= 36 and window.values.shape == (1, 20, 20)


@pytest.mark.parametrize("pattern", ["random:0.5", "every:2", "every:3+1"])
def test_windows_are_parts_without_entries_near_inner_borders(pattern):
    held = HeldOut.draw(cn.sample(waves(150, 160), pattern, generator=torch.Generator().manual_seed(0)), 0.3, 0)
    windows = held.windows(1200, 3)
    assert len(windows) == 3
    for window in windows:
        torch.testing.assert_close(window.values, held.values[(..., *window.part)])
        hidden = held.hidden[(..., *window.part)] & ~window.hidden
        inner = hidden[0, INNER_MARGIN:-INNER_MARGIN, INNER_MARGIN:-INNER_MARGIN]
        assert not bool(inner.any())
        assert window.samples.grid == window.values.shape[1:]
        torch.testing.assert_close(window.samples.geometry.known(1).movedim(-1, 0), held.shown[(..., *window.part)])
    assert len(held.windows(10**5, 3)) == 1


def rings(height, width):
    rows, columns = torch.meshgrid(torch.arange(height) - height / 2, torch.arange(width) - width / 2, indexing="ij")
    return torch.hypot(rows, columns)


@pytest.mark.parametrize(
    "known",
    [
        rings(260, 300) > 40,
        rings(260, 300) < 60,
        (rings(260, 300) - 50).abs() > 4,
        rings(260, 300) > 150,
        (torch.arange(260)[:, None] < 8) | (torch.arange(300) < 6) | (torch.arange(300) > 290),
    ],
    ids=["disc", "disc-of-samples", "ring", "corners", "border"],
)
@pytest.mark.parametrize("size", [48**2, 72**2])
def test_windows_have_hidden_entries_wherever_the_gaps_are(known, size):
    held = HeldOut.draw(cn.sample(waves(260, 300), known), 0.15, 0)
    windows = held.windows(size, 3)
    assert windows and all(bool(window.hidden.any()) and bool(window.shown.any()) for window in windows)


def test_a_window_in_a_hole_that_is_larger_is_left_out():
    known = torch.ones(260, 300)
    known[20:240, 60:240] = 0
    samples = cn.sample(waves(260, 300), known)
    assert HeldOut.draw(samples, 0.15, 0).windows(40**2, 3) == []
    fit = cn.fit(samples, prior=cn.Stack((cn.Adaptive(), PLATES[1])))
    assert cn.psnr(on_grid(fit), waves(260, 300), data_range=2.0) > 10


@pytest.mark.parametrize(
    ("shape", "pattern"),
    [
        *(((33,), pattern) for pattern in STRIDES),
        *(((33, 20), pattern) for pattern in STRIDES),
        *zip([(34,), (70,), (5000,), (12, 14, 9), (8, 8), (7, 6, 6, 5)], STRIDES * 2, strict=True),
    ],
)
def test_the_automatic_choice_fits_strided_lattices_of_any_shape(shape, pattern):
    signal = torch.randn(*shape, 1, generator=torch.Generator().manual_seed(0)).cumsum(0) / 10
    samples = cn.sample(signal, pattern)
    fit = cn.fit(samples)
    torch.testing.assert_close(samples.geometry.at_samples(fit), samples.values, atol=0.05, rtol=0)


def test_errors_of_a_node_s_channels_and_of_a_gap_are_one_cluster():
    held = HeldOut.draw(masked(waves(20, 24).expand(-1, -1, 3), 0.4), 0.2, 0)
    assert held.clusters.shape == held.errors(held.values).shape
    assert np.array_equal(np.bincount(held.clusters), np.full(int(held.hidden.any(0).sum()), 3))
    known = torch.ones(60, 60)
    known[10:16, 20:26] = known[40:44, 30:40] = 0
    held = HeldOut.draw(cn.sample(waves(60, 60), known), 0.1, 0)
    touching = label(held.hidden[0].numpy(), np.ones((3, 3)))[0][held.hidden[0].numpy()] - 1
    assert np.array_equal(held.clusters, touching) and held.clusters.max() > 0


def test_random_samples_are_hidden_once():
    samples = masked(waves(30, 30), 0.3)
    parts = []
    for seed in range(3):
        parts.append(HeldOut.draw(samples, 0.25, seed, parts))
    hidden = torch.stack([part.hidden[0] for part in parts])
    assert int(hidden.sum(0).max()) == 1
    shares = hidden.flatten(1).sum(1) / (samples.weights > 0).sum()
    torch.testing.assert_close(shares, torch.full((3,), 0.25), atol=0.1, rtol=0)
    for part in parts:
        assert torch.equal(part.shown | part.hidden, parts[0].shown | parts[0].hidden)


def test_points_are_hidden_once():
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 0.9
    samples = cn.Samples(cn.ScatteredPoints((16, 16), points), points)
    first = HiddenPoints.draw(samples, 0.3, 0)
    second = HiddenPoints.draw(samples, 0.3, 1, [first])
    assert not bool((first.hidden & second.hidden).any()) and 40 < int(second.hidden[:, 0].sum()) < 80


def test_windows_of_points_have_them_at_their_places_and_judge_those_far_from_their_borders():
    nodes = torch.rand(5000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.tensor(
        [99, 79]
    )
    samples = cn.Samples(cn.ScatteredPoints((100, 80), nodes / torch.tensor([100, 80])), nodes)
    held = HiddenPoints.draw(samples, 0.3, 0)
    windows = held.windows(40**2, 3)
    assert len(windows) == 3 and held.windows(8000, 3) == [held]
    for window in windows:
        points, values = window.asked.geometry.positions() * torch.tensor(window.asked.grid), window.asked.values
        first = (values[0] - points[0]).round()
        torch.testing.assert_close(points + first, values)
        judged = points[window.hidden[:, 0]]
        kept = torch.tensor([MARGIN[2] + INNER_MARGIN] * 2) * (first > 0)
        assert bool((judged >= kept).all()) and len(judged) > 30
        assert set(values[window.hidden].tolist()) <= set(samples.values[held.hidden].tolist())
        shown = window.samples.geometry.full_weights[:, 0] > 0
        assert torch.equal(shown, ~window.hidden[:, 0])


@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_standard_error_is_that_of_the_clusters_means(count, size, seed):
    """With clusters of one size it is that of independent means, however their members are alike."""
    d = np.random.default_rng(seed).normal(size=count).repeat(size) + np.tile(np.arange(size), count)
    means = d.reshape(count, size).mean(1)
    found = HiddenErrors((), clusters=np.arange(count).repeat(size)).standard_error(d)
    assert found == pytest.approx(means.std(ddof=1) / np.sqrt(count))
    assert HiddenErrors((), clusters=np.zeros(len(d), int)).standard_error(d) == np.inf


@pytest.mark.parametrize(
    ("sizes", "is_known"), [((3, 3), True), ((100, 16, 34), False), ((1, 1), True), ((9, 1), False)]
)
def test_the_largest_of_few_clusters_proves_nothing(sizes, is_known):
    found = HiddenErrors((), clusters=np.arange(len(sizes)).repeat(sizes))
    assert np.isfinite(found.standard_error(np.linspace(0, 1, sum(sizes)))) == is_known


@pytest.mark.parametrize(("hidden_lengths", "best"), [((165, 34, 16), 0), ((20,) * 10, 1)])
def test_the_first_candidate_stays_where_few_gaps_are_hidden(hidden_lengths, best):
    """Another one is twice as good at the hidden gaps, of which the longest is nearly all there are."""
    first = np.random.default_rng(0).normal(size=sum(hidden_lengths))
    clusters = np.arange(len(hidden_lengths)).repeat(hidden_lengths)
    found = HiddenErrors([Traits()] * 2, {0: first, 1: 0.7 * first}, clusters, is_clustered=True)
    assert np.argmax(found.weights()) == best


def test_plates_are_compared_with_the_numbers_that_all_samples_choose():
    samples = masked(waves(20, 20) + 0.1 * torch.rand(20, 20, 1, generator=torch.Generator().manual_seed(0)), 0.4)
    fit = cn.fit(samples, prior=cn.Stack((cn.Adaptive(), PLATES[0], cn.ThinPlate())))
    report = cn.fit(samples, prior=cn.ThinPlate()).report
    settled = cn.ThinPlate(report.order, report.cutoff or math.inf, 0.0)
    chosen = cn.fit(samples, prior=cn.Stack((cn.Adaptive(), PLATES[0], settled)))
    assert fit.report.candidates[2].hold_out_psnr == chosen.report.candidates[2].hold_out_psnr


def test_points_are_hidden_in_all_channels():
    geometry = cn.ScatteredPoints((16, 16), torch.rand(100, 2) * 0.9)
    held = HiddenPoints.draw(cn.Samples(geometry, torch.rand(100, 2)), 0.3, 0)
    assert torch.equal(held.hidden[:, 0], held.hidden[:, 1]) and 10 < int(held.hidden[:, 0].sum()) < 50
    few = cn.Samples(cn.ScatteredPoints((16, 16), torch.rand(10, 2) * 0.9), torch.rand(10, 1))
    assert HiddenPoints.draw(few, 0.3, 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["random:0.5", "every:2"])
def test_smooth_fields_take_plates_or_kriging_and_photographs_the_local_prior(pattern):
    options = {"generator": torch.Generator().manual_seed(0)}
    field = cn.fit(cn.sample(waves(40, 40), pattern, **options))
    assert field.report.fits[0].prior.startswith("kriging" if pattern == "every:2" else ("kriging", "plates"))
    assert cn.psnr(on_grid(field), waves(40, 40), data_range=2.0) > 60
    picture = synthetic_photograph(64, 64)
    assert "local" in cn.fit(cn.sample(picture, pattern, **options)).report.used("auto")


@pytest.mark.slow
def test_plates_of_smooth_fields_are_sought_however_good_the_adaptive_prior_is():
    """Near the border all candidates err alike, so that those of high order may be far from the best before."""
    y, x = torch.meshgrid(*2 * [torch.arange(48.0, dtype=torch.float64) / 48], indexing="ij")
    field = (torch.sin(14 * x + 5 * y.square()) + torch.cos(9 * x * y + 20 * y)).unsqueeze(-1)
    fit = cn.fit(cn.sample(field, "random:0.6", generator=torch.Generator().manual_seed(1)))
    assert fit.report.fits[0].order > 3 and cn.psnr(on_grid(fit), field, data_range=4.0) > 90


@pytest.mark.slow
def test_cubic_polynomials_are_exact_though_kriging_is_near():
    """Plates of order 4 have no energy there; kriging, which is better than lower ones, must not end their search."""
    rows, columns = torch.meshgrid(*2 * [torch.linspace(0, 1, 48, dtype=torch.float64)], indexing="ij")
    cubic = ((rows - 0.3) ** 3 - 2 * rows * columns**2).unsqueeze(-1)
    assert float((on_grid(cn.fit(masked(cubic, 0.3))) - cubic).abs().max()) < 1e-10


@pytest.mark.parametrize("count", [100, 400, 1400])
def test_straight_rows_are_exact_to_their_ends(count):
    """Which errors are least is chance if all are rounding; plates of order 1 do not go on beyond the last sample."""
    line = torch.linspace(-1, 2, count, dtype=torch.float64).unsqueeze(-1)
    assert float((on_grid(cn.fit(cn.sample(line, "every:2"))) - line).abs().max()) < 1e-12


@pytest.mark.slow
def test_noisy_fields_take_plates_that_smooth(generator):
    noisy = waves(60, 60) + 0.05 * torch.randn(60, 60, 1, generator=generator, dtype=torch.float64)
    fit = cn.fit(masked(noisy, 0.5))
    cutoffs = [c for c in fit.report.candidates if c.weight and c.prior.startswith("plates") and "inf" not in c.prior]
    assert (
        cutoffs
        and cn.psnr(on_grid(fit), waves(60, 60), data_range=2.0) > cn.psnr(noisy, waves(60, 60), data_range=2.0) + 6
    )


def smoothing(priors):
    return [prior for prior in priors if "order" in prior and "cutoff=inf" not in prior]


def test_plates_that_smooth_are_left_out_where_no_plate_is_near():
    """Waves near the Nyquist frequency: noise does not explain by how much all interpolating plates miss them."""
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    rapid = (torch.sin(2.1 * columns + 0.4 * rows) + torch.sin(1.9 * rows)).unsqueeze(-1)
    found = [candidate.prior for candidate in cn.fit(masked(rapid, 0.4)).report.candidates]
    assert "plates:order=2,cutoff=inf" in found and not smoothing(found)


def test_plates_that_smooth_are_candidates_where_little_is_known_or_noise_was_seen():
    field = waves(40, 40)
    noisy = field + 0.05 * torch.randn(field.shape, generator=torch.Generator().manual_seed(0))
    some = {True: (masked(field, 0.3), masked(noisy, 0.8)), False: (masked(field, 0.8),)}
    for expected, samples in ((expected, each) for expected, several in some.items() for each in several):
        assert bool(smoothing(prior.text for prior in choose_prior(samples).priors)) == expected


@pytest.mark.slow
def test_noisy_rows_are_as_good_as_the_best_smoothing_spline():
    """Three random walks; the truth chooses SciPy's smoothing spline of 120 samples."""
    ratios = []
    for seed in (5, 6, 7):
        generator = torch.Generator().manual_seed(seed)
        walk = torch.cumsum(torch.randn(300, generator=generator, dtype=torch.float64), 0) / 8
        noisy = (walk + 0.2 * torch.randn(300, generator=generator, dtype=torch.float64)).unsqueeze(-1)
        known = torch.rand(300, generator=generator) < 0.4
        samples, at = cn.sample(noisy, known), known.nonzero()[:, 0].numpy()
        strengths = 10.0 ** np.arange(-1, 4)
        splines = [make_smoothing_spline(at, noisy[at, 0].numpy(), lam=lam)(np.arange(300)) for lam in strengths]
        best = min(np.square(spline - walk.numpy()).mean() for spline in splines)
        ratios.append(float((on_grid(cn.fit(samples))[:, 0] - walk).square().mean()) / best)
    assert np.exp(np.log(ratios).mean()) < 1


@pytest.mark.slow
def test_a_stack_of_one_is_its_candidate():
    samples = masked(synthetic_photograph(16, 20), 0.5)
    for prior in (cn.Adaptive(), cn.Local(), *PLATES):
        alone, stacked = (on_grid(cn.fit(samples, prior=p)) for p in (prior, cn.Stack((prior,))))
        assert torch.equal(alone, stacked)


def test_the_sum_is_that_of_the_fits_with_the_weights_of_the_report():
    samples = masked(waves(30, 30) + 0.3 * torch.rand(30, 30, 1, generator=torch.Generator().manual_seed(1)), 0.5)
    stack = cn.Stack((cn.Adaptive(), *PLATES))
    fit = cn.fit(samples, prior=stack)
    weights = {c.prior: c.weight for c in fit.report.candidates}
    assert sum(weights.values()) == pytest.approx(1)
    parts = [weights[p.text] * on_grid(cn.fit(samples, prior=p)) for p in stack.priors if weights.get(p.text)]
    torch.testing.assert_close(on_grid(fit), sum(parts))


@pytest.mark.slow
def test_a_fit_follows_offsets_and_factors_of_the_values():
    signal = waves(24, 24) + 0.1 * torch.rand(24, 24, 1, generator=torch.Generator().manual_seed(1)).double()
    known = torch.rand(24, 24, generator=torch.Generator().manual_seed(0)) < 0.4
    stack = cn.Stack((cn.Adaptive(), *PLATES, cn.Local((4, 4))))
    one, other = (on_grid(cn.fit(cn.sample(s, known), prior=stack)) for s in (signal, 1000 - 7 * signal))
    torch.testing.assert_close(other, 1000 - 7 * one, atol=2e-3, rtol=0)


@pytest.mark.slow
def test_hidden_errors_of_all_candidates_are_reported_and_the_model_is_kept(tmp_path):
    fit = cn.fit(masked(waves(30, 30), 0.4))
    report = fit.report
    assert isinstance(report, StackReport) and len(report.candidates) >= 4
    assert report.best_psnr() >= max(c.hold_out_psnr for c in report.candidates if c.weight) - 1e-9
    fit.save(tmp_path / "model.safetensors")
    read = cn.Reconstruction.load(tmp_path / "model.safetensors")
    assert torch.equal(on_grid(read), on_grid(fit)) and read.report == report


def test_a_candidate_whose_numbers_the_likelihood_chose_stays_unless_another_is_likely_better():
    """Errors of plates are those of kriging, but for chance, or a third of them."""
    own, chance = np.random.default_rng(0).standard_normal((2, 60))
    traits = [Traits(has_hidden=True), Traits(by_likelihood=True), Traits(keeps_samples=True)]
    for errors, chosen in ((0.97 * own + 0.3 * chance, 1), (own / 3, 2)):
        found = HiddenErrors(traits, {0: 1.5 * own, 1: own, 2: errors}, np.arange(60))
        assert found.weights().tolist() == np.eye(3)[chosen].tolist()


@pytest.mark.parametrize("nugget", [0.0, 0.8])
def test_candidates_are_compared_on_where_noise_hides_what_they_gain(nugget):
    """The second candidate seems hardly worse; where much of the errors is noise, that is worth more samples."""
    noise, own, other = np.random.default_rng(1).standard_normal((3, 400))
    errors = {0: noise + 0.1 * own, 1: noise + 0.1 * own + 0.3 * other}
    found = HiddenErrors([Traits(has_hidden=True), Traits()], errors, np.arange(400), nugget, density=0.3)
    assert found.weights().tolist() == [1, 0] and found.is_hopeful == found.is_open == (nugget > 0)


def test_what_a_candidate_refines_has_no_weight_beside_it_but_others_have():
    """In these windows the first candidate is better than the second, which refined it by more samples."""
    own, other = np.random.default_rng(0).standard_normal((2, 200))
    for refines, expected in ((False, 0), (True, 1)):
        traits = [Traits(has_hidden=True), Traits(has_hidden=True, refines=refines), Traits()]
        found = HiddenErrors(traits, {0: own, 1: 1.5 * own, 2: 5 * other}, np.arange(200), is_whole=False)
        assert found.weights().argmax() == expected and found.holders == [0, 1][int(refines) :]
        assert (
            HiddenErrors(traits, {0: own, 1: 1.5 * own, 2: own / 2}, np.arange(200), is_whole=False).weights().argmax()
            == 2
        )
    apart = [Traits(has_hidden=True, stands_apart=True), Traits(has_hidden=True, refines=True)]
    assert HiddenErrors(apart, {0: own, 1: 1.5 * own}, np.arange(200), is_whole=False).weights().argmax() == 0


def test_no_further_samples_are_hidden_for_what_one_candidate_refines_alone():
    own, other = np.random.default_rng(0).standard_normal((2, 150))
    errors = {0: own, 1: 0.9 * own + 0.2 * other, 2: 0.9 * own - 0.2 * other}
    for refines in (False, True):
        traits = [Traits(has_hidden=True), Traits(has_hidden=True, refines=refines), Traits()]
        hidden = HiddenErrors(traits, {0: own, 1: errors[1]}, np.arange(150))
        assert hidden.rivals() == [0, 1] and hidden.is_open == (not refines)
        assert HiddenErrors(traits, errors, np.arange(150)).is_open


def test_few_samples_leave_the_plates_that_find_their_numbers():
    known = torch.zeros(12, 12)
    known[::5, ::5] = 1
    fit = cn.fit(cn.sample(waves(12, 12), known))
    assert fit.report.used("auto") == "plates"
    assert [(c.weight, c.hold_out_psnr) for c in fit.report.candidates] == [(1.0, None)]


def test_draws_are_those_of_the_adaptive_candidate():
    fit = cn.fit(masked(synthetic_photograph(24, 24), 0.5))
    assert fit.draw(2, generator=torch.Generator().manual_seed(0)).shape == (2, 24, 24, 3)


@pytest.mark.slow
def test_candidates_at_scattered_points_share_the_blending_of_plates(generator):
    points = torch.rand(150, 2, generator=generator).double() * 0.9
    geometry = cn.ScatteredPoints((16, 16), points)
    samples = cn.Samples(geometry, (5 * points.sum(1, keepdim=True)).sin())
    stack = cn.Stack((cn.Adaptive(), *PLATES))
    fit = cn.fit(samples, prior=stack)
    weights = {c.prior: c.weight for c in fit.report.candidates}
    blended = cn.Samples(geometry.blended("quintic"), samples.values)
    parts = [weights[p.text] * cn.fit(blended, prior=p)(points) for p in stack.priors if weights[p.text]]
    torch.testing.assert_close(fit(points), sum(parts))


def test_gradients_are_those_with_fixed_weights():
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(0)).double() * 0.95
    values = (6 * points).sin()[:, :1].requires_grad_()
    fit = cn.fit(cn.Samples(cn.ScatteredPoints((12, 12), points), values), prior=cn.Stack(PLATES))
    (gradient,) = torch.autograd.grad(on_grid(fit).sum(), values)
    assert bool(gradient.isfinite().all()) and float(gradient.abs().max()) > 0
    picture = synthetic_photograph(24, 24).requires_grad_()
    with pytest.raises(ValueError, match="has no gradient"):
        cn.fit(masked(picture, 0.5))


def test_splines_are_those_of_scipy():
    from scipy.interpolate import RectBivariateSpline

    signal, n = waves(25, 31), (25, 31)
    samples = cn.sample(signal, "every:2")
    for degree in (1, 3, 5):
        made = on_grid(cn.fit(samples, prior=cn.Spline(degree)))[..., 0]
        axes = [np.arange(0, m, 2) for m in n]
        peer = RectBivariateSpline(*axes, signal[::2, ::2, 0].numpy(), kx=degree, ky=degree)(*map(np.arange, n))
        np.testing.assert_allclose(made, peer, atol=1e-10)
    with pytest.raises(ValueError, match="`degree`: expected"):
        cn.Spline(2)
    with pytest.raises(ValueError, match="`prior`: expected cn.ThinPlate"):
        cn.fit(masked(signal, 0.5), prior=cn.Spline())


@pytest.mark.parametrize("degree", [1, 3, 5])
@pytest.mark.parametrize("steps", ["every:2x1", "every:3x2"])
def test_splines_continue_a_trend_beyond_the_outermost_samples(steps, degree):
    """As of a clip that fades, of which every second frame is known; noise says nothing of what follows it."""
    t, x = torch.arange(24, dtype=torch.float64), torch.arange(12, dtype=torch.float64)
    fade = (1 + t[:, None] * (2 + x) / 24).unsqueeze(-1)
    made = cn.fit(cn.sample(fade, steps), prior=cn.Spline(degree)).render(alignment="sample")
    torch.testing.assert_close(made, fade)
    noise = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64).repeat_interleave(3)[:, None]
    made = cn.fit(cn.sample(noise, "every:3"), prior=cn.Spline(degree)).render(alignment="sample")
    torch.testing.assert_close(made[-3:], noise[-3:])


@pytest.mark.slow
def test_a_fade_of_an_even_number_of_frames_is_not_weighed_by_its_last_one():
    frame = synthetic_photograph(20, 20).mean(-1, keepdim=True)
    fade = (torch.arange(16).view(-1, 1, 1, 1) + 1) / 16 * frame
    made = cn.fit(cn.sample(fade, "every:2x1x1")).render()
    assert cn.psnr(made, fade) > 60


def test_half_orders_are_tangents_of_their_powers():
    """In the middle of a long row the energy of a wave e^(iωx) is what the symbols of its differences say."""
    from coordnet.priors.plates.field import plate_energy

    n, frequency = 64, 0.8
    k = plate_energy((n,), 2.5, frequency)
    column = np.asarray(k[:, [n // 2]].todense())[:, 0]
    omega = np.linspace(0.1, 3, 40)
    symbol = (column * np.cos(omega[:, None] * (np.arange(n) - n // 2))).sum(1)
    chord = 2 * np.sin(omega / 2)
    np.testing.assert_allclose(symbol, (frequency * chord**4 + chord**6 / frequency) / 2, rtol=1e-9)
    assert (symbol >= chord**5 * (1 - 1e-9)).all()


def test_sparse_samples_are_judged_in_one_window_of_limited_size():
    samples = masked(waves(300, 320), 0.01)
    held = HeldOut.draw(samples, 0.15, 0)
    (window,) = held.windows(1200, 3)
    assert window.values[0].numel() <= 2**15 * 1.02 and int(window.hidden.sum()) >= 10


@pytest.mark.slow
def test_fits_to_clips_are_weighed_at_all_samples_that_they_hid(monkeypatch):
    monkeypatch.setattr(masks, "GROUPED", 2**12)  # only pictures have a middle
    still = synthetic_photograph(40, 40).mean(-1, keepdim=True).double()
    clip = torch.stack([still.roll(max(0, t - 9), 1) for t in range(12)])
    report = cn.fit(masked(clip, 0.3)).report
    (local,) = [fit for fit in report.fits if fit.prior == "local"]
    psnr = {c.prior: c.hold_out_psnr for c in report.candidates}
    assert psnr["adaptive"] == pytest.approx(local.hold_out_psnr["pilot"], abs=1e-3)
    assert psnr["local"] == pytest.approx(local.groups[-1].hold_out_psnr["local"], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "pattern"), [((300,), "every:2"), ((40, 36), "every:2x3")])
def test_a_lattice_that_skips_nodes_and_has_gaps_is_fitted_as_the_nodes_that_are_known(shape, pattern):
    places = torch.stack(torch.meshgrid(*(torch.arange(float(n)) for n in shape), indexing="ij"))
    signal = torch.sin(places.sum(0).double() / 7).unsqueeze(-1)
    signal[torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.2] = math.nan
    skipped = cn.sample(signal, pattern)
    known = cn.sample(signal, skipped.geometry.known(1)[..., 0])
    assert torch.allclose(cn.fit(skipped).render(), cn.fit(known).render(), atol=1e-9)


@pytest.mark.slow
def test_plates_that_suit_the_windows_alone_get_no_weight():
    """Of three small disks on a slope with noise the windows show little, and plates blur them."""
    y, x = np.mgrid[:184, :184] / 184
    generator = np.random.default_rng(5)
    disks = sum((np.hypot(x - a, y - b) < c) * d for a, b, c, d in generator.random((3, 4)) * [1, 1, 0.06, 1])
    truth = torch.from_numpy(0.1 + 0.8 * disks + 0.1 * x + 0.01 * generator.normal(size=x.shape)).float().unsqueeze(-1)
    known = torch.from_numpy(generator.random(x.shape) < 0.1)
    samples = cn.sample(truth, known)
    errors = [(cn.fit(samples, prior=prior).render() - truth)[~known].square().mean() for prior in ("auto", cn.Local())]
    assert errors[0] < errors[1]


@pytest.mark.slow
def test_plates_that_suit_the_window_around_gaps_alone_get_no_weight():
    """The one window around the middlemost gap hardly has the front, which a plate through all samples misses."""
    y, x = np.mgrid[:184, :184] / 184
    front = np.tanh(30 * (x - 0.5 - 0.15 * np.sin(6 * y))) + 0.5 * np.sin(9 * y) * np.cos(7 * x)
    clouds = gaussian_filter(np.random.default_rng(4).standard_normal(x.shape), 8, mode="wrap")
    truth, known = torch.from_numpy(front).float().unsqueeze(-1), torch.from_numpy(clouds < np.quantile(clouds, 0.75))
    samples = cn.sample(truth, known)
    errors = [(cn.fit(samples, prior=prior).render() - truth)[~known].square().mean() for prior in ("auto", cn.Local())]
    assert errors[0] < 1.01 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(184, 192), (24, 32, 36)])
def test_candidates_of_a_large_lattice_are_judged_by_what_is_hidden_in_its_middle(monkeypatch, shape):
    """The fits that hide samples themselves do so in the middle of a large lattice alone."""
    monkeypatch.setattr("coordnet.priors.adaptive.plan.CROP", math.prod(shape) // 10)
    places = torch.meshgrid(*(torch.arange(n) for n in shape), indexing="ij")
    signal = torch.sin(places[0] / 5 + places[-1] / 9) + (places[0] > places[1]).float()
    samples = masked(signal.unsqueeze(-1), 0.2)
    judged, alone = cn.fit(samples).report.candidates, cn.fit(samples, prior=cn.Local()).report
    assert {"adaptive", "local"} <= {candidate.prior for candidate in judged}
    assert judged[0].hold_out_psnr == pytest.approx(alone.hold_out_psnr["pilot"], abs=1e-3)


def test_what_needs_proof_has_a_weight_only_if_it_surely_lowers_the_error():
    generator = np.random.default_rng(0)
    least = generator.standard_normal(200)
    for more, is_sure in ((0.3, False), (1.0, True)):
        errors = {0: least + more * generator.standard_normal(200), 1: least}
        for needs_proof in (False, True):
            traits = [Traits(by_likelihood=True), Traits(needs_proof=needs_proof)]
            weight = HiddenErrors(traits, errors, np.arange(200)).weights()[1]
            assert (weight > 0.5) == (is_sure or not needs_proof), (more, needs_proof)


def test_gaps_of_a_row_leave_no_candidate_out_but_what_is_clearly_worse():
    """Within three clusters errors are alike, so that no difference of them is sure."""
    generator, clusters = np.random.default_rng(0), np.repeat(np.arange(3), 20)
    best = generator.standard_normal(60)
    errors = {0: 1.5 * best, 1: best, 2: 2.5 * best}
    hidden = HiddenErrors([Traits()] * 3, errors, clusters, is_clustered=True, is_row=True)
    assert hidden.rivals() == [0, 1] and hidden.is_open
    assert replace(hidden, is_row=False).rivals() == [1]
    assert not replace(hidden, errors={1: best, 2: 2.5 * best}).is_open


@pytest.mark.parametrize(("size", "expected"), [(0.9, 1), (1.1, 0)])
def test_a_row_takes_an_autoregression_for_the_reference_if_its_error_is_less(size, expected):
    errors = {0: np.ones(60), 1: size * np.ones(60)}
    traits = [Traits(has_hidden=True), Traits(stands_apart=True)]
    hidden = HiddenErrors(traits, errors, np.zeros(60, int), is_clustered=True, is_row=True)
    assert hidden.reference == expected and list(hidden.weights()) == list(np.eye(2)[expected])
    assert replace(hidden, is_row=False).reference == 0


def test_a_row_is_compared_at_several_copies_of_its_gap():
    """The first copy alone would tell of one place; both candidates are rivals in each."""
    y = torch.from_numpy(np.random.default_rng(3).standard_normal((600, 1)))
    samples = cn.sample(y, torch.arange(600).sub(300).abs() > 20)
    candidates = cn.Adaptive(), cn.Autoregressive()
    plans = [p.plan(FourierEncoding.like(samples), samples.geometry, dtype=torch.float64) for p in candidates]
    trial = Trial(candidates, plans, samples.values.T[None] - samples.values.mean())
    assert trial.hidden.is_row and len(trial.errors[1]) == MOST_FOLDS * 41


@pytest.mark.slow
def test_kriging_is_compared_on_a_volume_whose_windows_the_adaptive_prior_wins():
    z, y, x = torch.meshgrid(*[torch.linspace(0, 1, 20, dtype=torch.float64)] * 3, indexing="ij")
    smooth = (torch.sin(4 * x + 2 * y) * torch.cos(3 * z)).unsqueeze(-1)
    known = torch.from_numpy(np.random.default_rng(1).random((20, 20, 20)) < 0.1)
    fit = cn.fit(cn.sample(smooth, known.float()))
    assert {c.prior: c.weight for c in fit.report.candidates}["kriging"] > 0.9
    assert float((fit.render() - smooth)[~known].abs().max()) < 1e-3
