import numpy as np
import pytest
import torch

from coordnet.restore.flat_windows import flat_level
from coordnet.restore.noise import noise_level
from tests.helpers import synthetic_photograph


def constant(like):
    """The variance at every pixel of white noise that was not clipped."""
    return lambda sigma: torch.full_like(like, sigma**2)


def picture(size=192, channels=3):
    truth = synthetic_photograph(size, size, channels).double()
    return 0.2 + 0.6 * (truth - truth.min()) / (truth.max() - truth.min())


@pytest.mark.parametrize("channels", [1, 3])
def test_white_noise_is_told_within_three_percent(channels, generator):
    truth = picture(channels=channels)
    for _ in range(6):
        noisy = truth + 0.1 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
        assert noise_level(noisy) == pytest.approx(0.1, rel=0.03)


def test_texture_that_raised_the_first_estimate_lowers_it(generator):
    """Checks of single pixels, in some windows stronger than in others, cover all but a quarter of the picture."""
    truth, strength = picture(), torch.linspace(0, 1, 192, dtype=torch.float64).sub(0.25).clamp(min=0)
    checks = (-1.0) ** (torch.arange(192)[:, None] + torch.arange(192))
    noisy = truth + (strength * checks)[..., None] * torch.tensor([0.1, 0.09, 0.11], dtype=torch.float64)
    noisy = noisy + 0.02 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    assert flat_level(noisy, 0.06, constant(noisy), count=1000.0) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("sigma", [0.1, 0.2])
def test_noise_that_was_clipped_is_told_within_three_percent(sigma, generator):
    """The bright half is close to the end that clips, and has less noise than there was: half of it with bars."""
    truth = picture()
    truth[:, 96:] = truth[:, 96:] / 4 + 0.85
    truth[96:, ::12] = truth[96:, ::12] - 0.4
    noisy = truth + sigma * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    clipped = noisy.clamp(0, 1)
    assert noise_level(clipped) == pytest.approx(sigma, rel=0.03)
    assert flat_level(clipped, sigma, constant(clipped), count=0.0) < 0.96 * sigma


def test_an_estimate_stays_where_nearly_all_is_clipped():
    white = torch.ones(64, 64, 1)
    white[20:24, 20:24] = 0.5
    assert flat_level(white, 0.07, lambda sigma: 1e-4 * sigma**2 * (1 + white), count=10.0) == 0.07


def test_waves_without_low_frequencies_do_not_raise_the_level():
    """Windows far from the middle of a zone plate have high frequencies alone."""
    rows, columns = np.mgrid[-80:80, -100:100]
    plate = np.round(127.5 + 127.5 * np.cos((rows**2 + columns**2) / 60)) / 255
    assert noise_level(torch.from_numpy(plate)[..., None]) < 2e-3
