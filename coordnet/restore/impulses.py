"""Pixels that were lost to black or white, as by faulty sensors and transmission ("salt and pepper")."""

import warnings
from typing import Any

import torch
from jaxtyping import Bool, Float
from scipy.ndimage import median_filter
from torch import Tensor

from coordnet import _checks
from coordnet.priors.local import Local
from coordnet.restore.inpaint import inpaint

WINDOW = 5  # side in pixels of the square whose median a lost pixel differs from
APART = 0.2  # least such difference, relative to the range of the values
# Shares of the pixels that are lost: at least at either end, or they are details; at most at both, or medians are lost.
LEAST_LOST, MOST_LOST = 0.002, 0.5
NORMAL_DEVIATION = 1.4826  # standard deviation of a normal distribution, relative to its median absolute deviation
ALIKE = 2.0  # ratio of neighbors that are both lost to those of pixels that are lost independently, at most, either way
# Times as many pixels are lost, at least, as noise would bring to the ends of the range. Of 2,100 pictures with noise
# that was clipped, 734 were taken for such without this bound, 38 with it and 25 with 5.
OF_NOISE = 3.0
CHANCE = 4  # neighbors, more or less, that prove nothing
# Share of the neighbors of lost pixels that differ from the median to the same side, by half as much at least, beyond
# the share that are lost to the same end. Photographs have 0, drawings with lost pixels 0.27 at most; halftones,
# enlarged codes and thin lines without any have 0.31 to 0.55.
MOST_BESIDE = 0.3


def lost_pixels(picture: Float[Tensor, "height width channels"]) -> Bool[Tensor, "height width"] | None:
    """Return the pixels that are lost, None where none are, or where black and white details are the picture's own.

    All channels of a lost pixel are at the same end of the range of the values, far from the median around it. There
    are more of them than noise that was clipped would leave at the ends. Pixels are lost independently of each other,
    while details such as strokes, edges and sparks are of several pixels. In a picture of black and white alone nothing
    tells them from the others.
    """
    low, high = picture.min(), picture.max()
    ends = torch.stack([(picture == end).all(-1) for end in (low, high)])
    if float(ends.double().mean((1, 2)).min()) < LEAST_LOST or bool(ends.any(0).all()):
        return None  # most pictures, for which the medians would take longest
    gray = picture.mean(-1)
    around = torch.from_numpy(median_filter(gray.double().cpu().numpy(), WINDOW)).to(gray)
    lost = ends & ((gray - around).abs() > APART * (high - low))
    shares = lost.double().mean((1, 2))
    are_many = bool((shares >= LEAST_LOST).all()) and float(shares.sum()) <= MOST_LOST
    anywhere = lost.any(0)
    exceed_noise = float(shares.sum()) > OF_NOISE * _share_clipped(gray, around, (low, high))
    if not (are_many and exceed_noise and _are_independent(anywhere)):
        return None
    by_chance = float(shares.square().sum() / shares.sum())
    return anywhere if _beside(gray, around, anywhere) - by_chance <= MOST_BESIDE else None


def _share_clipped(
    gray: Float[Tensor, "height width"], around: Float[Tensor, "height width"], ends: tuple[Tensor, Tensor]
) -> float:
    """Return the share of pixels that normal noise brings to an end of the range from medians that are far from it.

    The standard deviation of the noise follows from the median absolute deviation, which includes that of textures.
    """
    sigma = NORMAL_DEVIATION * (gray - around).abs().median()
    distance = torch.stack([(around - end).abs() for end in ends])
    probability = torch.special.ndtr(-distance / sigma)
    return float(torch.where(distance > APART * (ends[1] - ends[0]), probability, 0.0).double().sum(0).mean())


def _are_independent(lost: Bool[Tensor, "height width"]) -> bool:
    """Return whether neighbors along the axes are both lost about as often as independent pixels would be."""
    pairs = float((lost[1:] & lost[:-1]).sum() + (lost[:, 1:] & lost[:, :-1]).sum())
    expected = 2 * lost.numel() * float(lost.double().mean()) ** 2
    return expected / ALIKE - CHANCE <= pairs <= ALIKE * expected + CHANCE


def _beside(
    gray: Float[Tensor, "height width"], around: Float[Tensor, "height width"], lost: Bool[Tensor, "height width"]
) -> float:
    """Return the share of lost pixels' neighbors along the axes that differ like them from the median around them."""
    neighbors = torch.stack([gray.roll(shift, axis) for axis in (0, 1) for shift in (1, -1)])
    return float(((neighbors - around) / (gray - around) > 0.5)[:, lost].double().mean())


def may_have_faults(values: Tensor, sigma: float | None, noise: Any) -> bool:
    """Return whether a signal is a picture in which banding, and pixels lost to black or white, are looked for."""
    return values.ndim == 3 and sigma is None and noise == "auto"


def without_lost(values: Tensor, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Return a picture whose lost pixels are filled by ``inpaint``, and where they were; None where there are none."""
    lost = lost_pixels(values)
    if lost is None:
        return values, None
    with warnings.catch_warnings():  # the user gave no mask to doubt
        warnings.simplefilter("ignore", _checks.CoordnetWarning)
        return inpaint(values, ~lost, prior=Local(), dimensions=2, **options).signal, lost
