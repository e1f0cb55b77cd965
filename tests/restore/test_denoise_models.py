import math
from dataclasses import replace

import numpy as np
import pytest
import skimage.data
import torch
from torch.nn.functional import avg_pool2d, interpolate

import coordnet as cn
from coordnet.noise.white import ClippedNoise
from coordnet.noise.wiener import wiener_filter
from coordnet.restore.impulses import lost_pixels
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum


def noisy(model, generator, channels=3, size=(80, 72)):
    truth = synthetic_photograph(*size, channels).double()
    return truth, truth + model.variance(truth).sqrt() * model.process(size, channels, generator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
@pytest.mark.parametrize(("prior", "channels"), [(cn.Local((4, 4)), 3), (cn.Adaptive(), 1)])
def test_colored_noise_is_removed_by_its_spectrum(prior, channels, generator):
    model = cn.NoiseModel(gaussian_spectrum(1.0, channels), floor=0.1)
    truth, y = noisy(model, generator, channels)
    made = cn.denoise(y, noise=model, prior=prior)
    white = cn.denoise(y, noise=cn.NoiseModel(floor=model.floor), prior=prior)
    gained, gained_as_white = (cn.psnr(m.signal, truth) - cn.psnr(y, truth) for m in (made, white))
    assert gained > 5 and gained > gained_as_white + 0.5
    assert made.noise is model and made.report.noise["kind"] == "colored"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
@pytest.mark.parametrize(("axes", "channels"), [(2, 2), (2, 4), (3, 3)])
def test_channels_that_are_treated_one_by_one_have_their_own_spectra(axes, channels, generator):
    """Clips, and pictures without three colors; the noise of the first channel is coarse, that of the others white."""
    rows, columns = torch.meshgrid(torch.linspace(0, 6, 32), torch.linspace(0, 5, 28), indexing="ij")
    truth = (0.5 + 0.4 * torch.sin(rows) * torch.cos(columns)).double()[..., None].expand(-1, -1, channels)
    truth = truth if axes == 2 else truth.expand(4, -1, -1, -1)
    spectrum = torch.eye(channels, dtype=torch.float64)[:, :, None, None] * torch.ones(32, 32, dtype=torch.float64)
    spectrum[0, 0] = 4 * gaussian_spectrum(1.0)[0, 0] / gaussian_spectrum(1.0).mean()
    model = cn.NoiseModel(spectrum if axes == 2 else spectrum.unsqueeze(2).expand(-1, -1, 4, -1, -1), floor=0.005)
    y = truth + model.floor**0.5 * model.process(tuple(truth.shape[:-1]), channels, generator)
    options = {"prior": cn.Local((4,) * axes), "dimensions": axes, "alpha": False}
    made, white = (cn.denoise(y, noise=m, **options).signal for m in (model, cn.NoiseModel(floor=model.floor)))
    assert cn.psnr(made, truth) > cn.psnr(y, truth) + 6
    assert cn.psnr(made[..., :1], truth[..., :1]) > cn.psnr(white[..., :1], truth[..., :1]) + 1


@pytest.mark.parametrize(
    "model", [cn.NoiseModel(gain=0.02, floor=1e-4), cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=0.1)]
)
def test_white_noise_that_is_asked_for_has_the_power_of_what_is_found(model, generator):
    rows, columns = torch.meshgrid(torch.linspace(0, 6, 128), torch.linspace(0, 5, 128), indexing="ij")
    truth = (0.5 + 0.45 * torch.sin(rows) * torch.cos(columns)).double()[..., None].expand(-1, -1, 3)
    y = truth + model.variance(truth).sqrt() * model.process((128, 128), 3, generator)
    made = cn.denoise(y, noise="white", prior=cn.Adaptive())
    assert made.report.sigma == pytest.approx(float((y - truth).std()), rel=0.1)
    assert made.report.noise["kind"] == "white" and made.noise is None


def test_a_flat_spectrum_is_white_noise(generator):
    truth, y = noisy(cn.NoiseModel(floor=0.01), generator, size=(40, 36))
    flat, prior = cn.NoiseModel(gaussian_spectrum(0.0, 3), floor=0.01), cn.Local((4, 4))
    made, white = (cn.denoise(y, noise=m, prior=prior).signal for m in (flat, cn.NoiseModel(floor=0.01)))
    torch.testing.assert_close(made, white, atol=2e-3, rtol=0)


