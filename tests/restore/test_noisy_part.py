import itertools

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.restore.noise import noise_level
from coordnet.restore.noisy_part import in_flat_patches, largest_rectangle, noisy_part
from tests.helpers import synthetic_photograph

SIGMA = 0.06


def rounded(picture):
    return (255 * picture.clamp(0, 1)).round() / 255


@pytest.fixture
def noisy(generator):
    truth = synthetic_photograph(128, 160)
    return rounded(truth + SIGMA * torch.randn(truth.shape, generator=generator))


def with_bar(picture):
    picture[:16] = 0.5
    return slice(16, 128), slice(0, 160)


def with_letterbox(picture):
    picture[:20] = picture[100:] = 0
    return slice(20, 100), slice(0, 160)


def with_two_colors(picture):
    picture[:, :32], picture[:, 140:] = torch.tensor([0.2, 0.1, 0.9]), 1
    return slice(0, 128), slice(32, 140)


def with_caption(picture):
    """White letters of one stroke each on a dark bar."""
    picture[108:] = torch.tensor([30 / 255, 20 / 255, 10 / 255])
    picture[112:122, 4:150:5] = 0.9
    return slice(0, 108), slice(0, 160)


BARS = [with_bar, with_letterbox, with_two_colors, with_caption]


def test_the_largest_rectangle_is_that_of_all():
    for seed in range(40):
        random = np.random.default_rng(seed)
        is_free = random.random(random.integers(1, 8, 2)) < 0.8
        rows, columns = (list(itertools.combinations(range(n + 1), 2)) for n in is_free.shape)
        areas = [(b - a) * (d - c) for (a, b), (c, d) in itertools.product(rows, columns) if is_free[a:b, c:d].all()]
        (a, b), (c, d) = largest_rectangle(torch.from_numpy(is_free))
        assert is_free[a:b, c:d].all()
        assert (b - a) * (d - c) == max(areas, default=0)


def test_flat_patches_are_constant_in_all_channels():
    picture = torch.rand(3, 9, 11)
    picture[:2, 3:8, 2:6] = 0.4
    assert not in_flat_patches(picture).any()
    picture[2, 3:8, 2:6] = 0.7
    expected = torch.zeros(9, 11, dtype=torch.bool)
    expected[3:8, 2:6] = True
    assert torch.equal(in_flat_patches(picture), expected)


@pytest.mark.parametrize("add", BARS)
def test_the_part_is_what_bars_leave(add, noisy):
    rows, columns = add(noisy)
    assert torch.equal(noisy_part(noisy), noisy[rows, columns])


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("add", BARS)
def test_noise_beside_bars_is_that_of_the_rest(add, gray, noisy):
    add(noisy)
    picture = noisy[..., :1] if gray else noisy
    assert noise_level(picture) == pytest.approx(SIGMA, rel=0.04)
    model = cn.estimate_noise(picture)
    assert model.kind == "white"
    assert model.floor == pytest.approx(SIGMA**2, rel=0.08)


def test_noise_within_a_round_mask_is_found(noisy):
    y, x = torch.meshgrid(torch.arange(128.0), torch.arange(160.0), indexing="ij")
    noisy[torch.hypot(y - 64, x - 80) > 64] = 0
    assert noise_level(noisy) == pytest.approx(SIGMA, rel=0.04)


def test_what_noise_leaves_is_all_of_it(noisy, generator):
    assert noisy_part(noisy) is noisy
    dark = rounded(SIGMA * torch.randn(128, 128, 1, generator=generator))  # half of the pixels are 0
    assert noisy_part(dark) is dark


def test_a_small_part_between_areas_does_not_decide(noisy):
    noisy[:, 50:] = 1.0
    assert noisy_part(noisy) is noisy
    assert noise_level(noisy) == 0.0


def test_bars_of_a_clip_are_constant_in_each_frame(generator):
    clip = synthetic_photograph(96, 96).expand(6, 96, 96, 3)
    clip = rounded(clip + SIGMA * torch.randn(clip.shape, generator=generator))
    clip[:, :16] = clip[:, 80:] = 16 / 255
    assert torch.equal(noisy_part(clip), clip[:, 16:80])
    clip[2, :16] = torch.rand(16, 96, 3, generator=generator)
    assert torch.equal(noisy_part(clip), clip[:, :80])
