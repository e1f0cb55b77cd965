import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

import coordnet as cn
from coordnet.noise import estimate
from coordnet.noise.drawn import is_drawn
from coordnet.noise.estimate import STEEP, required_noise
from coordnet.noise.evidence import NOISE_MISFIT, steepest_slope
from coordnet.noise.factors import SHOWN_MODES, Factors, Line, completed, deconvolved, factors_of, quadratic
from coordnet.noise.windows import Windows, doubled, seen_through_taper, squared_frequencies
from coordnet.restore.denoise_choice import settled
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum

SIZE = (176, 160)


def planted(model, generator, channels=3, size=SIZE):
    truth = synthetic_photograph(*size, channels).double()
    truth = 0.1 + 0.8 * (truth - truth.min()) / (truth.max() - truth.min())
    noise = model.variance(truth).sqrt() * model.process(size, channels, generator)
    return truth, truth + noise


def test_a_mode_sees_white_noise_but_for_the_mean():
    seen = seen_through_taper((16, 16))
    total = torch.cat([torch.zeros(1), seen.sum(1)]).reshape(16, 16)
    assert torch.allclose(total[3:13, 3:13], torch.ones(1).double(), atol=1e-6)
    assert float(total[0, 1]) < 0.9


def test_the_energies_of_windows_are_those_seen_through_the_taper(generator):
    model = cn.NoiseModel(gaussian_spectrum(1.0), floor=1.0)
    windows = Windows.of(model.process((700, 700), 1, generator))
    found = windows.modes[:, 0].abs().square().mean(0)
    power = model.on_grid(doubled(windows.shape))[0, 0].flatten()
    expected = windows.seen @ power
    strong = expected > 0.05 * expected.max()
    assert float((found / expected)[strong].log().abs().mean()) < 0.08


def test_deconvolution_finds_what_the_windows_saw():
    seen = seen_through_taper((16, 16))
    power = cn.NoiseModel(gaussian_spectrum(1.0), floor=1.0).on_grid((32, 32)).reshape(1, -1)
    made = deconvolved(power @ seen.mT, seen)
    torch.testing.assert_close(made @ seen.mT, power @ seen.mT, atol=0.05, rtol=0.02)


def test_updates_find_planted_factors(generator):
    """The energies are exponential variables of means v P + e L."""
    variance = 0.5 + torch.rand(400, generator=generator, dtype=torch.float64)
    spectrum = torch.linspace(2, 0.2, 60, dtype=torch.float64)
    laws = torch.linspace(1, 60, 60, dtype=torch.float64).pow(-2).unsqueeze(0)
    extents = 30 * torch.rand(400, 1, generator=generator, dtype=torch.float64).square()
    mean = variance.unsqueeze(1) * spectrum + extents @ laws
    energy = -mean * torch.rand(400, 60, generator=generator, dtype=torch.float64).log()
    made = Factors(energy, variance, torch.ones(60).double(), laws, torch.ones(400, 1).double()).learned()
    assert float((made.spectrum / spectrum)[10:].log().abs().mean()) < 0.06


def test_a_line_through_variances_leaves_texture_out():
    points = [(x, 0.01 + 0.05 * x, 40, 0) for x in (0.1, 0.3, 0.5, 0.7)] + [(0.4, 0.2, 40, 0)]
    line = Line.through(points)
    assert (line.floor, line.gain) == pytest.approx((0.01, 0.05), rel=0.1)


def test_each_channel_has_its_own_factor():
    """A dark and a bright channel, both relative to their own spectra, as of a camera's noise in a colored picture."""
    dark = [(x, 2 * (0.01 + 0.05 * x), 40, 0) for x in (0.1, 0.15, 0.2)]
    bright = [(x, 0.5 * (0.01 + 0.05 * x), 40, 1) for x in (0.4, 0.6, 0.8)]
    line = Line.through(dark + bright)
    assert (line.floor, line.gain) == pytest.approx((0.01, 0.05), rel=0.05)


