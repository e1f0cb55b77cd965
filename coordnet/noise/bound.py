"""The most noise that a picture may have, by how smoothly its values and their differences are distributed.

The values of a signal with independent noise are distributed as the signal's, convolved with the noise's density: their
characteristic function is the product of the signal's, of at most 1, and of exp(-σ²ω²/2). What is drawn has flat areas,
few colors or edges as sharp as the pixels, so that its characteristic functions fall more slowly, and tell how small
the noise must be, whatever else the picture shows (Cramér, "Mathematical methods of statistics", 1946, section 10.1).
"""

import math

import torch
from jaxtyping import Bool, Float
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
# Largest share of equal neighbors near both ends, where halftones and hatchings have ink and paper side by side: noise
# on values within the range clips two neighbors with a probability of at most a quarter.
MOST_CLIPPED = 0.25


def most_noise(picture: Float[Tensor, "height width channels"], model: NoiseModel) -> float:
    """Return the largest factor of the standard deviation of some noise that a picture may have.

    It is infinite where hardly any values are away from the ends of the range, and 0 where the picture may have less
    noise than a step to which it was rounded.
    """
    # A GPU would wait for each of many numbers.
    values = picture[middle(tuple(picture.shape[:2]), LOOKED_AT_PIXELS)].cpu().double().movedim(-1, 0)
    near = _near_ends(values)
    if _equal(values, near.all(0)) > MOST_CLIPPED:
        return 0.0
    variance = model.variance(values)
    deviation = variance.clamp(min=DARKEST * float(variance.mean())).sqrt()
    step, most, inside = rounding_step(values), math.inf, ~near.any(0)
    for shift in SHIFTS:
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


def _near_ends(values: Float[Tensor, "channels height width"]) -> Bool[Tensor, "2 channels height width"]:
    """Return whether pixels are near others at the lower and the upper end of the range, where it may be clipped.

    An end with few values is none.
    """
    ends = torch.stack([values == values.min(), values == values.max()])
    ends = ends & (ends.double().mean((1, 2, 3), keepdim=True) > AT_END)
    return torch.nn.functional.max_pool2d(ends.float(), NEAR, 1, NEAR // 2) > 0


def _equal(values: Float[Tensor, "channels height width"], part: Bool[Tensor, "channels height width"]) -> float:
    """Return the share of neighbors in a part of a picture that are equal, 0 where the part is small."""
    equal = number = 0
    for shift in SHIFTS[1:]:
        inside = _moved(part, *shift, 0) & _moved(part, *shift, 1)
        equal += int(((_moved(values, *shift, 0) == _moved(values, *shift, 1)) & inside).sum())
        number += int(inside.sum())
    return equal / number if number > FEWEST * values.numel() else 0.0


def _moved(values: Tensor, rows: int, columns: int, end: int) -> Tensor:
    """Return the first (0) or second (1) of the pixels that lie some rows and columns apart."""
    height, width = values.shape[1:]
    return values[:, end * rows : height - (1 - end) * rows, end * columns : width - (1 - end) * columns]
