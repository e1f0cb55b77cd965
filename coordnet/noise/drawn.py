"""The parts of signals in which nothing shows noise: drawn pictures, and bars, captions and grounds beside noise."""

import math
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor
from torch.nn.functional import max_pool2d

from coordnet.noise.wiener import side_by_side
from coordnet.plans.hold_out import middle

COMPARED = 2**18  # pixels of the picture's middle in which colors are counted and patches are compared
PATCH = 5  # side in pixels of patches that are compared: 25 values with noise hardly ever equal 25 others
MOST_ENDS = 0.75  # largest share of a compared patch at one end of the range, where noise may be clipped
REPEATED = 0.02  # least share of patches that occur twice: 128x128 crops of noisy photographs have less than 0.001
MOST_COLORS, PIXELS = 256, 16  # largest number of colors of a palette, and least mean number of pixels of each
FILLED = 0.25  # largest share of a palette among all combinations of its levels: counts of few photons have 0.3
DRAWN_SIDE = 8  # side in pixels of tiles that may be constant
GROUND, INSIDE = 0.015, 0.1  # least share of constant tiles, and largest share at the ends in a tile between them
BETWEEN = 0.1  # largest share of tiles between the ends among those that are not constant
# Largest share of lone pixels among those with a constant ground in a square of 3x3 pixels: a ninth of clipped noise.
ALONE = 0.02
OFF_LEVELS = 0.1  # share of the values that may be nearer to the next level than the step to which most were rounded
ROUNDED = 0.5  # the noise of rounding in steps, 0.29, and as much again that it hides
HASH_FACTORS = (6364136223846793005, 1442695040888963407, 2862933555777941757)  # odd, for hashes modulo 2**64

# Side in pixels of patches of one color. Noise that is clipped on half of the pixels leaves one in 2**16 patches; it
# would leave one in 500 of side 3, and dark gray pictures would have no part.
FLAT_SIDE = 4
FLAT = 0.01  # share of the pixels in patches of one color below which a signal has no bars
# Pixels along each axis of a block, a multiple of the longest window and of the 8 of JPEG's blocks; as many times as
# the shorter side of the picture has ``LARGE`` pixels.
SIDE, LARGE = 32, 512
# Blocks without patches of one color from which on they tell the noise, and their share. At a tenth of the blocks, maps
# with fine lines are given noise that they do not have.
FEWEST, LEAST_SHARE = 4, 0.15

Picture = Float[Tensor, "height width channels"]


def is_drawn(picture: Picture) -> bool:
    """Return whether a picture is drawn: its values repeat in a way that those with noise never do.

    There are few colors, or patches that are not constant occur twice, or there are only strokes on a ground at an end
    of the range.
    """
    if min(picture.shape[:2]) < DRAWN_SIDE:
        return False
    part = picture[middle(tuple(picture.shape[:2]), COMPARED)]
    numbers = _numbered(part)
    return _has_few_colors(part, numbers) or _repeats(part, numbers) or _has_strokes(picture)


def rounding_error(picture: Picture) -> float:
    """Return the largest standard deviation of noise that rounding made or hides: half a step, 0 for one color."""
    step = rounding_step(picture[middle(tuple(picture.shape[:2]), COMPARED)])
    return ROUNDED * step if math.isfinite(step) else 0.0


def rounding_step(values: Tensor) -> float:
    """Return the distance of the levels to which values were rounded; infinity where all are equal.

    Values between the levels, as of pixels that were filled, are rarely met twice. The level of most values, such as a
    background's, does not tell.
    """
    levels, counts = torch.unique(values, return_counts=True)
    background = int(counts.max())
    if 2 * (int(counts[counts > 1].sum()) - background) > values.numel() - background:
        levels, counts = levels[counts > 1], counts[counts > 1]
    if len(levels) < 2:
        return math.inf
    gaps, order = levels.diff().sort()
    held = counts[1:][order].cumsum(0)
    return float(gaps[held > OFF_LEVELS * held[-1]][0])


def _has_few_colors(picture: Picture, numbers: Int[Tensor, "height width"]) -> bool:
    """Return whether a picture has two colors, or those of a palette, which are no scale of brightness."""
    numbers = numbers.flatten()
    count = int(numbers.max()) + 1
    if count <= 2 or count > MOST_COLORS or PIXELS * count > len(numbers):
        return count <= 2
    pixels = torch.arange(len(numbers), device=numbers.device)
    colors = picture.flatten(0, 1)[torch.empty_like(pixels[:count]).scatter_(0, numbers, pixels)]
    combinations = math.prod(torch.unique(channel).numel() for channel in colors.unbind(-1))
    steps = colors[colors[:, 0].argsort(stable=True)].diff(dim=0)
    is_scale = bool(((steps >= 0).all(0) | (steps <= 0).all(0)).all())
    return not is_scale and count <= FILLED * combinations


def _numbered(picture: Picture) -> Int[Tensor, "height width"]:
    """Return a number for every pixel from 0 on, the same for the same color."""
    bits = (picture.double() + 0.0).view(torch.int64)  # the sum makes one of both zeros
    made = torch.zeros_like(bits[..., 0])
    for channel in bits.unbind(-1):
        made = HASH_FACTORS[2] * (made ^ (made >> 32)) + channel
    return torch.unique(made, return_inverse=True)[1]


