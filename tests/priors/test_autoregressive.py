"""Autoregressions of rows with gaps: against planted ones, and dense kriging by their covariance."""

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from scipy.signal import lfilter

import coordnet as cn
from coordnet.encodings import FourierEncoding
from coordnet.plans.autoregression import GapPrediction, autoregression, modified_covariance

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
    found, left = autoregression(process(200, 20), 30)
    np.testing.assert_allclose(found[:3], DAMPING, atol=0.02)
    np.testing.assert_allclose(found[3:], 0, atol=0.05)
    assert left == pytest.approx(1 / np.square(process(200, 20)).mean(), rel=0.05)
    noise = np.random.default_rng(0).standard_normal((400, 20))
    assert [len(autoregression(noise[:, k : k + 1], 30)[0]) for k in range(9)].count(1) > 4


def test_signals_that_are_all_zero_have_none():
    assert list(autoregression(np.zeros((50, 2)), 12)[0]) == [1.0]


def test_gaps_contribute_nothing_to_it():
    u, known = process(2000), mask(2000)
    found, _ = autoregression(u, 30, known)
    np.testing.assert_allclose(found[:3], DAMPING, atol=0.05)
    np.testing.assert_array_equal(found, autoregression(np.where(known[:, None], u, 1e6), 30, known)[0])


def test_runs_beside_a_gap_tell_as_much_as_two_signals():
    two = process(200, 2)
    row = np.concatenate([two[:, 0], np.full(9, 1e6), two[:, 1]])[:, None]
    separate, together = autoregression(two, 30), autoregression(row, 30, mask(409, [slice(200, 209)]))
    np.testing.assert_allclose(together[0], separate[0])
    assert together[1] == pytest.approx(separate[1])


def refined(u, known):
    burg = autoregression(u, 100, known)
    return modified_covariance(u, burg, known), burg


def test_least_squares_tell_the_lines_of_tones_which_burg_shifts():
    t = np.arange(600.0)
    tones = np.cos(2 * np.pi * t / 31.7) + 0.6 * np.cos(2 * np.pi * t / 12.3 + 1) + 0.8 * np.cos(t / 9)
    (a, left), burg = refined(tones[:, None], mask(600))
    lines = np.exp(1j * np.array([2 * np.pi / 31.7, 2 * np.pi / 12.3, 1 / 9]))
    far, burgs = (np.abs(lines[:, None] - np.roots(found)).min(1).max() for found in (a, burg[0]))
    assert far < 1e-6 and burgs > 1e-4
    assert left < burg[1] and np.abs(np.roots(a)).max() < 1


def test_the_autoregression_of_least_squares_is_burgs_for_noise_and_for_what_grows():
    (a, left), burg = refined(process(2000), mask(2000))
    np.testing.assert_allclose(a, burg[0], atol=0.02)
    assert left <= burg[1]
    growing = np.exp(np.arange(300) / 50)[:, None]
    growing = (growing - growing.mean()) / growing.std()
    (a, _), burg = refined(growing, mask(300, [slice(100, 130)]))
    np.testing.assert_array_equal(a, burg[0])


def test_quiet_parts_do_not_tell_the_lines_of_loud_ones():
    """Only the quiet half has runs as long as the terms of Burg's autoregression, most of which loud runs tell."""
    u, known = process(800), np.ones(800, bool)
    u[:400, 0] = 0.1 * np.sin(0.5 * np.arange(400)) + 0.01 * np.random.default_rng(3).standard_normal(400)
    known[400::6] = False
    (a, _), burg = refined(u / np.sqrt(np.square(u[known]).mean()), known)
    assert len(a) > 3
    np.testing.assert_array_equal(a, burg[0])


def test_tones_are_filled_but_for_rounding():
    t, known = np.arange(600.0), mask(600)
    y = torch.from_numpy(np.cos(2 * np.pi * t / 31.7) + 0.6 * np.cos(2 * np.pi * t / 12.3 + 1) + 0.8 * np.cos(t / 9))
    fit = cn.fit(cn.sample(y[:, None], torch.from_numpy(known)), prior=cn.Autoregressive())
    assert float((fit.render((600,), alignment="sample")[:, 0] - y).abs().max()) < 1e-5


