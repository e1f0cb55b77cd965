import pytest
import torch

import coordnet as cn
from coordnet.noise.pauses import quiet_noise

LENGTH = 30_000


def pink(channels=1, hum=0.0):
    """Noise of power 1/f at a frequency f, with a tone as of the mains."""
    f = torch.fft.fftfreq(LENGTH, dtype=torch.float64).abs().clamp(min=1e-3).unsqueeze(1)
    white = torch.randn(LENGTH, channels, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = torch.fft.ifft(torch.fft.fft(white, dim=0) * f.rsqrt(), dim=0).real
    return noise + hum * torch.sin(0.007 * torch.arange(LENGTH)).unsqueeze(1)


def bursts():
    """Tones that come and go."""
    t = torch.arange(LENGTH, dtype=torch.float64)
    return (30 * torch.sin(0.05 * t + 40 * torch.sin(0.0006 * t)) * (torch.sin(0.001 * t) > 0.2)).unsqueeze(1)


def test_the_spectrum_is_that_of_the_pauses():
    mixed = pink(2) @ torch.tensor([[1.0, 0.5], [0.0, 2.0]], dtype=torch.float64)
    model = quiet_noise(bursts() + mixed)
    found = model.floor * model.spectrum
    f = torch.fft.fftfreq(512, dtype=torch.float64).abs()
    inside = (f > 0.1) & (f < 0.49)
    for i, j, factor in ((0, 0, 1.0), (0, 1, 0.5), (1, 1, 4.25)):
        ratio = found[i, j, inside] * f[inside] / factor
        assert float(ratio.mean()) == pytest.approx(1, abs=0.12)
        assert float(ratio.std()) < 0.45


@pytest.mark.parametrize("hum", [0.0, 5.0])
def test_colored_noise_and_hum_are_removed_from_a_sound(hum):
    truth = bursts()
    y = truth + pink(hum=hum)
    made, white = (cn.denoise(y, noise=noise, dimensions=1) for noise in ("colored", "white"))
    errors = [float((m.signal - truth).square().mean()) for m in (made, white)]
    assert errors[0] < 0.6 * errors[1]
    assert made.noise.kind == "colored"


@pytest.mark.parametrize("row", [torch.rand(400, 1), torch.rand(3000, 1), torch.zeros(20_000, 1)])
def test_too_few_windows_are_refused(row):
    with pytest.raises(ValueError, match="`noise`: expected white"):
        cn.denoise(row, noise="colored", dimensions=1)
