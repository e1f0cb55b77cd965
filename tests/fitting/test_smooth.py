from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data

from coordnet._checks import CoordnetWarning
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.blending import Blending
from coordnet.encodings.encoders import Encoder, Gaussian, Impulse, LogFourier, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.linalg import transforms as cosines
from coordnet.linalg.conjugate_gradients import ConjugateGradients, ConvergenceWarning
from coordnet.metrics.scores import psnr
from coordnet.plans.modes import EncodingModes
from coordnet.plans.systems import LatticeSystem, ModesSystem
from coordnet.priors.least_squares import LeastSquares
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import Lattice, MaskedLattice
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import dense_point_fit, kron, synthetic_photograph

GRIDS = [(13,), (6, 7), (4, 5, 3), (3, 2, 3, 2)]

ONE_AXIS = [name for name, encoder in ENCODERS.items() if issubclass(encoder, Encoder) and name != "identity"]


def dense(operator):
    """The matrix of an operator, column by column."""
    size = int(np.prod(operator.domain))
    columns = operator(torch.eye(size, dtype=torch.float64).reshape(size, *operator.domain))
    return columns.reshape(size, -1).T


def difference(n):
    return torch.eye(n, dtype=torch.float64).diff(dim=0)


def dense_roughness(shape, anisotropy, power):
    """(Σ a_j I ⊗ DᵀD ⊗ I)^p on the whole lattice, by an eigendecomposition."""
    total = torch.zeros(int(np.prod(shape)), int(np.prod(shape)), dtype=torch.float64)
    for j, (n, a) in enumerate(zip(shape, anisotropy, strict=True)):
        factors = [torch.eye(m, dtype=torch.float64) for m in shape]
        factors[j] = a * difference(n).T @ difference(n)
        total += kron(factors)
    values, vectors = torch.linalg.eigh(total)
    return vectors @ torch.diag(values.clamp(min=0) ** power) @ vectors.T


def dense_fit(weights, values, roughness, strength):
    """The lattice signal that minimises Σ w (f - y)² + λ fᵀRf, values centred by the weighted mean."""
    w, y = weights.flatten().double(), values.flatten().double()
    mean = (w * y).sum() / w.sum()
    f = torch.linalg.solve(torch.diag(w) + strength * roughness, w * (y - mean))
    return (f + mean).reshape(values.shape)