@pytest.mark.parametrize("width", [1.0, 2.0])
def test_colored_noise_is_found(width, generator):
    truth, y = planted(cn.NoiseModel(gaussian_spectrum(width, 3), floor=1.0), generator)
    noise = y - truth
    y = truth + 0.1 * noise / noise.std()
    model = cn.estimate_noise(y)
    assert model.kind == "colored"
    assert math.sqrt(model.floor) == pytest.approx(0.1, rel=0.15)
    found, expected = (m.covariance((4, 4)) for m in (model, cn.NoiseModel(gaussian_spectrum(width, 3), floor=1.0)))
    assert float((found - expected).norm() / expected.norm()) < 0.2


@pytest.mark.parametrize("width", [0.6, 0.8, 1.0])
def test_the_level_of_noise_of_short_range_is_found(width, generator):
    truth, y = planted(cn.NoiseModel(gaussian_spectrum(width, 3), floor=1.0), generator)
    noise = 0.1 * (y - truth) / (y - truth).std()
    assert math.sqrt(cn.estimate_noise(truth + noise).floor) == pytest.approx(0.1, rel=0.08)


@pytest.mark.parametrize("widths", [(0.7, 0.7), (0.5, 1.0), (0.7, 0.5, 0.9)])
def test_the_lowest_frequencies_of_a_gaussian_filter_follow_from_the_others(widths):
    squares = squared_frequencies((32, 24, 8)[: len(widths)])
    power = torch.exp(-4 * math.pi**2 * squares @ torch.tensor(widths).double().square())[None]
    radius = squares.sum(1).sqrt()
    hidden = torch.where(radius < 0.13, 9.0, power) * torch.tensor([[2.0], [3.0]])
    torch.testing.assert_close(quadratic(hidden, squares, (radius >= 0.13) & (radius < 0.3))[1], 3 * power[0])


@pytest.mark.parametrize("factor", [0.2, 1.0, 4.0])
def test_the_lowest_frequencies_of_completed_noise_are_neither_lost_nor_the_texture_s(factor, generator):
    """Two channels, which correlate, are two Gaussian spectra rotated, with less or more power there.

    What is missing is found, and more is bounded, but for what the taper of windows lets through.
    """
    rotation = torch.linalg.qr(torch.randn(2, 2, generator=generator, dtype=torch.float64)).Q
    nothing = torch.zeros(0, 2, 255, dtype=torch.complex128), torch.zeros(0, 2)
    windows = Windows(*nothing, rotation, seen_through_taper((16, 16)), (16, 16))
    squares = squared_frequencies((32, 32)).sum(1).reshape(32, 32)
    full = torch.exp(-4 * math.pi**2 * torch.tensor([0.7, 0.9])[:, None, None] ** 2 * squares)

    def model(power):
        return cn.NoiseModel(torch.einsum("ic,cyx,jc->ijyx", rotation, power, rotation), floor=1.0)

    given = torch.where(squares.sqrt() < SHOWN_MODES[0] / 16, factor, 1.0) * full
    made = completed(model(given), windows)
    found = torch.einsum("ic,ijyx,jd->cdyx", rotation, made.floor * made.spectrum, rotation)
    torch.testing.assert_close(found[0, 1], torch.zeros(32, 32).double(), atol=1e-9, rtol=0)
    found = found.diagonal().movedim(-1, 0)
    if factor <= 1:
        torch.testing.assert_close(found, full)
    else:
        excess, texture = (x.sum((1, 2)) - full.sum((1, 2)) for x in (found, given))
        assert bool((excess > 0).all()) and bool((excess < 0.75 * texture).all())


@pytest.mark.parametrize("seed", [0, 1])
def test_coarse_noise_of_a_gray_picture_is_found_beneath_fine_texture(seed):
    """The texture, which is strong in some windows, has all of the power in the middle of the frequencies."""
    generator = torch.Generator().manual_seed(seed)
    strength = 0.01 * torch.linspace(0, 1, SIZE[0], dtype=torch.float64).square()[:, None, None]
    truth = 0.5 + strength * torch.randn(*SIZE, 1, generator=generator, dtype=torch.float64)
    found = cn.estimate_noise(
        truth + 0.06 * cn.NoiseModel(gaussian_spectrum(2.0, 1), floor=1.0).process(SIZE, 1, generator)
    )
    assert found.kind == "colored" and math.sqrt(found.floor) == pytest.approx(0.06, rel=0.25)