def test_a_flat_spectrum_changes_nothing_in_windows(generator):
    y = torch.rand(1, 2, 40, 48, generator=generator)
    flat = cn.NoiseModel(gaussian_spectrum(0.0, 2), floor=1.0)
    filtered = [wiener_filter(y, lambda m: torch.full_like(m, 0.01), int, *more)[0] for more in ((), (flat,))]
    torch.testing.assert_close(filtered[0], filtered[1], atol=1e-4, rtol=0)


def test_a_variance_that_depends_on_the_signal_is_used(generator):
    model = cn.NoiseModel(gain=0.03, floor=0.0002)
    truth, y = noisy(model, generator)
    made = cn.denoise(y, noise=model, prior=cn.Local((4, 4)))
    white = cn.denoise(y, float(model.variance(truth).mean().sqrt()), prior=cn.Local((4, 4)))
    assert cn.psnr(made.signal, truth) > cn.psnr(white.signal, truth) + 0.3


def test_noise_of_the_negative_is_removed_from_the_negative(generator):
    model = cn.NoiseModel(gain=0.03, floor=0.0002)
    _, y = noisy(model, generator)
    made = cn.denoise(1 - y, noise=replace(model, negative=True), prior=cn.Local((4, 4)))
    torch.testing.assert_close(made.signal, 1 - cn.denoise(y, noise=model, prior=cn.Local((4, 4))).signal)
    assert made.report.noise["negative"] and made.noise.negative


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_dark_photograph_that_a_gamma_curve_stretched_loses_its_noise(seed):
    """White noise of the same picture would be told by its bright surfaces, which have little."""
    generator = np.random.default_rng(seed)
    truth = skimage.data.astronaut()[60:220, 150:342] / 255
    counts = generator.poisson(100 * truth**2.2) + 4 * generator.standard_normal(truth.shape)
    dark = np.round(255 * np.clip(counts / 100, 0, 1) ** (1 / 2.2)) / 255
    made, white = cn.denoise(dark), cn.denoise(dark, noise="white")
    assert made.report.noise["negative"] and cn.psnr(made.signal, truth) > cn.psnr(white.signal, truth) + 1


def test_the_moments_of_clipped_camera_noise_are_those_of_draws():
    draws = np.random.default_rng(0).standard_normal(400_000)
    noise = ClippedNoise(0.02, 0.0, 1.0, (True, True), slope=0.02)
    for value in (0.0, 0.05, 0.5, 0.97):
        y = np.clip(value + np.sqrt(0.0004 + 0.02 * value) * draws, 0, 1)
        mean = torch.tensor([y.mean()])
        assert float(noise.unclipped(mean)) == pytest.approx(value, abs=1e-3)
        assert float(noise.variance(mean)) == pytest.approx(y.var(), rel=0.02)


@pytest.mark.parametrize(
    "options, word",
    [
        ({"noise": "pink"}, "noise"),
        ({"noise": "camera", "sigma": 0.1}, "sigma"),
        ({"noise": cn.NoiseModel(floor=0.1), "sigma": 0.1}, "sigma"),
        ({"noise": cn.NoiseModel(gaussian_spectrum(1, 2), floor=0.1)}, "noise"),
        ({"noise": cn.NoiseModel(gaussian_spectrum(1, 3)[..., 0], floor=0.1)}, "noise"),
        ({"noise": cn.NoiseModel(gaussian_spectrum(1, 3), floor=0.1), "prior": "smoothness"}, "prior"),
    ],
)
def test_what_does_not_go_together_is_refused(options, word):
    with pytest.raises(ValueError, match=f"`{word}`: expected"):
        cn.denoise(torch.rand(40, 40, 3), **options)


