"""The local prior on means over cells: one patch against the textbook, its means, and what it brings."""

import math

import pytest
import torch

import coordnet as cn
from coordnet.priors.local import cell_means
from coordnet.priors.local import mixture as mixtures
from coordnet.priors.local.classes import gray_shapes
from coordnet.priors.local.mixture import CANDIDATES, ENERGIES, MIN_PROBABILITY
from coordnet.priors.local.similar_patches import GROUP_FLOOR, GROUP_SHARE
from coordnet.sampling.grids import CellMeans
from tests.helpers import synthetic_photograph


def picture(height, width, channels=3):
    return synthetic_photograph(height, width, channels)


def test_a_picture_of_one_patch_has_the_textbook_s_mean(generator):
    y, noise = torch.rand(1, 4, 4, generator=generator, dtype=torch.float64), 1e-4
    shapes = gray_shapes((8, 8))
    pixels = torch.eye(64, dtype=torch.float64).reshape(64, 8, 8)
    a = CellMeans((8, 8), (2, 2))(pixels).flatten(1).T
    x, found = (y - y.mean()).flatten(), []
    for s in shapes:
        for energy in ENERGIES:
            c = a @ (energy * s) @ a.T + noise * torch.eye(16, dtype=torch.float64)
            density = torch.distributions.MultivariateNormal(torch.zeros(16, dtype=torch.float64), c).log_prob(x)
            found.append((float(density), energy * s @ a.T @ torch.linalg.solve(c, x)))
    top = sorted(found, key=lambda pair: -pair[0])[:CANDIDATES]
    total = torch.logsumexp(torch.tensor([density for density, _ in found], dtype=torch.float64), 0)
    kept = [(math.exp(density - total), mean) for density, mean in top if density - total > math.log(MIN_PROBABILITY)]
    expected = sum(p * mean for p, mean in kept) / sum(p for p, _ in kept)
    torch.testing.assert_close(cell_means.divided(y, (2, 2), noise)[0], y.mean() + expected.reshape(8, 8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "cells", "dtype"),
    [
        ((24, 20, 3), (2, 2), torch.float32),
        ((24, 18, 1), (2, 3), torch.float64),
        ((16, 8, 4), (4, 1), torch.float32),
        ((4, 4, 2), (2, 2), torch.float32),
        ((24, 40, 3), (6, 10), torch.float32),
    ],
)
def test_the_means_over_the_cells_are_the_samples(shape, cells, dtype, generator):
    values = torch.rand(shape[0] // cells[0], shape[1] // cells[1], shape[2], generator=generator).to(dtype)
    samples = cn.Samples(cn.AreaLattice(shape[:2], cells), values)
    fit = cn.fit(samples, prior=cn.Local())
    f = fit.render()
    assert f.dtype == dtype and tuple(f.shape) == shape
    torch.testing.assert_close(CellMeans(shape[:2], cells)(f.movedim(-1, 0)).movedim(0, -1), values)
    assert fit.report.prior.startswith("Local") and 0 <= fit.report.alpha <= 1


def test_it_is_above_splines_by_default_and_alone_keeps_a_constant():
    truth = picture(96, 80)
    samples = cn.sample(truth, "area:2")
    local, splines = cn.fit(samples), cn.fit(samples, prior=None)
    assert local.report.prior.startswith("Local")
    assert cn.psnr(local.render(), truth) > cn.psnr(splines.render(), truth) + 0.3
    found = local.report.hold_out_psnr
    assert found["local"] > found["pilot"]
    constant = cn.fit(cn.sample(torch.full((24, 24, 1), 0.3), "area:2"), prior=cn.Local()).render()
    torch.testing.assert_close(constant, torch.full((24, 24, 1), 0.3))


@pytest.mark.slow
def test_wide_cells_take_no_larger_patches(monkeypatch):
    sizes, shapes = [], cell_means.joint_shapes
    monkeypatch.setattr(cell_means, "joint_shapes", lambda shape, **kw: sizes.append(shape) or shapes(shape, **kw))
    truth = picture(96, 96)
    samples = cn.sample(truth, "area:12")
    fit = cn.fit(samples)
    assert max(sizes) == (cell_means.CELLS * cell_means.MAX_DIVISION,) * 2
    assert cn.psnr(fit.render(), truth) > cn.psnr(cn.fit(samples, prior=None).render(), truth)


def test_groups_condition_patches_on_their_means_as_the_textbook_does(generator):
    x = torch.randn(3, 9, 24, generator=generator, dtype=torch.float64)
    pixels = torch.eye(24, dtype=torch.float64).reshape(24, 4, 6)
    rows = CellMeans((4, 6), (2, 3))(pixels).flatten(1).T
    y = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    mean, variance = cell_means.condition_means(y, rows, x, 0.01)
    for i in range(3):
        deviations = x[i] - x[i].mean(0)
        floor = GROUP_FLOOR + GROUP_SHARE * deviations.square().mean()
        s = torch.cov(x[i].T, correction=0) + floor * torch.eye(24)
        gain = s @ rows.T @ torch.linalg.inv(rows @ s @ rows.T + 0.01 * torch.eye(4))
        torch.testing.assert_close(mean[i], x[i].mean(0) + gain @ (y[i] - rows @ x[i].mean(0)))
        torch.testing.assert_close(variance[i], (s - gain @ rows @ s).diagonal())


@pytest.mark.slow
def test_groups_divide_cells_of_a_picture_that_repeats(monkeypatch):
    y, x = torch.meshgrid(torch.arange(96.0), torch.arange(104.0), indexing="ij")
    truth = 0.5 + 0.4 * torch.stack([(0.1 * x + 0.07 * y).sin().sign(), (0.08 * x - 0.12 * y).cos().sign()], -1)
    samples = cn.sample(truth, "area:2")
    fit = cn.fit(samples, prior=cn.Local())
    (groups,) = fit.report.groups
    assert groups.against == "the patches" and 0 < groups.alpha <= cell_means.GROUP_TRUST
    wide = cn.Samples(cn.AreaLattice((8 * 48, 8 * 52), (8, 8)), samples.values)
    assert cn.fit(wide, prior=cn.Local()).report.groups is None  # its half is the same, but such cells are too wide
    monkeypatch.setattr(cell_means, "divided_from_similar", lambda y, cells, first, pilot, noise: pilot)
    without = cn.fit(samples, prior=cn.Local())
    assert without.report.groups is None
    assert cn.psnr(fit.render(), truth) > cn.psnr(without.render(), truth) + 0.2


def test_noise_is_removed_by_its_deviation(generator):
    truth = picture(96, 80)
    samples = cn.sample(truth, "area:2")
    noisy = cn.Samples(samples.geometry, samples.values + 0.05 * torch.randn(samples.values.shape, generator=generator))
    plain, told = (cn.fit(noisy, prior=cn.Local(noise=noise)).render() for noise in (0.0, 0.05))
    assert cn.psnr(told, truth) > cn.psnr(plain, truth) + 0.7


def test_chunks_threads_and_a_batch_do_not_change_it(monkeypatch):
    values = torch.stack([picture(20, 16), picture(20, 16).flip(0)])
    plan = cn.plan(cn.FourierEncoding.on(cn.AreaLattice((40, 32)).pixels), cn.AreaLattice((40, 32), (2, 2)), cn.Local())
    batch = plan.fit(values).render()
    torch.testing.assert_close(plan.fit(values[1]).render(), batch[1])
    monkeypatch.setattr(mixtures, "EVIDENCE", 37 * 4 * 8 * 26)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    chunked = plan.fit(values).render()
    torch.set_num_threads(before)
    torch.testing.assert_close(chunked, batch, atol=1e-5, rtol=0)


@pytest.mark.parametrize("pattern", ["area:1", "area:2"])
def test_other_means_are_refused(pattern):
    signal = torch.rand(8, 8, 8, 1) if pattern == "area:2" else torch.rand(8, 8, 1)
    samples = cn.sample(signal, pattern)
    with pytest.raises(ValueError, match="`prior`: expected None, Smoothness or Adaptive, but for all means of a pict"):
        cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, cn.Local())
