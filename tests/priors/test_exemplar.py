"""Exemplars: holes are filled with copies of patches from the known part."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.fitting.choice import suited
from coordnet.priors.base import Setting
from coordnet.priors.exemplar.matching import Search, fog, resolutions


def with_hole(shape, rows, columns):
    known = np.ones(shape, dtype=bool)
    known[rows, columns] = False
    return known


def test_a_periodic_texture_is_continued_exactly():
    """The only filling whose every patch is a known one is the texture itself, and it is found to the bit."""
    tile = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    texture = np.tile(tile, (7, 8, 1))
    known = with_hole((42, 40), slice(16, 27), slice(14, 26))
    made = cn.inpaint(np.where(known[..., None], texture, 7), known, prior=cn.Exemplar(patch=5))
    np.testing.assert_array_equal(made.signal, texture)
    assert made.report.prior == "exemplar" and made.expected_psnr is None


def test_every_pixel_is_a_copy_of_a_known_one_and_a_seed_gives_the_same_bits():
    """All colors of the picture are different, so that a filled pixel names the one that it is a copy of."""
    colors = np.random.default_rng(0).permutation(32 * 29).reshape(32, 29)
    picture = np.stack([colors % 256, colors // 256, (7 * colors) % 256], -1).astype(np.uint8)
    known = with_hole((32, 29), slice(10, 19), slice(0, 8))
    known[27, 24] = False
    made = [cn.inpaint(picture, known, prior=cn.Exemplar(patch=5, seed=seed)).signal for seed in (1, 1, 2)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()
    np.testing.assert_array_equal(made[0][known], picture[known])
    assert {tuple(color) for color in made[0][~known]} <= {tuple(color) for color in picture[known]}


def test_the_search_finds_the_nearest_known_patch():
    """Its dense twin compares each patch with all known ones; the search finds the equal one wherever there is one."""
    generator = torch.Generator().manual_seed(0)
    picture = torch.rand(28, 30, 2, generator=generator)
    known = torch.ones(28, 30, dtype=torch.bool)
    known[8:14, 10:18] = False
    picture[6:16, 8:20] = picture[17:27, 16:28].clone()  # a part that is there once more
    search = Search(known, 3, generator)
    matches = search.improved(picture, search.drawn(), 12)
    patches = picture.unfold(0, 3, 1).unfold(1, 3, 1).flatten(2)
    squares = (patches[~search.whole][:, None] - patches[search.whole]).square().sum(-1)
    least = squares.min(1).values
    assert bool(search.whole[matches.nearest[:, 0], matches.nearest[:, 1]].all())
    own = (patches[~search.whole] - patches[tuple(matches.nearest.T)]).square().sum(-1)
    torch.testing.assert_close(matches.distances, own)
    assert bool((own >= least - 1e-6).all())
    assert int((least == 0).sum()) == 80 and bool((own[least == 0] == 0).all())


def test_resolutions_are_means_over_known_pixels_and_fog_keeps_constants():
    known = torch.ones(5, 6, dtype=torch.bool)
    known[1, 1] = known[2:4, 2:4] = False
    picture = torch.arange(30.0).reshape(5, 6, 1)
    half = resolutions(picture, known, 1)[1]
    assert half.features[0, 0, 0] == (0 + 1 + 6) / 3 and half.features[2, 1, 0] == 26.5
    assert half.known.tolist() == [[True, True, True], [True, False, True], [True, True, True]]
    constant = torch.where(known[..., None], 3.0, 9.0)
    torch.testing.assert_close(fog(constant, known), torch.full((5, 6, 1), 3.0))


def test_it_is_never_taken_unasked_and_read_by_its_name():
    from coordnet.cli.specs import parse_prior

    known = torch.from_numpy(with_hole((64, 64), slice(10, 50), slice(10, 50)))
    setting = Setting(cn.sample(torch.rand(64, 64, 1), known.float()).geometry)
    assert "exemplar" not in {prior.name for prior in suited(setting).priors}
    assert parse_prior("exemplar:patch=9") == cn.Exemplar(patch=9)


@pytest.mark.parametrize(
    ("expected", "make"),
    [
        ("`patch`: expected an odd number of pixels, received 4", lambda: cn.Exemplar(patch=4)),
        ("`patch`: expected an integer of at least 3", lambda: cn.Exemplar(patch=1)),
        (
            "`known`: expected a picture in which 7×7 pixels are known as a whole",
            lambda: cn.inpaint(np.ones((16, 16, 1)), np.eye(16) > 0, prior=cn.Exemplar()),
        ),
        (
            "`geometry`: expected the pixels of a picture with gaps, for exemplars",
            lambda: cn.fit(cn.sample(torch.rand(16, 16, 1), "every:2"), prior=cn.Exemplar()),
        ),
        (
            "`geometry`: expected the pixels of a picture with gaps",
            lambda: cn.inpaint(np.ones((64, 1)), np.arange(64) % 9 > 0, prior=cn.Exemplar()),
        ),
        (
            "`encoding`: expected a FourierEncoding for exemplars",
            lambda: cn.fit(cn.sample(torch.rand(16, 16, 1), "random:0.9"), prior=cn.Exemplar(), encoder=cn.Gaussian),
        ),
    ],
)
def test_what_it_cannot_fill_is_refused_in_one_line(expected, make):
    with pytest.raises(ValueError, match=expected) as error:
        make()
    assert "\n" not in str(error.value)
