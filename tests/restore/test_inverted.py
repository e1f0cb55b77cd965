"""Masks that call the picture unknown."""

import pytest
import torch

import coordnet as cn
from coordnet.bench.degradations import scratches
from coordnet.restore.inpaint import looks_inverted
from tests.helpers import synthetic_photograph


def hole(height=80, width=72):
    known = torch.ones(height, width, dtype=torch.bool)
    known[25:55, 20:50] = False
    return known


@pytest.mark.parametrize("draw", [hole, lambda: scratches((80, 72)) | (torch.arange(72) < 40)])
@pytest.mark.parametrize("painted", [False, True])
def test_the_unknown_part_holds_the_picture(draw, painted):
    """The damage is painted white, or the picture is there as it was."""
    known = draw()
    picture = synthetic_photograph(80, 72)
    if painted:
        picture[~known] = 1.0
    values = known.unsqueeze(-1).expand(picture.shape)
    assert looks_inverted(picture, ~values)
    assert not looks_inverted(picture, values)


def test_what_is_no_inverted_mask():
    picture, known = synthetic_photograph(80, 72), hole().unsqueeze(-1).expand(80, 72, 3)
    few = torch.rand(80, 72, 1, generator=torch.Generator().manual_seed(0)) < 0.2
    assert not looks_inverted(picture, few.expand(80, 72, 3))  # random samples of a picture, to try a method
    rest = ~known  # little is known, and the rest is black, noise, or another color
    for filling in (torch.zeros(3), torch.rand(80, 72, 3), torch.tensor([1.0, 0.0, 0.0])):
        assert not looks_inverted(torch.where(rest, picture, filling), rest)


def test_an_inverted_mask_is_named_with_the_remedy():
    picture = synthetic_photograph(80, 72)
    with pytest.warns(cn.CoordnetWarning, match="only 15.6 % is known, .* inverted.*--invert"):
        cn.inpaint(picture, ~hole(), prior=cn.Smoothness())
