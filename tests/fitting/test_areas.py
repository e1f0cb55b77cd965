"""Fits of area samples against dense twins, and planted signals."""

import pytest
import torch

import coordnet as cn
from coordnet.encodings.encoders import DFT, BSpline, Gaussian, Triangle
from coordnet.fitting.choice import suited
from coordnet.linalg.kronecker import outer_sum
from coordnet.linalg.transforms import cosine_matrix
from coordnet.priors.base import Setting
from coordnet.priors.smoothness import FoldedPlan
from coordnet.sampling.grids import CellMeans
from tests.helpers import kron, synthetic_photograph


def signal(*shape, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def dense(grid, cells, weights, values, prior):
    """Minimize Σ w (S f - y)² + λ Σ ρ |z|² by a dense solve; f is centered by the weighted mean."""
    basis = kron([cosine_matrix(n) for n in grid])
    means = kron([torch.eye(n // c).repeat_interleave(c, 1).double() / c for n, c in zip(grid, cells, strict=True)])
    mu = [2 - 2 * torch.cos(torch.pi / n * torch.arange(n, dtype=torch.float64)) for n in grid]
    penalty = prior.strength * outer_sum(mu).flatten() ** prior.power
    a, w = means @ basis, weights.flatten()
    y = values.flatten()
    center = (w * y).sum() / w.sum()
    z = torch.linalg.solve((a.T * w) @ a + torch.diag(penalty), (a.T * w) @ (y - center))
    return (basis @ z + center).reshape(grid)


GRIDS = [((12,), (3,)), ((8, 9), (4, 3)), ((8, 10), (1, 2)), ((4, 6, 4), (2, 3, 1))]
PRIORS = [cn.Smoothness(1.5, 0.01), cn.Smoothness(2.0, 1e-6), cn.Smoothness(0.0, 0.1)]


@pytest.mark.parametrize(("grid", "cells"), GRIDS)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_folded_modes_are_the_dense_solution(grid, cells, prior):
    geometry = cn.AreaLattice(grid, cells)
    values = signal(*geometry.shape, 1)
    encoding = cn.ComplexEncoding.like(Gaussian, cn.AreaLattice(grid))
    plan = cn.plan(encoding, geometry, prior, dtype=torch.float64)
    assert isinstance(plan, FoldedPlan)
    expected = dense(grid, cells, torch.ones(geometry.shape, dtype=torch.float64), values, prior)
    assert torch.allclose(plan.fit(values).render()[..., 0], expected, atol=1e-7)


def test_masked_cells_are_the_dense_solution():
    geometry = cn.AreaLattice((8, 9), (2, 3), (signal(4, 3, 1, seed=2) < 0.7).double())
    values, prior = signal(4, 3, 2), cn.Smoothness(1.5, 0.1)
    encoding = cn.ComplexEncoding.like(Gaussian, cn.AreaLattice((8, 9)))
    exact = cn.fitting.ConjugateGradients(1e-13, 500)
    fit = cn.plan(encoding, geometry, prior, dtype=torch.float64, solver=exact).fit(values)
    for channel in range(2):
        expected = dense((8, 9), (2, 3), geometry.weights, values[..., channel], prior)
        assert torch.allclose(fit.render()[..., channel], expected, atol=1e-7)


@pytest.mark.parametrize("encoder", [Gaussian, Triangle, BSpline, DFT])
@pytest.mark.parametrize("grid", [(30,), (12, 18), (6, 6, 12)])
def test_least_squares_meets_the_means(encoder, grid):
    samples = cn.sample(signal(*grid, 2), "area:3", dimensions=len(grid))
    fit = cn.fit_closed_form(cn.ComplexEncoding.like(encoder, samples), samples, None)
    assert torch.allclose(fit.render(samples.geometry.shape), samples.values, atol=1e-9)
    means = CellMeans(samples.grid, (3,) * len(grid))(fit.render().movedim(-1, 0)).movedim(0, -1)
    assert torch.allclose(means, samples.values, atol=1e-9)


@pytest.mark.parametrize("pattern", ["full", "random:0.7", "area:2"])
def test_a_render_of_areas_is_the_mean_of_finer_ones(pattern):
    samples = cn.sample(signal(24, 16, 1), pattern)
    for prior in (cn.Smoothness(1.5, 0.01), cn.Adaptive(rounds=1)):
        fourier = prior.learns or pattern != "full"
        encoding = cn.FourierEncoding.like(samples) if fourier else cn.ComplexEncoding.like(Gaussian, samples)
        fit = cn.fit_closed_form(encoding, samples, prior)
        fine = fit.render((36, 24), footprint="area").unflatten(1, (-1, 3)).unflatten(0, (-1, 3)).mean((1, 3))
        assert torch.allclose(fit.render((12, 8), footprint="area"), fine, atol=1e-9)


@pytest.mark.parametrize("fourier", [True, False])
def test_means_of_the_function_over_cells_are_the_render(fourier):
    """The mean of the fit at many points of a cell, against the encoding's integral over it."""
    samples = cn.sample(signal(24, 1), "area:2", dimensions=1)
    encoding = cn.FourierEncoding.like(samples) if fourier else cn.ComplexEncoding.like(Triangle, samples)
    fit = cn.fit_closed_form(encoding, samples, cn.Smoothness(1.5, 0.01))
    axis = samples.axes[0]
    inside = axis.points().unsqueeze(1) + axis.width * ((torch.arange(500) + 0.5) / 500 - 0.5)
    made = fit(inside.unsqueeze(-1)).mean(1)
    assert torch.allclose(made, fit.render((12,)), atol=1e-5)
    shifted = cn.sampling.Axis(12, axis.start + 1e-9, axis.spacing, axis.width)  # computed, not copied from the nodes
    assert torch.allclose(made, fit.on_axes((shifted,)), atol=1e-5)


def test_a_network_has_no_areas():
    network = cn.CoordinateNetwork(cn.SimpleEncoding.like(Gaussian, cn.Lattice((8, 8))), cn.MLP(1, 4), 1)
    fit = cn.Reconstruction(network, torch.zeros(1), (8, 8))
    with pytest.raises(ValueError, match="`footprint`: expected point, unless a linear head is on a complex"):
        fit.render((4, 4), footprint="area")


def test_area_samples_of_a_picture_by_default(tmp_path):
    truth = synthetic_photograph(48, 36)
    samples = cn.sample(truth, "area:2")
    fit = cn.fit(samples)
    repeated = samples.values.repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert cn.psnr(fit.render(), truth) > cn.psnr(repeated, truth) + 2
    fit.save(tmp_path / "a.safetensors")
    assert torch.equal(cn.Reconstruction.load(tmp_path / "a.safetensors").render((30, 20)), fit.render((30, 20)))


def test_unknown_cells_are_filled():
    truth = synthetic_photograph(32, 24)
    gaps = truth.clone()
    gaps[torch.rand(32, 24, generator=torch.Generator().manual_seed(0)) < 0.05] = torch.nan
    samples = cn.sample(gaps, "area:2")
    assert 0.7 < float(samples.weights.mean()) < 0.9
    assert cn.psnr(cn.fit(samples, prior=cn.Adaptive(rounds=1)).render(), truth) > 22
    assert suited(Setting(samples.geometry)) == cn.Adaptive()


def test_an_encoding_that_does_not_reach_every_pixel_is_refused():
    geometry = cn.AreaLattice((8, 8), (2, 2))
    encoding = cn.ComplexEncoding.like(Gaussian, cn.AreaLattice((8, 8)), sigma=1.0)
    with pytest.raises(ValueError, match="`encoding`: expected one that reaches every pixel"):
        cn.plan(encoding, geometry, cn.Smoothness(), dtype=torch.float64)


def test_plates_are_refused():
    samples = cn.sample(signal(12, 12, 1), "area:2")
    with pytest.raises(ValueError, match="`prior`: expected cn.Smoothness or cn.Adaptive for means over cells"):
        cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, cn.ThinPlate())


def test_networks_learn_no_means():
    samples = cn.sample(signal(12, 12, 1), "area:2")
    network = cn.CoordinateNetwork(cn.ComplexEncoding.like(Gaussian, samples), cn.MLP(1, 4), 1)
    with pytest.raises(ValueError, match="`samples`: expected values at points, unless a linear head"):
        cn.fit_gradient(network, samples, epochs=1)
