"""Frames in time: the algebra against its dense twin, what is learned against what was planted, and fits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.fft import idctn

import coordnet as cn
from coordnet.fitting.choice import suited
from coordnet.networks.fit_reports import EvolvingReport
from coordnet.priors.base import Setting
from coordnet.priors.evolving.covariance import Bands, Covariance, FramePosterior
from coordnet.priors.evolving.learning import Learner, Problem, follow, learned_from_all
from coordnet.priors.evolving.variogram import Kernel, Term, Variogram, fit_start
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.gap_copies import are_areas, hide_under_gaps


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def wishart(count, frames, generator):
    a = generator.standard_normal((count, frames, 2 * frames))
    return a @ a.transpose(0, 2, 1) / (2 * frames)


def falling(bands, generator, frames, power=3.0):
    """Matrices over the frames whose scale falls with the frequency."""
    return wishart(len(bands.middles), frames, generator) * (bands.middles[:, None, None] / 0.3) ** -power


def dense(covariance):
    """The covariance of padded frames, formed: (frames · nodes, frames · nodes)."""
    bands, frames = covariance.bands, covariance.matrices.shape[1]
    nodes = int(np.prod(bands.lattice))
    axes = tuple(range(1, 1 + len(bands.lattice)))
    cosines = idctn(np.eye(nodes).reshape(nodes, *bands.lattice), axes=axes, norm="ortho").reshape(nodes, nodes)
    order = bands.levels[0].order
    spectrum = covariance.variances.astype(float) ** 0.5
    root = np.zeros((frames, nodes, frames, nodes))
    for part, basis in zip(bands.parts, covariance.bases.astype(float), strict=True):
        for k in range(part.start, part.stop):
            root[:, :, :, k] = (basis * spectrum[:, k])[:, None, :] * cosines[order[k]][None, :, None]
    root = root.reshape(frames * nodes, -1)
    return root @ root.T


def clouds(shape, generator, share=0.4):
    """Smooth random areas that differ from frame to frame."""
    noise = generator.standard_normal(shape)
    spectrum = np.fft.fftn(noise, axes=(1, 2))
    waves = np.add.outer(np.fft.fftfreq(shape[1]) ** 2, np.fft.fftfreq(shape[2]) ** 2)
    smooth = np.fft.ifftn(spectrum * np.exp(-200 * waves), axes=(1, 2)).real
    return smooth > np.quantile(smooth, 1 - share, axis=(1, 2), keepdims=True)


def planted(generator, shape=(8, 40, 48)):
    """Frames whose large scales persist and whose small ones do not."""
    bands = Bands(shape[1:], (1.0, 1.0))
    lags = np.abs(np.subtract.outer(np.arange(shape[0]), np.arange(shape[0])))
    persistence = 12 * bands.middles**-0.5
    matrices = np.exp(-lags / persistence[:, None, None]) * (1 + (bands.middles * 8) ** 2)[:, None, None] ** -1.5 * 100
    covariance = Covariance.of(bands, matrices, np.ones(len(bands.frequency)))
    white = generator.standard_normal(covariance.variances.shape).astype(np.float32)
    f = bands.levels[0].frames(covariance.across(white * np.sqrt(covariance.variances)))
    return covariance, bands.cropped(f)


def test_modes_are_orthonormal_and_sorted_by_frequency(rng):
    bands = Bands((9, 30), (0.8, 1.25))
    level = bands.levels[0]
    z = rng.standard_normal((3, len(bands.frequency)))
    np.testing.assert_allclose(level.modes(level.frames(z)), z, atol=1e-12)
    assert np.isclose(np.square(level.frames(z)).sum(), np.square(z).sum())
    ends = [bands.frequency[part].max() for part in bands.parts[:-1]]
    starts = [bands.frequency[part].min() for part in bands.parts[1:]]
    assert all(a < b for a, b in zip(ends, starts, strict=True))


def test_coarser_levels_have_the_values_of_their_modes_at_block_means(rng):
    """A smooth mode on the coarser lattice is nearly the mean of the mode over blocks, in units of both."""
    bands = Bands((96, 100), (1.0, 1.0))
    fine, coarse = bands.levels[:2]
    z = np.zeros((1, len(bands.frequency)))
    z[0, :4] = rng.standard_normal(4)
    means = fine.frames(z).reshape(1, 24, 4, coarse.lattice[1], 4).mean((2, 4))
    found = coarse.frames(z[:, : coarse.bands[-1].stop])
    np.testing.assert_allclose(4 * means, found, atol=2e-2 * np.abs(found).max())


def test_covariances_are_their_dense_twins(rng):
    """Between frames of the same mode the dense covariance is the matrix of its band; between modes it is 0."""
    bands = Bands((4, 5), (1.0, 1.0))
    matrices = falling(bands, rng, 3)
    covariance = Covariance.of(bands, matrices, np.ones(20))
    waves = np.stack([bands.levels[0].frames(row[None])[0].ravel() for row in np.eye(20)])
    found = np.einsum("kx,txsy,ly->ktls", waves, dense(covariance).reshape(3, 20, 3, 20), waves)
    for part, matrix in zip(bands.parts, matrices, strict=True):
        if part.stop - part.start == 1:
            np.testing.assert_allclose(found[part.start, :, part.start], matrix, rtol=1e-4, atol=1e-6)
    found[range(20), :, range(20)] = 0
    np.testing.assert_allclose(found, 0, atol=1e-5 * matrices.max())


@pytest.mark.parametrize("space", [(7,), (5, 6), (3, 4, 3), (5, 52)])
def test_posterior_means_are_those_of_dense_matrices(space, rng):
    bands = Bands(space, (1.0,) * len(space))
    covariance = Covariance.of(bands, falling(bands, rng, 3), 0.5 + rng.random(len(bands.frequency)))
    known = rng.random((3, *space)) < 0.6
    y = np.where(known, rng.standard_normal(known.shape), 0).astype(np.float32)
    found = FramePosterior(covariance, known, 0.01).mean(y, None, 400, 1e-7)
    prior, inside = dense(covariance), bands.padded(known.astype(float)).ravel() > 0
    gram = prior[np.ix_(inside, inside)] + 0.01 * np.eye(inside.sum())
    expected = prior[:, inside] @ np.linalg.solve(gram, y[known])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.frames.ravel(), expected, atol=1e-3 * scale)
    assert found.residual < 1e-5 and 0 < found.steps <= 400


def test_the_solution_does_not_depend_on_where_it_starts(rng):
    covariance, f = planted(rng)
    known = ~clouds(f.shape, rng)
    y = np.where(known, f, 0).astype(np.float32)
    posterior = FramePosterior(covariance, known, 1e-2)
    cold = posterior.mean(y, None, 100, 1e-5).frames
    warm = posterior.mean(y, rng.standard_normal(cold.shape).astype(np.float32), 100, 1e-5).frames
    assert np.sqrt(np.square(cold - warm).mean()) < 5e-3 * cold.std()


def test_the_variogram_is_that_of_pairs(rng):
    """Half mean squared differences of known pairs, one by one."""
    y, known = rng.standard_normal((3, 6, 5)), rng.random((3, 6, 5)) < 0.7
    found = Variogram.of(y, known, np.arange(3.0))
    lag, dy, dx = 1, 2, -1
    total, count = 0.0, 0
    for t, i, j in np.argwhere(known):
        t2, i2, j2 = t + lag, i + dy, j + dx
        if t2 < 3 and 0 <= i2 < 6 and 0 <= j2 < 5 and known[t2, i2, j2]:
            total, count = total + (y[t, i, j] - y[t2, i2, j2]) ** 2 / 2, count + 1
    at = (list(found.lags).index(1.0), dy, list(found.shifts[1]).index(dx))
    assert found.counts[at] == pytest.approx(count) and found.sums[at] == pytest.approx(total)


def test_a_planted_kernel_is_found(rng):
    """Frames of one Matérn kernel times an exponential one: the fitted covariance is theirs at short distances."""
    shape, term = (12, 64, 64), Term(1.0, Kernel(1.5, 4.0), Kernel(0.5, 5.0))
    bands, lags = Bands(shape[1:], (1.0, 1.0)), np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    density = term.space.density(bands.frequency, 2)
    white = np.linalg.cholesky(np.exp(-lags / 5.0)) @ rng.standard_normal((12, len(density)))
    f = bands.cropped(bands.levels[0].frames(white * np.sqrt(density / density.mean())))
    start = fit_start(f, np.ones(shape, bool), np.arange(12.0))
    assert max(start.stretch) < 1.2
    for distance, lag in ((1.0, 0.0), (4.0, 0.0), (0.0, 1.0), (2.0, 3.0)):
        at = np.array([distance]), np.array([lag])
        ours, sill = (
            sum(t.variance * float(t.space(h)[0] * t.time(k)[0]) for t in start.terms)
            for h, k in (at, (np.zeros(1), np.zeros(1)))
        )
        expected = 1 - float(term.space(at[0])[0] * term.time(at[1])[0])
        assert sill - ours == pytest.approx(expected, abs=0.12)


def test_planted_covariances_are_learned(rng):
    """Learning from a start without correlation in time approaches the error of the covariance that was planted."""
    truth, f = planted(rng)
    known = ~clouds(f.shape, rng)
    noisy = f + 0.1 * rng.standard_normal(f.shape).astype(np.float32)
    y = np.where(known, noisy, 0).astype(np.float32)

    def error(mean):
        return np.sqrt(np.square(mean - f)[~known].mean())

    best = error(truth.bands.cropped(FramePosterior(truth, known, 0.01).mean(y, None, 100, 1e-5).frames))
    blind = np.eye(8) * np.trace(truth.matrices, axis1=1, axis2=2)[:, None, None] / 8
    start = Covariance.of(truth.bands, blind, np.ones(len(truth.bands.frequency)))
    learner, errors = Learner(y, known, start, 0.05, 1e-3), []
    for _ in range(5):
        errors.append(error(learner.solve().frames))
        learner.learn()
    assert errors[0] > 1.5 * best
    assert errors[-1] < best + 0.5 * (errors[0] - best)
    assert learner.noise == pytest.approx(0.01, rel=0.6)


def test_the_noise_is_learned_alone_and_then_as_many_rounds_as_hidden_errors_ask_for(rng):
    """Under the planted covariance two steps find the planted noise; no round is kept that has a greater error."""
    truth, f = planted(rng)
    known, hidden = ~clouds(f.shape, rng), clouds(f.shape, rng)
    noisy = f + 0.1 * rng.standard_normal(f.shape).astype(np.float32)
    learner = Learner(np.where(known, noisy, 0).astype(np.float32), known, truth, 0.05, 1e-3)
    for _ in range(2):
        learner.solve()
        learner.learn(is_of_noise=True)
    assert learner.covariance is truth and learner.noise == pytest.approx(0.01, rel=0.2)
    found = follow(Problem.of(noisy, known, hidden, np.arange(8.0)), 3)
    assert found.rounds == int(np.argmin(found.errors)) < 2


def test_all_samples_are_learned_from_where_many_are_hidden(rng):
    """As many rounds as were kept start anew, as without anything hidden; few hidden samples change nothing."""
    _, f = planted(rng, (9, 20, 24))
    known, hidden, none = np.zeros((3, 9, 20, 24), bool)
    known[::2] = hidden[2:-1:4] = True
    few, many = (hidden & (f > np.quantile(f[hidden], q)) for q in (0.75, 0.5))  # a tenth and a fifth of the samples
    of_few, of_many, of_all = (Problem.of(f, known, h, np.arange(9.0)) for h in (few, many, none))
    found = replace(follow(of_many, 1), rounds=2)
    learner, twin = learned_from_all(of_many, found, 3).learner, follow(of_all, 2).learner
    np.testing.assert_array_equal(learner.covariance.matrices, twin.covariance.matrices)
    assert learner.noise == twin.noise and learned_from_all(of_few, found, 3) is found


def test_hidden_parts_are_gaps_of_other_frames(rng):
    land = np.zeros((24, 30), bool)
    land[:, :5] = True
    gaps = clouds((6, 24, 30), rng, 0.3)
    known = torch.from_numpy(~(gaps | land))
    assert are_areas(known.unsqueeze(0))
    generator = torch.Generator().manual_seed(0)
    hidden = hide_under_gaps(known.unsqueeze(0), generator)[0]
    assert not bool((hidden & ~known).any()) and 0.05 < float(hidden.sum() / known.sum()) < 0.5
    for k in range(6):
        if bool(hidden[k].any()):
            donors = [torch.equal(hidden[k], known[k] & ~known[j] & known.any(0)) for j in range(6)]
            assert any(donors)
    spots = torch.from_numpy((rng.random((6, 24, 30)) < 0.6) & ~land)
    assert not are_areas(spots.unsqueeze(0))
    weights = spots[None, None].float()
    share = ForwardModel.mask(weights).hide(0.1, generator, weights)
    assert 0.05 < float(share.sum() / spots.sum()) < 0.15


def test_gaps_of_a_small_part_of_each_frame_are_hidden_too(generator):
    known = torch.ones(1, 6, 24, 30, dtype=torch.bool)
    for k in range(6):
        known[0, k, 3 * k : 3 * k + 4, 4 * k : 4 * k + 4] = False  # a square that moves, 2 % of a frame
    hidden = hide_under_gaps(known, generator)
    assert not bool((hidden & ~known).any()) and int(hidden.sum()) >= 4 * 16


def cube(rng, share=0.4):
    _, f = planted(rng, (6, 24, 28))
    known = ~clouds(f.shape, rng, share)
    return torch.from_numpy(f).unsqueeze(-1), torch.from_numpy(known)


def test_fits_say_what_was_learned(rng, tmp_path):
    signal, known = cube(rng)
    fit = cn.fit(cn.sample(signal, known), prior=cn.Evolving(rounds=2))
    assert isinstance(fit.report, EvolvingReport) and fit.report.rounds == [int(np.argmin(fit.report.hidden_errors[0]))]
    made = fit.render(alignment="sample")
    error = (made - signal)[~known].square().mean().sqrt()
    assert float(error) < 0.8 * float(signal[~known].std())
    fit.save(tmp_path / "model.safetensors")
    read = cn.Reconstruction.load(tmp_path / "model.safetensors")
    assert torch.equal(read.render(), fit.render()) and read.report == fit.report


def test_fits_follow_offsets_and_factors(rng):
    """Rounding, which the learned noise enlarges, is 2 % of the signal's deviation at most."""
    signal, known = cube(rng, 0.3)  # its rounds differ by more than rounding
    one, other = (
        cn.fit(cn.sample(s, known), prior=cn.Evolving(rounds=1)).render(alignment="sample")
        for s in (signal, 300 - 50 * signal)
    )
    torch.testing.assert_close(other, 300 - 50 * one, atol=float(signal.std()), rtol=0)