def _repeats(picture: Picture, numbers: Int[Tensor, "height width"]) -> bool:
    """Return whether patches occur twice, but for those that are constant or mostly at one end of the range."""
    counted = ~_constant_patches(numbers.unsqueeze(0), PATCH)
    for end in (picture.min(), picture.max()):
        counted &= _sums((picture == end).all(2).long(), (1, 1)) <= MOST_ENDS * PATCH**2
    _, at, count = torch.unique(_sums(numbers, HASH_FACTORS[:2]), return_inverse=True, return_counts=True)
    return bool(counted.any()) and float((count[at] > 1)[counted].double().mean()) > REPEATED


def _sums(x: Int[Tensor, "height width"], factors: tuple[int, int]) -> Int[Tensor, "rows columns"]:
    """Return the sums over patches, weighted by the powers of a factor along each axis, modulo 2**64."""
    for axis, factor in enumerate(factors):
        count = x.shape[axis] - PATCH + 1
        x = torch.stack([factor**i % 2**63 * x.narrow(axis, i, count) for i in range(PATCH)]).sum(0)
    return x


def _has_strokes(picture: Picture) -> bool:
    """Return whether only strokes stand out of a ground at an end of the range.

    Some tiles are constant, nearly all others have values at the ends, and pixels that stand out have others beside
    them. Clipped noise leaves values between the ends wherever the signal is, and a pixel alone as often as another.
    """
    tiles = side_by_side(picture.movedim(-1, 0).unsqueeze(0), (DRAWN_SIDE,) * 2, (0, 0)).flatten(0, 1).flatten(1)
    ends = (tiles == picture.min()) | (tiles == picture.max())
    is_constant = tiles.amin(1) == tiles.amax(1)
    inside = (ends.double().mean(1) <= INSIDE)[~is_constant]
    if float(is_constant.double().mean()) < GROUND or float(inside.double().mean()) > BETWEEN:
        return False
    alone = single = 0
    low, high = ((picture == end).all(2) for end in (picture.min(), picture.max()))
    for end, other in ((low, high), (high, low)):
        is_single = end.unfold(0, 3, 1).unfold(1, 3, 1).sum((2, 3)) == 8
        single += int(is_single.sum())
        alone += int((is_single & ~end[1:-1, 1:-1] & ~other[1:-1, 1:-1]).sum())
    return alone <= ALONE * single


def noisy_part(signal: Float[Tensor, "*grid channels"], enough: int | None = None) -> Float[Tensor, "*part channels"]:
    """Return the blocks of a signal's rows and columns without patches of one color, side by side.

    It is the signal itself where such patches are rare, and where few blocks are without, as in drawings, all of which
    is clean. Patches of a clip or a volume are constant in each of its frames. A signal of more than ``enough`` samples
    leaves about as many, in blocks that lie evenly over it.
    """
    if signal.ndim < 3 or min(signal.shape[-3:-1]) < SIDE:
        return signal
    side = SIDE * max(1, min(signal.shape[-3:-1]) // LARGE)
    flat = in_flat_patches(signal.movedim(-1, 0).flatten(0, -3))
    is_free = max_pool2d(flat[None].float(), side)[0] == 0
    has_bars = float(flat.double().mean()) >= FLAT and int(is_free.sum()) >= max(FEWEST, LEAST_SHARE * is_free.numel())
    enough = enough or signal[..., 0].numel()
    if not has_bars and signal[..., 0].numel() <= enough:
        return signal
    places = (is_free if has_bars else torch.ones_like(is_free)).nonzero()
    kept = max(FEWEST, min(len(places), enough // (side * side * math.prod(signal.shape[:-3]))))
    height = math.isqrt(kept)
    width = kept // height
    even = torch.linspace(0, len(places) - 1, height * width).round().long()
    rows = (side * places[even.to(places.device)]).reshape(height, width, 2).tolist()
    return torch.cat([torch.cat([signal[..., y : y + side, x : x + side, :] for y, x in row], -2) for row in rows], -3)


def in_flat_patches(channels: Float[Tensor, "channels height width"]) -> Bool[Tensor, "height width"]:
    """Return which pixels are in patches of one color."""
    others = torch.nn.functional.pad(~_constant_patches(channels, FLAT_SIDE), (FLAT_SIDE - 1,) * 4, value=True)
    return ~_runs(_runs(others, FLAT_SIDE, 0), FLAT_SIDE, 1)


def _constant_patches(channels: Num[Tensor, "channels height width"], side: int) -> Bool[Tensor, "rows columns"]:
    """Return which patches of some side have one color."""
    across, down = ((channels.diff(dim=axis) == 0).all(0) for axis in (2, 1))
    rows, columns = _runs(across, side - 1, 1), _runs(down, side - 1, 0)
    return _runs(rows, side, 0) & columns[:, : 1 - side]


def _runs(flags: Bool[Tensor, "height width"], length: int, axis: int) -> Bool[Tensor, "rows columns"]:
    """Return where a run of some length begins along an axis, all of whose flags are set."""
    count = flags.shape[axis] - length + 1
    return reduce(torch.logical_and, (flags.narrow(axis, start, count) for start in range(length)))
