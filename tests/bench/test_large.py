"""Large signals: what they are made of, the peer in time, and one short run."""

import numpy as np
import pytest
import torch

from coordnet.bench import large_study as large
from coordnet.bench.experiment import Case
from coordnet.bench.records import Options, read
from coordnet.bench.runner import report
from coordnet.sampling import sample


@pytest.mark.parametrize("degree", [1, 3])
def test_missing_frames_are_those_of_polynomials_in_time(degree):
    times = torch.arange(12, dtype=torch.float64) / 12
    clip = torch.stack([1 - times**degree, times], 1).reshape(12, 1, 2, 1)
    known = large.every_second((12, 1, 2), 0)
    assert known.sum(0).tolist() == [[7, 7]]
    torch.testing.assert_close(large.in_time(Case(sample(clip, known)), degree), clip)


def test_a_view_begins_above_the_middle_of_the_photographs():
    whole = large.photographs(1600)
    assert whole.shape == (800, 1600, 3) and torch.equal(large.photographs(400), whole[300:500, 600:1000])
    frames = large.view(22)
    assert frames.shape == (64, 18, 22, 1)
    torch.testing.assert_close(frames[0, ..., 0], whole[391:409, 689:711].mean(-1), atol=1e-5, rtol=0)


def test_the_power_of_waves_falls_as_it_says():
    field = large.waves(256)[..., 0].double().numpy()
    assert field.min() == 0 and field.max() == 1
    window = np.outer(*2 * [np.hanning(256)])
    power = np.abs(np.fft.fft2((field - field.mean()) * window)) ** 2
    frequency = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(256, 1 / 256)]))
    low, high = (power[np.abs(frequency - f) < 2].mean() for f in (10, 40))
    assert np.log(low / high) / np.log(4) == pytest.approx(large.WAVES, abs=0.4)


@pytest.mark.slow
def test_a_short_run_is_reported(tmp_path):
    options = Options(quick=True, only=("large-fields",))
    text, failed = report("large", options, tmp_path, progress=False)
    assert failed == 0 and len(read(tmp_path)) == 3
    assert "## A random field" in text and "griddata cubic" in text and "large-clips" not in text