@pytest.mark.parametrize("density", [0.03, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("encoding", [FourierEncoding.like, partial(ComplexEncoding.like, Impulse)])
def test_without_a_prior_a_mask_is_fitted_by_least_norm(encoding, density):
    """In a complete orthonormal basis: the samples where something is known, their mean where nothing is."""
    signal = synthetic_photograph(40, 30)
    samples = sample(signal, f"random:{density}")
    known = samples.geometry.known(3)
    with pytest.warns(CoordnetWarning, match=r"`prior`: with None, .* least norm; 'auto'"):
        made = fit_closed_form(encoding(samples), samples, None).render(alignment="sample")
    expected = torch.where(known, signal, samples.mean())
    assert torch.allclose(made, expected, atol=1e-3)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_masked_fits_equal_the_dense_solve(grid, power, generator):
    anisotropy = tuple(0.5 + j for j in range(len(grid)))
    signal = torch.rand(*grid, 1, dtype=torch.float64, generator=generator)
    mask = torch.rand(*grid, dtype=torch.float64, generator=generator) * (torch.rand(*grid, generator=generator) < 0.6)
    samples = sample(signal, mask)
    prior = Smoothness(power, 0.05, anisotropy)
    made = fit_closed_form(
        ComplexEncoding.like(Triangle, samples), samples, prior=prior, solver=ConjugateGradients(1e-12)
    )
    dense = dense_fit(samples.geometry.weights, samples.values, dense_roughness(grid, anisotropy, power), 0.05)
    assert torch.allclose(made.render(), dense, atol=1e-7)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_whole_lattice_is_the_mask_of_ones(grid, generator):
    signal = torch.rand(*grid, 2, dtype=torch.float64, generator=generator)
    full = sample(signal, "full")
    masked = Samples(MaskedLattice(grid, weights=torch.ones(*grid, 1, dtype=torch.float64)), signal)
    encoding = ComplexEncoding.like(Gaussian, full)
    prior = Smoothness(1.5, 0.1)
    direct = fit_closed_form(encoding, full, prior=prior)
    iterated = fit_closed_form(encoding, masked, prior=prior, solver=ConjugateGradients(1e-10))
    assert torch.allclose(direct.render(), iterated.render(), atol=1e-6)
    roughness = dense_roughness(grid, (1.0,) * len(grid), 1.5)
    dense = [dense_fit(torch.ones(grid), signal[..., c], roughness, 0.1) for c in range(2)]
    assert torch.allclose(direct.render(), torch.stack(dense, -1), atol=1e-8)


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("features", [8, 30])
def test_any_encoder_rank_deficient_ones_included(name, features, generator):
    """The fit minimises the same functional over the encoder's span: compare with the dense one there."""
    signal = torch.rand(30, 1, dtype=torch.float64, generator=generator)
    samples = sample(signal, "random:0.7", generator=generator)
    encoder = ENCODERS[name]
    encoding = ComplexEncoding([encoder.like(samples.geometry.axes[0], features=features)])
    modes = EncodingModes(encoding, samples.axes, rcond=1e-8, dtype=torch.float64)
    mask = ForwardModel.mask(samples.geometry.weights.movedim(-1, 0).unsqueeze(0))
    values = (samples.values - samples.mean()).movedim(-1, 0).unsqueeze(0)
    system = ModesSystem(modes, mask, Smoothness(1.0, 0.1).penalty(modes))
    made = modes(system.solve(values, tolerance=1e-12).x).flatten()
    a = encoding.matrices(samples.geometry.axes)[0]
    u, s, _ = torch.linalg.svd(a, full_matrices=False)
    u = u[:, s > 1e-8 * s[0]]
    w = samples.geometry.weights.flatten()
    mean = (w * samples.values.flatten()).sum() / w.sum()
    stiffness = u.T @ difference(30).T @ difference(30) @ u
    z = torch.linalg.solve(u.T @ torch.diag(w) @ u + 0.1 * stiffness, u.T @ (w * (samples.values.flatten() - mean)))
    assert torch.allclose(made, u @ z, atol=1e-5)


def test_modes_are_orthonormal_and_diagonalise_roughness():
    axes = Lattice((9, 8)).axes
    encoding = ComplexEncoding([Gaussian.like(axes[0], features=5), LogFourier.like(axes[1], features=6)])
    modes = EncodingModes(encoding, axes, dtype=torch.float64)
    b = kron(modes.basis.matrices)
    assert torch.allclose(b.T @ b, torch.eye(30, dtype=torch.float64), atol=1e-10)
    r = dense_roughness((9, 8), (1.0, 2.0), 1.0)
    assert torch.allclose(b.T @ r @ b, torch.diag(modes.roughness((1.0, 2.0)).flatten()), atol=1e-9)


def test_the_fast_cosine_transform_is_its_matrix(generator):
    axes = Lattice((6, 5)).axes
    modes = EncodingModes(ComplexEncoding.like(Gaussian, Lattice((6, 5))), axes, dtype=torch.float64)
    assert modes.spans_grid
    f = torch.randn(2, 3, 6, 5, dtype=torch.float64, generator=generator)
    slow = modes.adjoint(f.clone().requires_grad_())
    assert torch.allclose(modes.adjoint(f), slow, atol=1e-12)
    assert torch.allclose(modes(modes.adjoint(f)), f, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 30, 31])
def test_cosine_transforms_by_real_ffts_are_scipys(n, generator):
    """The algorithm for GPUs, here on the processor."""
    x = torch.randn(2, 3, n, dtype=torch.float64, generator=generator)
    expected = torch.from_numpy(scipy.fft.dct(x.numpy(), norm="ortho"))
    assert torch.allclose(cosines.forward(x), expected, atol=1e-12)
    assert torch.allclose(cosines.backward(expected), x, atol=1e-12)
    assert torch.allclose(cosines.cosines(x, 2), cosines.forward(cosines.forward(x).mT).mT, atol=1e-12)


def test_awkward_lengths_take_the_product_and_agree(generator):
    lattice = Lattice((67, 40))
    modes = EncodingModes(ComplexEncoding.like(Triangle, lattice), lattice.axes)
    f = torch.randn(1, 2, 67, 40, generator=generator)
    assert not modes.basis.fast
    assert torch.allclose(modes.adjoint(f), cosines.cosines(f, 2), atol=1e-5)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_filter_is_its_matrix_and_changes_its_signal_only_where_it_may(overwrite, generator):
    lattice = Lattice((5, 8))
    for features in (None, 4):
        encoding = ComplexEncoding.like(Gaussian, lattice, features=features)
        modes = EncodingModes(encoding, lattice.axes, dtype=torch.float64)
        f, symbol = (torch.randn(2, 3, 5, 8, generator=generator, dtype=torch.float64) for _ in range(2))
        symbol = modes.adjoint(symbol)
        b, kept = dense(modes.basis), f.clone()
        expected = (f.flatten(2) @ b * symbol.flatten(2)) @ b.T
        assert torch.allclose(modes.filter(f, symbol, overwrite).flatten(2), expected, atol=1e-12)
        assert overwrite or torch.equal(f, kept)


@given(st.integers(0, 999), st.sampled_from(["random:0.3", "entries:0.3"]))
@settings(max_examples=5)
def test_batches_and_channels_are_solved_apart(seed, pattern):
    g = torch.Generator().manual_seed(seed)
    geometry = sample(torch.rand(8, 9, 2), pattern, generator=g).geometry
    values = torch.rand(3, 8, 9, 2, generator=g, dtype=torch.float64)
    made = plan(
        ComplexEncoding.like(Gaussian, geometry),
        geometry,
        prior=Smoothness(),
        solver=ConjugateGradients(1e-10),
        dtype=torch.float64,
    )
    together = made.fit(values).render()
    for i in range(3):
        assert torch.allclose(together[i], made.fit(values[i]).render(), atol=1e-8)


def structured_mask(kind, size):
    mask = torch.ones(size, size)
    if kind == "holes":
        third = size // 12
        for top, left in ((1, 2), (6, 1), (7, 8)):
            mask[top * third :, left * third :][:third, :third] = 0
    else:
        for k in range(3, size, 17):
            i = torch.arange(size)
            for width in range(3):
                mask[i, (k + 2 * i + width) % size] = 0
    return mask


@pytest.mark.parametrize("kind", ["holes", "scratches"])
def test_structured_masks_take_the_constrained_form_and_both_forms_agree(kind):
    picture = synthetic_photograph(96, 96).double()
    mask = structured_mask(kind, 96)
    samples = sample(picture, mask)
    encoding = ComplexEncoding.like(Triangle, samples)
    strength = 1e-5
    auto = fit_closed_form(encoding, samples, prior=Smoothness(1.0, strength))
    assert auto.report.method == "conjugate gradients, constrained form"
    assert auto.report.iterations <= 200
    prior = Smoothness(1.0, strength, form="modes")
    modes = fit_closed_form(encoding, samples, prior=prior, solver=ConjugateGradients(1e-9, 5000))
    assert float((auto.render() - modes.render()).abs().max()) < 1e-3
    assert torch.allclose(auto.render()[mask > 0], picture[mask > 0], atol=1e-9)


def test_random_masks_take_the_modes():
    for fraction in (0.05, 0.25, 0.8):
        geometry = sample(torch.rand(64, 64, 1), f"random:{fraction}").geometry
        assert not ForwardModel.mask(geometry.weights.movedim(-1, 0).unsqueeze(0)).is_structured_mask


def mirrored_astronaut(size):
    """A picture of the same detail a pixel at every size."""
    picture = torch.from_numpy(data.astronaut()[..., :1] / 255).float()
    for axis in (0, 1):
        picture = torch.cat([picture, picture.flip(axis)], dim=axis)
    return picture[:size, :size]


@pytest.mark.parametrize("fraction, limit", [(0.25, 20), (0.1, 30), (0.05, 40)])
def test_iterations_do_not_grow_with_size(fraction, limit):
    counts = []
    for size in (128, 256, 512):
        samples = sample(mirrored_astronaut(size), f"random:{fraction}")
        encoding, prior = ComplexEncoding.like(Triangle, samples), Smoothness(1.5, 0.01)
        made = fit_closed_form(encoding, samples, prior=prior, solver=ConjugateGradients(1e-4))
        counts.append(made.report.iterations)
    assert max(counts) < limit
    assert max(counts) <= 1.2 * counts[0]


@pytest.mark.parametrize(
    ("fraction", "power", "strength"),
    [(0.1, 1.5, 0.01), (0.25, 1.0, 0.01), (0.25, 1.5, 0.01), (0.25, 2.0, 0.003), (0.5, 1.5, 0.01)],
)
def test_the_lattice_takes_fewer_steps_than_the_modes_and_agrees(fraction, power, strength):
    samples = sample(mirrored_astronaut(96).double(), f"random:{fraction}")
    encoding = ComplexEncoding.like(Triangle, samples)
    modes = EncodingModes(encoding, samples.geometry.axes, dtype=torch.float64)
    measurement = ForwardModel.mask(samples.geometry.weights.movedim(-1, 0).unsqueeze(0))
    penalty = strength * modes.roughness((1.0, 1.0)) ** power
    values = samples.values.movedim(-1, 0).unsqueeze(0)
    exact = ModesSystem(modes, measurement, penalty).solve(values, tolerance=1e-10, steps=3000).x

    def steps(kind):
        """Until the error is a thousandth of the solution."""
        for tolerance in torch.logspace(-2, -6, 9).tolist():
            solution = kind(modes, measurement, penalty).solve(values, tolerance=tolerance)
            if float((solution.x - exact).norm() / exact.norm()) < 1e-3:
                return solution.iterations
        pytest.fail("they do not agree")

    assert steps(LatticeSystem) <= 0.65 * steps(ModesSystem)


def franke(points):
    x, y = points.unbind(-1)
    return (
        0.75 * torch.exp(-((9 * x - 2) ** 2 + (9 * y - 2) ** 2) / 4)
        + 0.75 * torch.exp(-((9 * x + 1) ** 2) / 49 - (9 * y + 1) / 10)
        + 0.5 * torch.exp(-((9 * x - 7) ** 2 + (9 * y - 3) ** 2) / 4)
        - 0.2 * torch.exp(-((9 * x - 4) ** 2) - (9 * y - 7) ** 2)
    ).unsqueeze(-1)


def chirp(points):
    return torch.sin(60 * points[..., :1] * points[..., 1:])


@pytest.mark.parametrize(("function", "most"), [(franke, 1e-3), (chirp, 5e-3)])
def test_off_lattice_truth(function, most, generator):
    """20,000 points anywhere, a lattice of 256²: the function returns at other points."""
    points = torch.rand(20_000, 2, generator=generator, dtype=torch.float64) * 255 / 256
    samples = Samples(ScatteredPoints((256, 256), points), function(points))
    prior = Smoothness(2.0, 0.1)
    made = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=prior)
    fresh = torch.rand(5000, 2, generator=generator, dtype=torch.float64) * 0.96 + 0.02
    truth = function(fresh)
    assert float((made(fresh) - truth).norm() / truth.norm()) < most