@pytest.mark.slow
def test_lost_pixels_are_filled(generator):
    truth = 0.2 + 0.6 * synthetic_photograph(48, 44)
    lost = torch.rand(48, 44, 1, generator=generator) < 0.05
    salt = (torch.rand(48, 44, 1, generator=generator) < 0.5).to(truth)
    made = cn.denoise(torch.where(lost, salt, truth))
    assert made.report.noise["lost"] == pytest.approx(float(lost.double().mean()), rel=0.02)
    assert cn.psnr(made.signal, truth) > 34


def test_no_mask_is_doubted_where_none_was_given(recwarn, generator):
    """Under strong noise the pixels around lost ones tell little of them, as under a mask that is inverted."""
    draws = torch.rand(2, 64, 64, 1, generator=generator)
    picture = 0.2 + 0.6 * draws[0]
    made = cn.denoise(torch.where(draws[1] < 0.1, 0.0, torch.where(draws[1] > 0.9, 1.0, picture)))
    assert made.report.noise["lost"] > 0.15 and not recwarn.list


def test_black_and_white_surfaces_are_not_lost():
    drawing = torch.zeros(90, 100, 3)
    drawing[::9] = 1.0
    drawing[20:50, 30:60] = 1.0
    assert lost_pixels(drawing) is None
    assert lost_pixels(synthetic_photograph(90, 100)) is None


def test_pixels_are_lost_beside_a_black_surface(generator):
    truth = 0.2 + 0.6 * synthetic_photograph(96, 90)
    truth[:50] = 0.0
    drawn = torch.rand(96, 90, generator=generator)
    found = lost_pixels(torch.where((drawn < 0.05).unsqueeze(-1), (drawn < 0.025).unsqueeze(-1).to(truth), truth))
    assert found is not None
    seen = (drawn < 0.025) | ((drawn < 0.05) & (torch.arange(96) >= 53).unsqueeze(1))
    assert int((found & seen).sum()) > 0.97 * int(seen.sum()) and int((found & (drawn >= 0.05)).sum()) <= 2


def test_strokes_and_sparks_are_details():
    """Each is as rare as lost pixels are, at both ends, but of several pixels beside each other."""
    picture = torch.full((90, 100, 1), 0.5)
    picture[4::9, 5::12] = picture[5::9, 5::12] = 0.0
    picture[1::9, 9::12] = picture[1::9, 10::12] = 1.0
    assert lost_pixels(picture) is None


@pytest.mark.parametrize("sigma", [0.2, 0.3])
def test_noise_that_was_clipped_loses_no_pixels(sigma, generator):
    truth = 0.45 + 0.1 * synthetic_photograph(64, 60, 1)
    noisy = (truth + sigma * torch.randn(truth.shape, generator=generator)).clamp(0, 1)
    assert lost_pixels(noisy) is None


def test_pixels_are_lost_beside_noise(generator):
    noisy = 0.3 + 0.3 * synthetic_photograph(64, 60, 1) + 0.1 * torch.randn(64, 60, 1, generator=generator)
    drawn = torch.rand(64, 60, generator=generator)
    lost = drawn < 0.1
    found = lost_pixels(torch.where(lost.unsqueeze(-1), (drawn < 0.05).unsqueeze(-1).to(noisy), noisy.clamp(0, 1)))
    assert found is not None and int((found & lost).sum()) > 0.8 * int(lost.sum())


def code(generator):
    """Black and white squares of a side between one and two pixels, as a code is after it was enlarged."""
    squares = (torch.rand(1, 1, 90, 90, generator=generator) < 0.5).double()
    return interpolate(squares, scale_factor=1.4, mode="bilinear")[0].movedim(0, 2)


def rings(generator):
    """A zone plate, drawn three times as fine and averaged."""
    line = (torch.arange(192) / 3 - 32).double()
    return avg_pool2d((line[:, None].square() + line.square()).mul(0.02).cos().sign()[None] / 2 + 0.5, 3).movedim(0, 2)


def grating(generator):
    """Waves that reach black and white at single pixels, each far from the next."""
    line = torch.arange(96).double()
    return (0.5 + 0.5 * (2 * math.pi / 5 * line).cos()[:, None] * (2 * math.pi / 3 * line).cos())[..., None]


@pytest.mark.parametrize("draw", [code, rings, grating])
def test_fine_black_and_white_details_are_not_lost(draw, generator):
    assert lost_pixels(draw(generator)) is None
