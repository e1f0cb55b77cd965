import math

import pytest
import torch

import coordnet as cn
from coordnet.sampling.noise_model import MIN_RATIO


def gaussian_spectrum(width, channels=1, window=32):
    f = torch.fft.fftfreq(window, dtype=torch.float64)
    power = torch.exp(-((2 * math.pi * width) ** 2) * (f.unsqueeze(1).square() + f.square()))
    return torch.eye(channels, dtype=torch.float64)[:, :, None, None] * power


def test_a_spectrum_is_scaled_and_the_variance_with_it():
    model = cn.NoiseModel(3 * gaussian_spectrum(1), gain=0.5, floor=0.1)
    assert float(model.spectrum.mean()) == pytest.approx(1)
    scale = float(3 * gaussian_spectrum(1).mean())
    assert (model.gain, model.floor) == pytest.approx((0.5 * scale, 0.1 * scale))
    assert torch.allclose(model.variance(torch.tensor([-1.0, 2.0])), scale * torch.tensor([0.1, 1.1]))


def test_filtered_noise_has_the_closed_covariance():
    """White noise filtered by a Gaussian of width w has the autocovariance exp(-r² / 4w²), times a constant."""
    model = cn.NoiseModel(gaussian_spectrum(1.5), floor=1.0)
    covariance = model.covariance((3, 4))
    places = torch.cartesian_prod(torch.arange(3), torch.arange(4)).double()
    expected = torch.exp(-torch.cdist(places, places).square() / (4 * 1.5**2))
    torch.testing.assert_close(covariance, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("window", [5, 8])
def test_a_patch_may_be_larger_than_the_window(window):
    """Means over 2×2 pixels of white noise have the autocovariance (1 - |r|/2)₊ along each axis, times a constant."""
    power = torch.cos(math.pi * torch.fft.fftfreq(window, dtype=torch.float64)).square()
    model = cn.NoiseModel(power.outer(power)[None, None], floor=1.0)
    lag = (torch.arange(8).unsqueeze(1) - torch.arange(8)).abs()
    expected = (1 - lag / 2).clamp(min=0).double()
    torch.testing.assert_close(model.covariance((8, 8)), torch.kron(expected, expected), atol=1e-9, rtol=0)


def test_the_covariance_of_a_patch_is_that_of_draws(generator):
    cross = torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)
    model = cn.NoiseModel(cross[:, :, None, None] * gaussian_spectrum(0.7), floor=1.0)
    draws = model.process((400, 400), 2, generator)
    patches = draws.movedim(-1, 0).unfold(1, 2, 2).unfold(2, 3, 3)
    flat = patches.permute(1, 2, 0, 3, 4).flatten(0, 1).flatten(1)
    torch.testing.assert_close(flat.mT @ flat / len(flat), model.covariance((2, 3)), atol=0.06, rtol=0)


def test_a_sum_of_channels_has_the_covariance_of_the_sum(generator):
    mixed = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    model = cn.NoiseModel(gaussian_spectrum(1.0)[0, 0] * (mixed @ mixed.mT)[:, :, None, None], floor=1.0)
    vector = torch.tensor([0.6, -0.8, 0.5], dtype=torch.float64)
    weights = torch.kron(vector, torch.eye(6, dtype=torch.float64)).reshape(6, 18)
    torch.testing.assert_close(model.covariance((2, 3), vector), weights @ model.covariance((2, 3)) @ weights.mT)


def test_the_roots_are_those_of_the_covariance():
    model = cn.NoiseModel(gaussian_spectrum(0.5, 2), floor=1.0)
    root, inverse = model.roots((3, 3))
    torch.testing.assert_close(root @ root, model.covariance((3, 3)), atol=1e-3, rtol=0)
    torch.testing.assert_close(root @ inverse, torch.eye(18, dtype=torch.float64), atol=1e-9, rtol=0)
    values = torch.linalg.eigvalsh(cn.NoiseModel(gaussian_spectrum(3.0), floor=1.0).roots((4, 4))[0])
    assert float(values.min() ** 2) == pytest.approx(MIN_RATIO)


