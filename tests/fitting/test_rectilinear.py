"""Fits at unequal coordinates: against dense twins, equal spacing, and planted functions."""

import numpy as np
import pytest
import torch
from scipy.interpolate import make_interp_spline

import coordnet as cn
from coordnet.encodings.encoders import DFT, BSpline, Gaussian, Triangle, UnevenSpline
from coordnet.fitting.fit import EncoderChoice
from coordnet.linalg.kronecker import outer_sum
from coordnet.priors.stack import Stack
from tests.helpers import kron


def coordinates(n, seed=0, low=-3.0, high=12.0):
    gaps = 0.4 + torch.rand(n - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = torch.cat([torch.zeros(1).double(), gaps.cumsum(0)])
    return low + (high - low) * x / x[-1]


def values(*shape, seed=0, dtype=torch.float64):
    return torch.rand(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def smooth(*x):
    return sum((0.3 * (j + 1) * c).sin() for j, c in enumerate(x)) + 0.1 * x[0] * x[-1]


@pytest.mark.parametrize("encoder", [Gaussian, Triangle, BSpline, DFT])
@pytest.mark.parametrize("lengths", [(9,), (7, 10), (4, 5, 6)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_least_squares_is_the_dense_solution(encoder, lengths, dtype):
    """Encoders with fewer features than coordinates, by one dense matrix of the products of features."""
    lattice = cn.RectilinearLattice(*(coordinates(n, n) for n in lengths))
    encoding = cn.ComplexEncoding.like(encoder, lattice, features=3)
    y = values(*lengths, 2, dtype=dtype)
    fit = cn.fit_closed_form(encoding, lattice.sample(y), None)
    a = kron([e(axis.points()) for e, axis in zip(encoding.axis_encoders, lattice.axes, strict=True)]).detach()
    centered = (y - y.flatten(0, -2).mean(0)).double().flatten(0, -2)
    expected = (a @ torch.linalg.lstsq(a, centered, driver="gelsd").solution).reshape(y.shape)
    expected = expected + y.double().flatten(0, -2).mean(0)
    assert torch.allclose(fit.render().double(), expected, atol=1e-9 if dtype == torch.float64 else 1e-4)


@pytest.mark.parametrize("lengths", [(12,), (6, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_smoothness_divides_by_the_gaps(lengths, masked):
    """Minimize Σ w (f - y)² + λ fᵀ(L₁ ⊕ …)f, with L the Laplacian of a row whose edges weigh 1 / gap."""
    axes = [coordinates(n, n) for n in lengths]
    weights = (values(*lengths, 1, seed=3) < 0.7).double() if masked else None
    lattice, y = cn.RectilinearLattice(*axes, weights=weights), values(*lengths, 1)
    options = {"dtype": torch.float64, "center": False, "solver": cn.fitting.ConjugateGradients(1e-13, 1000)}
    encoding = cn.ComplexEncoding.like(Triangle, lattice)
    fit = cn.plan(encoding, lattice, cn.Smoothness(1.0, 0.1, form="modes"), **options).fit(y)
    laplacians = []
    for x in axes:
        differences = torch.eye(len(x)).double().diff(dim=0)
        laplacians.append(differences.T @ torch.diag(x.diff().mean() / x.diff()) @ differences)
    eigen = [torch.linalg.eigh(m) for m in laplacians]
    basis, mu = kron([e.eigenvectors for e in eigen]), outer_sum([e.eigenvalues for e in eigen]).flatten()
    w = torch.ones(len(mu)).double() if weights is None else weights.flatten()
    expected = torch.linalg.solve(torch.diag(w) + 0.1 * basis @ torch.diag(mu) @ basis.T, w * y.flatten())
    assert torch.allclose(fit.render().flatten(), expected, atol=1e-8)


@pytest.mark.parametrize("prior", [None, cn.Smoothness(1.5, 0.01), cn.Adaptive(rounds=1)])
def test_equal_spacing_is_a_lattice_to_the_bit(prior):
    x, y = np.linspace(-90, 90, 12, dtype=np.float32), 5 + 0.1 * torch.arange(9)
    lattice, signal = cn.RectilinearLattice(x, y), values(12, 9, 2)
    assert lattice.axes == cn.Lattice((12, 9)).axes
    fourier = getattr(prior, "learns", False)
    fits = []
    for samples in (lattice.sample(signal), cn.sample(signal, "full")):
        encoding = cn.FourierEncoding.like(samples) if fourier else cn.ComplexEncoding.like(Gaussian, samples)
        fits.append(cn.fit_closed_form(encoding, samples, prior))
    assert torch.equal(fits[0].render(), fits[1].render())


@pytest.mark.parametrize(("lengths", "missing"), [((32,), False), ((14, 16), True)])
def test_a_planted_function_is_recovered_in_its_units(lengths, missing):
    axes = [coordinates(n, n) for n in lengths]
    signal = smooth(*torch.meshgrid(*axes, indexing="ij"))
    if missing:
        signal[values(*lengths, seed=4) < 0.1] = torch.nan
    fit = cn.fit(cn.RectilinearLattice(*axes).sample(signal))
    finer = [torch.linspace(-3, 12, 31, dtype=torch.float64) for _ in lengths]
    mesh = torch.meshgrid(*finer, indexing="ij")
    tolerance = 2e-2 if missing else 3e-3
    assert torch.allclose(fit.at(*finer)[..., 0], smooth(*mesh), atol=tolerance)
    assert torch.allclose(fit.render((31,) * len(lengths)), fit.at(*finer), atol=1e-9)
    assert torch.allclose(fit(torch.stack(mesh, -1)), fit.at(*finer), atol=1e-9)
    assert torch.allclose(fit.render(), fit.at(*axes), atol=1e-12)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_splines_with_a_knot_at_each_coordinate_are_scipys(degree):
    axes, y = [coordinates(9, 1), coordinates(12, 2)], values(9, 12, 1)
    encoder = EncoderChoice(UnevenSpline, {"degree": degree})
    fit = cn.fit(cn.RectilinearLattice(*axes).sample(y), encoder=encoder, prior=None)
    finer = [torch.linspace(-3, 12, 31, dtype=torch.float64) for _ in axes]
    expected = y[..., 0].numpy()
    for j, (x, new) in enumerate(zip(axes, finer, strict=True)):
        expected = make_interp_spline(x.numpy(), expected, degree, axis=j)(new.numpy())
    assert np.allclose(fit.at(*finer)[..., 0].numpy(), expected, atol=1e-10)


@pytest.mark.slow
def test_exposure_times_take_splines_and_noisy_fields_do_not():
    times, x = 2.0 ** np.arange(-10, 1), np.linspace(0, 1, 24)
    between = np.sqrt(times[1:] * times[:-1])

    def response(t):
        return 1 - np.exp(-8 * t[:, None] * (1 + 3 * x**2))

    fit = cn.fit(cn.RectilinearLattice(times, x).sample(response(times)))
    assert {e.name for e in fit.network.encoding.axis_encoders} == {"uneven-spline"}
    assert np.abs(fit.at(between, x)[..., 0].numpy() - response(between)).max() < 0.04
    lattice = cn.RectilinearLattice(coordinates(16, 1), coordinates(14, 2))
    noisy = smooth(*torch.meshgrid(*lattice.coordinates, indexing="ij")) + 0.05 * (values(16, 14) - 0.5)
    assert isinstance(cn.fit(lattice.sample(noisy)).network.encoding, cn.FourierEncoding)


def test_a_noisy_row_at_chebyshev_s_coordinates_is_smoothed():
    x = -(torch.pi * (torch.arange(40).double() + 0.5) / 40).cos()
    between = (x[1:] + x[:-1]) / 2
    signal, noise = (7 * x).sin(), torch.randn(40, generator=torch.Generator().manual_seed(3)).double()
    fit = cn.fit(cn.RectilinearLattice(x).sample(signal + 0.1 * noise))
    linear = torch.from_numpy(make_interp_spline(x, signal + 0.1 * noise, 1)(between))
    error, other = ((f - (7 * between).sin()).square().mean() for f in (fit.at(between)[:, 0], linear))
    assert error < 0.9 * other


def test_a_renderer_has_the_fit_s_coordinates():
    lattice, y = cn.RectilinearLattice(coordinates(6, 1), coordinates(7, 2)), values(6, 7, 1)
    plan = cn.plan(cn.ComplexEncoding.like(Gaussian, lattice, features=4), lattice, dtype=torch.float64)
    for shape in (None, (5, 9)):
        assert torch.allclose(plan.renderer(shape)(y), plan.fit(y).render(shape), atol=1e-9)


def test_a_saved_fit_keeps_its_coordinates(tmp_path):
    axes = [coordinates(n, n) for n in (8, 9)]
    fit = cn.fit(cn.RectilinearLattice(*axes).sample(values(8, 9)), prior=cn.Adaptive(rounds=1))
    fit.save(tmp_path / "fit.safetensors")
    again = cn.Reconstruction.load(tmp_path / "fit.safetensors")
    assert torch.equal(again.render(), fit.render())
    assert torch.equal(again.at([0.0, 1.5], [2.0]), fit.at([0.0, 1.5], [2.0]))


def test_a_quick_row_is_as_good_between_coordinates_as_a_spline():
    x = coordinates(200, low=0.0, high=199.0)
    between = (x[1:] + x[:-1]) / 2

    def row(t):
        return (1.1 * t).sin() + 0.5 * (1.7 * t + 1).cos()

    fit = cn.fit(cn.RectilinearLattice(x).sample(row(x)))
    spline = make_interp_spline(x, row(x), 3)(between)
    error = (fit.at(between)[:, 0] - row(between)).square().mean()
    assert error < torch.from_numpy(spline - row(between).numpy()).square().mean()


def test_a_file_with_finer_nodes_is_read_to_the_bit(tmp_path):
    x = coordinates(40)
    fit = cn.fit(cn.RectilinearLattice(x).sample(smooth(x)), encoder=cn.FourierEncoding)
    assert fit.network.blending.lattice[0].count == 80 and fit.render().shape == (40, 1)
    fit.save(tmp_path / "fit.safetensors")
    assert torch.equal(cn.Reconstruction.load(tmp_path / "fit.safetensors").render(), fit.render())


def test_deviations_at_unequal_coordinates_follow_the_errors_beside_them():
    x = coordinates(300)
    noise = torch.randn(300, generator=torch.Generator().manual_seed(0)).double()
    deviation = torch.where(torch.arange(300) < 150, 0.01, 0.5)
    samples = cn.RectilinearLattice(x).sample(smooth(x) + deviation * noise)
    std = cn.fit(samples, prior=Stack((cn.ThinPlate(2, 0.5),), weights=(1.0,))).std()
    assert std.shape == (300, 1) and std[:130].mean() < 0.5 * std[170:].mean()


@pytest.mark.parametrize("fourier", [True, False])
def test_any_fit_is_evaluated_at_unequal_coordinates(fourier):
    samples = cn.sample(values(8, 9, 2), "full")
    encoding = cn.FourierEncoding.like(samples) if fourier else cn.ComplexEncoding.like(Gaussian, samples)
    fit = cn.fit_closed_form(encoding, samples, cn.Smoothness(1.5, 0.01))
    x, y = torch.tensor([0.0, 0.11, 0.6]).double(), torch.tensor([0.3, 0.35]).double()
    assert torch.allclose(fit.at(x, y), fit(torch.stack(torch.meshgrid(x, y, indexing="ij"), -1)), atol=1e-10)


def test_a_trained_network_is_fitted_at_the_coordinates():
    lattice = cn.RectilinearLattice(coordinates(6, 1), coordinates(7, 2))
    samples = lattice.sample(values(6, 7))
    network = cn.CoordinateNetwork(cn.SimpleEncoding.like(Gaussian, samples), cn.MLP(8, 1), 1)
    fit = cn.fit_gradient(network, samples, epochs=2)
    points = torch.stack(torch.meshgrid(*lattice.coordinates, indexing="ij"), -1)
    assert torch.allclose(fit.render(), fit(points), atol=1e-10)


def test_what_needs_equal_spacing_says_so():
    samples = cn.RectilinearLattice(coordinates(6, 1), coordinates(7, 2)).sample(values(6, 7))
    fourier = cn.FourierEncoding.like(samples)
    with pytest.raises(
        ValueError, match="`encoding`: expected a ComplexEncoding, whose axes have matrices, at unequal"
    ):
        cn.plan(fourier, samples.geometry, cn.Adaptive())
    with pytest.raises(ValueError, match="expected samples on a lattice for a local prior"):
        cn.fit(samples, prior=cn.Local())
    with pytest.raises(ValueError, match="`encoder`: expected one of a single axis"):
        cn.FourierEncoding.on(samples.axes)
    fit = cn.fit_closed_form(cn.ComplexEncoding.like(Gaussian, samples), samples, None)
    with pytest.raises(ValueError, match="`footprint`: expected point"):
        fit.render(footprint="area")
    with pytest.raises(
        ValueError, match=r"`coordinates`: expected numbers within half a spacing of \[-3, 12\] on axis"
    ):
        fit.at([0.0], [0.0, 14.0])
    with pytest.raises(ValueError, match=r"`points`: expected points of RectilinearLattice.*received 20"):
        fit(torch.tensor([20.0, 0.0]))