def test_blending_is_near_the_exact_design(generator):
    points = torch.rand(300, 2, generator=generator, dtype=torch.float64) * 15 / 16
    samples = Samples(ScatteredPoints((16, 16), points), franke(points))
    encoding = ComplexEncoding.like(Gaussian, samples)
    prior = Smoothness(2.0, 1e-4)
    fresh = torch.rand(500, 2, generator=generator, dtype=torch.float64) * 0.8 + 0.05
    blended = fit_closed_form(encoding, samples, prior=prior)
    exact = dense_point_fit(encoding, samples, dense_roughness((16, 16), (1.0, 1.0), 2.0), 1e-4)
    errors = [float((fit(fresh) - franke(fresh)).norm()) for fit in (blended, exact)]
    assert errors[0] < 3 * errors[1]


@pytest.mark.parametrize(("encoder", "blend"), [(Triangle, "similarity"), (Gaussian, "printed"), (None, "cubic")])
def test_scattered_points_are_evaluated_as_they_were_fitted(encoder, blend, generator):
    """The fit's values at its samples against the dense minimizer over the lattice, whose blends they are."""
    points = torch.rand(150, 2, generator=generator, dtype=torch.float64) * 7 / 8
    samples = Samples(ScatteredPoints((8, 8), points, blending=blend), franke(points))
    encoding = FourierEncoding.like(samples, padding=0) if encoder is None else ComplexEncoding.like(encoder, samples)
    fit = fit_closed_form(encoding, samples, Smoothness(2.0, 1e-2), solver=ConjugateGradients(1e-12))
    blended = Blending(blend, samples.axes).interpolation(points, encoding.axis_encoders, torch.float64)
    rows = blended(torch.eye(64, dtype=torch.float64).reshape(64, 8, 8)).T
    lattice = fit.render().reshape(64, 1)
    assert torch.allclose(fit(points), rows @ (lattice - fit.offset) + fit.offset, atol=1e-12)
    if encoder:
        mean = samples.values.mean(0)
        penalty = 1e-2 * dense_roughness((8, 8), (1.0, 1.0), 2.0)
        best = torch.linalg.solve(rows.T @ rows + penalty, rows.T @ (samples.values - mean))
        assert torch.allclose(fit(points), rows @ best + mean, atol=1e-8)
    assert float((fit(points, exact=True) - fit(points)).abs().max()) > 1e-4


