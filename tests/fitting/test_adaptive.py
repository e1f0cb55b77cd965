import math
from dataclasses import replace

import pytest
import torch

from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.media import load
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr, snr
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.modes import FourierModes
from coordnet.plans.systems import effective_density
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive.spectrum import decorrelate, smoothest_modes, start_penalty, update
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import lattice_points
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import synthetic_photograph


def texture(size, seed=0):
    """A stationary texture: a ring of oriented waves, which no smoothness prior foresees."""
    g = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(size) / size, torch.arange(size) / size, indexing="ij")
    waves = torch.zeros(size, size)
    for _ in range(12):
        k, angle, phase = torch.rand(3, generator=g)
        frequency = size / 5 + 2 * k
        direction = 0.6 + 0.3 * angle
        waves += torch.sin(2 * math.pi * (frequency * (x * direction.cos() + y * direction.sin()) + phase))
    return (0.5 + waves / 30).unsqueeze(-1)


def rough_field(size, power):
    """A random field whose power falls with the frequency to some power."""
    white = torch.randn(2 * size, 2 * size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, x = torch.meshgrid(*2 * [torch.fft.fftfreq(2 * size, dtype=torch.float64)], indexing="ij")
    field = torch.fft.ifft2(torch.fft.fft2(white) / (y.square() + x.square() + 1e-4) ** (power / 4)).real
    return (field / field.std())[:size, :size, None]


def fit(samples, prior, **options):
    return fit_closed_form(FourierEncoding.like(samples), samples, prior=prior, **options)


def held_out(made, samples, truth):
    return psnr(made.render(), truth, ~samples.geometry.known(truth.shape[-1]))


@pytest.fixture(scope="module")
def textured():
    """A texture, samples of it, and their fit."""
    truth = texture(96)
    samples = sample(truth, "random:0.4", generator=torch.Generator().manual_seed(1))
    return truth, samples, fit(samples, Adaptive())


@pytest.fixture(scope="module")
def small():
    """Samples of a small picture, and their fit by two rounds."""
    samples = sample(synthetic_photograph(24, 20), "random:0.5")
    return samples, fit(samples, Adaptive(rounds=2))


def test_it_learns_a_texture_that_smoothness_misses(textured):
    truth, samples, adaptive = textured
    smooth = fit(samples, Smoothness(1.5, 0.01))
    assert held_out(adaptive, samples, truth) > held_out(smooth, samples, truth) + 6
    assert adaptive.report.rounds >= 1
    assert held_out(adaptive, samples, truth) > psnr(baselines.cubic(samples), truth, ~samples.geometry.known(1))


def test_the_learned_spectrum_has_its_mass_where_the_waves_are(textured):
    truth, samples, made = textured
    modes = FourierModes(FourierEncoding.like(samples))
    variance = 1 / made.learned["penalty"][0, 0]
    z = modes.adjoint((truth - truth.mean()).movedim(-1, 0).unsqueeze(0))[0, 0].abs().square()
    outer = modes.roughness((1.0, 1.0)) > 0.5
    strongest = z[outer] > z[outer].quantile(0.995)
    assert float(variance[outer][strongest].median()) > 20 * float(variance[outer][~strongest].median())


def test_no_round_is_kept_where_none_helps():
    """White noise has nothing between its samples."""
    truth = torch.rand(64, 64, 1, generator=torch.Generator().manual_seed(3))
    made = fit(sample(truth, "random:0.05"), Adaptive())
    tried = made.report.tried
    best = max((start.hold_out_psnr for start in tried), key=max)
    assert made.report.rounds == max(range(len(best)), key=best.__getitem__)


def test_solves_go_on_until_their_residual_is_negligible_beside_the_error():
    """A texture of few waves is found so exactly that solves as for photographs would leave it unfinished."""
    truth = texture(96)
    samples = sample(truth, "random:0.6", generator=torch.Generator().manual_seed(1))
    made = fit(samples, Adaptive())
    settled = Adaptive().settled(made.report)
    finest = fit(samples, replace(settled, tolerance=1e-6), solver=ConjugateGradients(steps=5000))
    for found in made, fit(samples, settled):
        assert held_out(found, samples, truth) > held_out(finest, samples, truth) - 3


def test_a_settled_prior_starts_where_hidden_samples_chose(textured):
    _, samples, adaptive = textured
    settled = Adaptive().settled(adaptive.report)
    assert settled.hold_out == 0 and settled.rounds == adaptive.report.rounds
    again = fit(samples, settled)
    assert again.report.start == adaptive.report.start and psnr(again.render(), adaptive.render()) > 40
    assert settled.settled(again.report) is settled


def test_the_effective_noise_is_what_missing_samples_add(generator):
    """s²/q* is the fixed point τ = s²/q + (1 - q)/q mean(1 / (1/τ + 1/P))."""
    spectrum = torch.rand(1, 1, 500, generator=generator, dtype=torch.float64) * 3
    tau = 0.2 / effective_density(0.2 / spectrum, 0.3)
    posterior = 1 / (1 / tau + 1 / spectrum)
    assert torch.allclose(tau, 0.2 / 0.3 + 0.7 / 0.3 * posterior.mean(), atol=1e-10)
    assert torch.allclose(effective_density(0.2 / spectrum, 1.0), torch.ones((), dtype=torch.float64))


PENALTIES = {
    "rough": 0.01 * torch.linspace(0, 4, 2001) ** 1.5,
    "strong": 100 * torch.linspace(0.001, 4, 2001),
    "weak": 1e-4 * torch.linspace(0, 1, 2001),
    "two": torch.cat([torch.full((1500,), 1e-6), torch.full((500,), 10.0)]),
    "wide": torch.logspace(-8, 8, 2001),
    "many": 0.01 * torch.linspace(0, 4, 20_001) ** 1.5,
    "few are zero": (torch.arange(20_001) % 9 > 0).float(),  # those from which the steps begin
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=list(PENALTIES))
@pytest.mark.parametrize("density", [0.001, 0.05, 0.25, 0.5, 0.9, 1.0, 1.2, 3.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fixed_points_are_found_whatever_the_penalty(penalty, density, dtype):
    penalty = penalty.reshape(1, 1, -1).to(dtype)
    q = effective_density(penalty, density)
    others = (1 / (q.double() + penalty.double())).mean()
    assert float(q) > 0
    assert float(q) == pytest.approx(float(density / (1 + (1 - density) * others)), rel=1e-3)


def test_an_update_finds_the_variances_of_a_planted_spectrum(generator):
    """Fully sampled, P ∝ 1 + |k|⁻² planted: the updates' fixed point has the planted shape."""
    modes = FourierModes(FourierEncoding.like(sample(torch.rand(64, 64, 1), "full"), padding=0))
    roughness = modes.roughness((1.0, 1.0))
    planted = 1 / (0.01 + roughness)
    z = modes.adjoint(torch.randn(1, 1, 64, 64, generator=generator)) * planted.sqrt()
    smoothest = smoothest_modes(modes, (1.0, 1.0))
    penalty = 1e-3 * (roughness + 1e-3) ** 1.5
    penalty = penalty.reshape(1, 1, *penalty.shape)
    for _ in range(8):
        penalty = update(modes, z, penalty, smoothest, 1.0)
    ratio = (penalty[0, 0] * planted)[~smoothest].log()
    assert float(ratio.std()) < 0.35


def test_channels_that_vary_together_are_solved_together():
    """Entry-wise missing data of a grey picture in three channels."""
    truth = synthetic_photograph(40, 40, 1).expand(40, 40, 3) + 0.01 * torch.rand(40, 40, 3)
    samples = sample(truth, "entries:0.3")
    rotated, apart = fit(samples, Adaptive()), fit(samples, Adaptive(rotated=False))
    assert held_out(rotated, samples, truth) > held_out(apart, samples, truth) + 2


def test_rotations_are_orthonormal_and_variances_those_of_the_channels(generator):
    mixing = torch.tensor([[1.0, 0.2], [0.9, -0.3]])
    truth = torch.randn(40, 40, 2, generator=generator) @ mixing.T
    samples = sample(truth, "full")
    measurement = ForwardModel.mask(torch.ones(1, 1, 40, 40))
    values = truth.movedim(-1, 0).unsqueeze(0)
    problem = decorrelate(FourierModes(FourierEncoding.like(samples)), measurement, values)
    rotation = problem.rotation[0]
    assert torch.allclose(rotation @ rotation.T, torch.eye(2), atol=1e-5)
    covariance = problem.values.flatten(2)[0] @ problem.values.flatten(2)[0].T / 1600
    assert torch.allclose(covariance, torch.diag(problem.variance.flatten()), atol=1e-3)


def test_a_mosaic_is_demosaicked():
    image = load("astronaut")[::8, ::8]
    samples = sample(image, "bayer:RGGB")
    inside = (slice(8, -8), slice(8, -8))
    adaptive, apart = fit(samples, Adaptive()), fit(samples, Adaptive(rotated=False))
    assert psnr(adaptive.render()[inside], image[inside]) > psnr(apart.render()[inside], image[inside]) + 3


@pytest.mark.parametrize("encoder", ["fourier", "gaussian"])
@pytest.mark.parametrize("grid", [(200,), (24, 20), (10, 9, 8), (5, 6, 5, 4)])
def test_every_number_of_axes_and_every_basis(grid, encoder):
    axes = [torch.linspace(0, 2, n) for n in grid]
    truth = sum(a.cos() for a in torch.meshgrid(*axes, indexing="ij")).unsqueeze(-1) / len(grid)
    samples = sample(truth, "random:0.4")
    encoding = FourierEncoding.like(samples) if encoder == "fourier" else ComplexEncoding.like(Gaussian, samples)
    made = fit_closed_form(encoding, samples, prior=Adaptive())
    assert snr(made.render() - truth.mean(), truth - truth.mean(), ~samples.geometry.known(1)) > 15


def test_scattered_points(generator):
    points = torch.rand(900, 2, generator=generator)
    values = (6 * points[:, :1]).sin() * (5 * points[:, 1:]).cos()
    samples = Samples(ScatteredPoints((32, 32), points), values)
    made = fit(samples, Adaptive())
    fresh = torch.rand(400, 2, generator=generator) * 0.9 + 0.03
    truth = (6 * fresh[:, :1]).sin() * (5 * fresh[:, 1:]).cos()
    assert float((made(fresh) - truth).norm() / truth.norm()) < 0.05


def holes(size):
    mask = torch.ones(size, size)
    for top, left in ((10, 12), (50, 20), (34, 60)):
        mask[top : top + 14, left : left + 14] = 0
    return mask


def test_holes_are_filled_in_constrained_form_and_the_known_is_kept():
    truth = texture(96)
    mask = holes(96)
    samples = sample(truth, mask)
    made = fit(samples, Adaptive())
    assert "constrained form" in made.report.method
    assert torch.allclose(made.render()[mask > 0], truth[mask > 0], atol=1e-5)
    smooth = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Smoothness(1.0))
    assert held_out(made, samples, truth) > held_out(smooth, samples, truth) + 3


def test_thin_gaps_settle_in_few_steps_at_the_minimum_of_their_spectrum():
    """The dense twin solves K_uu x = -K_uk y for the spectrum that was learned, with unknown padding."""
    truth, known = synthetic_photograph(30, 26, channels=1), torch.ones(30, 26, 1)
    for k in range(3, 26, 7):
        known[:, k] = known[k, :] = 0
    samples = sample(truth, known[..., 0])
    made, exact = (fit(samples, Adaptive(), **options) for options in ({}, {"solver": ConjugateGradients(1e-6)}))
    modes = FourierModes(FourierEncoding.like(samples)).on_padded_grid()
    impulses = torch.eye(math.prod(modes.lattice)).reshape(-1, 1, *modes.lattice)
    precision = modes.filter(impulses, made.learned["penalty"]).flatten(1).double()
    whole = torch.zeros(modes.lattice)
    whole[:30, :26] = known[..., 0]
    u = whole.flatten() == 0
    y = torch.zeros(modes.lattice, dtype=torch.float64)
    y[:30, :26] = (truth[..., 0] - made.offset).double()
    x = torch.linalg.solve(precision[u][:, u], -precision[u][:, ~u] @ y.flatten()[~u])
    minimum = y.flatten().masked_scatter(u, x).reshape(modes.lattice)[:30, :26] + made.offset
    inside = known[..., 0] == 0
    change = (made.render()[..., 0] - minimum)[inside].square().mean()
    assert change < 0.01**2 * (minimum - truth[..., 0])[inside].square().mean()
    assert made.report.iterations < 0.5 * exact.report.iterations


def test_what_is_hidden_is_shaped_like_what_is_missing(generator):
    mask = holes(96).reshape(1, 1, 96, 96)
    hidden = ForwardModel.mask(mask).hide(0.1, generator, mask)
    assert bool((hidden * (1 - mask) == 0).all())
    assert float(hidden.sum()) > 0.6 * float((1 - mask).sum())
    rows = hidden[0, 0].sum(1)
    assert float(rows.max()) >= 14
    random = (torch.rand(1, 1, 96, 96, generator=generator) < 0.5).float()
    share = float(ForwardModel.mask(random).hide(0.1, generator, random).sum() / random.sum())
    assert share == pytest.approx(0.1, abs=0.03)
    diagonal = torch.eye(4).reshape(1, 1, 4, 4)
    assert ForwardModel.mask(diagonal).hide(0.1, generator, diagonal) is None


def test_rounds_start_from_the_power_law():
    samples = sample(synthetic_photograph(32, 32), "random:0.5")
    modes = FourierModes(FourierEncoding.like(samples))
    weights = samples.geometry.weights.movedim(-1, 0).unsqueeze(0)
    values = (samples.values - samples.mean()).movedim(-1, 0).unsqueeze(0) * weights
    problem = decorrelate(modes, ForwardModel.mask(weights), values)
    start = Smoothness(1.5, 0.01)
    penalty = start_penalty(problem, start)
    largest = problem.variance.argmax()
    expected = 0.01 * modes.roughness((1.0, 1.0)) ** 1.5
    assert torch.allclose(penalty[0, largest], expected)


def test_saved_with_its_spectrum(small, tmp_path):
    made = small[1]
    made.save(tmp_path / "model.safetensors")
    again = Reconstruction.load(tmp_path / "model.safetensors")
    assert torch.equal(again.render((50, 41)), made.render((50, 41)))
    assert torch.equal(again.learned["penalty"], made.learned["penalty"])
    assert again.report == made.report


def test_seeds_reproduce_and_renders_are_the_series_at_points(small):
    samples, made = small
    assert torch.equal(made.render(), fit(samples, Adaptive(rounds=2)).render())
    points = lattice_points(samples.geometry.axes, torch.float32)
    assert torch.allclose(made(points), made.render(), atol=1e-4)


def test_every_signal_of_a_batch_decides_for_itself(generator):
    pictures = torch.stack([synthetic_photograph(12, 10), torch.rand(12, 10, 3, generator=generator)])
    geometry = sample(pictures[0], "random:0.5", generator=generator).geometry
    prior = Adaptive((Smoothness(1.5, 0.01), Smoothness(2.0, 0.003)), rounds=1)
    made = plan(FourierEncoding.like(geometry), geometry, prior=prior)
    together = made.fit(pictures * geometry.weights)
    for report, picture in zip(together.report.signals, pictures, strict=True):
        alone = made.fit(picture * geometry.weights).report
        assert report == replace(alone, prior=None)


@pytest.mark.parametrize("prior", [Adaptive(), Smoothness()])
def test_five_axes(prior, generator):
    positions = torch.meshgrid(*[torch.linspace(0, 1, 5)] * 5, indexing="ij")
    signal = torch.stack(positions, -1).sum(-1, keepdim=True).sin()
    samples = sample(signal, "random:0.5", generator=generator)
    fit = fit_closed_form(FourierEncoding.like(samples, padding=1), samples, prior=prior)
    hidden = ~samples.geometry.known(1)
    flat = signal[hidden].mean().expand_as(signal)
    assert psnr(fit.render(), signal, hidden, data_range=2.0) > psnr(flat, signal, hidden, data_range=2.0) + 6


@pytest.mark.parametrize(
    ("truth", "pattern"),
    [
        (torch.full((12, 10, 3), 0.4), "random:0.5"),
        (synthetic_photograph(12, 10), torch.ones(12, 10)),
        (synthetic_photograph(1, 30), "random:0.5"),
        (synthetic_photograph(30, 1), "random:0.5"),
        (torch.cat([synthetic_photograph(16, 16, 2), torch.full((16, 16, 1), 0.3)], -1), "random:0.5"),
        (torch.cat([synthetic_photograph(16, 16, 2), torch.full((16, 16, 1), 0.3)], -1), "entries:0.5"),
    ],
)
def test_degenerate_signals_give_sensible_results(truth, pattern):
    samples = sample(truth, pattern)
    estimate = fit(samples, Adaptive()).render()
    assert bool(torch.isfinite(estimate).all())
    known = samples.geometry.known(truth.shape[-1])
    assert float((estimate - truth)[known].abs().max()) < 0.15
    assert float(estimate.min()) > truth.min() - 0.5
    assert float(estimate.max()) < truth.max() + 0.5


def test_a_single_known_pixel_is_a_constant():
    mask = torch.zeros(9, 8)
    mask[3, 4] = 1
    truth = synthetic_photograph(9, 8)
    assert torch.allclose(fit(sample(truth, mask), Adaptive()).render(), truth[3, 4].expand(9, 8, 3), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": -1}, "`rounds`"),
        ({"hold_out": 1.0}, "`hold_out`"),
        ({"hold_out": -0.1}, "`hold_out`"),
        ({"tolerance": 0.0}, "`tolerance`"),
    ],
)
def test_bad_priors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Adaptive(**options)


@pytest.mark.parametrize("is_taught", [False, True])
def test_a_smooth_field_is_solved_far_enough_from_nothing(monkeypatch, is_taught):
    """Large lattices are, whose middle chose the start, and those with a spectrum that another fit learned."""
    truth = rough_field(128, power=5)
    known = torch.rand(128, 128, generator=torch.Generator().manual_seed(0)) < 0.1
    samples, prior = sample(truth, known), Adaptive()
    encoding = FourierEncoding.like(samples)
    if is_taught:
        first = fit_closed_form(encoding, samples, prior)
        prior = prior.taught([(first.report, first.learned)])
    monkeypatch.setattr("coordnet.priors.adaptive.plan.CROP", 1024)
    solvers = ConjugateGradients(), ConjugateGradients(1e-7, 20_000)
    fits = [fit_closed_form(encoding, samples, prior, solver=solver) for solver in solvers]
    errors = [(fit.render() - truth)[~known].square().mean() for fit in fits]
    assert errors[0] < 1.5 * errors[1]


def test_whole_frames_decide_for_a_large_clip_with_missing_frames(monkeypatch):
    monkeypatch.setattr("coordnet.priors.adaptive.plan.CROP", 288)
    clip = torch.rand(40, 10, 12, 1, generator=torch.Generator().manual_seed(0))
    known = torch.ones(40, 10, 12)
    known[1::2] = 0
    samples = sample(clip, known)
    plan_of_clip = plan(FourierEncoding.like(samples), samples.geometry, Adaptive())
    held_out = plan_of_clip.solve_and_hold_out(clip[None, ..., 0] * known)[1]
    assert held_out.part == (slice(10, 29), slice(0, 10), slice(0, 12))
    assert not bool((held_out.shown & held_out.hidden).any()) and int(held_out.hidden.sum()) > 240
