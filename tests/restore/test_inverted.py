"""Masks that call the picture unknown."""

import numpy as np
import pytest
import torch
from PIL import Image

import coordnet as cn
from coordnet.bench.degradations import scratches
from coordnet.media import read_mask
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


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_transparent_part_of_a_layer_holds_the_picture(channels, soft):
    """Erasers of editors change the opacity alone: the colors beneath stay and go on, and the opacity does not."""
    known = hole()
    picture = synthetic_photograph(80, 72)[..., :channels]
    opacity = known.to(picture).unsqueeze(-1)
    if soft:
        opacity[24], opacity[55] = opacity[24] / 3, 1 - (1 - opacity[55]) / 3
        opacity[:, 20:21], opacity[:, 49:50] = 0.5 + opacity[:, 20:21] / 2, 0.5 + opacity[:, 49:50] / 2
    layer = torch.cat([picture, opacity], -1)
    with pytest.warns(cn.CoordnetWarning, match="only 15.6 % is known, .* inverted.*--invert"):
        cn.inpaint(layer, ~known, prior=cn.Smoothness())
    assert not looks_inverted(layer, known.unsqueeze(-1).expand(layer.shape))


def test_a_mask_of_a_transparent_layer_is_inverted(tmp_path):
    """Damage that was painted on a layer of its own is opaque; what is transparent there is the picture."""
    known = hole()
    Image.fromarray(np.dstack([np.zeros((80, 72, 3), np.uint8), 255 * (~known).numpy().astype(np.uint8)])).save(
        tmp_path / "layer.png"
    )
    strokes = read_mask(tmp_path / "layer.png", (80, 72))
    assert torch.equal(strokes, ~known)
    with pytest.warns(cn.CoordnetWarning, match="--invert"):
        cn.inpaint(synthetic_photograph(80, 72), strokes, prior=cn.Smoothness())
    assert torch.equal(read_mask(tmp_path / "layer.png", (80, 72), invert=True), known)


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
