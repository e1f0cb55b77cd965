import math

import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio

from coordnet.metrics.scores import decibels, psnr, snr, ssim, value_range


def test_psnr_equals_scikit_image(generator):
    a, b = (torch.rand(9, 8, 3, generator=generator) for _ in range(2))
    assert psnr(a, b) == pytest.approx(peak_signal_noise_ratio(b.numpy(), a.numpy(), data_range=1))
    assert psnr(a, b, data_range=2.0, clip=False) == pytest.approx(psnr(a, b) + 20 * math.log10(2))


def test_a_mask_counts_points_or_entries():
    truth, estimate = torch.zeros(2, 2, 2), torch.zeros(2, 2, 2)
    estimate[0, 0] = torch.tensor([0.1, 0.3])
    points = torch.tensor([[True, False], [False, False]])
    entries = points.unsqueeze(-1) & torch.tensor([True, False])
    assert psnr(estimate, truth, points) == pytest.approx(-10 * math.log10(0.05))
    assert psnr(estimate, truth, entries) == pytest.approx(20)
    assert math.isnan(psnr(estimate, truth, torch.zeros(2, 2, dtype=torch.bool)))


def test_estimates_are_clipped_first():
    truth, estimate = torch.ones(3, 1), torch.full((3, 1), 1.5)
    assert psnr(estimate, truth) == math.inf
    assert psnr(estimate, truth, clip=False) == pytest.approx(-20 * math.log10(0.5))


def test_nothing_is_clipped_and_no_range_assumed_beyond_pictures():
    truth, estimate = torch.tensor([[-1.0], [1.0]]), torch.tensor([[-1.0], [1.5]])
    with pytest.raises(ValueError, match="`data_range`: expected a number, .* values from -1 to 1"):
        psnr(estimate, truth)
    assert psnr(estimate, truth, data_range=2.0) == pytest.approx(10 * math.log10(4 / 0.125))
    assert psnr(estimate, truth, data_range=1.0, clip=True) == pytest.approx(10 * math.log10(1 / 0.5))


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e-16, 1.0, 1e20, 1e200])
def test_the_scores_of_a_signal_do_not_depend_on_its_unit(scale, generator):
    truth = scale * (torch.rand(9, 8, 3, generator=generator, dtype=torch.float64) - 0.5)
    assert psnr(1.01 * truth, truth, data_range=scale) == pytest.approx(
        psnr(1.01 * truth / scale, truth / scale, data_range=1.0, clip=False)
    )
    assert decibels(1e-4 * scale**1.5, scale**0.75) == pytest.approx(40)


def test_a_signal_far_below_a_step_of_16_bits_has_its_own_span(generator):
    truth = torch.rand(9, 8, 3, generator=generator)
    expected = psnr(1.01 * truth, truth, data_range=float(truth.max() - truth.min()), clip=False)
    assert psnr(1.01e-12 * truth, 1e-12 * truth) == pytest.approx(expected, abs=1e-4)
    assert value_range(truth / 60_000) == (1.0, True) and value_range(0 * truth) == (1.0, True)


def test_integers_have_the_range_of_their_type(generator):
    truth, estimate = (torch.randint(0, 256, (9, 8, 3), generator=generator).byte() for _ in range(2))
    expected = peak_signal_noise_ratio(truth.numpy(), estimate.numpy())
    assert psnr(estimate, truth) == pytest.approx(expected)
    assert psnr(estimate.numpy(), truth.numpy()) == pytest.approx(expected)
    assert psnr(estimate.float() / 255, truth) == pytest.approx(expected)


def test_snr():
    truth = torch.tensor([[1.0], [-1.0]])
    assert snr(truth * 0.9, truth) == pytest.approx(20)
    assert snr(truth, truth) == math.inf
    assert snr(truth, truth * 0) == -math.inf


def test_ssim_is_one_of_itself_and_none_of_the_small(photograph):
    assert ssim(photograph, photograph) == pytest.approx(1)
    assert 0 < ssim(photograph.flip(0), photograph) < 0.9
    assert ssim(photograph[:5], photograph[:5]) is None


def test_a_range_of_zero_is_refused():
    with pytest.raises(ValueError, match="`data_range`"):
        psnr(torch.ones(2, 1), torch.ones(2, 1), data_range=0.0)
