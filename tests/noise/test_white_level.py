import math

import numpy as np
import pytest
import torch

from coordnet.noise import white_level as module
from coordnet.noise.white import noise_level, seen_level
from coordnet.noise.white_level import noise_beside_textures, texture_laws, white_level
from coordnet.noise.windows import Windows
from tests.helpers import synthetic_photograph


def constant(like):
    """The variance at every pixel of white noise that was not clipped."""
    return lambda sigma: torch.full_like(like, sigma**2)


def picture(size=192, channels=3):
    truth = synthetic_photograph(size, size, channels).double()
    return 0.2 + 0.6 * (truth - truth.min()) / (truth.max() - truth.min())


def texture(power, generator, size=192):
    """A random field whose power falls as a power of the frequency, of standard deviation 1."""
    line = torch.fft.fftfreq(size, dtype=torch.float64)
    radius = torch.hypot(line[:, None], line).clamp(min=0.5 / size)
    white = torch.randn(size, size, generator=generator, dtype=torch.float64)
    field = torch.fft.ifft2(torch.fft.fft2(white) * radius ** (-power / 2)).real
    return field / field.std()


@pytest.mark.parametrize("channels", [1, 3])
def test_white_noise_is_told_within_three_percent(channels, generator):
    truth = picture(channels=channels)
    for _ in range(6):
        noisy = truth + 0.1 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
        assert noise_level(noisy) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize(("power", "amount"), [(2.0, 0.2), (3.0, 0.4)])
def test_noise_is_told_from_texture_of_any_strength(power, amount, generator):
    """The highest frequencies have too much in more than half of the picture."""
    strength = 16 ** (torch.cos(3 * texture(4.0, generator)) - 1)
    truth = 0.5 + 0.1 * texture(4.0, generator) + amount * strength * texture(power, generator)
    noisy = (truth + 0.02 * torch.randn(truth.shape, generator=generator, dtype=torch.float64))[..., None]
    assert seen_level(noisy) > 1.05 * 0.02
    assert noise_level(noisy) == pytest.approx(0.02, rel=0.03)


def test_the_variance_beside_planted_textures_is_found(generator):
    """Energies are drawn from such a mixture, a third of the windows without texture."""
    laws = texture_laws(Windows.of(torch.rand(32, 32, 1, dtype=torch.float64)), module.LAWS)[:, ::2].float()
    strength = 4.0 ** torch.randint(-1, 4, (600, 1), generator=generator) * (torch.arange(600) % 3 > 0)[:, None]
    shape = torch.randint(0, len(laws), (600,), generator=generator)
    mean = 0.7 + strength * laws[shape] / laws[shape].mean(1, keepdim=True)
    energy = mean * torch.empty_like(mean).exponential_(generator=generator)
    noise, is_doubtful = noise_beside_textures(energy, laws, laws)
    assert noise == pytest.approx(0.7, rel=0.05)
    assert not is_doubtful


def test_laws_are_the_energies_of_windows_of_such_textures(generator):
    """Windows of random fields have the mean energies of the law with the same power, in all but the lowest modes."""
    windows = [Windows.of(texture(2.0, generator)[..., None]) for _ in range(6)]
    energy = torch.cat([w.modes[:, 0].abs().square() for w in windows]).mean(0) / windows[0].seen.sum(1)
    law = texture_laws(windows[0], [(2.0, math.inf)])[0]
    ratio = (energy / law)[windows[0].radius > module.LEAST_FREQUENCY]
    assert float((ratio / ratio.mean() - 1).square().mean().sqrt()) < 0.1


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_texture_alone_has_no_noise(power, generator):
    field = 0.5 + 0.1 * texture(power, generator)[..., None]
    assert seen_level(field) > 0.01
    assert noise_level(field) == 0
    assert noise_level(field + 0.1 * torch.randn(field.shape, generator=generator)) > 0.1


def test_texture_that_raised_the_first_estimate_lowers_it(generator):
    """Checks of single pixels, in some windows stronger than in others, cover all but a quarter of the picture."""
    truth, strength = picture(), torch.linspace(0, 1, 192, dtype=torch.float64).sub(0.25).clamp(min=0)
    checks = (-1.0) ** (torch.arange(192)[:, None] + torch.arange(192))
    noisy = truth + (strength * checks)[..., None] * torch.tensor([0.1, 0.09, 0.11], dtype=torch.float64)
    noisy = noisy + 0.02 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    assert white_level(noisy, 0.06, constant(noisy)) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("sigma", [0.1, 0.2])