@pytest.mark.parametrize("gain", [0.005, 0.02])
def test_a_camera_s_noise_is_found(gain, generator):
    _, y = planted(cn.NoiseModel(gain=gain, floor=0.0004), generator, size=(240, 240))
    model = cn.estimate_noise(y)
    assert model.kind == "camera" and model.spectrum is None
    for value in (0.2, 0.5, 0.8):
        assert float(model.variance(torch.tensor(value))) == pytest.approx(0.0004 + gain * value, rel=0.25)


@pytest.mark.slow
def test_a_camera_s_noise_on_a_negative_is_found(generator):
    _, y = planted(cn.NoiseModel(gain=0.01, floor=0.0004), generator, size=(240, 240))
    coded = 1 - y.clamp(0, 1)
    plain, found = cn.estimate_noise(y.clamp(0, 1)), cn.estimate_noise(coded)
    assert (plain.negative, found.negative) == (False, True) and (found.gain, found.floor) == (plain.gain, plain.floor)
    value = torch.tensor(0.8)
    assert float(found.variance(value)) == pytest.approx(0.0004 + 0.01 * 0.2, rel=0.25)
    assert "(1 - x)" in str(found) and not cn.estimate_noise(coded - 0.5).negative
    assert required_noise(coded, "camera").negative and not required_noise(y, "camera").negative


@pytest.mark.slow
@pytest.mark.parametrize("electrons, darkest, brightest", [(100, 0.0, 0.8), (400, 0.1, 0.2)])
def test_the_noise_of_a_photograph_that_is_dark_nearly_everywhere_is_found(electrons, darkest, brightest, generator):
    """Many values are black, or there are so few brightnesses that no line of the variance shows."""
    truth = darkest + (brightest - darkest) * synthetic_photograph(128, 128).double()
    counts = electrons * truth**2.2 + 4 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    y = (255 * (counts / electrons).clamp(0, 1) ** (1 / 2.2)).round() / 255
    found = cn.estimate_noise(y)
    assert found.kind == "camera" and found.negative
    level = math.sqrt(float(found.variance(y).mean()))
    assert level == pytest.approx(float((y - truth).std()), rel=0.1)
    assert required_noise(y, "camera").negative


def test_windows_of_a_volume_that_has_noise_alone_differ_as_exponential_variables_do(generator):
    """The logarithm of their mean is above the mean of their logarithms by Euler's constant; waves differ more."""
    noise = torch.randn(32, 32, 32, 1, generator=generator, dtype=torch.float64)
    axes = [torch.arange(32, dtype=torch.float64) / 32] * 3
    radius = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).sub(0.45).norm(dim=-1, keepdim=True)
    assert factors_of(Windows.of(noise)).misfit == pytest.approx(np.euler_gamma, abs=0.05)
    assert factors_of(Windows.of(torch.cos(40 * radius))).misfit > 2 * NOISE_MISFIT


def test_a_negative_has_no_more_noise_than_its_values_leave(monkeypatch, generator):
    """The windows of turned letters lead to noise of 0.13 in the dark, beside white noise of 0.015."""
    loud = cn.NoiseModel(gain=0.03)
    monkeypatch.setattr(estimate, "_supported_by_windows", lambda *_, **__: loud)
    squares = torch.from_numpy(np.kron(np.random.default_rng(0).integers(0, 2, (32, 32)), np.ones((4, 4))))
    drawing = 0.2 + 0.6 * squares[..., None]
    white = 0.015 * torch.randn(drawing.shape, generator=generator, dtype=torch.float64)
    assert estimate._supported(drawing + white, 0.02, is_compressed=False) is None
    noise = loud.variance(drawing).sqrt() * torch.randn(drawing.shape, generator=generator, dtype=torch.float64)
    assert estimate._supported(drawing + noise, 0.02, is_compressed=False) is not None


@pytest.mark.parametrize("channels", [1, 3])
def test_white_noise_stays_white(channels, generator):
    _, y = planted(cn.NoiseModel(floor=0.0025), generator, channels)
    model = cn.estimate_noise(y)
    assert model.kind == "white"
    assert math.sqrt(model.floor) == pytest.approx(0.05, rel=0.05)