def test_duplicate_points_and_weights_average(generator):
    points = torch.full((2, 1), 0.5, dtype=torch.float64)
    geometry = ScatteredPoints((8,), points, torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    samples = Samples(geometry, torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    made = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Smoothness())
    assert made(points)[0].item() == pytest.approx(0.75)


def test_huber_leaves_outliers_aside(generator):
    truth = synthetic_photograph(48, 48, 1)
    spoiled = truth.clone()
    wild = torch.rand(48, 48, generator=generator) < 0.05
    spoiled[wild] = torch.rand(int(wild.sum()), 1, generator=generator) * 4
    samples = sample(spoiled, "random:0.6", generator=generator)
    encoding, prior = ComplexEncoding.like(Triangle, samples), Smoothness(1.5, 0.5)
    plain = fit_closed_form(encoding, samples, prior=prior)
    robust = fit_closed_form(encoding, samples, prior=replace(prior, loss="huber"))
    assert robust.report.loss == "huber"
    assert psnr(robust.render(), truth) > psnr(plain.render(), truth) + 3


def test_one_known_sample_is_a_constant():
    mask = torch.zeros(6, 5)
    mask[2, 3] = 1
    picture = synthetic_photograph(6, 5)
    samples = sample(picture, mask)
    made = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Smoothness())
    assert torch.allclose(made.render(), picture[2, 3].expand(6, 5, 3), atol=1e-5)


