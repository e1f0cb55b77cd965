import numpy as np
import pytest
import torch
from scipy.fft import dctn

from coordnet.noise.patch_energies import FREEDOM, are_alike, likeliest_noise, patch_energies
from coordnet.noise.white import noise_level
from tests.noise.test_white_level import texture


def energies(noise, strengths, generator):
    """Energies of patches with noise and textures of some strengths."""
    normal = torch.randn(len(strengths), FREEDOM, generator=generator, dtype=torch.float64)
    return (noise + strengths) * normal.square().mean(1)


def strengths(mean, width, generator, count=4000):
    return torch.exp(mean + width * torch.randn(count, generator=generator, dtype=torch.float64))


def grass(generator, size=256):
    """A gray texture with a spectrum that falls slowly, whose strength varies, and which leaves no place flat."""
    return 0.5 + 0.08 * torch.exp2(1.5 * texture(4.0, generator, size)) * texture(1.0, generator, size)


@pytest.mark.parametrize("mean", [-1.0, 0.0, 1.0])
def test_noise_is_told_from_strengths_that_vary(mean, generator):
    textures = strengths(mean, 1.0, generator)
    likeliest, over_one, over_none = likeliest_noise(energies(1.0, textures, generator))
    assert likeliest == pytest.approx(1, rel=0.25)
    assert over_one < 1.92
    assert over_none > over_one


def test_strengths_alone_leave_no_noise(generator):
    energy = energies(0.0, strengths(1.0, 1.0, generator), generator)
    likeliest, over_one, over_none = likeliest_noise(energy)
    assert likeliest < 0.05
    assert over_one > 1.92
    assert over_none < 1


def test_two_distributions_of_strengths_are_told_from_noise(generator):
    """Half of the patches are nearly flat, and no other has less than a hundred times the energy of the noise."""
    textures = torch.cat([strengths(-4.0, 0.5, generator), strengths(6.0, 0.7, generator)])
    assert likeliest_noise(energies(1.0, textures, generator))[0] == pytest.approx(1, rel=0.03)


def test_patches_of_one_texture_are_alike(generator):
    ones = torch.ones(4000, dtype=torch.float64)
    assert are_alike(energies(1.0, ones, generator))
    assert not are_alike(energies(0.0, strengths(0.0, 1.0, generator), generator))


def test_energies_are_those_of_cosines_of_scipy(generator):
    noise = torch.randn(40, 52, 2, generator=generator, dtype=torch.float64)
    variance = 0.96 + 0.04 * torch.rand(noise.shape, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(2, 2, generator=generator, dtype=torch.float64)).Q
    found = patch_energies(noise, variance, rotation)
    for own, signal, expected in zip(
        found, (noise @ rotation).unbind(2), (variance @ rotation**2).unbind(2), strict=True
    ):
        corners = [(y, x) for y in range(0, 33, 4) for x in range(0, 45, 4)]
        patches = [np.s_[y : y + 8, x : x + 8] for y, x in corners]
        energy = [(dctn(signal[at].numpy(), norm="ortho")[4:, 4:] ** 2).mean() for at in patches]
        mean = [float(expected[at].mean()) for at in patches]
        np.testing.assert_allclose(own.numpy(), np.array(energy) / np.array(mean), rtol=1e-6)


def test_patches_that_were_clipped_do_not_count(generator):
    noise = torch.randn(64, 64, 1, generator=generator, dtype=torch.float64)
    variance, rotation = torch.ones_like(noise), torch.ones(1, 1, dtype=torch.float64)
    alone = patch_energies(noise[:, :40], variance[:, :40], rotation)[0]
    variance[:, 40:] = 0.0
    (kept,) = patch_energies(noise, variance, rotation)
    assert len(kept) == len(alone)
    assert patch_energies(noise, torch.zeros_like(noise), rotation) == []
    assert patch_energies(noise[:6], variance[:6], rotation) == []


def test_noise_on_a_texture_without_flat_places_is_told():
    generator = torch.Generator().manual_seed(0)
    truth = grass(generator)[..., None]
    assert noise_level(truth) == 0
    noisy = truth + 0.02 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    assert noise_level(noisy) == pytest.approx(0.02, rel=0.08)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_likeliest_noise_is_the_same_where_no_gradients_are_kept(mode, generator):
    energy = torch.rand(500, generator=generator, dtype=torch.float64) + 0.5
    with mode():
        found = likeliest_noise(energy + 0)
    assert found == likeliest_noise(energy)
