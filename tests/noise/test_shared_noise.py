"""Noise that the colors of a picture share is told from its texture, and from noise that each has of its own."""

import math
from dataclasses import replace

import pytest
import skimage.data
import torch
from scipy.ndimage import gaussian_filter

import coordnet as cn
from coordnet.noise.estimate import brightness_ratio, colored_model
from coordnet.noise.evidence import differences_show
from coordnet.noise.factors import factors_of
from coordnet.noise.grain import Filtered, grain_of
from coordnet.noise.shared import shared_noise
from coordnet.noise.wiener import principal
from coordnet.noise.windows import Windows
from tests.noise.test_white_level import picture, texture


def covariance(share, sigma=0.05):
    """The covariance of noise in three colors of which a share of the power is the same in all."""
    return sigma**2 * (share * torch.ones(3, 3) + (1 - share) * torch.eye(3)).double()


def planted(share, generator, size=128):
    own, same = (torch.randn(size, size, c, generator=generator, dtype=torch.float64) for c in (3, 1))
    return picture(size) + 0.05 * (math.sqrt(share) * same + math.sqrt(1 - share) * own)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_the_variance_in_each_uncorrelated_combination_of_colors_is_found(share, generator):
    noisy = planted(share, generator, 128)
    model = cn.estimate_noise(noisy)
    rotation = principal((noisy - noisy.mean((0, 1))).movedim(-1, 0).unsqueeze(0))[0][0]
    found, expected = (rotation.mT @ c @ rotation for c in (model.floor * model.spectrum[..., 0, 0], covariance(share)))
    assert torch.allclose(found.diag(), expected.diag(), rtol=0.15, atol=0.0)
    assert torch.allclose(found, torch.diag(found.diag()), atol=1e-12)
    assert model.is_white_in_space and str(model).endswith("white and in part the same in all channels")


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_the_covariance_of_filtered_grain_is_found(share, generator):
    def noise(channels):
        white = torch.randn(160, 160, channels, generator=generator, dtype=torch.float64).numpy()
        filtered = torch.from_numpy(gaussian_filter(white, (1.0, 1.0, 0), mode="wrap"))
        return filtered / filtered.std()

    noisy = picture(160) + 0.05 * (math.sqrt(share) * noise(1) + math.sqrt(1 - share) * noise(3))
    model = cn.estimate_noise(noisy)
    assert model.kind == "colored" and not model.is_white_in_space
    lags = model.floor * model.autocovariance
    assert torch.allclose(lags[..., 0, 0], covariance(share), rtol=0.25, atol=0.0002)
    beside = math.exp(-1 / 4)  # the correlation of neighbors after a filter of s pixels is exp(-1/(4s²))
    assert abs(float(lags[..., 0, 1].mean() / lags[..., 0, 0].mean()) - beside) < 0.05


def grain(share, sigma, generator, size=(160, 160)):
    """Grain of a film, filtered by a pixel, of which colors share some of the power."""
    white = torch.randn(*size, 4, generator=generator, dtype=torch.float64).numpy()
    filtered = torch.from_numpy(gaussian_filter(white, (1.0, 1.0, 0), mode="wrap"))
    parts = sigma * filtered / filtered.std()
    return math.sqrt(share) * parts[..., :1] + math.sqrt(1 - share) * parts[..., 1:]


@pytest.mark.slow
def test_differences_of_colors_tell_grain_beside_texture_of_the_brightness(generator):
    noise, ramp = grain(0.8, 0.04, generator), torch.linspace(0.02, 0.3, 160, dtype=torch.float64)
    textured = picture(160) + (ramp[:, None] * texture(2.0, generator, 160))[..., None]
    model = cn.estimate_noise(textured + noise)
    assert model.kind == "colored"
    assert 0.7 < math.sqrt(float(model.variance(textured).mean())) / 0.04 < 1.5
    assert cn.estimate_noise(textured).kind == "none"


def test_differences_of_colors_whose_variance_grows_with_the_light_show_texture(generator):
    windows = Windows.of(picture(160) + grain(0.5, 0.05, generator))
    factors = factors_of(windows)
    even = replace(factors, line=factors.line.level)
    assert differences_show(windows, even)
    assert not differences_show(windows, replace(even, line=replace(even.line, gain=0.1 * even.line.floor)))


@pytest.mark.parametrize(("loudness", "is_noise"), [(30.0, True), (100.0, False)])
def test_what_is_much_louder_in_the_brightness_than_in_the_colors_is_texture(loudness, is_noise):
    generator, ramp = torch.Generator().manual_seed(0), torch.linspace(0.02, 0.3, 160, dtype=torch.float64)
    noisy = picture(160) + grain(0.5, 0.05, generator)
    windows = Windows.of(noisy + (ramp[:, None] * texture(2.0, generator, 160))[..., None])
    factors = factors_of(windows)
    level = factors.spectra.mean(1, keepdim=True)
    louder = level[:-1].mean() / level * torch.tensor([[1.0], [1.0], [loudness]]).to(level)
    model = colored_model(windows, replace(factors, spectra=factors.spectra * louder), is_compressed=False)
    assert (model is not None) == is_noise


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_power_of_shared_grain_in_the_brightness_is_a_multiple_of_that_in_differences(share, generator):
    windows = Windows.of(picture(160) + grain(share, 0.05, generator))
    assert brightness_ratio(windows, factors_of(windows)) == pytest.approx((1 + 2 * share) / (1 - share), rel=0.4)