@pytest.mark.slow
def test_channels_are_learned_apart(rng):
    signal, known = cube(rng)
    both = torch.cat([signal, signal.flip(0)], -1)
    prior = cn.Evolving(rounds=1)
    joint = cn.fit(cn.sample(both, known), prior=prior)
    assert len(joint.report.sigma) == 2
    alone = cn.fit(cn.sample(signal, known), prior=prior).render()
    torch.testing.assert_close(joint.render()[..., :1], alone, atol=2e-3, rtol=0)


@pytest.mark.parametrize("value", [0.0, 0.3])
def test_frames_of_one_value_are_filled_with_it(value, rng):
    """No pairs of them differ, so that there is no variogram to fit."""
    clip, known = np.full((8, 20, 24), value), rng.random((8, 20, 24)) < 0.6
    np.testing.assert_allclose(cn.inpaint(clip, known, prior=cn.Evolving()).signal, clip, atol=1e-12)


def test_unequal_times_are_followed(rng):
    """A frame near another in time resembles it more than the one on its other side."""
    y = rng.standard_normal((24, 24))
    base = np.fft.ifftn(np.fft.fftn(y) * np.exp(-100 * np.add.outer(*(np.fft.fftfreq(24) ** 2,) * 2))).real
    other = np.roll(base, 7, 0)
    times = (0.0, 1.0, 2.0, 8.0, 8.2, 9.0, 10.0)
    f = np.stack([np.cos(0.15 * t) * base + np.sin(0.15 * t) * other for t in times]) / base.std()
    known = np.ones(f.shape, bool)
    known[4] = False
    hidden = np.zeros(f.shape, bool)
    errors = []
    for at in (np.array(times), np.arange(7.0)):
        problem = Problem.of(f, known, hidden, at)
        errors.append(np.square(follow(problem, 0).estimate * problem.scale - f)[4].mean())
    assert errors[0] < 0.5 * errors[1]


