"""A picture with holes at halved resolutions: its means over known pixels, its texture, and the fog in its holes."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

# The weight of squared differences of texture against those of color, as Newson et al. (2014) have it.
TEXTURE_WEIGHT = 50.0

Features = Float[Tensor, "height width features"]
Resized = Float[Tensor, "rows columns features"]
Known = Bool[Tensor, "height width"]


class Resolution(NamedTuple):
    """A picture, with its texture as further channels, and where it is known."""

    features: Features
    known: Known


def resolutions(picture: Float[Tensor, "height width channels"], known: Known, count: int) -> list[Resolution]:
    """Return a picture with its texture at its own resolution, and ``count`` times halved."""
    features = torch.cat([picture, math.sqrt(TEXTURE_WEIGHT) * _texture(picture, known, 2**count + 1)], -1)
    pyramid = [Resolution(torch.where(known[..., None], features, 0), known)]
    for _ in range(count):
        means, counts = _halved(*pyramid[-1])
        pyramid.append(Resolution(means, counts >= 2))
    return pyramid


def fog(features: Features, known: Known) -> Features:
    """Return a picture whose holes are filled from its halved resolutions ("pull-push").

    Gortler, Grzeszczuk, Szeliski and Cohen, "The lumigraph" (1996).
    """
    if bool(known.all()):
        return features
    means, counts = _halved(features, known)
    return torch.where(known[..., None], features, doubled(fog(means, counts > 0), known.shape, "bilinear"))


def doubled(features: Features, shape: tuple[int, ...], mode: str = "nearest") -> Resized:
    """Return a picture at twice its resolution, cut to a shape."""
    larger = interpolate(features.movedim(-1, 0).unsqueeze(0), scale_factor=2, mode=mode)[0].movedim(0, -1)
    return larger[: shape[0], : shape[1]]


def _halved(features: Features, known: Known) -> tuple[Resized, Float[Tensor, "rows columns"]]:
    """Return the means of the known pixels of each cell of 2×2, and how many these are."""
    counted = torch.cat([torch.where(known[..., None], features, 0), known[..., None].to(features)], -1)
    height, width = known.shape
    cells = pad(counted, (0, 0, 0, width % 2, 0, height % 2)).unfold(0, 2, 2).unfold(1, 2, 2).sum((-2, -1))
    return cells[..., :-1] / cells[..., -1:].clamp(min=1), cells[..., -1]


def _texture(
    picture: Float[Tensor, "height width channels"], known: Known, width: int
) -> Float[Tensor, "height width directions"]:
    """Return the mean size of the differences of neighbors along both axes, over known ones in squares of a width."""
    gray, means = picture.mean(-1), []
    for axis in (0, 1):
        before, after = (known.narrow(axis, k, known.shape[axis] - 1) for k in (0, 1))
        both = (before & after).to(gray)
        margin = (0, 0, 1, 0) if axis == 0 else (1, 0)
        sums = pad(torch.stack([gray.diff(dim=axis).abs() * both, both]), margin).unsqueeze(0)
        for kernel, padding in (((width, 1), (width // 2, 0)), ((1, width), (0, width // 2))):
            sums = avg_pool2d(sums, kernel, 1, padding)
        means.append(sums[0, 0] / sums[0, 1].clamp(min=0.5 / width**2))
    return torch.stack(means, -1)
