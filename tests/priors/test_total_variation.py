"""Total variation as a prior: against the primal-dual method with dense matrices, and on planted steps."""

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import coordnet as cn
from coordnet.priors.variation.minimum import differences, divergence, proximal
from coordnet.priors.variation.plan import _sure_share, _tried
from coordnet.priors.variation.whole import OVER_NOISE
from coordnet.sampling.grids import AreaLattice

DOUBLE = torch.float64
STEPPED = torch.full((24, 24, 1), 0.2)
STEPPED[6:15, 5:20] = 0.9
STEPPED[10:20, 12:17] = 0.5


def gradient_matrices(height, width):
    """Return dense forward differences along both axes of a flattened picture, 0 at the last nodes."""
    units = [torch.eye(n, dtype=DOUBLE) for n in (height, width)]
    rows, columns = (torch.diff(unit, dim=0, append=unit[-1:]) for unit in units)
    return torch.kron(rows, torch.eye(width, dtype=DOUBLE)), torch.kron(torch.eye(height, dtype=DOUBLE), columns)


def primal_dual(matrix, y, strength, grid, steps=500):
    """Minimize |A f - y|²/2 + strength Σ|∇f| by Chambolle and Pock's method (2011), with a dense proximal map."""
    gradients = torch.stack(gradient_matrices(*grid))
    step = 0.35  # its square times the gradient's squared norm, at most 8, is below 1
    inverse = torch.linalg.inv(step * matrix.T @ matrix + torch.eye(matrix.shape[1], dtype=DOUBLE))
    f = bar = torch.zeros(matrix.shape[1], dtype=DOUBLE)
    dual = torch.zeros(2, len(f), dtype=DOUBLE)
    for _ in range(steps):
        dual = dual + step * gradients @ bar
        dual = dual / (dual.norm(dim=0) / strength).clamp(min=1)
        before, f = f, inverse @ (f - step * torch.einsum("kij,ki->j", gradients, dual) + step * matrix.T @ y)
        bar = 2 * f - before
    return f


@pytest.mark.parametrize("grid", [(7, 6), (5, 9)])
def test_proximal_maps_are_those_of_the_primal_dual_method(grid, generator):
    v, flow = torch.rand(1, *grid, dtype=DOUBLE, generator=generator), torch.zeros(2, 1, *grid, dtype=DOUBLE)
    found, flow = proximal(v, 0.3, flow, 1000)
    expected = primal_dual(torch.eye(v.numel(), dtype=DOUBLE), v.flatten(), 0.3, grid, 2000)
    torch.testing.assert_close(found.flatten(), expected, atol=5e-4, rtol=0)
    torch.testing.assert_close(proximal(v, 0.3, flow)[0].flatten(), expected, atol=5e-4, rtol=0)


def test_the_divergence_is_the_negative_adjoint_of_the_differences(generator):
    f, flow = (torch.rand(*n, 3, 5, 4, 6, dtype=DOUBLE, generator=generator) for n in ((), (3,)))
    torch.testing.assert_close((differences(f) * flow).sum(), -(f * divergence(flow)).sum())
    dense = torch.stack(gradient_matrices(4, 6)) @ f[0, 0].flatten()
    torch.testing.assert_close(differences(f[0, :1])[:, 0].flatten(1), dense)


def test_a_fit_is_that_of_the_primal_dual_method(generator):
    grid, strength = (7, 6), 0.05
    psf = torch.rand(3, 3, dtype=DOUBLE, generator=generator)
    operator = cn.operators.Blur(psf / psf.sum(), grid)
    signal = STEPPED[4:11, 3:9].to(DOUBLE)
    measured = cn.Measurements.of(operator, signal, sigma=0.02, generator=generator)
    matrix = operator(torch.eye(42, dtype=DOUBLE).reshape(42, *grid)).reshape(42, -1).T
    found = cn.fit(measured, prior=cn.TotalVariation(strength)).render(alignment="sample")
    expected = primal_dual(matrix, measured.values.flatten(), strength, grid).reshape(*grid, 1)

    def objective(f):
        variation = (torch.stack(gradient_matrices(*grid)) @ f.flatten()).norm(dim=0).sum()
        return float((matrix @ f.flatten() - measured.values.flatten()).square().sum() / 2 + strength * variation)

    assert objective(found) == pytest.approx(objective(expected), rel=1e-3)
    assert objective(found) < 0.95 * objective(signal)


