"""Enlargements of pixels that are areas: planted signals and noise."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.restore.rows import upscale_rows
from coordnet.restore.upscale_choice import choose_strength, stein_strength
from tests.helpers import synthetic_photograph


def noisy(height, width, sigma, seed=0):
    clean = synthetic_photograph(height, width)
    return clean + sigma * torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))


def centroid(picture):
    """The center of mass along each axis, in units of the picture."""
    total = picture.sum()
    axes = [(torch.arange(n, dtype=torch.float64) + 0.5) / n for n in picture.shape]
    return float((picture.sum(1) * axes[0]).sum() / total), float((picture.sum(0) * axes[1]).sum() / total)


@pytest.mark.parametrize("prior", [cn.Local(), None], ids=["local", "none"])
@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0, 2.5, 3.0])
def test_nothing_shifts(factor, prior):
    """Means over cells are kept, and so is the center of a symmetric hill that is away from the borders."""
    i, j = ((torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (40, 32))
    hill = torch.exp(-60 * ((i - 0.45).square().unsqueeze(1) + (j - 0.6).square()))
    large = cn.upscale(hill, factor, prior=prior).signal
    assert centroid(large) == pytest.approx(centroid(hill), abs=1e-6)
    assert centroid(large) == pytest.approx((0.45, 0.6), abs=1e-5)
    assert float(large.mean()) == pytest.approx(float(hill.mean()), rel=1e-6)
    mirrored = cn.upscale(hill.flip(0), factor, prior=prior).signal.flip(0)
    assert torch.allclose(mirrored, large, atol=1e-10)


def test_gray_frames_are_enlarged_as_pictures_and_keep_their_number():
    frames = (255 * synthetic_photograph(30, 24).movedim(-1, 0)).round().to(torch.uint8)[[0, 1, 2, 1, 0]].numpy()
    large = cn.upscale(frames, 2.0).signal
    assert large.shape == (5, 60, 48)
    np.testing.assert_array_equal(large, cn.upscale(frames[..., None], 2.0).signal[..., 0])


def test_without_noise_the_pixels_are_the_means():
    picture = torch.rand(12, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    fit = cn.fit(cn.Samples(cn.AreaLattice((12, 9)), picture))
    means = fit.render((36, 27)).unflatten(1, (-1, 3)).unflatten(0, (-1, 3)).mean((1, 3))
    assert torch.allclose(means, picture, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 7, 1), (3, 2, 3), (2, 5, 1)])
def test_the_smallest_pictures_are_divided_into_pixels_with_their_means(shape):
    picture = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    large = cn.upscale(picture, 2.0, prior=cn.Local()).signal
    assert torch.allclose(large.unflatten(1, (-1, 2)).unflatten(0, (-1, 2)).mean((1, 3)), picture, atol=1e-9)


@pytest.mark.slow
def test_noise_is_removed_where_it_matters():
    truth, sigma = synthetic_photograph(128, 128), 0.05
    small = truth.unflatten(1, (-1, 2)).unflatten(0, (-1, 2)).mean((1, 3))
    white = sigma * torch.randn(small.shape, generator=torch.Generator().manual_seed(0))
    made, smoothed = cn.upscale(small + white), cn.upscale(small + white, prior=None)
    assert made.report.removed[0]["floor"] == pytest.approx(sigma**2, rel=0.3) and smoothed.report.removed is None
    assert smoothed.report.noise == pytest.approx(sigma, rel=0.15)
    assert cn.psnr(made.signal, truth) > cn.psnr(smoothed.signal, truth) + 1
    fit = cn.fit(cn.Samples(cn.AreaLattice((64, 64)), small + white))
    assert cn.psnr(smoothed.signal, truth) > cn.psnr(fit.render((128, 128)), truth) + 1
    faint = cn.upscale(small + 0.02 * white)
    assert faint.report.removed is None and faint.report.noise < 0.01


def test_stein_s_strength_is_near_the_best():
    clean, picture = synthetic_photograph(64, 48).double(), noisy(64, 48, 0.1).double()
    errors = {}
    for strength in (*np.logspace(-3, 2, 11), stein_strength(picture, 0.1)):
        plan = cn.plan(
            cn.ComplexEncoding.like(cn.Gaussian, cn.Lattice((64, 48))),
            cn.Lattice((64, 48)),
            cn.Smoothness(1.5, float(strength)),
            dtype=torch.float64,
        )
        errors[float(strength)] = float((plan.fit(picture).render() - clean).square().mean())
    assert errors[stein_strength(picture, 0.1)] < 1.02 * min(errors.values())
    assert stein_strength(clean, 0.0) == 0


@pytest.mark.parametrize("memory", [300_000, 2**26])
def test_noisy_rows_are_smoothed_as_pictures_are(memory):
    picture = noisy(140, 33, 0.05)
    blocks, report, _ = upscale_rows(picture.numpy(), 1.5, memory=memory)
    expected = cn.upscale(picture, 1.5, prior=None)
    assert report.strength == expected.report.strength > 0
    found = torch.from_numpy(np.concatenate(list(blocks)))
    assert torch.allclose(found, expected.signal, atol=2e-3)
    assert float((found - expected.signal).square().mean().sqrt()) < 1e-4


def test_points_are_met_and_areas_are_not():
    picture = synthetic_photograph(30, 24)
    points = cn.upscale(picture, 2.0, samples="point")
    assert torch.allclose(points.fit.render(), picture, atol=1e-4)
    assert points.report.sigma in points.report.tried


def test_what_is_too_small_for_an_estimate_is_not_smoothed():
    chosen, expected = choose_strength(torch.rand(5, 40, 1))
    assert (chosen.noise, chosen.strength, expected) == (0.0, 0.0, None)


def test_noise_that_is_not_white_is_removed_before(generator):
    truth = synthetic_photograph(48, 40)
    half, model = truth.unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).mean((1, 3)), cn.NoiseModel(gain=0.02, floor=2e-4)
    noisy = half + model.variance(half).sqrt() * torch.randn(half.shape, generator=generator)
    made = cn.upscale(noisy.unsqueeze(0), noise=model, prior=None)
    white = cn.upscale(noisy, prior=None)
    assert cn.psnr(made.signal[0], truth) > cn.psnr(white.signal, truth) + 2
    assert [found["kind"] for found in made.report.removed] == ["camera"] and white.report.removed is None
    with pytest.raises(ValueError, match="`noise`: expected one of"):
        cn.upscale(noisy, noise="pink")


@pytest.mark.parametrize("samples", ["area", "point"])
def test_values_whose_squares_overflow_are_refused(samples):
    picture = synthetic_photograph(9, 8).double()
    with pytest.raises(ValueError, match="`image`: expected values whose squares are finite, received"):
        cn.upscale(1e200 * picture, samples=samples)
    assert bool(cn.upscale(1e150 * picture, samples=samples).signal.isfinite().all())


@pytest.mark.parametrize("prior", [cn.Local(), None], ids=["local", "none"])
def test_a_constant_picture_stays_so_and_says_nothing_of_the_error(prior):
    made = cn.upscale(torch.full((24, 20, 3), 0.3, dtype=torch.float64), 2.0, prior=prior)
    assert torch.allclose(made.signal, torch.full((48, 40, 3), 0.3, dtype=torch.float64))
    assert made.expected_psnr is None


@pytest.mark.slow
def test_texture_that_looks_like_noise_stays():
    """A rough random field of one channel is enlarged as one without noise is."""
    frequency = torch.hypot(*torch.meshgrid(*(torch.fft.fftfreq(128).double(),) * 2, indexing="ij"))
    frequency[0, 0] = 1
    white = torch.randn(128, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    field = torch.fft.ifft2(torch.fft.fft2(white) * frequency**-1.25).real
    field = 0.5 + 0.12 * field / field.std()
    assert cn.upscale(field).report.removed is None
    assert cn.upscale(field + 0.2 * white.roll(5, 0)).report.removed is not None