def test_windows_without_any_color_have_a_spectrum(generator):
    """JPEG leaves the colors of many windows constant."""
    _, y = planted(cn.NoiseModel(floor=0.01), generator, size=(96, 96))
    windows = Windows.of(y)
    silent = torch.arange(len(windows.modes)) % 2 == 0
    found = factors_of(replace(windows, modes=windows.modes.masked_fill(silent[:, None, None], 0)))
    assert bool((found.spectra > 0).all()) and np.isfinite(found.line.variances).all()


@pytest.mark.parametrize("width", [1.5, 2.0])
@pytest.mark.parametrize("sigma", [0.0, 0.01])
def test_a_random_field_is_no_colored_noise_of_its_own(width, sigma, generator):
    """It is a signal if nothing else is: it comes back as it is, or without the white noise on it."""
    field = torch.from_numpy(gaussian_filter(torch.randn(96, 112, 1, generator=generator).double(), (width, width, 0)))
    field = 0.5 + 0.15 * field / field.std()
    y = field + sigma * torch.randn(field.shape, generator=generator)
    made = cn.denoise(y)
    assert made.report.noise["kind"] in ("none", "white")
    assert float((made.signal - field).square().mean()) <= 0.5 * sigma**2 + 1e-12


def test_windows_without_any_energy_have_a_line():
    """A chirp of three equal channels, some of whose windows are exactly level."""
    x = torch.linspace(0, 1, 240, dtype=torch.float64)
    chirp = 0.5 + 0.5 * torch.cos(260 * ((x - 0.4) ** 2 + (x[:, None] - 0.5) ** 2))
    picture = chirp.reshape(80, 3, 80, 3).mean((1, 3))[..., None].repeat(1, 1, 3)
    assert math.sqrt(cn.estimate_noise(picture).floor) < 0.002


def test_the_spectra_of_faint_windows_are_those_of_others(generator):
    signal = planted(cn.NoiseModel(floor=0.05**2), generator, size=(64, 64))[1]
    found, faint = (factors_of(Windows.of(scale * signal.movedim(-1, 0).unsqueeze(0))) for scale in (1.0, 1e-12))
    torch.testing.assert_close(1e24 * faint.spectra, found.spectra, rtol=1e-3, atol=0)
    assert faint.misfit == pytest.approx(found.misfit, rel=1e-3)


def test_values_that_hardly_differ_from_their_mean_are_denoised():
    x = torch.linspace(0, 1, 64, dtype=torch.float64)
    smooth = (torch.sin(5 * x[:, None]) * torch.cos(4 * x)).unsqueeze(-1)
    expected, found = cn.denoise(smooth).signal, cn.denoise(1e6 + smooth).signal
    torch.testing.assert_close(found - 1e6, expected, rtol=0, atol=1e-6)


def test_clean_drawings_have_no_noise():
    drawing = torch.zeros(128, 160, 3)
    drawing[20:60, 30:90] = torch.tensor([0.9, 0.2, 0.1])
    drawing[70:72, :, 1] = 1.0
    made = cn.denoise(drawing)
    assert made.noise is None
    assert cn.psnr(made.signal, drawing) > 60


def test_dense_strokes_in_two_colors_are_no_noise(generator):
    """No part of such a page without white and black shows whether there is noise."""
    page = torch.ones(120, 160, 3)
    page[torch.arange(120) % 8 < 5] = (torch.rand(75, 160, 1, generator=generator) < 0.5).float()
    page[:24] = 1.0
    assert is_drawn(page) and cn.estimate_noise(page).kind == "none"
    noisy = (page + 0.1 * torch.randn(page.shape, generator=generator)).clamp(0, 1)
    assert not is_drawn(noisy)


def test_screenshots_are_left_alone(generator):
    """Letters have all frequencies; the flat surfaces between them show that there is no noise."""
    shot = torch.full((96, 128, 3), 0.95)
    shot[:20], shot[24:60, :100] = torch.tensor([0.2, 0.4, 0.8]), torch.rand(36, 100, 1, generator=generator)
    assert cn.estimate_noise(shot).kind == "none"
    torch.testing.assert_close(cn.denoise(shot).signal, shot, atol=1e-6, rtol=0)
    noisy = shot + 0.02 * torch.randn(shot.shape, generator=generator)
    assert not is_drawn(noisy)