def test_without_a_prior_the_least_norm_fit_is_taken(generator):
    signal = torch.rand(20, 1, dtype=torch.float64, generator=generator)
    samples = sample(signal, "random:0.5", generator=generator)
    with pytest.warns(CoordnetWarning, match="least norm"):
        made = fit_closed_form(ComplexEncoding.like(Triangle, samples), samples, prior=None)
    known = samples.geometry.weights.flatten() > 0
    assert torch.allclose(made.render()[known], signal[known], atol=1e-8)
    assert torch.allclose(made.render()[~known], samples.mean().expand(int((~known).sum()), 1), atol=1e-8)


def test_stopping_early_is_said():
    samples = sample(synthetic_photograph(32, 32), "random:0.1")
    with pytest.warns(ConvergenceWarning):
        fit_closed_form(
            ComplexEncoding.like(Triangle, samples), samples, prior=Smoothness(), solver=ConjugateGradients(steps=3)
        )


def test_float32_agrees_with_float64():
    picture = synthetic_photograph(64, 64)
    made = []
    for dtype in (torch.float32, torch.float64):
        samples = sample(picture.to(dtype), "random:0.3", generator=torch.Generator().manual_seed(0))
        made.append(fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Smoothness()).render())
    assert torch.allclose(made[0].double(), made[1], atol=2e-3)


