import math

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.noise.bound import most_noise, noise_bounds
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum

random = np.random.default_rng
ONE = cn.NoiseModel(floor=1.0)


def signal(picture):
    return torch.from_numpy(np.round(np.asarray(picture))).float().reshape(*picture.shape[:2], -1) / 255


def halftone():
    """Dots whose size follows a hill, drawn four times as large and averaged."""
    y, x = np.mgrid[:384, :384] / 4
    dots = 0.5 + 0.25 * (np.cos(1.3 * x + 0.7 * y) + np.cos(0.7 * x - 1.3 * y))
    ink = dots > 0.3 + 0.4 * np.exp(-((x - 40) ** 2 + (y - 50) ** 2) / 900)
    return 20 + 200.0 * ink.reshape(96, 4, 96, 4).mean((1, 3))


def enlarged():
    """Random gray pixels of 3 by 3."""
    return np.kron(random(0).integers(30, 220, (32, 32)), np.ones((3, 3)))


def noisy(picture, sigma, generator):
    return (picture + sigma * torch.randn(picture.shape, generator=generator)).clamp(0, 1)


@pytest.mark.parametrize("make", [halftone, enlarged])
def test_flat_areas_leave_no_noise(make, generator):
    picture = signal(make())
    assert most_noise(picture, ONE) == 0.0
    assert cn.estimate_noise(picture).kind == "none"
    for sigma in (0.02, 0.05):
        most = most_noise(noisy(picture, sigma, generator), ONE)
        assert sigma < most < 1.6 * sigma


def test_an_icon_has_no_noise():
    """Disks in some colors on a ground, 32 pixels a side, drawn four times as large and averaged."""
    (y, x), draw = np.mgrid[:128, :128] / 4, random(2)
    icon = np.full((128, 128, 3), 230.0)
    for _ in range(5):
        row, column = 32 * draw.random(2)
        icon[np.hypot(y - row, x - column) < draw.uniform(3, 10)] = draw.uniform(25, 230, 3)
    picture = signal(icon.reshape(32, 4, 32, 4, 3).mean((1, 3)))
    assert most_noise(picture, ONE) == 0.0 and cn.estimate_noise(picture).kind == "none"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_noise_is_never_more_than_the_most(channels, sigma, generator):
    """It is the most itself on a constant."""
    truth = synthetic_photograph(128, 128, channels)
    for picture in (truth, torch.full_like(truth, 0.5)):
        picture = picture + sigma * torch.randn(picture.shape, generator=generator)
        assert most_noise(picture, ONE) > 0.97 * sigma
    assert most_noise(picture, ONE) == pytest.approx(sigma, rel=0.1)


def test_two_levels_with_noise_have_a_cosine_of_the_characteristic_function(generator):
    """|cos(aω)| exp(-σ²ω²/2) is at its bound where aω is a multiple of π."""
    levels = 0.5 + 0.3 * (torch.rand(160, 160, 1, generator=generator) < 0.5).float()
    picture = levels + 0.05 * torch.randn(levels.shape, generator=generator)
    assert most_noise(picture, ONE) == pytest.approx(0.05, rel=0.25)


def test_the_noise_of_a_model_is_possible_and_three_times_as_much_is_not(generator):
    truth = synthetic_photograph(128, 128, 3).double()
    white = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    for model in (cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=0.01), cn.NoiseModel(gain=0.02, floor=1e-4)):
        process = white if model.spectrum is None else model.process((128, 128), 3, generator)
        picture = truth + model.variance(truth).sqrt() * process
        assert 0.95 < most_noise(picture, model) < 2
        assert most_noise(picture, model.in_units(3.0)) < 0.7 or model.gain > 0


def test_waves_are_no_colored_noise():
    """Their values have the density of an arcsine, which no noise of their power leaves."""
    y, x = np.mgrid[:128, :128]
    rings = 127.5 + 100 * np.sin(np.hypot(x - 40, y + 60) / 2 + 4 * np.sin(x / 30) * np.cos(y / 17))
    model = cn.NoiseModel(floor=float(signal(rings).var()))
    assert most_noise(signal(rings), model) < 0.5
    assert math.sqrt(cn.estimate_noise(signal(rings)).floor) < 0.02


def test_noise_of_less_than_a_step_is_that_of_rounding(generator):
    slope = torch.linspace(0.2, 0.7, 128).expand(128, 128)[..., None]
    assert cn.estimate_noise((255 * slope).round() / 255).kind == "none"
    dithered = (255 * slope + torch.rand(slope.shape, generator=generator)).floor() / 255
    assert cn.estimate_noise(dithered).kind == "none"


def test_clipped_noise_on_white_is_bounded_by_its_own_half():
    """The values below white are half-normal, so that their distances from it tell the deviation."""
    generator = torch.Generator().manual_seed(4)
    picture = torch.ones(64, 64, 1) + 0.1 * torch.randn(64, 64, 1, generator=generator)
    assert 0.1 < most_noise(picture.clamp(0, 1), ONE) < 0.12


def test_clipped_noise_on_thin_lines_is_told(generator):
    """Lines five and seven pixels apart leave no flat window, and periodic ink is no noise."""
    y, x = np.mgrid[:128, :128]
    for ink in ((y % 5 == 0), (y % 7 == 0) | (x % 7 == 0)):
        picture = torch.from_numpy(1.0 - ink)[..., None]
        picture = picture + 0.02 * torch.randn(picture.shape, generator=generator)
        picture = (255 * picture.clamp(0, 1)).round() / 255
        model = cn.estimate_noise(picture)
        assert model.kind == "white" and math.sqrt(model.floor) == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize("factor", [1.1, 1.3, 1.5, 1.9])
def test_stretched_noise_is_no_comb(factor, generator):
    """Levels that are missing are no flat areas."""
    rounded = (100 + 30 * synthetic_photograph(160, 160) + 8 * torch.randn(160, 160, 3, generator=generator)).round()
    stretched = (factor * (rounded - 60) + 0.5).floor() / 255
    assert most_noise(stretched, ONE) > 0.97 * factor * 8 / 255


def test_pixels_that_were_filled_leave_the_noise_of_the_others(generator):
    """Values between the levels of 8 bits are no finer levels of all values."""
    picture = (255 * noisy(synthetic_photograph(128, 128), 0.05, generator)).round() / 255
    filled = torch.rand(128, 128, generator=generator) < 0.1
    picture[filled] = torch.rand(int(filled.sum()), picture.shape[-1], generator=generator) / 2 + 0.25
    assert 0.05 < most_noise(picture, ONE)


@pytest.mark.parametrize(("slope", "least", "largest"), [(False, 1.0, 1.6), (True, 4.0, 20.0)])
def test_the_values_of_a_drawing_alone_bound_its_noise(slope, least, largest, generator):
    """The values of a slope do not, but their differences do."""
    picture = torch.linspace(0.1, 0.9, 128).expand(128, 128)[..., None] if slope else signal(halftone())
    noisy = picture + 0.02 * torch.randn(picture.shape, generator=generator)
    most, by_values = (bound / 0.02 for bound in noise_bounds(noisy, ONE))
    assert 1 < most < 1.6 and least < by_values < largest