def test_counts_of_few_photons_are_no_drawing():
    y, x = np.mgrid[:96, :96] - 48
    mean = 2 * np.exp(-(y**2 + x**2) / 450)
    counts = np.random.default_rng(0).poisson(np.where(mean < 0.01, 0, mean)).astype(np.float32)
    assert not is_drawn(torch.from_numpy(counts)[..., None])


def test_slopes_rounded_to_8_bits_have_no_noise():
    rows, columns = torch.meshgrid(torch.linspace(0, 1, 150), torch.linspace(0, 1, 200), indexing="ij")
    slope = torch.stack([rows, columns, (rows + columns) / 2], -1)
    assert cn.estimate_noise((255 * slope).round() / 255).kind == "none"


def test_faint_texture_is_white_noise(generator):
    """Colored noise below two steps of 8 bits is not told from fine texture."""
    _, y = planted(cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=0.004**2), generator)
    assert cn.estimate_noise(y).kind == "white"


@pytest.mark.slow
@pytest.mark.parametrize("units", [255.0, 1e-3])
def test_units_scale_the_model(units, generator):
    _, y = planted(cn.NoiseModel(gain=0.02, floor=0.0004), generator)
    one, other = cn.estimate_noise(y), cn.estimate_noise(units * y)
    assert other.gain == pytest.approx(units * one.gain, rel=1e-6)
    assert other.floor == pytest.approx(units**2 * one.floor, rel=1e-6)


def test_texture_in_one_direction_is_no_noise(generator):
    """Gray waves cover all of the picture; the noise is alike in all channels and directions."""
    truth, y = planted(cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=1.0), generator)
    white = torch.randn(*SIZE, 1, generator=generator, dtype=torch.float64)
    waves = 0.08 * sum(white.roll(n, 1) for n in range(12)) / 12**0.5
    model = cn.estimate_noise(truth + 0.1 * (y - truth) / (y - truth).std() + waves)
    assert math.sqrt(model.floor) == pytest.approx(0.1, rel=0.1)


def test_too_little_to_tell_is_refused(generator):
    with pytest.raises(ValueError, match="`noise`: expected white: too little"):
        required_noise(torch.rand(20, 20, 3, generator=generator), "colored")
    assert cn.estimate_noise(torch.rand(20, 20, 3, generator=generator)).kind == "white"


@pytest.mark.parametrize(
    "signal", [torch.full((20, 20, 1), torch.nan), torch.zeros(2, 2, 2, 2, 2, 2), torch.rand(7, 7, 3)]
)
def test_what_is_no_signal_is_refused(signal):
    with pytest.raises(ValueError, match="`signal`: expected"):
        cn.estimate_noise(signal)


def test_a_row_has_no_camera_s_noise(generator):
    with pytest.raises(ValueError, match="`noise`: expected white or colored for a row, received camera"):
        cn.denoise(torch.randn(8000, 1, generator=generator), noise="camera", dimensions=1)


@pytest.mark.slow
def test_a_toned_picture_is_a_gray_one(generator):
    """Rounded to 8 bits, its colors have the noise of the rounding alone, which says nothing of the grain."""
    _, y = planted(cn.NoiseModel(gaussian_spectrum(1.0), floor=0.0025), generator, channels=1)
    tone = torch.tensor([0.95, 0.85, 0.65], dtype=torch.float64)
    toned = cn.estimate_noise((255 * (tone * y).clamp(0, 1)).round() / 255)
    gray = cn.estimate_noise(y.clamp(0, 1))
    assert toned.kind == gray.kind == "colored"
    power = torch.diagonal(toned.autocovariance[:, :, 0, 0]) * toned.floor
    torch.testing.assert_close(power, tone.square() * gray.floor, rtol=0.2, atol=0)


