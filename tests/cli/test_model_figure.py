import json

import pytest
import torch

from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.plots.model import plane
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.denoise import denoise
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


@pytest.mark.parametrize("shape", [(9,), (8,), (6, 7), (5, 8), (4, 6, 5)])
def test_the_plane_is_the_shifted_whole_spectrum(shape, generator):
    power = torch.fft.fftn(torch.randn(shape, generator=generator)).abs().square()
    half = power[..., : shape[-1] // 2 + 1]
    whole = power
    while whole.ndim > 2:
        whole = whole[0]
    expected = torch.fft.fftshift(whole)
    shown = plane(half, True)
    first = shown.shape[-1] // 2 - shape[-1] // 2
    assert torch.allclose(shown[..., first : first + shape[-1]], expected, rtol=1e-4)


@pytest.mark.figures
@pytest.mark.parametrize("encoder", ["fourier", "gaussian"])
def test_analyze_shows_what_a_model_learned(run, encoder, tmp_path):
    samples = sample(synthetic_photograph(24, 20), "random:0.5")
    encoding = FourierEncoding.like(samples) if encoder == "fourier" else ComplexEncoding.like(Gaussian, samples)
    fit_closed_form(encoding, samples, prior=Adaptive(rounds=1)).save("model.safetensors")
    status, out, _ = run("analyze", "model.safetensors", "--json", "--out", "out")
    assert status == 0
    numbers = json.loads(out)["numbers"]
    assert numbers["grid"] == [24, 20]
    assert numbers["report"]["rounds"] in (0, 1)
    assert (tmp_path / "out" / "figure.png").stat().st_size > 5000


@pytest.mark.figures
def test_a_fourier_model_without_a_learned_spectrum_shows_that_of_its_signal(run, tmp_path):
    samples = sample(synthetic_photograph(12, 10), "full")
    fit = fit_closed_form(FourierEncoding.like(samples), samples, prior=Smoothness(1.5, 0.01))
    fit.save(tmp_path / "model.safetensors")
    status, out, _ = run("analyze", "model.safetensors", "--out", "out")
    assert status == 0
    assert "a signal of 12×10×3" in out
    assert "fourier encoding of" in out
    assert (tmp_path / "out" / "figure.png").stat().st_size > 5000


@pytest.mark.figures
def test_a_model_of_a_filtered_picture_has_no_method_of_a_fit(run):
    denoise(synthetic_photograph(12, 10), 0.002, prior=Adaptive()).fit.save("model.safetensors")
    status, out, _ = run("analyze", "model.safetensors", "--out", "out")
    assert status == 0
    assert "fitted by" not in out
