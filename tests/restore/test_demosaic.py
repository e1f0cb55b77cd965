import math

import pytest
import torch

import coordnet as cn
from coordnet.noise import mosaics
from coordnet.noise.mosaics import mosaic_noise
from coordnet.sampling.patterns import Bayer
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum

SIGMA = 0.05


@pytest.fixture
def noisy(generator):
    """A picture and its GRBG mosaic with noise."""
    truth = synthetic_photograph(28, 32, 1) * torch.tensor([1.0, 0.9, 0.7])
    known = cn.sample(truth, "bayer:GRBG").geometry.known(3)
    return truth, (truth * known).sum(-1) + SIGMA * torch.randn(28, 32, generator=generator)


@pytest.mark.slow
def test_noise_that_is_given_is_removed_from_the_measured_colors_too(noisy):
    truth, mosaic = noisy
    kept, cleaned = cn.demosaic(mosaic, "GRBG", 0, prior=cn.Local((4, 4))), cn.demosaic(mosaic, "GRBG", SIGMA)
    assert cn.psnr(cleaned.signal, truth) > cn.psnr(kept.signal, truth) + 4
    assert cleaned.report.sigma == SIGMA and kept.report.sigma is None
    same = cn.demosaic(mosaic, "GRBG", SIGMA, prior=cn.Local())
    assert torch.equal(same.signal, cleaned.signal)


@pytest.fixture(scope="module")
def counted():
    """A picture with a dark and a bright half, its RGGB mosaic with a camera's noise, clipped, and the noise."""
    truth = synthetic_photograph(160, 128, 1) * torch.tensor([1.0, 0.9, 0.7])
    truth = truth * torch.linspace(0.1, 1.0, 128).unsqueeze(1)
    model, generator = cn.NoiseModel(gain=0.03, floor=2e-4), torch.Generator().manual_seed(0)
    mosaic = (truth * cn.sample(truth, "bayer:RGGB").geometry.known(3)).sum(-1)
    mosaic = mosaic + model.variance(mosaic).sqrt() * torch.randn(160, 128, generator=generator)
    return truth, mosaic.clamp(0, 1), model


def test_a_camera_s_noise_is_found_on_a_mosaic(counted):
    _, mosaic, model = counted
    found = mosaic_noise(mosaic.unsqueeze(-1), Bayer("RGGB"))
    for value in (0.2, 0.6):
        assert float(found.variance(torch.tensor(value))) == pytest.approx(0.03 * value + 2e-4, rel=0.3)
    half = mosaic_noise(0.5 * mosaic.unsqueeze(-1), Bayer("RGGB"))
    assert (half.gain, half.floor) == pytest.approx((0.5 * found.gain, 0.25 * found.floor))
    with pytest.raises(ValueError, match="`noise`: expected a cn.NoiseModel"):
        cn.demosaic(mosaic[:16, :16], noise="camera")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["RGGB", "GBRG"])
def test_noise_of_a_mosaic_is_found_by_default_and_grain_is_not(pattern):
    truth = synthetic_photograph(96, 96, 3) * torch.tensor([1.0, 0.9, 0.7])
    noise = torch.randn(96, 96, 1, generator=torch.Generator().manual_seed(1))
    mosaic = (truth * cn.sample(truth, f"bayer:{pattern}").geometry.known(3)).sum(-1, keepdim=True)

    def level(mosaic):
        return math.sqrt(float(mosaic_noise(mosaic, Bayer(pattern), surely=True).variance(mosaic).mean()))

    assert level(mosaic) == level(mosaic + 0.003 * noise) == level(0.6 + 0.2 * mosaic + 0.006 * noise) == 0
    assert level(mosaic + 0.03 * noise) == pytest.approx(0.03, rel=0.1)


def test_the_middle_of_a_large_mosaic_begins_with_the_same_colors(monkeypatch):
    monkeypatch.setattr(mosaics, "MOST_PIXELS", 300)
    colors = torch.arange(4.0).reshape(2, 2).repeat(21, 25).unsqueeze(-1)
    part = mosaics._middle(colors)
    assert part.numel() < colors.numel() / 2 and torch.equal(part, colors[: part.shape[0], : part.shape[1]])


@pytest.mark.slow
def test_noise_of_a_mosaic_is_removed_by_default(noisy):
    truth, mosaic = noisy
    made, kept = cn.demosaic(mosaic, "GRBG"), cn.demosaic(mosaic, "GRBG", sigma=0)
    assert cn.psnr(made.signal, truth) > cn.psnr(kept.signal, truth) + 4
    assert made.noise is not None and made.report.sigma == pytest.approx(SIGMA, rel=0.25) and kept.noise is None
    known = cn.sample(truth, "bayer:GRBG").geometry.known(3)
    assert torch.equal((kept.signal * known).sum(-1), mosaic)
    assert cn.demosaic(mosaic, "GRBG", prior=cn.Adaptive()).noise is None


@pytest.mark.slow
def test_patches_of_a_mosaic_take_the_variance_of_their_brightness(counted):
    truth, mosaic, model, prior = counted[0][:12], counted[1][:12], counted[2], cn.Local(rounds=1)
    made = cn.demosaic(mosaic, noise=model, prior=prior)
    white = cn.demosaic(mosaic, sigma=made.report.sigma, prior=prior)
    assert cn.psnr(made.signal, truth) > cn.psnr(white.signal, truth) + 0.3
    assert made.noise is model and made.signal.dtype == mosaic.dtype
    part = mosaic[:8, -8:]
    equal = cn.demosaic(part, noise=cn.NoiseModel(floor=0.01**2), prior=prior)
    assert torch.equal(equal.signal, cn.demosaic(part, sigma=0.01, prior=prior).signal)


@pytest.mark.parametrize(
    "options, word",
    [
        ({"noise": "colored"}, "noise"),
        ({"noise": cn.NoiseModel(gaussian_spectrum(1), floor=0.01)}, "noise"),
        ({"noise": "camera", "sigma": 0.1}, "sigma"),
    ],
)
def test_noise_that_mosaics_do_not_have_is_refused(options, word, noisy):
    with pytest.raises(ValueError, match=f"`{word}`: expected"):
        cn.demosaic(noisy[1], "GRBG", **options)


def test_noise_that_cannot_be_is_refused(noisy):
    _, mosaic = noisy
    for sigma in (-0.1, float("nan"), 5.0):
        with pytest.raises(ValueError, match="`sigma`"):
            cn.demosaic(mosaic, "GRBG", sigma)
    with pytest.raises(ValueError, match="`prior`: expected auto, or cn.Local"):
        cn.demosaic(mosaic, "GRBG", SIGMA, prior=cn.Adaptive())