@pytest.mark.parametrize(("width", "level", "kind"), [(0, 0.0, "white"), (0, 0.02, "white"), (0.7, 0.05, "colored")])
def test_the_noise_of_a_small_volume_is_not_its_surfaces(width, level, kind, generator):
    """Most windows have a part of the surface of two balls, and few have none."""
    z, y, x = (t / 32 for t in torch.meshgrid(*[torch.arange(32, dtype=torch.float64)] * 3, indexing="ij"))
    first, second = (z - 0.5) ** 2 + (y - 0.5) ** 2 + (x - 0.4) ** 2, (z - 0.3) ** 2 + (y - 0.6) ** 2 + (x - 0.7) ** 2
    truth = (first < 0.09).double() + 0.5 * (second < 0.04).double() + 0.2 * x
    noise = torch.from_numpy(gaussian_filter(torch.randn(truth.shape, generator=generator).double().numpy(), width))
    model = cn.estimate_noise((truth + level * noise / noise.std()).unsqueeze(3))
    assert model.kind == kind
    assert math.sqrt(model.floor) == pytest.approx(level, rel=0.12, abs=1e-3)


def moving(texture, step):
    """A clip of a picture that moves by one step along both axes from frame to frame."""
    return torch.stack([texture.roll((step * k, -step * k), (0, 1)) for k in range(16)])


@pytest.mark.slow
def test_colored_noise_of_a_clip_is_found_unasked(generator):
    truth = moving(synthetic_photograph(64, 64).double(), 1)[:, 4:60, 4:60]
    white = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    noise = torch.from_numpy(gaussian_filter(white.numpy(), (0.5, 0.5, 0.5, 0)))
    clip = truth + 0.1 * noise / noise.std()
    found = settled(clip, None, "auto", cn.Adaptive(), 0).noise
    assert found.model.kind == "colored"
    assert found.level == pytest.approx(0.1, rel=0.2)
    assert cn.estimate_noise(truth + 0.1 * white, dimensions=3).kind == "white"


def test_texture_that_moves_is_no_noise(generator):
    texture = torch.randn(48, 48, 3, generator=generator, dtype=torch.float64)
    texture = 0.5 + 0.3 * torch.from_numpy(gaussian_filter(texture.numpy(), (0.7, 0.7, 0)))
    assert cn.estimate_noise(moving(texture, 1), dimensions=3).kind != "colored"


def test_clouds_are_no_colored_noise(generator):
    """Neighboring pixels have nearly the same values, as in no noise that was filtered by a few pixels."""
    clouds = torch.randn(1, 3, 64, 64, generator=generator)
    clouds = torch.nn.functional.interpolate(clouds, scale_factor=6, mode="bicubic")[0, :, 60:220, 60:220]
    picture = (255 * (0.5 + 0.1 * clouds)).round().movedim(0, -1) / 255
    assert cn.estimate_noise(picture).kind != "colored"


@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_the_steepest_slope_of_a_power_law_is_its_power(power, generator):
    windows = Windows.of(torch.rand(64, 64, 1, generator=generator, dtype=torch.float64))
    law = windows.seen.sum(1) * windows.radius**-power
    assert steepest_slope(windows, law) == pytest.approx(-power, rel=0.15)
    filtered = windows.seen.sum(1) * torch.exp(-4 * math.pi**2 * windows.radius.square())
    assert steepest_slope(windows, filtered) < STEEP


def test_a_rough_field_of_one_channel_has_no_colored_noise(generator):
    """Its power falls with the frequency to 2.5, and not as fast as that of filtered noise."""
    line = torch.fft.fftfreq(192, dtype=torch.float64)
    radius = torch.hypot(line[:, None], line).clamp(min=1 / 192)
    white = torch.randn(192, 192, generator=generator, dtype=torch.float64)
    field = torch.fft.ifft2(torch.fft.fft2(white) * radius**-1.25).real[:, :, None]
    assert cn.estimate_noise(0.5 + 0.1 * field / field.std()).kind != "colored"


def test_a_line_follows_variances_that_grow_as_squares():
    """Noise that is multiplied has them: the line is their middle, and not the least of them."""
    x = torch.linspace(0.2, 0.8, 8).tolist()
    line = Line.through([(b, b * b, 50, 0) for b in x])
    misfit = np.log([(line.floor + line.gain * b) / (b * b) for b in x])
    assert abs(float(np.median(misfit))) < 0.05
    assert line.rises(torch.tensor(x).unsqueeze(1))
