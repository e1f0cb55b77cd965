"""The most noise that a picture may have, by how smoothly its values and their differences are distributed.

The values of a signal with independent noise are distributed as the signal's, convolved with the noise's density: their
characteristic function is the product of the signal's, of at most 1, and of exp(-σ²ω²/2). What is drawn has flat areas,
few colors or edges as sharp as the pixels, so that its characteristic functions fall more slowly, and tell how small
the noise must be, whatever else the picture shows (Cramér, "Mathematical methods of statistics", 1946, section 10.1).
"""

import itertools
import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import brentq
from scipy.special import ndtr
from torch import Tensor

from coordnet.noise.drawn import rounding_step
from coordnet.plans.hold_out import middle
from coordnet.sampling.noise_model import NoiseModel

LOOKED_AT_PIXELS = 2**16  # pixels of the picture's middle that are looked at
SHIFTS = ((0, 0), (0, 1), (1, 0))  # the values themselves, and their differences from those beside and below
BLOCKS, ENOUGH_BLOCKS = (16, 8), 32  # sides in pixels of blocks that count as independent; the first if so many fit
ERRORS = 3.0  # standard errors of the mean over blocks by which a characteristic function may be too large
WITHOUT = 0.05  # share of the pixels that may have no noise at all, such as a frame's
# Frequencies of a characteristic function: the lowest one times the values' deviation, their number in an octave, whose
# phases follow from those of the octave below by squaring, and the octaves.
LOWEST, IN_OCTAVE, OCTAVES = 0.5, 3, 12
HIGHEST = 2.0  # radians per step to which values were rounded; above it such lines are higher than their formula says
DARKEST = 1e-3  # least variance at a pixel relative to the mean, as of a ``Line``
NEAR = 5  # side in pixels of the surroundings in which no value is at an end of the range, where it may be clipped
AT_END = 1e-3  # share of the values that shows clipping at an end
FEWEST, FEWEST_BLOCKS = 0.05, 8  # least share of pixels that are not near the ends, and number of blocks with some
# Share of values at an end beside others at that end, beyond which the signal itself is out of the range, or has no
# noise: noise on values within the range clips a half, and rounding adds those within half a step.
MOST_AT_END = 2 / 3
END_QUANTILES = 0.25, 0.5, 0.75  # quantiles of the distances from an end that are compared with those of clipped noise
FEWEST_BESIDE = 32  # values between an end and the middle that tell anything

Channels = Float[Tensor, "channels height width"]


def most_noise(picture: Float[Tensor, "height width channels"], model: NoiseModel) -> float:
    """Return the largest factor of the standard deviation of some noise that a picture may have.

    It is infinite where nothing tells, and 0 where the picture may have less noise than a step to which it was rounded.
    """
    return noise_bounds(picture, model)[0]


def noise_bounds(picture: Float[Tensor, "height width channels"], model: NoiseModel) -> tuple[float, float]:
    """Return the factor of ``most_noise``, and the one that the values away from the ends of the range leave.

    The latter is hardly larger than the noise of a drawing, whose values have peaks as wide as the noise, but as large
    as the contrast of a picture whose brightness varies everywhere.
    """
    # A GPU would wait for each of many numbers.
    values = picture[middle(tuple(picture.shape[:2]), LOOKED_AT_PIXELS)].cpu().double().movedim(-1, 0)
    near, step = _near_ends(values), rounding_step(values)
    inside = [_bound_inside(values, ~near.any(0), model, step, shift) for shift in SHIFTS]
    factor = min(*inside, _bound_at_ends(values, model, step))
    most = factor * math.sqrt(float(model.variance(values).mean()))
    is_noisy = _least_at_end(values, near.all(0)) <= ndtr(step / 2 / max(most, step))
    return (factor, inside[0]) if is_noisy else (0.0, 0.0)


def _bound_inside(
    values: Channels,
    inside: Bool[Tensor, "channels height width"],
    model: NoiseModel,
    step: float,
    shift: tuple[int, int],
) -> float:
    """Return the bound by the values that are not near an end of the range, or by their differences."""
    variance, most = model.variance(values), math.inf
    deviation = variance.clamp(min=DARKEST * float(variance.mean())).sqrt()
    first, second = (_moved(values, *shift, end) for end in (0, 1))
    seen = _moved(inside, *shift, 0) & _moved(inside, *shift, 1)
    scales = _moved(deviation, *shift, 0)
    for c in range(len(values)):
        scale = scales[c] * math.sqrt(_variance(model, c, *shift))
        if float(seen[c].double().mean()) > FEWEST and float(scale.min()) > 0:
            difference = second[c] - first[c] if any(shift) else first[c]
            rounding = step / float(scale.median())
            widest = _widest(difference / scale, seen[c], rounding, 1 + any(shift))
            most = min(most, widest if widest > rounding else 0.0)
    return most


def _bound_at_ends(values: Channels, model: NoiseModel, step: float) -> float:
    """Return the bound by the values beside the ends of the range, where noise was clipped.

    A signal within the range lies no farther than an end, and its noise is normal. The distances d of the values from
    that end, of those with 0 < d < t, are then stochastically at least those of a normal variable of mean 0, since the
    ratio of both densities grows with d (Shaked and Shanthikumar, "Stochastic orders", 2007, theorem 1.C.1). The middle
    of the range is t. A variance that rises with the signal does not change this. White noise is independent of that of
    the pixel before, so that pixels after a value at the end, most of which lie on the ground, tell more.
    """
    low, high, most = float(values.min()), float(values.max()), math.inf
    shifts = SHIFTS if model.spectrum is None else SHIFTS[:1]
    for c, end in itertools.product(range(len(values)), (low, high)):
        scale = math.sqrt(float(model.variance(torch.tensor([[end]]))) * _variance(model, c, 0, 0))
        distance = (values[c : c + 1] - end).abs()
        if scale == 0 or float((distance == 0).double().mean()) < AT_END:
            continue
        ends = [_moved(distance, *s, 1)[_moved(distance, *s, 0) == 0] if any(s) else distance for s in shifts]
        most = min(most, *(_most_at_end(each, (high - low) / 2, step) / scale for each in ends))
    return most


