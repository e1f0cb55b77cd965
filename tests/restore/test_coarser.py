"""Pictures of half the size, whose lowest frequencies replace those of an estimate."""

import pytest
import torch

import coordnet as cn
from coordnet.priors.local import Local
from coordnet.restore import cleaners
from coordnet.restore.cleaners import halved, joined
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum


def test_only_the_lowest_frequencies_are_replaced(generator):
    fine = torch.randn(2, 40, 47, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(joined(fine, halved(fine)), fine)
    phase = torch.pi * (torch.arange(40, dtype=torch.float64) + 0.5) / 40
    low, high = (torch.cos(k * phase)[None, :, None].expand(1, 40, 47) for k in (3, 15))
    made = joined(high, halved(low + high))
    torch.testing.assert_close(made, low + high)
    torch.testing.assert_close(joined(torch.zeros_like(low), halved(low + high)), low)


@pytest.mark.parametrize("spectrum", [torch.eye(1)[..., None, None], gaussian_spectrum(1.0)])
def test_the_noise_of_half_a_picture_has_the_lowest_frequencies(spectrum, generator):
    model = cn.NoiseModel(spectrum, floor=0.3)
    noise = model.variance(torch.zeros(1)).sqrt() * model.process((160, 160), 1, generator)
    assert float(halved(noise.movedim(-1, 0)).var()) == pytest.approx(model.halved.floor, rel=0.05)


def test_coarse_noise_is_removed_from_a_smaller_picture(generator, monkeypatch):
    truth = 0.2 + 0.5 * synthetic_photograph(64, 64, 1).double()
    model = cn.NoiseModel(gaussian_spectrum(2.0), floor=0.1**2 / float(gaussian_spectrum(2.0).mean()))
    y = truth + 0.1 * model.process((64, 64), 1, generator)
    noise = cleaners.Noise(0.1, given=True, model=model)
    made = cleaners.cleaned(Local(rounds=1), y, noise)[0]
    monkeypatch.setattr(cleaners, "is_coarse", lambda *_: False)
    assert cn.psnr(made, truth) > cn.psnr(cleaners.cleaned(Local(rounds=1), y, noise)[0], truth) + 0.3
