"""Thin plates: their energy and solves against dense twins, planted answers, and when they are chosen."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

import coordnet as cn
from coordnet.encodings.blending import polynomial_weights
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.linalg.borders import continue_smoothly
from coordnet.priors.plates import errors
from coordnet.priors.plates import solve as solves
from coordnet.priors.plates.field import Field, plate_energy, polynomials
from coordnet.sampling import Axis, lattice_points
from coordnet.sampling.grids import MaskedLattice
from tests.helpers import synthetic_photograph


def fitted(samples, prior):
    return fit_closed_form(cn.FourierEncoding.like(samples), samples, prior=prior)


def on_grid(fit):
    return fit.on_axes(tuple(Axis(n) for n in fit.lengths))


def waves(shape, channels=1):
    x = lattice_points(tuple(Axis(n) for n in shape))
    return torch.stack([0.5 + 0.3 * (5 * x.sum(-1) + c).sin() for c in range(channels)], -1)


def masked(signal, share, seed=0):
    return cn.sample(signal, f"random:{share}", generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("lattice", [(9,), (6, 5), (3, 4, 5)])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_energy_is_that_of_all_mixed_differences(lattice, order):
    """The twin takes one difference after another along every sequence of axes, which counts p!/α! by itself."""
    f = np.random.default_rng(0).normal(size=lattice)
    total = 0.0
    for axes in itertools.product(range(len(lattice)), repeat=order):
        difference = f
        for axis in axes:
            difference = np.diff(difference, axis=axis)
        total += np.square(difference).sum()
    assert f.ravel() @ plate_energy(lattice, order) @ f.ravel() == pytest.approx(total)


def test_a_corner_adds_to_the_squared_frequencies_of_waves_and_axes_have_weights():
    """The symbol of first differences is 2 sin(ω/2); waves on a torus are eigenvectors."""
    i, j = np.indices((12, 10))
    wave = np.cos(2 * np.pi * (3 * i / 12 + 2 * j / 10)).ravel()
    first, second = 4 * np.sin(np.pi * 3 / 12) ** 2, 4 * np.sin(np.pi * 2 / 10) ** 2
    torus = {"periodic": (True, True)}
    found = plate_energy((12, 10), 3, **torus, corner=0.7) @ wave
    np.testing.assert_allclose(found, (0.7**2 + first + second) ** 3 * wave, atol=1e-10)
    square = 0.3 * first + 5 * second
    found = plate_energy((12, 10), 3, **torus, anisotropy=(0.3, 5.0)) @ wave
    np.testing.assert_allclose(found, square**3 * wave, atol=1e-10)
    found = plate_energy((12, 10), 1.5, 0.4, **torus, anisotropy=(0.3, 5.0)) @ wave
    np.testing.assert_allclose(found, (0.4 * square + square**2 / 0.4) / 2 * wave, atol=1e-10)


def test_plates_with_a_corner_are_matern_kriging():
    """On a row of many nodes, order 2 has Matérn's covariance of smoothness 3/2, (1 + κr) exp(-κr)."""
    known = np.zeros(300, dtype=bool)
    known[[100, 112, 118, 140, 151, 155, 190]] = True
    values = np.random.default_rng(0).normal(size=300)
    values -= values[known].mean()
    fit = fitted(
        cn.sample(torch.from_numpy(values)[:, None], torch.from_numpy(known)), cn.ThinPlate(2, math.inf, corner=0.1)
    )
    r = 0.1 * np.abs(np.arange(300)[:, None] - np.flatnonzero(known))
    covariance = (1 + r) * np.exp(-r)
    kriged = covariance @ np.linalg.solve(covariance[known], values[known])
    np.testing.assert_allclose(on_grid(fit)[50:250, 0], kriged[50:250], atol=0.01 * np.ptp(kriged))


