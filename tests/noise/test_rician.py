import math

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.noise.rician import RicianNoise, rician_level
from coordnet.noise.wiener import wiener_filter
from tests.helpers import synthetic_photograph


def magnitudes(truth, sigma, seed=0):
    parts = torch.randn(2, *truth.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ((truth + sigma * parts[0]).square() + (sigma * parts[1]).square()).sqrt()


def disc(height, width):
    """A smooth disc with a bright core on a background of 0."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    r = (y.square() + x.square()).sqrt().double()
    return (0.6 * torch.sigmoid((0.7 - r) / 0.03) + 0.3 * torch.sigmoid((0.3 - r) / 0.03))[..., None]


def test_the_moments_are_those_of_rayleigh_and_of_draws():
    noise = RicianNoise(0.1, 0.0, 1.0, (True, False))
    value, mean, variance, _ = noise.table
    assert mean[0] == pytest.approx(0.1 * math.sqrt(math.pi / 2))
    assert variance[0] == pytest.approx((2 - math.pi / 2) * 0.01)
    np.testing.assert_allclose(mean**2 + variance, value**2 + 0.02, rtol=1e-9)
    y = magnitudes(torch.full((200_000,), 0.15, dtype=torch.float64), 0.1)
    assert float(noise.unclipped(y.mean())) == pytest.approx(0.15, abs=1e-3)
    assert float(noise.variance(y.mean())) == pytest.approx(float(y.var()), rel=0.02)
    assert float(noise.unclipped(torch.tensor(0.05))) == 0


@pytest.mark.parametrize("prior", [cn.Local(), cn.Adaptive()], ids=["local", "adaptive"])
def test_the_bias_of_magnitudes_is_removed(prior):
    truth = disc(48, 44)
    y = magnitudes(truth, 0.1)
    made, white = (cn.denoise(y, 0.1, noise=noise, prior=prior) for noise in ("rician", "white"))
    assert cn.psnr(made.signal, truth) > cn.psnr(white.signal, truth) + 4
    empty = truth < 1e-3
    assert float(made.signal[empty].mean()) < 0.05 < 0.1 < float(white.signal[empty].mean())
    assert made.report.noise["kind"] == "Rician" and "Rician noise" in str(made.noise)


def test_the_level_is_found_where_signals_are_bright_and_dark():
    for truth in (torch.zeros(96, 96, 1), torch.ones(96, 96, 1), disc(160, 160)):
        assert rician_level(magnitudes(truth.double(), 0.1)) == pytest.approx(0.1, rel=0.12)


def test_weak_signals_beside_the_background_do_not_raise_the_level():
    """Less than a half of the picture has no signal, and as much one of about the noise's standard deviation."""
    truth = torch.zeros(96, 96, 1, dtype=torch.float64)
    truth[40:80], truth[80:] = 0.12, 0.8
    assert rician_level(magnitudes(truth, 0.1, seed=1)) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize(("side", "background"), [(16, 0.0), (24, 0.4)])
def test_the_level_is_found_in_small_volumes(side, background):
    """A ball in the middle has a halo, and the background around it is dark or bright."""
    x = torch.linspace(-1, 1, side, dtype=torch.float64)
    r = (x.square() + x.square()[:, None] + x.square()[:, None, None]).sqrt()
    truth = background + 0.5 * torch.sigmoid((0.7 - r) / 0.1)
    assert rician_level(magnitudes(truth[..., None], 0.05)) == pytest.approx(0.05, rel=0.04)


def test_windows_have_their_own_variance(generator):
    truth = synthetic_photograph(64, 60, 1).double() * torch.linspace(0.02, 1, 60, dtype=torch.float64)[:, None]
    model = cn.NoiseModel(gain=0.05, floor=1e-5)
    y = truth + model.variance(truth).sqrt() * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    y = y.movedim(-1, 0).unsqueeze(0)
    own, mean = (wiener_filter(y, model.variance, int, m)[0][0].movedim(0, -1) for m in (model, cn.NoiseModel()))
    assert cn.psnr(own, truth) > cn.psnr(mean, truth) + 0.2


@pytest.mark.parametrize("noise", ["rician", cn.NoiseModel(floor=0.01, magnitude=True)])
def test_what_are_no_magnitudes_is_refused(noise):
    with pytest.raises(ValueError, match="`signal`: expected magnitudes"):
        cn.denoise(torch.randn(20, 20, 1), noise=noise)


def test_magnitudes_have_white_noise():
    with pytest.raises(ValueError, match="`magnitude`: expected False"):
        cn.NoiseModel(gain=0.1, magnitude=True)