def fourier_samples(signal, generator, sigma=0.005):
    drawn = torch.rand(24, 24, generator=generator) < 0.4
    drawn[0, 0] = True
    return cn.Measurements.of(cn.operators.FourierSamples(drawn), signal, sigma=sigma, generator=generator)


@pytest.mark.slow
def test_steps_are_found_from_few_fourier_samples(generator):
    measured = fourier_samples(STEPPED, generator)
    ours, adaptive = (cn.fit(measured, prior=prior) for prior in (cn.TotalVariation(), cn.Adaptive()))
    psnrs = ours.report.hold_out_psnr
    assert len(psnrs) == 3 and ours.report.method.endswith(f"strength {max(psnrs, key=psnrs.get)}")
    ours, adaptive = (cn.psnr(fit.render(alignment="sample"), STEPPED) for fit in (ours, adaptive))
    assert ours > adaptive + 5
    default = cn.fit(measured)
    alone = cn.fit(measured, prior=cn.TotalVariation(default.report.strength))
    assert default.report.candidates[1].weight > 0.9
    ours, alone = (cn.psnr(fit.render(alignment="sample"), STEPPED) for fit in (default, alone))
    assert ours > max(alone, adaptive + 5) - 0.02


def test_known_entries_stay_and_gaps_take_the_constants_around_them():
    known = torch.ones(24, 24, dtype=torch.bool)
    known[2:5, 2:22] = False  # within one part
    samples = cn.sample(STEPPED, known.float())
    made = cn.fit(samples, prior=cn.TotalVariation()).render(alignment="sample")
    torch.testing.assert_close(made[known], STEPPED[known])
    torch.testing.assert_close(made, STEPPED, atol=2e-3, rtol=0)


def test_a_constant_stays_one():
    made = cn.fit(cn.sample(torch.full((8, 8, 1), 0.5), "random:0.5"), prior=cn.TotalVariation()).render()
    torch.testing.assert_close(made, torch.full((8, 8, 1), 0.5))


@pytest.mark.slow
def test_noisy_values_take_the_strength_of_least_error_and_its_proximal_map(generator):
    """The error is within 0.3 dB of that of the best strength with hindsight."""
    row = torch.repeat_interleave(torch.rand(9, 1, dtype=DOUBLE, generator=generator), 30, 0)
    for truth in (row, STEPPED.to(DOUBLE)):
        y = truth + 0.1 * torch.randn(truth.shape, dtype=DOUBLE, generator=generator)
        samples = cn.sample(y, "full")
        fit = cn.fit(samples, prior=cn.TotalVariation(noise=0.1))
        found, strength = fit.render(alignment="sample"), fit.report.strength
        v, flow = y.movedim(-1, 0), torch.zeros_like(differences(y.movedim(-1, 0)))
        tried = {s: proximal(v, 0.1 * s, flow, 2000)[0].movedim(0, -1) for s in OVER_NOISE}
        least = min(float((f - truth).square().mean()) for f in tried.values())
        assert float((found - truth).square().mean()) < 10**0.03 * least
        torch.testing.assert_close(found, proximal(v, strength, flow, 2000)[0].movedim(0, -1), atol=0.01, rtol=0)
        again = cn.fit(samples, prior=cn.TotalVariation(noise=0.1).settled(fit.report))
        torch.testing.assert_close(again.render(alignment="sample"), found)


def test_gaps_of_a_noisy_row_are_crossed_by_lines_between_the_samples_without_noise(generator):
    y, known = torch.rand(40, 1, dtype=DOUBLE, generator=generator), torch.rand(40, generator=generator) < 0.5
    prior = cn.TotalVariation(noise=0.2)
    made = cn.fit(cn.sample(y, known), prior=prior).render(alignment="sample")
    alone = cn.fit(cn.sample(y[known], "full"), prior=prior).render(alignment="sample")
    expected = np.interp(np.arange(40), np.flatnonzero(known), alone[:, 0])
    np.testing.assert_allclose(made[:, 0], expected, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("grid", "least"), [((500,), 0.2), ((1, 500), 0.0)])
