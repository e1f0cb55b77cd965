import math

import pytest
import torch
from scipy.ndimage import uniform_filter

import coordnet as cn
from coordnet.noise.white import ClippedNoise, local_means, noise_level, seen_level
from tests.helpers import synthetic_photograph


def clipped(truth, sigma, seed=0):
    """A picture of 8 bits with clipped noise."""
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(seed))
    return ((truth + sigma * noise).clamp(0, 1) * 255).round() / 255


def dark(size=96):
    """A photograph whose darkest fifth is black."""
    return ((synthetic_photograph(size, size) - 0.3) / 0.7).clamp(0, 1)


@pytest.mark.parametrize("clips", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("value", [0.01, 0.13, 0.5, 0.99])
def test_the_moments_are_those_of_clipped_draws(clips, value):
    noise = ClippedNoise(0.2, 0.0, 1.0, clips)
    draws = value + 0.2 * torch.randn(400_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bounds = (0.0 if clips[0] else -math.inf, 1.0 if clips[1] else math.inf)
    inside = float(((draws > bounds[0]) & (draws < bounds[1])).double().mean())
    draws = draws.clamp(*bounds)
    mean = torch.tensor([value + 0.2 * _first_moment(value, clips)], dtype=torch.float64)
    assert float(draws.mean()) == pytest.approx(float(mean), abs=1e-3)
    assert float(draws.var()) == pytest.approx(float(noise.variance(mean)), rel=0.01)
    assert inside == pytest.approx(float(noise.gain(mean)) ** -0.5, abs=0.005)
    assert float(noise.unclipped(mean)) == pytest.approx(value, abs=1e-4)


def _first_moment(value, clips):
    """The mean of clip(n, a, b), by quadrature."""
    n = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
    density = (-n.square() / 2).exp() / math.sqrt(2 * math.pi)
    bounds = (-value / 0.2 if clips[0] else -math.inf, (1 - value) / 0.2 if clips[1] else math.inf)
    return float(torch.trapezoid(n.clamp(*bounds) * density, n))


def test_noise_that_was_not_clipped_is_white():
    y = dark() + 0.1 * torch.randn(96, 96, 3, generator=torch.Generator().manual_seed(0))
    noise = ClippedNoise.on(y, 0.1)
    assert noise.clips == (False, False)
    assert torch.equal(noise.unclipped(y), y)
    assert torch.equal(noise.variance(y), torch.full_like(y, 0.1**2))
    assert ClippedNoise.on(clipped(dark(), 0.1), 0.1).clips[0]


def test_the_noise_before_clipping_is_estimated():
    y = clipped(dark(160), 0.2)
    assert float((y - dark(160)).square().mean().sqrt()) < 0.18
    assert seen_level(y) < 0.17
    assert noise_level(y) == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("prior", [cn.Local(), cn.Adaptive()], ids=["local", "adaptive"])
def test_clipped_pictures_lose_their_bias(prior):
    truth = dark(64)[..., :1]
    black = truth == 0
    y = clipped(truth, 0.2)
    given, estimated = (cn.denoise(y, sigma, prior=prior) for sigma in (0.2, None))
    assert float(given.signal[black].mean()) < 0.3 * float(y[black].mean())
    assert cn.psnr(given.signal, truth) > cn.psnr(estimated.signal, truth) - 0.3
    assert cn.psnr(given.signal, truth) > 34


@pytest.mark.parametrize(("sigma", "accuracy"), [(None, 1.5), (0.1, 3.0)])
def test_the_error_after_clipping_is_nearly_expected(sigma, accuracy):
    truth = synthetic_photograph(96, 96) + 0.1 * torch.rand(96, 96, 3, generator=torch.Generator().manual_seed(3))
    made = cn.denoise(clipped(truth.clamp(0, 1), 0.1), sigma, prior=cn.Adaptive())
    assert made.expected_psnr == pytest.approx(cn.psnr(made.signal, truth.clamp(0, 1)), abs=accuracy)


@pytest.mark.parametrize("sigma", [25.0, 0.5])
def test_more_noise_than_the_signal_has_is_refused(sigma):
    with pytest.raises(ValueError, match="`sigma`.*standard deviation") as refused:
        cn.denoise(synthetic_photograph(40, 40), sigma)
    assert ("did you mean 25/255 = 0.098?" in str(refused.value)) == (sigma == 25)


def test_noise_alone_is_not_more_than_the_signal_has():
    for seed in range(9):
        y = clipped(torch.zeros(20, 20, 1), 0.2, seed)
        assert float(y.std()) < 0.13
        assert cn.denoise(y, 0.2, prior=cn.Adaptive()).report.sigma == 0.2


@pytest.mark.parametrize("grid", [(9,), (7, 8), (4, 5, 6)])
def test_local_means_are_those_of_neighbors_on_the_same_side(grid, generator):
    signal = torch.rand(*grid, 2, generator=generator, dtype=torch.float64)
    means = torch.from_numpy(uniform_filter(signal, (3,) * len(grid) + (1,), mode="mirror"))
    assert torch.allclose(local_means(signal, 1.0), means)
    assert torch.equal(local_means(signal, 0.0), signal)
    step = 10 * (torch.arange(grid[0]) >= grid[0] // 2).double().reshape(-1, *(1,) * len(grid))
    halves = torch.where(step > 0, 0.6, 0.4).expand_as(signal)
    assert torch.allclose(local_means(step + halves, 1.0), step + halves)


def test_noise_on_text_is_told_though_paper_and_ink_clip_it(generator):
    """Means across the edges of strokes have values between, where nothing is clipped: they led to 0.63 of it."""
    sigma = 0.04
    strokes = torch.rand(24, 192, 1, generator=generator) < 0.3
    paper = 1.0 - strokes.repeat_interleave(8, dim=0).double().expand(192, 192, 3)
    clipped = (paper + sigma * torch.randn(paper.shape, generator=generator, dtype=torch.float64)).clamp(0, 1)
    assert noise_level(clipped) == pytest.approx(sigma, rel=0.1)
