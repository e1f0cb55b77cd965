import math

import pytest
import torch

import coordnet as cn
from coordnet.restore.banding import HEIGHTS, _posterior_mean, banding, row_steps, without_banding
from tests.helpers import synthetic_photograph

HEIGHT, WIDTH = 96, 112


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def photograph(height=HEIGHT, width=WIDTH):
    return 0.3 + 0.4 * synthetic_photograph(height, width).double()


@pytest.mark.parametrize("height", HEIGHTS)
def test_the_posterior_mean_is_that_of_dense_covariances(height):
    n, ratio = 30, 2.5
    rows = torch.arange(n)
    own = ratio * (1 - (rows[:, None] - rows).abs().double() / height).clamp(min=0)
    differences = torch.eye(n).double().diff(dim=0)
    steps = normal(n - 1)
    noisy = differences @ own @ differences.mT + torch.eye(n - 1)
    expected = own @ differences.mT @ torch.linalg.solve(noisy, steps)
    assert torch.allclose(_posterior_mean(steps, height, ratio), expected - expected.mean())


def test_steps_are_those_of_most_pixels():
    offsets = normal(HEIGHT, 1, 3)
    ramp = torch.linspace(0, 1, WIDTH).double()[:, None].expand(-1, 3)
    picture = ramp + offsets + 5 * (normal(HEIGHT, WIDTH, 1, seed=1) > 2)
    assert torch.allclose(row_steps(picture), offsets.diff(dim=0)[:, 0], atol=1e-2)


@pytest.mark.parametrize(("rows", "colors", "sigma"), [(1, 1, 0.0), (1, 3, 0.03), (3, 1, 0.01)])
def test_offsets_of_rows_and_of_columns_are_subtracted(rows, colors, sigma):
    clean = photograph()
    offsets = 0.05 * normal(HEIGHT, 1, colors).repeat_interleave(rows, 0)[:HEIGHT].expand(-1, WIDTH, 3)
    noise = sigma * normal(HEIGHT, WIDTH, 3, seed=2)
    for turned in (False, True):
        y = clean + offsets + noise
        y, truth = (f.transpose(0, 1) if turned else f for f in (y, clean + noise))
        made, found = without_banding(y)
        assert found is not None and (found.rows is None) == turned and (found.columns is None) != turned
        assert float((made - truth).std()) < 0.5 * float((y - truth).std())


def test_clipped_pixels_and_steps_of_8_bits_remain():
    clean = photograph() * 1.2 - 0.25
    y = (255 * (clean + 0.05 * normal(HEIGHT, 1, 1)).clamp(0, 1)).round() / 255
    made, found = without_banding(y)
    assert found is not None
    assert torch.equal(made[y == 0], y[y == 0]) and 0 <= float(made.min()) and float(made.max()) <= 1
    assert torch.allclose(255 * made, (255 * made).round(), atol=1e-9)


def chart(amplitude, own):
    return 0.5 + amplitude * normal(HEIGHT, 1, 1) + own * normal(HEIGHT, WIDTH, 1, seed=1)


ROWS = torch.arange(HEIGHT).double()[:, None, None]


@pytest.mark.parametrize(
    "picture",
    [
        photograph(),
        photograph() + 0.05 * normal(HEIGHT, WIDTH, 3),
        photograph() + 0.2 * (ROWS > 40),  # a horizon
        photograph() + 0.03 * torch.sin(1.2 * ROWS),  # blinds
        photograph() + 0.05 * normal(HEIGHT, 4, 1).repeat_interleave(WIDTH // 4, 1),  # parts differ
        chart(0.2, 0.0),
        chart(0.2, 0.1).clamp(0, 1),
        chart(0.1, 0.1).cumsum(1) / 20,  # curves of sensors
        (ROWS / HEIGHT).expand(-1, WIDTH, 1),
        torch.full((HEIGHT, WIDTH, 3), 0.5).double(),
        normal(31, 64, 1)[:, :1].expand(-1, 64, -1) + photograph(31, 64),  # too few rows
    ],
)
def test_pictures_without_banding_stay_to_the_bit(picture):
    made, found = without_banding(picture)
    assert found is None and torch.equal(made, picture)


def test_a_picture_larger_than_what_decides_is_freed_as_a_whole(monkeypatch):
    monkeypatch.setattr("coordnet.restore.banding.SHOWING", 2**12)
    clean = photograph()
    y = clean + 0.05 * normal(HEIGHT, 1, 1)
    offsets = banding(y)
    assert offsets is not None and offsets.shape == (HEIGHT, 3)
    assert float((y - offsets.unsqueeze(1) - clean).std()) < 0.5 * 0.05


@pytest.mark.slow
def test_denoise_subtracts_banding_and_says_so():
    clean = photograph()
    y = clean + 0.05 * normal(HEIGHT, 1, 1) + 0.04 * normal(HEIGHT, WIDTH, 3, seed=3)
    made, white = (cn.denoise(y, noise=noise, prior=cn.Adaptive()) for noise in ("auto", "white"))
    assert cn.psnr(made.signal, clean) > cn.psnr(white.signal, clean) + 3
    assert made.report.banding is not None and white.report.banding is None
    assert str(made.report.banding).startswith("offsets of rows of standard deviation 0.0")
    assert made.report.sigma == pytest.approx(0.04, rel=0.1) and math.isfinite(made.expected_psnr)