def test_a_noisy_row_with_gaps_and_steps_takes_total_variation(grid, least, generator):
    """In a plane of one row it is weighed beside patches, too."""
    truth = torch.repeat_interleave(torch.tensor([0.2, 0.8, 0.5, 0.9, 0.1]), 100)[:, None].to(DOUBLE)
    y = truth + 0.05 * torch.randn(truth.shape, dtype=DOUBLE, generator=generator)
    known = torch.rand(500, generator=generator) < 0.5
    fit = cn.fit(cn.sample(y.reshape(*grid, 1), known.reshape(grid)))
    weights = {candidate.prior.split(":")[0]: candidate.weight for candidate in fit.report.candidates}
    assert weights["total-variation"] >= least


def test_the_default_of_denoise_finds_the_steps_of_a_noisy_row(generator):
    truth = torch.repeat_interleave(torch.tensor([0.2, 0.8, 0.5, 0.9, 0.1]), 50)[:, None].to(DOUBLE)
    y = truth + 0.05 * torch.randn(truth.shape, dtype=DOUBLE, generator=generator)
    errors = {}
    for prior in ("auto", cn.Kriging(), cn.Adaptive()):
        made = cn.denoise(y, prior=prior)
        errors[prior] = float((made.signal - truth).square().mean())
        if prior == "auto":
            assert "total-variation" in made.report.prior and "total-variation" in made.report.tried
    assert 3 * errors["auto"] < min(errors[cn.Kriging()], errors[cn.Adaptive()])


def test_a_few_large_errors_do_not_give_the_weight(generator):
    before = torch.randn(10, 40, dtype=DOUBLE, generator=generator)
    second = torch.randn(10, 40, dtype=DOUBLE, generator=generator) / 2
    share = _sure_share(before, second)
    before[0, :2], second[0, :2] = 200.0, -100.0  # which together ask for a share of 2/3
    assert 0.7 < share == pytest.approx(_sure_share(before, second), abs=0.02)


def test_strengths_rise_until_errors_do():
    errors = {1.0: 3.0, 2.0: 2.0, 4.0: 2.5, 8.0: 1.0}
    tried = _tried(list(errors), lambda strength: torch.tensor([errors[strength]]))
    assert list(tried) == [1.0, 2.0, 4.0]


def test_what_does_not_suit_is_refused_in_one_line():
    for share in (1.5, 0.5):  # beyond the whole, and of no pilot
        with pytest.raises(ValueError, match="`share`: expected"):
            cn.TotalVariation(strength=0.1, share=share)
    with pytest.raises(ValueError, match="`share`: expected none without a strength"):
        cn.TotalVariation(pilot=cn.Adaptive(), share=0.5)
    with pytest.raises(ValueError, match="`strength`: expected a positive finite number"):
        cn.TotalVariation(0.0)
    with pytest.raises(ValueError, match="`noise`: expected none beside a pilot"):
        cn.TotalVariation(pilot=cn.Adaptive(), noise=0.1)
    with pytest.raises(ValueError, match="`prior`: expected cn.Local.., unless the noisy samples"):
        cn.fit(cn.sample(STEPPED, "random:0.5"), prior=cn.TotalVariation(noise=0.1))
    cells = cn.Samples(AreaLattice((8, 8), (2, 2)), torch.zeros(4, 4, 1))
    for samples in (cells, cn.sample(STEPPED, "every:2")):
        with pytest.raises(ValueError, match="`geometry`: expected a mask of a lattice or measurements"):
            cn.fit(samples, prior=cn.TotalVariation())


def test_of_a_smooth_field_the_default_is_the_adaptive_fit_and_has_its_gradient(generator):
    t = torch.arange(24, dtype=DOUBLE) * math.pi / 12
    measured = fourier_samples((0.5 + torch.outer(t.sin(), t.cos()) / 2).unsqueeze(-1), generator, 0.1)
    fit, adaptive = cn.fit(measured), cn.fit(measured, prior=cn.Adaptive())
    assert [c.weight for c in fit.report.candidates] == [1.0, 0.0]
    assert torch.equal(fit.render(), adaptive.render())
    values = measured.values.clone().requires_grad_()
    cn.fit(cn.Samples(measured.geometry, values)).render()[3, 4, 0].backward()
    assert float((values.grad * measured.values).sum()) == pytest.approx(float(fit.render()[3, 4, 0]), rel=1e-4)