@pytest.mark.parametrize("widths, is_noise", [((1.0, 1.0), True), ((1.0, 3.0), False)])
def test_waves_on_a_gray_picture_are_no_noise(widths, is_noise, generator):
    white = torch.randn(160, 160, 1, generator=generator, dtype=torch.float64).numpy()
    field = torch.from_numpy(gaussian_filter(white, (*widths, 0), mode="wrap"))
    model = cn.estimate_noise(picture(160, 1) + 0.05 * field / field.std())
    assert (model.kind == "colored") == is_noise


@pytest.mark.slow
def test_shared_noise_is_removed_nearly_like_noise_that_is_told(generator):
    noisy, truth = planted(1.0, generator, 96), picture(96)
    told = cn.NoiseModel(covariance(1.0)[:, :, None, None], floor=1.0)
    reached = [cn.psnr(cn.denoise(noisy, noise=n, prior=cn.Adaptive()).signal, truth) for n in ("auto", told)]
    assert reached[0] > reached[1] - 0.5 > cn.psnr(noisy, truth) + 5


@pytest.mark.slow
def test_noise_of_each_color_s_own_is_not_shared(generator):
    assert shared_noise(planted(0.0, generator), None) is None
    assert cn.estimate_noise(planted(0.0, generator)).kind == "white"


def test_noise_that_was_found_is_not_found_again(generator):
    noisy = planted(0.8, generator)
    assert shared_noise(noisy, None) is not None
    assert shared_noise(noisy, cn.NoiseModel(covariance(0.8)[:, :, None, None], floor=1.0)) is None


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_texture_of_the_brightness_is_no_noise(power, generator):
    field = picture() + 0.1 * texture(power, generator)[..., None]
    assert shared_noise(field, None) is None


def test_grain_on_a_small_picture_is_in_doubt(generator):
    assert shared_noise(planted(1.0, generator, 24), None) is None


@pytest.mark.slow
@pytest.mark.parametrize("width", [1.0, 1.5])
def test_grain_that_all_colors_share_is_told_from_bricks(width, generator):
    bricks = torch.from_numpy(skimage.data.brick()[150:310, 150:310] / 255.0).unsqueeze(2).expand(-1, -1, 3)
    white = torch.randn(160, 160, 1, generator=generator, dtype=torch.float64).numpy()
    noise = torch.from_numpy(gaussian_filter(white, (width, width, 0), mode="wrap"))
    model = cn.estimate_noise(bricks + 0.04 * noise / noise.std())
    assert model.kind == "colored" and not model.is_white_in_space
    assert math.sqrt(float(model.variance(bricks).mean())) == pytest.approx(0.04, rel=0.2)
    assert cn.estimate_noise(bricks).kind != "colored"


def test_patches_some_of_which_are_level_have_no_grain():
    y = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    y[:10] = 0.0
    assert Filtered(y - y.mean(1, keepdim=True), 0.0, (8, 8)).spread == math.inf


def filtered(picture, width, sigma, generator):
    """A gray picture with noise that was filtered by some pixels."""
    white = torch.randn(picture.shape, generator=generator, dtype=torch.float64).numpy()
    noise = torch.from_numpy(gaussian_filter(white, (width, width, 0)))
    return picture + sigma * noise / noise.std()


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.85, 1.2])
def test_grain_has_a_width_between_those_that_are_tried(width, generator):
    """Neighbors of noise that was filtered by s pixels have the correlation exp(-1/(4s²))."""
    camera = torch.from_numpy(skimage.data.camera()[250:410, 150:342] / 255.0).unsqueeze(2)
    grain = grain_of(filtered(camera, width, 0.1, generator), torch.ones(1).double())
    assert math.sqrt(grain.floor) == pytest.approx(0.1, rel=0.1)
    lags = grain.autocovariance[0, 0]
    assert float(lags[0, 1] / lags[0, 0]) == pytest.approx(math.exp(-1 / (4 * width**2)), abs=0.035)


@pytest.mark.slow
def test_the_grain_of_a_gray_page_has_nothing_of_its_letters(generator):
    page = torch.from_numpy(skimage.data.text()[100:260, 60:252] / 255.0).unsqueeze(2)
    model = cn.estimate_noise(filtered(page, 1.0, 0.04, generator))
    assert model.kind == "colored" and math.sqrt(model.floor) == pytest.approx(0.04, rel=0.12)
    assert cn.estimate_noise(page).kind == "none"