@pytest.mark.parametrize("nugget", [0.0, 0.2])
@pytest.mark.parametrize("gaps", [[slice(30, 45), slice(60, 61)], [slice(0, 8)], [slice(70, 90), slice(3, 5)], []])
def test_the_prediction_is_that_of_kriging_by_its_covariance_and_has_an_adjoint(gaps, nugget):
    known = mask(90, gaps)
    variance = np.linalg.inv(dense_precision(90))
    k, between = variance[np.ix_(known, known)], variance[:, known] - nugget * np.eye(90)[:, known]
    one, y = np.ones(int(known.sum())), process(90)[:, 0] + 3
    mean = one @ np.linalg.solve(k, y[known]) / (one @ np.linalg.solve(k, one))
    predicted, unit = GapPrediction(DAMPING, known, nugget), torch.eye(90, dtype=torch.float64)
    f = predicted(torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(f, mean + between @ np.linalg.solve(k, y[known] - mean), rtol=1e-7)
    assert nugget or (f[known] == y[known]).all()
    torch.testing.assert_close(predicted.adjoint(unit), predicted(unit).T)


def dense_precision(count):
    """Return the inverse of the covariance from the equations of Yule and Walker, and of longer distances."""
    order = len(DAMPING) - 1
    equations = np.zeros((order + 1, order + 1))
    for i in range(order + 1):
        for k, a in enumerate(DAMPING):
            equations[i, abs(i - k)] += a
    r = np.linalg.solve(equations, np.eye(order + 1)[0])
    for _ in range(count - order - 1):
        r = np.append(r, -DAMPING[1:] @ r[: -order - 1 : -1])
    return np.linalg.inv(toeplitz(r))


@pytest.mark.slow
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


@pytest.mark.parametrize("known", [torch.rand(30, 30) < 0.9, "every:2"])
def test_other_samples_than_nodes_of_a_row_are_refused(known):
    shape = (30, 30) if isinstance(known, torch.Tensor) and known.ndim > 1 else (30,)
    with pytest.raises(ValueError, match="other samples than nodes of a row"):
        cn.fit(cn.sample(torch.rand(*shape, 1), known), prior=cn.Autoregressive())


def test_gradients_follow_the_values():
    y, known = torch.from_numpy(process(200)), torch.from_numpy(mask(200, GAPS[:1]))

    def gap(values):
        fit = cn.fit(cn.sample(values, known), prior=cn.Autoregressive())
        return fit.render((200,), alignment="sample")[60:80, 0].sum()

    values = y.clone().requires_grad_()
    gap(values).backward()
    samples = cn.sample(y, known)
    plan = cn.Autoregressive().plan(FourierEncoding.like(samples), samples.geometry, dtype=y.dtype)
    found, _ = plan._most_likely(samples.values.T)
    step = torch.zeros(200, dtype=y.dtype)
    step[55] = 1.0
    assert float(values.grad[55]) == pytest.approx(
        float(GapPrediction(found, known.numpy())(step)[60:80].sum()), abs=1e-4
    )


def test_random_nodes_are_not_tried():
    y = torch.from_numpy(process(400))
    known = torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.5
    assert "autoregressive" not in [c.prior for c in cn.fit(cn.sample(y, known)).report.candidates]


def test_noise_is_removed_from_a_whole_row_and_no_frequency_is_amplified():
    y = process(600)
    noisy = cn.sample(torch.from_numpy(y + 1.5 * np.random.default_rng(5).standard_normal(y.shape)), "full")
    fits = [cn.fit(noisy, prior=cn.Autoregressive(noise)) for noise in (0.0, 1.5, 1e3)]
    found = [fit.render((600,), alignment="sample").numpy() for fit in fits]
    assert np.square(found[1] - y).mean() < 0.6 * np.square(found[0] - y).mean()
    assert found[2].std() < found[0].std()