def test_a_smooth_field_measured_without_noise_keeps_the_adaptive_fit(generator):
    """Solves with a spectrum of almost no noise hardly converge from zero on, and would make total variation win."""
    y, x = torch.arange(16, dtype=DOUBLE)[:, None], torch.arange(14, dtype=DOUBLE)
    field, shape = (x / 4 + y / 9).sin().unsqueeze(-1), (140, 16 * 14)
    matrix = torch.rand(shape, dtype=DOUBLE, generator=generator) * (torch.rand(shape, generator=generator) < 0.05)
    fit = cn.fit(cn.Measurements(csr_array(matrix.numpy()), matrix @ field.reshape(-1, 1), grid=(16, 14)))
    assert [c.weight for c in fit.report.candidates] == [1.0, 0.0]
    assert float((fit.render() - field).square().mean().sqrt()) < 0.035


@pytest.mark.slow
def test_a_known_weight_gives_the_weighted_mean_whose_draws_are_narrower(generator):
    blur = cn.operators.Blur(torch.ones(3, 3, dtype=DOUBLE) / 9, (12, 12))
    measured = cn.Measurements.of(blur, STEPPED[4:16, 4:16].to(DOUBLE), sigma=0.05, generator=generator)
    priors = [cn.TotalVariation(0.01, cn.Adaptive(), 0.7), cn.Adaptive(), cn.TotalVariation(0.01)]
    ours, adaptive, variation = (cn.fit(measured, prior=prior).render(alignment="sample") for prior in priors)
    torch.testing.assert_close(ours, 0.3 * adaptive + 0.7 * variation, atol=1e-5, rtol=0)

    plan = priors[0].plan(cn.FourierEncoding.like(measured), measured.geometry, dtype=DOUBLE)
    learned = plan.start.fit(measured.values).learned
    values = plan.centered(measured.values).subtracted()
    wide, narrow = (
        plan.posterior(values, more | learned).deviations(2, torch.Generator().manual_seed(0))
        for more in ({}, {"spread": torch.tensor(0.5)})
    )
    torch.testing.assert_close(narrow, 0.5 * wide)
    values = measured.values.clone().requires_grad_()
    with pytest.raises(ValueError, match="`prior`: expected cn.Adaptive.. where gradients are followed"):
        cn.fit(cn.Samples(measured.geometry, values), prior=priors[0])
    with pytest.raises(ValueError, match="`prior`: expected .* to draw, received TotalVariation"):
        cn.fit(measured, prior=priors[2]).draw(1)


def test_whole_projections_are_hidden_and_weighed_by_their_logarithms():
    operator = cn.operators.Projections(range(0, 180, 15), (6, 5))
    measured = cn.Measurements.of(operator, torch.rand(6, 5, 1), sigma=0.1)
    plan = cn.TotalVariation(pilot=cn.Adaptive()).plan(cn.FourierEncoding.like(measured), measured.geometry)
    hidden = plan._hidden(measured.values.movedim(-1, 0).unsqueeze(0))
    assert hidden.flatten(0, 2).unique(dim=0).tolist() == [[0.0, 0.0, 1.0, 0.0] * 3]
    before = torch.ones(3, 40, dtype=DOUBLE)
    before[0] *= 100  # a view that rules the sum of squares and says little against the other two
    second = torch.cat([0.9 * before[:1], 1.5 * before[1:]])
    assert _sure_share(before, second) == 0.0
    assert _sure_share(before, 0.5 * before) == 1.0


@pytest.mark.parametrize("scale, dtype", [(1e30, torch.float32), (1e200, DOUBLE)])
@pytest.mark.parametrize("prior", ["auto", cn.TotalVariation()])
def test_values_whose_squares_are_beyond_the_dtype_keep_the_adaptive_fit(scale, dtype, prior):
    operator = cn.operators.Blur(torch.full((3, 3), 1 / 9, dtype=dtype), (24, 24))
    measured = cn.Measurements(operator, operator(STEPPED[..., 0].to(dtype))[..., None] * scale)
    found, adaptive = (cn.fit(measured, prior=p).render(alignment="sample") for p in (prior, cn.Adaptive()))
    assert torch.equal(found, adaptive) and bool(found.isfinite().all())