def _most_at_end(distance: Tensor, middle: float, step: float) -> float:
    """Return the largest deviation of noise on values that lie at some distances from an end, rounded to a step."""
    beside = distance[(distance > 0) & (distance < middle)]
    if len(beside) < FEWEST_BESIDE or int((distance == 0).sum()) * (1 - MOST_AT_END) > MOST_AT_END * len(beside):
        return math.inf
    first, last, most = step / 2, middle + step / 2, math.inf
    for quantile in beside.quantile(torch.tensor(END_QUANTILES).to(beside)).tolist():
        share = float((beside <= quantile).double().mean())
        least = share - ERRORS * math.sqrt(share * (1 - share) / len(beside))

        def excess(log: float, at: float = quantile + step / 2, least: float = least) -> float:
            inside = ndtr(np.array([first, at, last]) / math.exp(log))
            return float((inside[1] - inside[0]) / (inside[2] - inside[0])) - least

        bounds = math.log(quantile / 8), math.log(8 * last)
        if excess(bounds[1]) < 0 < excess(bounds[0]):
            root: Any = brentq(excess, *bounds)
            most = min(most, math.exp(root))
    return most


def _variance(model: NoiseModel, channel: int, rows: int, columns: int) -> float:
    """Return the variance of the noise's process, or of its differences over some rows and columns."""
    if model.spectrum is None:
        at, there = 1.0, 0.0
    else:
        covariance = model.autocovariance[channel, channel]
        at, there = float(covariance[0, 0]), float(covariance[rows % len(covariance), columns % covariance.shape[1]])
    return max(2 * (at - there), 0.0) if rows or columns else at


def _widest(
    values: Float[Tensor, "height width"], seen: Bool[Tensor, "height width"], step: float, terms: int
) -> float:
    """Return the largest standard deviation of noise on values that are seen, each a difference of some terms.

    They were rounded to a step. Where they were stretched by a factor f after rounding, some levels are missing: each
    term's characteristic function has a line at the frequency 2π(1 - 1/f)/step, about f - 1 high, that is no flat area.
    """
    side = next((side for side in BLOCKS if math.prod(n // side for n in values.shape) >= ENOUGH_BLOCKS), BLOCKS[-1])
    height, width = (n // side * side for n in values.shape)
    values, seen = values[:height, :width], seen[:height, :width]

    def in_blocks(x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, side)).unflatten(0, (-1, side)).sum((1, 3)).flatten()

    count, own = in_blocks(seen.double()), values[seen]
    if int((count > 0).sum()) < FEWEST_BLOCKS:
        return math.inf
    if (spread := float(own.std())) == 0:
        return 0.0
    centered, most = torch.where(seen, values - own.mean(), 0.0), math.inf
    for first in (LOWEST * 2 ** (k / IN_OCTAVE) / spread for k in range(IN_OCTAVE)):
        phases = torch.polar(seen.double(), first * centered)
        for frequency in (first * 2**octave for octave in range(OCTAVES)):
            if (phase := frequency * step) > HIGHEST:
                break
            spared = max(WITHOUT, (phase / (2 * math.pi - phase)) ** terms)
            parts = in_blocks(phases)
            mean = parts.sum() / count.sum()
            error = float((parts - mean * count).abs().square().sum().sqrt() / count.sum())
            least = float(mean.abs()) - ERRORS * error - spared
            if least > 0:
                most = min(most, math.sqrt(-2 * math.log(min(least / (1 - spared), 1.0))) / frequency)
            phases = phases.square()
    return most


def _near_ends(values: Channels) -> Bool[Tensor, "2 channels height width"]:
    """Return whether pixels are near others at the lower and the upper end of the range, where it may be clipped.

    An end with few values is none.
    """
    ends = torch.stack([values == values.min(), values == values.max()])
    ends = ends & (ends.double().mean((1, 2, 3), keepdim=True) > AT_END)
    return torch.nn.functional.max_pool2d(ends.float(), NEAR, 1, NEAR // 2) > 0


def _least_at_end(values: Channels, part: Bool[Tensor, "channels height width"]) -> float:
    """Return the probability of values at an end beside others there, less its error, of an end with most of them.

    It is that in a part of a picture, 0 in a small one.
    """
    least = 0.0
    pairs = [[_moved(x, *shift, k) for k in (0, 1) for x in (values, part)] for shift in SHIFTS[1:]]
    for end in (values.min(), values.max()):
        beside = torch.cat([second[seen & also & (first == end)] for first, seen, second, also in pairs])
        if len(beside) > FEWEST * values.numel():
            share = float((beside == end).double().mean())
            least = max(least, share - ERRORS * math.sqrt(share * (1 - share) / len(beside)))
    return least


def _moved(values: Tensor, rows: int, columns: int, end: int) -> Tensor:
    """Return the first (0) or second (1) of the pixels that lie some rows and columns apart."""
    height, width = values.shape[1:]
    return values[:, end * rows : height - (1 - end) * rows, end * columns : width - (1 - end) * columns]