def test_it_is_weighed_for_cubes_alone(rng):
    _, known = cube(rng)
    masked = cn.MaskedLattice(tuple(known.shape), weights=known.unsqueeze(-1).double())
    assert cn.Evolving() in suited(Setting(masked, 1)).priors
    flat = cn.MaskedLattice((24, 28), weights=known[0].unsqueeze(-1).double())
    assert not any(isinstance(prior, cn.Evolving) for prior in suited(Setting(flat, 1)).priors)
    assert cn.Evolving(times=(0.0, 2.0)).text == "evolving" and cn.Evolving(rounds=2).text == "evolving:rounds=2"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"times": (0.0, 0.0)}, "`times`: expected increasing"),
        ({"times": (0.0, 1.0)}, "`times`: expected 6 numbers"),
        ({"rounds": -1}, "`rounds`"),
        ({"hold_out": 1.0}, "`hold_out`"),
    ],
)
def test_wrong_parameters_are_refused(options, words, rng):
    signal, known = cube(rng)
    with pytest.raises(ValueError, match=words):
        cn.fit(cn.sample(signal, known), prior=cn.Evolving(**options))


def test_what_are_no_frames_is_refused(rng):
    with pytest.raises(ValueError, match="`geometry`: expected frames"):
        cn.fit(cn.sample(torch.rand(30, 1), "random:0.5"), prior=cn.Evolving())
    with pytest.raises(ValueError, match="`geometry`: expected frames"):
        cn.fit(cn.sample(torch.rand(8, 8, 8, 1), "every:2"), prior=cn.Evolving())


def test_frames_of_a_channel_of_which_nothing_is_known_are_refused_and_no_candidates(rng):
    signal, known = cube(rng)
    both = torch.stack([torch.as_tensor(known), torch.zeros(known.shape, dtype=torch.bool)], -1)
    samples = cn.sample(torch.as_tensor(signal).expand(*both.shape), both)
    with pytest.raises(ValueError, match="expected a known value in each channel"):
        cn.fit(samples, prior=cn.Evolving())
    prior = suited(Setting(samples.geometry, 2))
    assert cn.Evolving() not in getattr(prior, "priors", [prior])
