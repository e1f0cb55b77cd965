"""Channels in units of their own are fitted as each is alone; colors share what is learned."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.fitting.channel_groups import LEAST_CORRELATION, channel_groups, steps_correlate

from ..helpers import synthetic_photograph

RNG = np.random.default_rng(0)
PLACES = RNG.random((60, 2))
QUERY = torch.from_numpy(RNG.random((40, 2)))
SMOOTH = np.sin(5 * PLACES[:, 0]) * np.cos(4 * PLACES[:, 1])
ROUGH = RNG.normal(size=60)
GRID = np.stack(np.meshgrid(np.arange(10) / 10, np.arange(10) / 10, indexing="ij"), -1).reshape(-1, 2)


PLATE = cn.ThinPlate(2, 3.0)


def fit(*columns, prior="auto"):
    return cn.fit(cn.points(PLACES, np.stack(columns, -1)), prior=prior)


def test_columns_of_points_are_what_each_is_alone_whatever_the_units_of_the_others():
    alone = [fit(column) for column in (SMOOTH, ROUGH)]
    both = fit(SMOOTH, 1e6 * ROUGH + 3e6)
    torch.testing.assert_close(both(QUERY)[:, 0], alone[0](QUERY)[:, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(both(QUERY)[:, 1], 1e6 * alone[1](QUERY)[:, 0] + 3e6, rtol=1e-7, atol=1e-3)
    weights = [[c.weight for c in report.candidates] for report in both.report.signals]
    assert weights == [pytest.approx([c.weight for c in made.report.candidates]) for made in alone]


@pytest.mark.slow
def test_deviations_and_scores_are_those_of_the_columns_alone():
    both, *alone = (fit(*columns, prior=PLATE) for columns in ((SMOOTH, ROUGH), (SMOOTH,), (ROUGH,)))
    torch.testing.assert_close(both.std(), torch.cat([made.std() for made in alone], -1), rtol=1e-9, atol=1e-12)
    ends = [torch.cat(end, -1) for end in zip(*(made.interval() for made in alone), strict=True)]
    torch.testing.assert_close(torch.stack(both.interval()), torch.stack(ends), rtol=1e-9, atol=1e-12)
    assert both.score(folds=2).rmse == pytest.approx([made.score(folds=2).rmse for made in alone])
    errors = [10 ** (-made.expected_psnr() / 10) for made in alone]
    assert 10 ** (-both.expected_psnr() / 10) == pytest.approx(np.mean(errors))


def test_columns_are_saved_and_evaluated_on_grids_together(tmp_path):
    both, alone = fit(SMOOTH, ROUGH, prior=PLATE), fit(ROUGH, prior=PLATE)
    np.testing.assert_allclose(both.grid(spacing=0.2)[..., 1], alone.grid(spacing=0.2), rtol=0, atol=1e-12)
    both.save(tmp_path / "both.safetensors")
    again = cn.Reconstruction.load(tmp_path / "both.safetensors")
    assert torch.equal(again(QUERY), both(QUERY)) and again.report == both.report


def test_gradients_reach_the_column_that_a_value_is_of():
    samples = cn.points(PLACES, np.stack([SMOOTH, ROUGH], -1))
    values = samples.values.clone().requires_grad_()
    made = cn.fit(cn.Samples(samples.geometry, values), prior=PLATE)
    (gradient,) = torch.autograd.grad(made(QUERY)[:, 0].sum(), values)
    assert bool(gradient[:, 0].any()) and not bool(gradient[:, 1].any())


def test_a_column_with_gaps_and_a_drift_is_as_on_the_points_that_know_it():
    drift = {"height": RNG.random(60)}
    gappy = np.where(np.arange(60) % 8 == 0, np.nan, ROUGH)
    both = cn.fit(cn.points(PLACES, np.stack([SMOOTH, gappy], -1), drift=drift), prior=PLATE)
    samples = cn.points(PLACES, SMOOTH, drift=drift)
    known = cn.Samples(
        samples.geometry.reweighted(torch.from_numpy(np.isfinite(gappy))[:, None].double()),
        torch.from_numpy(np.nan_to_num(gappy))[:, None],
    )
    expected = [cn.fit(part, prior=PLATE) for part in (samples, known)]
    at = {"height": RNG.random(40)}
    found = torch.cat([made(QUERY, drift=at) for made in expected], -1)
    torch.testing.assert_close(both(QUERY, drift=at), found, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["random:0.4", "every:2"])
def test_channels_of_a_lattice_in_other_units_are_what_each_is_alone(pattern):
    smooth = np.sin(5 * GRID[:, 0]) * np.cos(4 * GRID[:, 1])
    rough = 1e4 * np.sign(np.sin(9 * GRID[:, 0] + 5 * GRID[:, 1]))
    signal = torch.from_numpy(np.stack([smooth, rough], -1).reshape(10, 10, 2))

    def made(part):
        samples = cn.sample(part, pattern, dimensions=2, generator=torch.Generator().manual_seed(0))
        return cn.fit(samples).render(alignment="sample")

    found = torch.cat([made(part) for part in signal.split(1, -1)], -1)
    torch.testing.assert_close(made(signal), found, rtol=0, atol=1e-12)


def test_colors_stay_together():
    picture = cn.sample(synthetic_photograph(24, 24), "random:0.3", generator=torch.Generator().manual_seed(0))
    assert len(channel_groups(picture)) == 1
    dark = cn.Samples(picture.geometry, picture.values * torch.tensor([1.0, 1e-3, 0.0]))
    assert len(channel_groups(dark)) == 1
    assert len(channel_groups(cn.Samples(picture.geometry, 300 * dark.values + 1))) == 2


def waves(side=32):
    """Return three channels (side, side, 3): a smooth one, white noise, and a smooth one of other waves."""
    y, x = np.meshgrid(*2 * [np.linspace(0, 1, side)], indexing="ij")
    noise = np.random.default_rng(3).normal(size=(side, side))
    return np.stack([np.sin(5 * x + 3 * y), noise, np.cos(4 * x) * np.sin(6 * y)], -1)


def grouped(signal, pattern="full"):
    """Return the groups of a plane's channels as lists of numbers."""
    samples = cn.sample(signal, pattern, dimensions=2, generator=torch.Generator().manual_seed(0))
    return [group.nonzero()[:, 0].tolist() for group in channel_groups(samples)]