@pytest.mark.parametrize("anisotropy", [(), (1.0, 9.0)])
@pytest.mark.parametrize("cutoff", [math.inf, 0.8])
def test_the_solve_has_a_dense_twin(cutoff, anisotropy):
    samples = masked(waves((8, 7), channels=2), 0.6)
    known = samples.geometry.known(1).flatten().numpy()
    energy, y = (
        plate_energy((8, 7), 2, anisotropy=anisotropy).toarray(),
        (samples.values - samples.mean()).flatten(0, 1).numpy(),
    )
    if cutoff == math.inf:
        f = y.copy()
        f[~known] = np.linalg.solve(energy[np.ix_(~known, ~known)], -energy[np.ix_(~known, known)] @ y[known])
    else:
        f = np.linalg.solve(np.diag(known * 1.0) + cutoff**-4 * energy, known[:, None] * y)
    expected = torch.from_numpy(f).reshape(8, 7, 2) + samples.mean()
    fit = fitted(samples, cn.ThinPlate(2, cutoff, anisotropy=anisotropy))
    torch.testing.assert_close(on_grid(fit), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("shape", [(24,), (12, 10), (7, 6, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polynomials_below_the_order_are_recovered(shape, dtype):
    """Beyond the outermost samples too, and in every channel."""
    x = lattice_points(tuple(Axis(n) for n in shape)).sum(-1)
    signal = torch.stack([1 + x - x.square(), 3 * x.square()], -1).to(dtype)
    fit = fitted(masked(signal, 0.4), cn.ThinPlate(3, math.inf))
    torch.testing.assert_close(on_grid(fit), signal, atol=1e-8 if dtype == torch.float64 else 1e-5, rtol=0)
    assert fit.report.relative_residual < 1e-6


@pytest.mark.parametrize("dims", [1, 2])
def test_scattered_points_determine_a_polynomial_everywhere(dims, generator):
    points = torch.rand(60, dims, generator=generator, dtype=torch.float64) * 0.8

    def cubic(x):
        return (x.sum(-1, keepdim=True) - 0.5) ** 3

    samples = cn.Samples(cn.ScatteredPoints((10,) * dims, points), cubic(points))
    fit, where = fitted(samples, cn.ThinPlate(4)), torch.rand(50, dims, generator=generator, dtype=torch.float64) * 0.9
    torch.testing.assert_close(fit(where), cubic(where), atol=1e-7, rtol=0)


@pytest.mark.parametrize("count", [6, 8])  # quintic and septic
def test_weights_of_some_nodes_reproduce_polynomials_of_a_degree_below_their_number(count):
    x = torch.linspace(-0.5, count - 0.5, 13, dtype=torch.float64)
    powers = torch.arange(count, dtype=torch.float64).unsqueeze(1) ** torch.arange(count)
    torch.testing.assert_close(polynomial_weights(x, count) @ powers, x.unsqueeze(1) ** torch.arange(count))


@pytest.mark.parametrize("length", [4, 9])  # with the whole of a row near the gap, and a part
def test_a_smooth_continuation_has_the_least_differences(length, generator):
    f = torch.rand(1, 2, length, 1, generator=generator, dtype=torch.float64)
    made = continue_smoothly(f, (length + 5, 1), 3)
    torch.testing.assert_close(made[:, :, :length], f)

    def energy(g):
        for _ in range(3):
            g = g.roll(-1, 2) - g
        return g.square().sum()

    gap = made[:, :, length:].clone().requires_grad_()
    energy(torch.cat([f, gap], 2)).backward()
    assert gap.grad is not None and float(gap.grad.abs().max()) < 1e-9


def test_noise_lowers_the_cutoff_and_its_absence_raises_the_order(generator):
    clean = waves((40, 40))
    noisy = clean + 0.01 * torch.randn(clean.shape, generator=generator, dtype=torch.float64)
    exact, smoothed = (fitted(masked(f, 0.4), cn.ThinPlate()) for f in (clean, noisy))
    assert exact.report.cutoff is None and exact.report.order == 6
    assert smoothed.report.cutoff <= 1.0
    assert cn.psnr(on_grid(exact), clean) > 90 > cn.psnr(on_grid(smoothed), clean) > 46  # the noise has 40 dB
    assert exact.report.hold_out_psnr["plates"] > 80


def test_each_channel_may_have_its_own_mask_and_each_signal_its_own_choice(generator):
    signal = waves((20, 18), channels=2)
    samples = cn.sample(signal, "entries:0.5", generator=generator)
    assert cn.psnr(on_grid(fitted(samples, cn.ThinPlate(4, math.inf))), signal) > 60
    one = masked(signal, 0.5)
    for prior in (cn.ThinPlate(4, math.inf), cn.ThinPlate(4)):
        both = plan(cn.FourierEncoding.like(one), one.geometry, prior, dtype=torch.float64)
        batch = both.fit(torch.stack([one.values, 2 * one.values]))
        torch.testing.assert_close(on_grid(batch)[1], 2 * on_grid(fitted(one, prior)), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("power", "ratio"), [(2, 1.03), (4, 0.85)])
def test_rows_that_skip_samples_are_interpolated_by_the_order_of_their_spectrum(power, ratio, generator):
    frequencies = torch.arange(1, 2049, dtype=torch.float64)
    phases = torch.randn(2, 2048, generator=generator, dtype=torch.float64)
    modes = torch.complex(*phases) / (1 + (frequencies / 150) ** 2) ** (power / 2)
    row = torch.fft.irfft(torch.cat([torch.zeros(1), modes]))[:2000, None]
    fit = cn.fit(cn.sample(row, "every:2"))
    chosen = [c.prior for c in fit.report.candidates if c.weight]
    assert all(any(text in prior for text in ("cutoff=inf", "spline", "nugget=0")) for prior in chosen)
    middle = slice(101, 1900, 2)
    cubic = CubicSpline(range(0, 2000, 2), row[::2, 0])(range(101, 1900, 2))
    errors = [(f - row[middle, 0]).square().mean() for f in (on_grid(fit)[middle, 0], torch.from_numpy(cubic))]
    assert errors[0] < ratio * errors[1]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_plate_of_a_row_is_the_natural_spline_and_goes_on_as_a_polynomial(order, generator):
    row = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    row[:, 1] = (torch.arange(40).double() / 20 - 1) ** (order - 1)
    known = torch.zeros(40, dtype=torch.bool)
    known[torch.tensor([3, 4, 7, 9, 10, 14, 15, 17, 20, 22, 25, 26, 29, 31, 33])] = True
    made = on_grid(fitted(cn.sample(row, known), cn.ThinPlate(order, math.inf))).numpy()
    at = np.flatnonzero(known.numpy())
    np.testing.assert_allclose(made[at], row.numpy()[at], atol=1e-9)
    np.testing.assert_allclose(made[:, 1], row[:, 1].numpy(), atol=1e-9)
    for outside in (made[: at[0] + 1], made[at[-1] :]):
        np.testing.assert_allclose(np.diff(outside, order, axis=0), 0, atol=1e-7)
    if order == 2:
        inside = np.arange(at[0], at[-1] + 1)
        peer = CubicSpline(at, row.numpy()[at], bc_type="natural")(inside)
        np.testing.assert_allclose(made[inside], peer, atol=1e-9)


@pytest.mark.slow
def test_aliasing_of_a_lattice_that_skips_samples_is_not_smoothed_as_noise(generator):
    frequencies = (
        torch.cartesian_prod(torch.fft.fftfreq(96), torch.fft.fftfreq(96)).double().norm(dim=1).reshape(96, 96)
    )
    white = torch.fft.fft2(torch.randn(96, 96, generator=generator, dtype=torch.float64))
    texture = torch.fft.ifft2(white * frequencies.clamp(min=0.01) ** -1.5).real.unsqueeze(-1)
    rough = waves((96, 96)) + texture / texture.std()
    tried = [c.prior for c in cn.fit(cn.sample(rough, "every:3")).report.candidates]
    assert tried and not [prior for prior in tried if "cutoff" in prior and "inf" not in prior]


def test_a_strided_row_is_reconstructed_on_its_whole_grid():
    signal = waves((64,))
    samples = cn.sample(signal, "every:2+1")
    fit = fitted(samples, cn.ThinPlate(5, math.inf))
    assert fit.lengths == (64,)
    assert fit.report.beyond_samples == 1 / 64
    torch.testing.assert_close(on_grid(fit)[1::2], signal[1::2])
    assert cn.psnr(on_grid(fit), signal) > 80


def test_the_report_says_where_samples_end():
    weights = torch.zeros(20, 20, 1)
    weights[5:15, 5:15] = 1
    values = waves((20, 20)) * weights
    fit = fitted(cn.Samples(MaskedLattice((20, 20), weights=weights), values), cn.ThinPlate(2, math.inf))
    assert fit.report.beyond_samples == 0.75


def test_a_render_between_the_nodes_is_as_accurate():
    fit = fitted(masked(waves((32, 32)), 0.5), cn.ThinPlate(6, math.inf))
    fine = fit.render((64, 64), alignment="sample")[:63, :63]
    assert cn.psnr(fine, waves((64, 64))[:63, :63]) > 80


@pytest.mark.parametrize("drops, method", [((1e-6,), "GMRES"), ((0.9,), "sparse factorization")])
def test_an_incomplete_factorization_that_fails_gives_way_to_the_exact_one(monkeypatch, drops, method):
    samples, prior = masked(waves((24, 24)), 0.3), cn.ThinPlate(4, math.inf)
    exact = on_grid(fitted(samples, prior))
    monkeypatch.setattr(solves, "FACTORIZED_NODES", {2: 0})
    monkeypatch.setattr(solves, "BANDED_NUMBERS", 0)
    monkeypatch.setattr(solves, "DROPS", drops)
    monkeypatch.setattr(solves, "RESTART", 8)
    fit = fitted(samples, prior)
    assert method in fit.report.method and fit.report.relative_residual < 1e-8
    torch.testing.assert_close(on_grid(fit), exact, atol=1e-6, rtol=0)


def test_samples_that_do_not_determine_an_order_lower_it():
    weights = torch.zeros(9, 9, 1)
    weights[4] = 1
    line = cn.Samples(MaskedLattice((9, 9), weights=weights), waves((9, 9)) * weights)
    with pytest.warns(cn.CoordnetWarning, match="do not determine plates of order 3; those of order 1"):
        fit = fitted(line, cn.ThinPlate(3, math.inf))
    assert fit.report.order == 1 and polynomials(3, 2) == 6


@pytest.mark.parametrize("options", [{"order": 0}, {"order": 9}, {"cutoff": 0.0}, {"hold_out": 1.0}])
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}`"):
        cn.ThinPlate(**options)


def test_weights_of_axes_are_one_for_each_axis_of_a_lattice():
    with pytest.raises(ValueError, match="`anisotropy`: expected one weight per axis"):
        fitted(masked(waves((12, 12)), 0.5), cn.ThinPlate(2, anisotropy=(1.0, 4.0, 4.0)))
    with pytest.raises(ValueError, match="`anisotropy`: expected a positive finite number"):
        cn.ThinPlate(2, anisotropy=(1.0, 0.0))
    points = cn.points(np.random.default_rng(0).random((40, 2)), np.arange(40.0))
    with pytest.raises(ValueError, match="`anisotropy`: expected none for points"):
        cn.fit(points, prior=cn.ThinPlate(2, anisotropy=(1.0, 4.0)))


def test_another_encoding_than_fourier_s_is_refused():
    samples = masked(waves((12, 12)), 0.5)
    with pytest.raises(ValueError, match="`encoding`: expected a FourierEncoding"):
        fit_closed_form(cn.ComplexEncoding.like(cn.Gaussian, samples), samples, prior=cn.ThinPlate())


@pytest.mark.slow
def test_a_hole_in_the_middle_makes_no_trial_longer_than_a_part_of_limited_size(monkeypatch):
    """Where a part has hardly a sample, plates on all of a picture would take longer than its fit."""
    sizes = []
    for name in ("_exact", "_iterated"):
        work = getattr(solves, name)
        monkeypatch.setattr(solves, name, lambda a, b, *rest, work=work: (sizes.append(len(b)), work(a, b, *rest))[1])
    picture, known = synthetic_photograph(200, 230, 1), torch.ones(200, 230)
    known[40:-40, 40:-40] = 0
    report = cn.fit(cn.sample(picture, known)).report
    assert report.used("auto") in ("adaptive", "local") and max(sizes, default=0) <= 144**2


def test_other_priors_have_hidden_samples_of_their_own_where_plates_are_compared():
    """Were both drawn from one seed, all that the other prior hides would be hidden from it already."""
    samples = masked(synthetic_photograph(32, 32), 0.4)
    field = Field.of(samples.geometry, (samples.values - samples.mean()).movedim(-1, 0))
    shown = field.select(~errors.FieldErrors(field, cn.ThinPlate()).folds[0]).samples()
    assert fitted(shown, cn.Adaptive()).report.tried


@pytest.mark.slow
def test_scattered_points_of_a_smooth_field_take_plates_or_kriging(generator):
    points = torch.rand(90, 2, generator=generator, dtype=torch.float64) * 0.9
    values = 0.5 + 0.3 * (5 * points.sum(1, keepdim=True)).sin()
    samples = cn.Samples(cn.ScatteredPoints((12, 12), points), values)
    fit = cn.fit(samples)
    assert fit.report.used("auto") in ("plates", "kriging", "plates, kriging", "kriging, plates")
    assert float((fit(points) - values).abs().max()) < 1e-3  # a part may have a weight that passes near them