@pytest.mark.parametrize("grid", [(20, 18, 16), (40, 36)])
def test_wide_bumps_render_what_was_solved(grid, generator):
    """σ of two samples: the axes' conditions multiply, past what float32 holds; those modes are left out."""
    rows = torch.meshgrid(*(torch.linspace(0, 1, n) for n in grid), indexing="ij")
    waves = (0.5 + sum(torch.sin((3 + 2 * i) * x) for i, x in enumerate(rows)) / 8).unsqueeze(-1)
    samples, prior = sample(waves, "random:0.4", generator=generator), Smoothness(1.5, 0.01)

    def reached(sigma):
        encoding = ComplexEncoding.like(Gaussian, samples, sigma=sigma)
        return float(psnr(fit_closed_form(encoding, samples, prior=prior).render(alignment="sample"), waves))

    assert reached("2px") > reached("0.64px") - 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": -1.0}, "`power`"),
        ({"strength": -1.0}, "`strength`"),
        ({"anisotropy": (0.0, 0.0)}, "`anisotropy`: expected a positive weight"),
        ({"anisotropy": (1.0, 1.0, 1.0)}, "`anisotropy`: expected one number, or 2"),
        ({"form": "constrained"}, "`form`: expected modes, unless"),
    ],
)
def test_bad_priors_are_refused(options, message):
    samples = sample(torch.rand(6, 6, 1), torch.full((6, 6), 0.5))
    with pytest.raises(ValueError, match=message):
        fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Smoothness(**options))


def test_a_whole_lattice_alone_takes_least_squares():
    samples = sample(torch.rand(6, 6, 1), "random:0.5")
    with pytest.raises(ValueError, match="`geometry`: expected a whole lattice"):
        fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, LeastSquares())
    with pytest.raises(ValueError, match="`encoding`: expected a ComplexEncoding"):
        fit_closed_form(FourierEncoding.like(samples), samples, LeastSquares())


def test_the_modes_system_solves_its_normal_equations(generator):
    geometry = Lattice((7,))
    modes = EncodingModes(ComplexEncoding.like(Triangle, geometry), geometry.axes, dtype=torch.float64)
    w = torch.rand(1, 1, 7, dtype=torch.float64, generator=generator)
    y = torch.rand(1, 1, 7, dtype=torch.float64, generator=generator)
    penalty = torch.arange(7, dtype=torch.float64)
    z = ModesSystem(modes, ForwardModel.mask(w), penalty).solve(y, tolerance=1e-13).x.flatten()
    b = modes.basis._matrices[0]
    dense = torch.linalg.solve(b.T @ torch.diag(w.flatten()) @ b + torch.diag(penalty), b.T @ (w * y).flatten())
    assert torch.allclose(z, dense, atol=1e-10)