@pytest.mark.parametrize("pattern", ["full", "every:2", "random:0.3", "random:0.1", "entries:0.5"])
def test_a_smooth_channel_of_a_plane_is_apart_from_a_rough_one(pattern):
    signal = waves()
    assert grouped(signal, pattern) == [[0, 2], [1]]
    assert grouped((signal - signal.min()) / np.ptp(signal), pattern) == [[0, 2], [1]]
    assert grouped(signal[..., [1, 2, 0]] * 1e-3 + 5, pattern) == [[0], [1, 2]]


def test_channels_of_a_plane_that_tell_of_each_other_or_are_as_rough_stay_together():
    signal = waves()
    white = np.random.default_rng(4).normal(size=(32, 32))
    assert grouped(np.stack([signal[..., 1], white], -1)) == [[0, 1]]
    assert grouped(np.stack([signal[..., 1], signal[..., 1] + signal[..., 0]], -1)) == [[0, 1]]
    assert grouped(np.stack([signal[..., 1], np.ones((32, 32))], -1)) == [[0, 1]]


def test_colors_are_apart_from_a_height_as_rough_as_they():
    picture = synthetic_photograph(32, 32).numpy()
    beside = np.concatenate([picture, picture[::-1, ..., :1]], -1)
    assert grouped(picture) == [[0, 1, 2]]
    assert grouped(beside) == [[0, 1, 2], [3]]


def test_groups_of_channels_are_what_each_is_alone_in_the_order_of_the_channels():
    signal = torch.from_numpy(waves(16))

    def made(part):
        samples = cn.sample(part, "random:0.5", dimensions=2, generator=torch.Generator().manual_seed(0))
        return cn.fit(samples, prior=PLATE)

    joined, smooth, rough = made(signal), made(signal[..., [0, 2]]), made(signal[..., [1]])
    for of in (cn.Reconstruction.render, cn.Reconstruction.std, lambda fit: torch.stack(fit.interval())):
        expected = torch.cat([of(smooth)[..., :1], of(rough), of(smooth)[..., 1:]], -1)
        torch.testing.assert_close(of(joined), expected, rtol=0, atol=1e-12)
    errors = [10 ** (-fit.expected_psnr() / 10) for fit in (smooth, rough)]
    assert 10 ** (-joined.expected_psnr() / 10) == pytest.approx((2 * errors[0] + errors[1]) / 3)


def test_rows_that_do_not_tell_of_each_other_are_fitted_alone():
    """A smooth column is filled as well beside a random walk as without it, though gaps and variances are alike."""
    generator = np.random.default_rng(2)
    smooth, walk = np.sin(np.arange(200) / 15), generator.normal(size=200).cumsum() / 8
    table, known = np.stack([smooth, walk], -1), generator.random((200, 2)) < 0.75
    assert len(channel_groups(cn.sample(table, known))) == 2
    assert np.abs(cn.inpaint(table, known).signal - table)[:, 0].max() < 1e-4


@pytest.mark.parametrize("pattern", ["every:2", "random:0.3"])
def test_rows_of_a_picture_stay_together(pattern):
    row = synthetic_photograph(24, 90)[10]
    assert len(channel_groups(cn.sample(row, pattern, generator=torch.Generator().manual_seed(0)))) == 1
    few = cn.sample(torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), "full")
    assert len(channel_groups(few)) == 1


def test_a_channel_of_which_nothing_is_known_is_refused():
    known = torch.rand(12, 10, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    known[..., 2] = False
    samples = cn.sample(synthetic_photograph(12, 10), known)
    with pytest.raises(ValueError, match="`samples`: expected a known value in each channel, received none in"):
        cn.fit(samples)


@pytest.mark.parametrize("shared", [0.2, 0.6, 0.9])
def test_steps_correlate_as_numpy_says(shared):
    white = np.random.default_rng(1).normal(size=(3, 40, 30))
    walks = np.cumsum(shared * white[0] + (1 - shared) * white[1:], 1)
    steps = [np.concatenate([np.diff(walk, axis=0).ravel(), np.diff(walk, axis=1).ravel()]) for walk in walks]
    expected = bool(abs(np.corrcoef(steps)[0, 1]) >= LEAST_CORRELATION)
    assert steps_correlate(torch.from_numpy(np.moveaxis(walks, 0, -1))) == expected == (shared > 0.5)
    few = torch.arange(10.0).reshape(5, 1, 2)  # that all correlate is chance
    assert not steps_correlate(few)
