"""The noise of samples in the steps of a denoiser, against the posterior mean of a Gaussian picture."""

import math

import pytest
import torch
from torch.nn.functional import avg_pool2d

import coordnet as cn
from coordnet.priors.denoiser.plug_and_play import NOISE_SHARE

SIDE, FREQUENCY, WIDTH = 48, 0.15, 1 / 60  # the picture's side, and the ring of its frequencies in cycles per pixel
TOLD = 0.3  # standard deviation of the noise that the denoiser is told, relative to that of the picture


@pytest.fixture(scope="module")
def process():
    """A picture of known variances of its frequencies, these, and which half of its pixels is known."""
    generator = torch.Generator().manual_seed(0)
    k = torch.fft.fftfreq(SIDE, dtype=torch.float64)
    ring = torch.exp(-(((torch.hypot(k[:, None], k) - FREQUENCY) / WIDTH) ** 2) / 2)
    spectrum = ring / ring.mean() + 1e-6
    white = torch.randn(SIDE, SIDE, generator=generator, dtype=torch.float64)
    known = torch.rand(SIDE, SIDE, generator=generator) < 0.5
    return torch.fft.ifft2(torch.fft.fft2(white) * spectrum.sqrt()).real, spectrum, known


def wiener(x, sigma, spectrum):
    """Return the posterior mean of pictures of the process that have noise of a standard deviation."""
    mean = x.mean((2, 3), keepdim=True)
    z = torch.fft.fft2((x - mean).double()) * spectrum / (spectrum + sigma**2)
    return torch.fft.ifft2(z).real.to(x) + mean


def filled(values, spectrum, known):
    """Return a picture filled with its own Wiener filter as the denoiser, which is told the noise."""
    span = float(values[known].max() - values[known].min())

    def clean(x, sigma):
        return wiener(x, span * sigma, spectrum)

    samples = cn.sample(values.float().unsqueeze(-1), known.float())
    prior = cn.Denoiser(clean, channels=1, noise=TOLD, pilot=cn.Adaptive())
    fit = cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, prior=prior)
    assert fit.report.denoiser == "clean"
    return fit.render()[..., 0].double()


def posterior_mean(values, spectrum, known, noise):
    """Return the mean of the picture given pixels with noise of a standard deviation, by its covariance."""
    unit = torch.eye(SIDE * SIDE, dtype=torch.float64).reshape(-1, SIDE, SIDE)
    of_known = torch.fft.ifft2(torch.fft.fft2(unit[known.flatten()]) * spectrum).real.flatten(1)
    gram = of_known[:, known.flatten()] + noise**2 * torch.eye(len(of_known), dtype=torch.float64)
    mean = values[known].mean()
    return mean + (torch.linalg.solve(gram, values[known] - mean) @ of_known).reshape(SIDE, SIDE)


def distance(first, second, known):
    """Return the root mean square of the difference of two pictures where they are not known."""
    return float((first - second)[~known].square().mean().sqrt())


@pytest.mark.slow
def test_samples_with_noise_count_with_a_share_of_its_variance(process, generator):
    """The share makes the smoothing that of a Wiener filter for less noise; that of all the noise is 0.02 away."""
    truth, spectrum, known = process
    values = truth + TOLD * torch.randn(SIDE, SIDE, generator=generator, dtype=torch.float64)
    found = filled(values, spectrum, known)
    expected = posterior_mean(values, spectrum, known, math.sqrt(NOISE_SHARE) * TOLD)
    assert distance(found, expected, known) < 0.003
    assert distance(found, posterior_mean(values, spectrum, known, 1e-4), known) > 0.1


@pytest.mark.slow
def test_hidden_samples_show_that_samples_have_no_noise_though_it_is_told(process):
    truth, spectrum, known = process
    found = filled(truth, spectrum, known)
    assert distance(found, truth, known) < 0.005
    assert distance(found, posterior_mean(truth, spectrum, known, math.sqrt(NOISE_SHARE) * TOLD), known) > 0.03


def refined(truth, values, spectrum, geometry, encoding):
    """Return the limit of a denoiser's steps at one standard deviation for values that are told to have noise."""
    span = float(truth.max() - truth.min())
    options = {"channels": 1, "noise": TOLD, "pilot": cn.Adaptive()}
    prior = cn.Denoiser(lambda x, sigma: wiener(x, sigma * span, spectrum), **options)
    return prior.plan(encoding, geometry, dtype=torch.float64).refined(truth.unsqueeze(0), values, 60 * [0.1])[0]


def test_cells_with_noise_count_with_a_share_of_its_variance(process):
    truth, spectrum, _ = process
    geometry, values = cn.AreaLattice((SIDE, SIDE), (2, 2)), avg_pool2d(truth.unsqueeze(0), 2)
    found = refined(truth, values, spectrum, geometry, cn.FourierEncoding.on(geometry.pixels))
    unit = torch.eye(values.numel(), dtype=torch.float64).reshape(-1, *values.shape[1:])
    adjoint = (unit / 4).repeat_interleave(2, 1).repeat_interleave(2, 2)
    of_cells = torch.fft.ifft2(torch.fft.fft2(adjoint) * spectrum).real
    gram = avg_pool2d(of_cells, 2).flatten(1) + NOISE_SHARE * TOLD**2 * torch.eye(len(unit), dtype=torch.float64)
    expected = torch.einsum("k,kij->ij", torch.linalg.solve(gram, values.flatten()), of_cells)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_measurements_with_noise_count_with_a_share_of_its_variance(process):
    truth, spectrum, _ = process
    psf = torch.outer(*2 * [torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)])
    blur = cn.operators.Blur(psf, (SIDE, SIDE), border="periodic")
    samples = cn.Measurements(blur, blur(truth))
    found = refined(truth, blur(truth.unsqueeze(0)), spectrum, samples.geometry, cn.FourierEncoding.like(samples))
    response = torch.cos(math.pi * torch.fft.fftfreq(SIDE, dtype=torch.float64)) ** 2
    response = response[:, None] * response
    share = spectrum * response**2 / (spectrum * response**2 + NOISE_SHARE * TOLD**2)
    expected = torch.fft.ifft2(torch.fft.fft2(truth) * share).real
    torch.testing.assert_close(found, expected, atol=0.005, rtol=0)
