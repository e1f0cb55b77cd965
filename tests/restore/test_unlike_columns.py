"""Tables whose columns have other units: each column of noise of its own size is denoised as if it were alone."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.restore.cleaners import Noise
from coordnet.restore.denoise_choice import Settled
from coordnet.restore.unlike_columns import ColumnsApart

ROWS = np.arange(200)


def table(generator):
    """Return a temperature and a pressure with noise of unlike size, beside a time and a constant; and their truths."""
    truth = np.stack([np.sin(ROWS / 15), 1013 + 40 * np.cos(ROWS / 12)], 1)
    noise = torch.randn(200, 2, generator=generator, dtype=torch.float64).numpy() * [0.1, 5.0]
    time = torch.rand(200, generator=generator, dtype=torch.float64).cumsum(0).numpy()  # of unequal steps
    return np.column_stack([time, truth + noise, np.full(200, 7.0)]), truth


def test_columns_of_other_units_are_denoised_as_alone_and_a_time_stays_to_the_bit(generator):
    noisy, truth = table(generator)
    made = cn.denoise(noisy)
    for k in (1, 2):
        alone = cn.denoise(noisy[:, k]).signal
        np.testing.assert_allclose(made.signal[:, k], alone, atol=1e-9 * np.ptp(alone))
        error, before = (np.square(column - truth[:, k - 1]).mean() for column in (alone, noisy[:, k]))
        assert error < before / 3
    assert np.array_equal(made.signal[:, [0, 3]], noisy[:, [0, 3]])
    assert made.known is not None and made.known[0].tolist() == [True, False, False, True]
    assert made.report.sigma == pytest.approx(5 / 2, rel=0.2) and made.expected_psnr is not None
    torch.testing.assert_close(made.fit.render(alignment="sample"), torch.from_numpy(made.signal), atol=1e-6, rtol=0)


def test_columns_with_noise_of_one_size_stay_together(generator):
    noisy, _ = table(generator)
    pair = torch.from_numpy(noisy[:, [1, 1]]) + 0.1 * torch.randn(200, 2, generator=generator, dtype=torch.float64)
    made = ColumnsApart.of(pair, lambda part: Settled(cn.Adaptive(), Noise(0.1, given=False), None))
    assert [group.tolist() for group in made.groups] == [[True, True]]
    assert not bool(made.without_noise.any())
