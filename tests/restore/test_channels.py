"""Channels that do not tell of each other are denoised and enlarged as each group is alone."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.restore.cleaners import Noise, cleaned
from coordnet.restore.upscale import divided
from tests.helpers import synthetic_photograph

Y, X = np.meshgrid(*2 * [np.linspace(0, 1, 32)], indexing="ij")
WHITE = np.random.default_rng(3).normal(size=(32, 32))
PLANES = torch.from_numpy(np.stack([np.sin(5 * X + 3 * Y), WHITE, np.cos(4 * X) * np.sin(6 * Y)], -1))
GROUPS = [0, 2], [1]


def in_order(parts):
    """Return what the groups have in the order of the channels."""
    smooth, rough = parts
    return torch.stack([smooth[..., 0], rough[..., 0], smooth[..., 1]], -1)


def draw(sigma, seed=0):
    return sigma * torch.randn(PLANES.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("prior", [pytest.param(cn.Local(), marks=pytest.mark.slow), cn.Adaptive()])
def test_groups_are_denoised_as_they_are_alone(prior):
    noise, noisy = Noise(0.1, given=True, seed=0), PLANES + draw(0.1)
    clean, error, learned, used = cleaned(prior, noisy, noise)
    parts = [cleaned(prior, noisy[..., group], noise) for group in GROUPS]
    torch.testing.assert_close(clean, in_order([part[0] for part in parts]), rtol=0, atol=1e-12)
    assert error == pytest.approx((2 * parts[0][1] + parts[1][1]) / 3) and used == prior.name
    assert {name.rsplit("_", 1)[1] for name in learned} == {"0", "1"}


def test_groups_have_their_own_part_of_the_noise_s_spectrum():
    root = torch.tensor([[1.0, 0, 0], [2, 0.2, 0], [0, 0.1, 0.3]], dtype=torch.float64)
    model = cn.NoiseModel((root @ root.T)[..., None, None].expand(-1, -1, 4, 4), floor=0.01)
    noisy, noise = PLANES + draw(0.1), Noise(model.floor**0.5, given=True, model=model)
    parts = [
        cleaned(cn.Adaptive(), noisy[..., group], Noise(own.floor**0.5, given=True, model=own))[0]
        for group in GROUPS
        for own in [cn.NoiseModel((model.floor * model.spectrum)[group][:, group], floor=1.0)]
    ]
    found = cleaned(cn.Adaptive(), noisy, noise)[0]
    torch.testing.assert_close(found, in_order(parts), rtol=0, atol=1e-12)


def test_channels_below_the_noise_stay_together():
    """The estimates of such channels say more of the noise than of the signal."""
    noisy, noise = PLANES + draw(1.5), Noise(1.5, given=True)
    assert not any(name.endswith("_1") for name in cleaned(cn.Adaptive(), noisy, noise)[2])


def test_channels_of_rows_and_volumes_stay_together():
    noisy, noise = PLANES + draw(0.1), Noise(0.1, given=True)
    for signal in (noisy.flatten(0, 1), noisy.unflatten(0, (4, 8))):
        assert not any(name.endswith("_1") for name in cleaned(cn.Adaptive(), signal, noise)[2])


def test_groups_are_enlarged_as_they_are_alone():
    pictures = torch.stack([PLANES, PLANES.flip(0)])
    found, report, psnr = divided(pictures, 2, 0.0, cn.Local())
    parts = [divided(pictures[..., group], 2, 0.0, cn.Local()) for group in GROUPS]
    torch.testing.assert_close(found, in_order([part[0] for part in parts]), rtol=0, atol=1e-12)
    assert report.signals == [part[1] for part in parts]
    spans = [float(pictures[..., group].max() - pictures[..., group].min()) for group in GROUPS]
    errors = [10 ** (-part[2] / 10) * span**2 for part, span in zip(parts, spans, strict=True)]
    span = float(pictures.max() - pictures.min())
    assert 10 ** (-psnr / 10) * span**2 == pytest.approx((2 * errors[0] + errors[1]) / 3)


def test_colors_are_denoised_and_enlarged_together():
    picture = synthetic_photograph(48, 48)
    noisy = picture + 0.1 * torch.randn(picture.shape, generator=torch.Generator().manual_seed(0))
    assert not any(name.endswith("_1") for name in cleaned(cn.Adaptive(), noisy, Noise(0.1, given=True))[2])
    assert not hasattr(divided(picture, 2, 0.0, cn.Local())[1], "signals")
