"""Fits of a y + b: those of y, times a and plus b, to rounding, for every prior and geometry."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import coordnet as cn
from coordnet.noise.white import noise_level
from coordnet.sampling.samples import units_of

GRID = (6, 7)
ROWS, COLUMNS = torch.meshgrid(*(torch.arange(float(n)) for n in GRID), indexing="ij")
SIGNAL = torch.stack([torch.sin(ROWS / 3) / 2 + 0.5, (ROWS + COLUMNS) / 20], dim=-1)
POINTS = torch.rand(40, 2, generator=torch.Generator().manual_seed(2)) * 0.9
ADAPTIVE = cn.Adaptive(starts=(cn.Smoothness(1.5, 0.1),), rounds=1)
FITS = {
    "least squares": (cn.Gaussian, None),
    "smooth": (cn.Gaussian, cn.Smoothness()),
    "smooth, Fourier": (None, cn.Smoothness()),
    "robust": (None, cn.Smoothness(loss="huber")),
    "adaptive": (None, ADAPTIVE),
    "local": (None, cn.Local(rounds=1, pilot=ADAPTIVE)),
}
CASES = [
    ("least squares", "full"),
    ("smooth", "full"),
    *((name, "random:0.6") for name in ("smooth", "smooth, Fourier", "robust", "adaptive", "local")),
    ("local", "every:2"),
    ("smooth, Fourier", "scattered"),
]


def samples_of(pattern, scale=1.0, offset=0.0):
    values = scale * SIGNAL.double() + offset
    if pattern != "scattered":
        return cn.sample(values.float(), pattern, generator=torch.Generator().manual_seed(0))
    nodes = (POINTS * torch.tensor(GRID)).long()
    return cn.Samples(cn.ScatteredPoints(GRID, POINTS), values[tuple(nodes.T)].float())


@cache
def reference(name, pattern):
    return render(name, samples_of(pattern))


def render(name, samples):
    encoder, prior = FITS[name]
    encoding = cn.FourierEncoding.like(samples) if encoder is None else cn.ComplexEncoding.like(encoder, samples)
    return cn.fit_closed_form(encoding, samples, prior).render().double()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name, pattern", CASES)
@settings(max_examples=2, derandomize=True)
@given(power=st.integers(-90, 90), sign=st.sampled_from([1.0, -1.0]), exponent=st.floats(-20, 20), b=st.floats(-30, 30))
def test_fits_have_no_scale_and_no_offset(name, pattern, power, sign, exponent, b):
    scale, expected = sign * 2.0**power, reference(name, pattern)
    assert torch.equal(render(name, samples_of(pattern, scale)) / scale, expected)  # to the bit
    scale = 10**exponent
    found = render(name, samples_of(pattern, scale, scale * b)) / scale - b
    assert torch.allclose(found, expected, atol=0.01)  # to the tolerance of conjugate gradients


@settings(max_examples=2, derandomize=True)
@given(exponent=st.integers(-90, 90))
def test_denoising_has_no_scale(exponent):
    scale = 2.0**exponent
    noisy = SIGNAL + 0.1 * torch.randn(*SIGNAL.shape, generator=torch.Generator().manual_seed(3))
    assert noise_level(noisy * scale) == scale * noise_level(noisy)
    assert torch.equal(cn.denoise(noisy * scale).signal / scale, cn.denoise(noisy).signal)


def test_units_are_powers_of_two_near_the_largest_magnitude():
    values = torch.tensor([[0.0, -3.0], [0.4, 0.1], [3e38, 1.0], [1e-44, 0.0], [0.0, 0.0]])
    assert torch.equal(units_of(values)[:2, 0], torch.tensor([2.0, 0.25]))
    assert bool((units_of(values) > 0).all()) and bool((values / units_of(values)).isfinite().all())
    assert bool(((values / units_of(values)).abs().amax(1) < 2).all())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("prior", [None, cn.Smoothness(strength=0.0)])
@pytest.mark.parametrize("spread", [0.0, 1e-7])
def test_coincident_points_without_a_penalty_give_their_mean(prior, spread, generator):
    points = 0.5 + spread * torch.rand(50, 2, generator=generator)
    values = torch.rand(50, 1, generator=generator)
    samples = cn.Samples(cn.ScatteredPoints(GRID, points), values)
    fit = cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, prior)
    assert torch.allclose(fit.render(), values.mean().expand(*GRID, 1), atol=1e-4)


@pytest.mark.slow
def test_the_priors_that_are_weighed_have_no_scale():
    """Squares of 2⁶⁰ times a picture are near the largest number of float32."""
    picture = torch.sin(torch.arange(10.0)[:, None] / 2) * torch.cos(torch.arange(12.0) ** 2 / 20) + 2
    samples = cn.sample(picture, "random:0.5", generator=torch.Generator().manual_seed(0))
    scaled = cn.Samples(samples.geometry, samples.values * 2.0**60)
    assert torch.equal(cn.fit(scaled).render() / 2.0**60, cn.fit(samples).render())


@pytest.mark.parametrize("prior", [ADAPTIVE, cn.Local(rounds=1, pilot=ADAPTIVE), cn.TotalVariation()])
def test_the_default_dtype_does_not_change_a_fit(prior):
    samples = samples_of("random:0.6")
    expected = cn.fit(samples, prior=prior).render()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(cn.fit(samples, prior=prior).render(), expected)
    finally:
        torch.set_default_dtype(torch.float32)
