import math

import pytest
import torch

import coordnet as cn
from coordnet.restore.hum import Lines, without_hum

RATE = 8000


def seconds(length=10.0):
    return torch.arange(int(length * RATE)).double() / RATE


def voice(t):
    """Syllables of a pitch that glides about 140 Hz, with pauses between them."""
    phase = 2 * math.pi * 140 * t + 8 * torch.sin(2.1 * t)
    overtones = sum(torch.sin(k * phase + k) / k for k in range(1, 8))
    return (overtones * torch.sin(2 * math.pi * 0.7 * t).clamp(min=0).sqrt()).unsqueeze(1)


def mains(t, frequency=50.07, amplitudes=((1, 0.3), (2, 0.2), (3, 0.1), (7, 0.05))):
    return sum(a * torch.sin(2 * math.pi * k * frequency * t + 2 * k) for k, a in amplitudes).unsqueeze(1)


@pytest.mark.parametrize("frequency", [49.6, 50.07, 60.3])
def test_hum_is_found_and_removed(frequency):
    t = seconds()
    clean, hum = voice(t), mains(t, frequency)
    rest, found = without_hum(torch.cat([clean + hum, clean - 2 * hum], 1), RATE)
    assert found is not None and found.harmonics == [1, 2, 3, 7]
    assert found.frequency == pytest.approx(frequency, abs=1e-3)
    assert float((rest - clean).square().mean()) < 1e-3 * float(hum.square().mean())


def test_hum_of_a_frequency_that_drifts_is_removed_in_blocks():
    t = seconds(60)
    clean, hum = voice(t), mains(t + 0.002 * torch.sin(t / 9))
    rest, found = without_hum(clean + hum, RATE)
    assert found is not None and found.harmonics == [1, 2, 3, 7]
    assert float((rest - clean).square().mean()) < 1e-2 * float(hum.square().mean())


def notes(t, frequency):
    """A note that begins and dies away every second."""
    return (torch.exp(-3 * (t % 1)) * torch.sin(2 * math.pi * frequency * t)).unsqueeze(1)


@pytest.mark.parametrize(
    "sound",
    [
        voice,
        lambda t: notes(t, 100.0) + notes(t + 0.3, 150.0),
        lambda t: (torch.sin(2 * math.pi * 50 * t) * ((t > 2) & (t < 8))).unsqueeze(1) + voice(t),
        lambda t: (torch.sin(2 * math.pi * 50 * t) * (t > 0.6)).unsqueeze(1),
        lambda t: mains(t, 55.0) + voice(t),  # the pedal of an organ
        lambda t: (torch.sin(2 * math.pi * 350 * t) + torch.sin(2 * math.pi * 440 * t)).unsqueeze(1),  # a dial tone
        lambda t: torch.sin(2 * math.pi * 50 * t).unsqueeze(1),  # nothing but a line
        lambda t: torch.sin(2 * math.pi * (30 * t + 20 * t.square())).unsqueeze(1),
        lambda t: torch.zeros(len(t), 2),
        lambda t: (voice(t) + mains(t))[: 2 * RATE],  # too short
    ],
)
def test_sounds_without_hum_stay_to_the_bit(sound):
    y = sound(seconds()).double()
    rest, found = without_hum(y, RATE)
    assert found is None and torch.equal(rest, y)


@pytest.mark.parametrize("rate", [10.0, 133.0, 250.0])
def test_few_samples_per_second_show_few_multiples(rate):
    t = torch.arange(int(30 * rate)).double() / rate
    y = torch.cumsum(torch.randn(len(t), generator=torch.Generator().manual_seed(0)).double(), 0)
    hum = 3 * torch.sin(2 * math.pi * 50 * t)
    rest, found = without_hum((y + hum).unsqueeze(1), rate)
    assert (found is not None) == (rate > 135)
    if found is not None:
        assert found.harmonics == [1]
        assert float((rest[:, 0] - y).square().mean()) < 1e-2 * float(hum.square().mean())


def test_lines_have_the_planted_amplitudes_and_the_fundamental():
    t, amplitudes = seconds(), ((1, 0.5), (2, 0.25))
    lines = Lines.of(mains(t, 50.003, amplitudes), RATE, 50.0, 0.0).tuned()
    assert lines.fundamental == pytest.approx(50.003, abs=1e-5)
    expected = torch.tensor([0.5, 0.25]) * torch.polar(torch.ones(2), torch.tensor([2.0, 4.0]) - math.pi / 2)
    assert torch.allclose(lines.robust_means()[:2, 0], expected.to(torch.complex128), atol=1e-3)


def test_denoise_removes_hum_at_a_rate_and_says_so():
    t = seconds(3.2)
    made = cn.denoise(voice(t) + mains(t), 0, rate=RATE, dimensions=1)
    assert float((made.signal - voice(t)).square().mean()) < 1e-2 * float(mains(t).square().mean())
    assert str(made.report.hum).startswith("hum of 50.07 Hz and ")
    with pytest.raises(ValueError, match="`rate`: expected none for a signal of several axes"):
        cn.denoise(torch.rand(8, 8, 1), rate=RATE)