def test_evened_noise_has_power_in_every_combination_of_channels():
    spectrum = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)[:, :, None, None] * gaussian_spectrum(1)
    model = cn.NoiseModel(spectrum, gain=0.2, floor=0.3)
    made = model.evened(0.5)
    before, after = (torch.linalg.eigvalsh((m.floor * m.spectrum)[..., 0, 1]) for m in (model, made))
    assert float(after[1]) == pytest.approx(float(before[1]))
    assert float(after[0]) == pytest.approx(0.5 * float(before[1]))
    assert made.gain / made.floor == pytest.approx(2 / 3)
    assert cn.NoiseModel(floor=1.0).evened(0.5).spectrum is None


def test_plates_weigh_samples_by_their_noise():
    """The error of plates falls where samples have the inverse variances of their noise as weights."""
    truth = (1 + 0.98 * torch.sin(torch.linspace(0, 12, 200, dtype=torch.float64))).unsqueeze(1)
    model, errors = cn.NoiseModel(gain=0.5, floor=1e-3), []
    known = torch.arange(200).unsqueeze(1) % 5 > 0
    for seed in range(3):
        noise = torch.randn(200, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        y = truth + model.variance(truth).sqrt() * noise
        samples = [cn.sample(y, known * w, dimensions=1) for w in (model.weights(truth), torch.ones_like(truth))]
        fits = [cn.fit(s, prior=cn.ThinPlate()).render(alignment="sample") for s in samples]
        errors.append([float((f - truth).square().mean()) for f in fits])
    weighed, alike = torch.tensor(errors).sum(0)
    assert float(weighed) < 0.9 * float(alike)


def test_weights_need_noise_everywhere():
    weights = cn.NoiseModel(gain=0.5, floor=0.25).weights(torch.tensor([0.0, 1.0]))
    assert weights.tolist() == pytest.approx([2.0, 2 / 3])
    with pytest.raises(ValueError, match="`floor`: expected a variance of more than 0"):
        cn.NoiseModel(gain=0.5).weights(torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("options, kind", [({}, "none"), ({"floor": 0.01}, "white"), ({"gain": 0.01}, "camera")])
def test_the_kind_follows_from_what_there_is(options, kind):
    model = cn.NoiseModel(**options)
    assert model.kind == kind
    assert kind in str(model) or kind == "none"
    assert cn.NoiseModel(gaussian_spectrum(1), floor=0.1).kind == "colored"


@pytest.mark.parametrize(
    "options, word",
    [
        ({"gain": -1.0}, "gain"),
        ({"floor": math.nan}, "floor"),
        ({"spectrum": torch.ones(2, 3, 4)}, "spectrum"),
        ({"spectrum": torch.zeros(1, 1, 4)}, "spectrum"),
        ({"spectrum": torch.tensor([[[1.0, -0.5]]])}, "spectrum"),
    ],
)
def test_what_is_no_noise_is_refused(options, word):
    with pytest.raises(ValueError, match=f"`{word}`: expected"):
        cn.NoiseModel(**options)


def test_white_noise_has_most_of_its_power_in_fine_detail():
    """Five of eight frequencies on each axis are no higher than half of the highest."""
    assert cn.NoiseModel(torch.eye(3)[:, :, None, None], floor=1.0).fine_share == pytest.approx(1 - (5 / 8) ** 2)


def test_some_channels_have_their_rows_and_columns_of_the_covariance():
    model = cn.NoiseModel(torch.diag(torch.tensor([1.0, 0, 3]))[..., None, None] + gaussian_spectrum(1, 3), floor=0.2)
    some = model.of_channels(torch.tensor([True, False, True]))
    expected = model.floor * model.covariance((3, 2)).unflatten(0, (3, 6)).unflatten(2, (3, 6))[[0, 2]][:, :, [0, 2]]
    torch.testing.assert_close(some.floor * some.covariance((3, 2)), expected.reshape(12, 12))
    silent = cn.NoiseModel(torch.diag(torch.tensor([1.0, 0]))[..., None, None], floor=0.2)
    assert silent.of_channels(torch.tensor([False, True])).kind == "none"
    assert model.of_channels(torch.ones(3, dtype=torch.bool)).floor == pytest.approx(model.floor)
