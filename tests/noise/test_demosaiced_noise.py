import pytest
import torch

import coordnet as cn
from coordnet.noise.factors import factors_of
from coordnet.noise.linear_demosaicing import bilinear, demosaiced_noise, demosaiced_spectrum, malvar
from coordnet.noise.windows import Windows
from tests.helpers import synthetic_photograph
from tests.sampling.test_noise_model import gaussian_spectrum


def demosaiced(method, generator):
    """White noise of deviation 0.1 on the pixels of a mosaic, after demosaicing."""
    known = torch.zeros(128, 128, 3, dtype=torch.bool)
    known[::2, ::2, 0] = known[::2, 1::2, 1] = known[1::2, ::2, 1] = known[1::2, 1::2, 2] = True
    return method(0.1 * torch.randn(known.shape, generator=generator, dtype=torch.float64) * known, known)


def test_the_spectrum_has_the_covariance_of_demosaiced_noise(generator):
    spectrum = demosaiced_spectrum()
    lags = torch.fft.ifft2(spectrum).real
    inner = demosaiced(malvar, generator)[4:-4, 4:-4] / 0.1
    for y, x in ((0, 0), (0, 1), (1, 1), (2, 0)):
        moved = inner.roll((-y, -x), (0, 1))[:-2, :-2].flatten(0, 1)
        seen = inner[:-2, :-2].flatten(0, 1).mT @ moved / len(moved)
        torch.testing.assert_close(seen, (lags[..., y, x] + lags[..., -y, -x]) / 2, atol=0.04, rtol=0)


def test_demosaiced_noise_is_found_with_its_level(generator):
    picture, noise = synthetic_photograph(128, 128).double(), demosaiced(malvar, generator)
    model = cn.estimate_noise(picture + noise)
    expected = demosaiced_spectrum() / demosaiced_spectrum().diagonal(dim1=0, dim2=1).mean()
    torch.testing.assert_close(model.spectrum, expected)
    assert float(model.variance(picture).mean().sqrt()) == pytest.approx(float(noise.std()), rel=0.15)


def test_bilinear_noise_is_told_from_that_of_other_filters(generator):
    windows = Windows.of(synthetic_photograph(128, 128).double() + demosaiced(bilinear, generator))
    assert demosaiced_noise(windows, factors_of(windows)) is None


def test_filtered_noise_is_not_taken_for_demosaiced(generator):
    noise = cn.NoiseModel(gaussian_spectrum(1.0, 3), floor=1.0).process((128, 128), 3, generator)
    model = cn.estimate_noise(synthetic_photograph(128, 128).double() + 0.1 * noise)
    assert model.fine_share < 0.2 < cn.NoiseModel(demosaiced_spectrum(), floor=1.0).fine_share