def test_noise_that_was_clipped_is_told_within_three_percent(sigma, generator):
    """The bright half is close to the end that clips, and has less noise than there was: half of it with bars."""
    truth = picture()
    truth[:, 96:] = truth[:, 96:] / 4 + 0.85
    truth[96:, ::12] = truth[96:, ::12] - 0.4
    noisy = truth + sigma * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    clipped = noisy.clamp(0, 1)
    assert noise_level(clipped) == pytest.approx(sigma, rel=0.03)
    assert white_level(clipped, sigma, constant(clipped)) < 0.96 * sigma


def test_an_estimate_stays_where_nearly_all_is_clipped():
    white = torch.ones(64, 64, 1)
    white[20:24, 20:24] = 0.5
    assert white_level(white, 0.07, lambda sigma: 1e-4 * sigma**2 * (1 + white)) == 0.07


def test_an_estimate_stays_where_the_spectrum_has_lines(generator):
    """Hatchings have all their energy in a few modes, and laws that explain these explain too much in the others."""
    rows, columns = torch.meshgrid(torch.arange(192), torch.arange(192), indexing="ij")
    hatched = ((0.31 * rows + 0.12 * columns) % 1 > 0.4).double()[..., None]
    noisy = hatched + 0.05 * torch.randn(hatched.shape, generator=generator, dtype=torch.float64)
    assert white_level(noisy, 0.05, constant(noisy)) == 0.05


def test_waves_without_low_frequencies_do_not_raise_the_level():
    """Windows far from the middle of a zone plate have high frequencies alone."""
    rows, columns = np.mgrid[-80:80, -100:100]
    plate = np.round(127.5 + 127.5 * np.cos((rows**2 + columns**2) / 60)) / 255
    assert noise_level(torch.from_numpy(plate)[..., None]) < 2e-3


def test_a_picture_with_flat_places_has_no_more_noise_than_they_have(generator):
    """Checks of single pixels cover all but a quarter of the picture."""
    checks = 0.1 * (-1.0) ** (torch.arange(192)[:, None] + torch.arange(192)) * (torch.arange(192) > 48)
    faint = 1e-3 * torch.randn(192, 192, generator=generator, dtype=torch.float64)
    assert white_level((checks + faint)[..., None], 0.1, constant(faint[..., None])) < 1.4e-3


def test_texture_that_leaves_no_place_flat_has_no_noise():
    """Its spectrum alone has room for noise of 0.0076, but no patch is as flat as that."""
    field = 0.5 + 0.2 * texture(3.0, torch.Generator().manual_seed(2))[..., None]
    assert noise_level(field) == 0


@pytest.mark.parametrize(("likeliest", "level"), [(0.9**2 - 0.01, None), (0.9**2 + 0.01, 0.3), (1.2, 0.3)])
def test_a_level_that_patches_contradict_by_little_stays(monkeypatch, likeliest, level):
    monkeypatch.setattr(module, "likeliest_noise", lambda energy: (likeliest, 5.0, 5.0))
    energies = [torch.linspace(0.1, 9.0, 50)]
    expected = 0.3 * (1 + math.sqrt(likeliest)) / 2 if level is None else level
    assert module._checked(0.3, energies, is_doubtful=False) == pytest.approx(expected)
    monkeypatch.setattr(module, "likeliest_noise", lambda energy: (likeliest, 1.0, 5.0))
    assert module._checked(0.3, energies, is_doubtful=False) == 0.3


def test_a_level_in_doubt_is_believed_where_the_values_have_peaks_as_wide(generator):
    """Dots of two shades leave no place flat; the field is as rough, and has all shades."""
    y, x = np.mgrid[:512, :512] / 4
    dots = np.cos(0.7 * x + 0.4 * y) + np.cos(0.4 * x - 0.7 * y) < 0.8 * np.cos(0.05 * x) * np.cos(0.04 * y)
    halftone = torch.from_numpy(0.3 + 0.5 * dots.reshape(128, 4, 128, 4).mean((1, 3)))[..., None]
    noisy = halftone + 0.02 * torch.randn(halftone.shape, generator=generator, dtype=torch.float64)
    assert noise_level(halftone) == 0
    assert noise_level(noisy) == pytest.approx(0.02, rel=0.3)
    assert noise_level(0.5 + 0.2 * texture(2.0, generator)[..., None]) == 0
