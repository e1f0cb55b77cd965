import itertools

import pytest
import torch

import coordnet as cn
from coordnet.noise.drawn import SIDE, in_flat_patches, noisy_part
from coordnet.noise.white import noise_level
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


def free_blocks(picture, rows, columns):
    """Return the blocks of a lattice that lie in some rows and columns."""
    starts = itertools.product(range(0, picture.shape[0], SIDE), range(0, picture.shape[1], SIDE))
    is_inside = [rows.start <= y <= rows.stop - SIDE and columns.start <= x <= columns.stop - SIDE for y, x in starts]
    return [block for block, inside in zip(in_blocks(picture), is_inside, strict=True) if inside]


def in_blocks(picture):
    tiles = picture.unfold(0, SIDE, SIDE).unfold(1, SIDE, SIDE)
    return list(tiles.flatten(0, 1))


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
    free, part = free_blocks(noisy, rows, columns), in_blocks(noisy_part(noisy))
    assert len(part) > 0.7 * len(free)
    places = [[k for k, block in enumerate(free) if torch.equal(block, own)] for own in part]
    assert all(len(found) == 1 for found in places)
    assert places == sorted(places)


def test_blocks_lie_over_all_of_a_large_picture(generator):
    picture = torch.rand(256, 384, 1, generator=generator)
    assert noisy_part(picture) is picture
    rows, columns = torch.meshgrid(torch.arange(256.0), torch.arange(384.0), indexing="ij")
    part = noisy_part(torch.stack([rows, columns, picture[..., 0]], -1), enough=24 * SIDE**2)
    assert part.shape == (4 * SIDE, 6 * SIDE, 3)
    assert {float(row) // 64 for row in part[..., 0].unique()} == {0, 1, 2, 3}
    assert len(torch.stack(in_blocks(part))[:, :2, 0, 0].unique(dim=0)) == 24


@pytest.mark.slow
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


def test_noise_of_an_object_on_a_ground_is_found(noisy):
    """A disc of a third of the picture: more than half of the windows are constant."""
    y, x = torch.meshgrid(torch.arange(128.0), torch.arange(160.0), indexing="ij")
    noisy[torch.hypot(y - 64, x - 64) > 46] = 0.8
    assert noise_level(noisy) == pytest.approx(SIGMA, rel=0.1)


def test_a_small_part_between_areas_does_not_decide(noisy):
    noisy[:, 30:] = 1.0
    assert noisy_part(noisy) is noisy
    assert noise_level(noisy) == 0.0


def test_bars_of_a_clip_are_constant_in_each_frame(generator):
    clip = synthetic_photograph(96, 128).expand(6, 96, 128, 3)
    clip = rounded(clip + SIGMA * torch.randn(clip.shape, generator=generator))
    clip[:, :, :16] = clip[:, :, 100:] = 16 / 255
    part = noisy_part(clip)
    assert part.shape == (6, 64, 96, 3)
    assert torch.equal(part[:, :32, :64], clip[:, :32, 32:96])
    assert torch.equal(part[:, :32, 64:], clip[:, 32:64, 32:64])
    clip[2, :, :16] = torch.rand(96, 16, 3, generator=generator)
    assert torch.equal(noisy_part(clip), clip[:, :, :96])
