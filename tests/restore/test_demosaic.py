import pytest
import torch

import coordnet as cn
from tests.helpers import synthetic_photograph

SIGMA = 0.05


@pytest.fixture
def noisy(generator):
    """A picture and its GRBG mosaic with noise."""
    truth = synthetic_photograph(28, 32, 1) * torch.tensor([1.0, 0.9, 0.7])
    known = cn.sample(truth, "bayer:GRBG").geometry.known(3)
    return truth, (truth * known).sum(-1) + SIGMA * torch.randn(28, 32, generator=generator)


def test_noise_that_is_given_is_removed_from_the_measured_colors_too(noisy):
    truth, mosaic = noisy
    kept, cleaned = cn.demosaic(mosaic, "GRBG", prior=cn.Local()), cn.demosaic(mosaic, "GRBG", SIGMA)
    assert cn.psnr(cleaned.signal, truth) > cn.psnr(kept.signal, truth) + 4
    assert cleaned.report["sigma"] == SIGMA and "sigma" not in kept.report
    same = cn.demosaic(mosaic, "GRBG", SIGMA, prior=cn.Local())
    assert torch.equal(same.signal, cleaned.signal)


def test_noise_that_cannot_be_is_refused(noisy):
    _, mosaic = noisy
    for sigma in (-0.1, float("nan"), 5.0):
        with pytest.raises(ValueError, match="`sigma`"):
            cn.demosaic(mosaic, "GRBG", sigma)
    with pytest.raises(ValueError, match="`prior`: expected auto, or cn.Local"):
        cn.demosaic(mosaic, "GRBG", SIGMA, prior=cn.Adaptive())
