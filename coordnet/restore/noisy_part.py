"""The part of a signal that shows its noise, beside bars, captions, masks and insets that have none."""

import itertools
import math
from functools import reduce

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import max_pool2d

# Side in pixels of patches of one color. Noise that is clipped on half of the pixels leaves one in 2**16 patches; it
# would leave one in 500 of side 3, and dark gray pictures would have no part.
FLAT_SIDE = 4
FLAT = 0.01  # least share of the pixels in such patches, below which the signal has no bars
# Least side of the part in pixels, and share of the signal. Plots of dense dots without noise seldom have such
# a large one; a square in a disc that touches all sides of a square picture has a half.
LEAST_SIDE, LEAST_SHARE = 48, 1 / 3
CELL, CELLS = 4, 64  # least side of cells in pixels, and their largest number along an axis
# Samples from which the level of noise is told, and those along each axis of the blocks that a larger signal leaves, by
# the number of axes. XXX
MOST_SAMPLES = 2**19
BLOCK_SIDES = {1: 2**14, 2: 64, 3: 32, 4: 16}


def noisy_part(signal: Float[Tensor, "*grid channels"]) -> Float[Tensor, "*part channels"]:
    """Return the largest rectangle of rows and columns without patches of one color.

    It is the signal itself where such patches are rare, and where the rectangle is small, as in drawings, all of which
    is clean. Patches of a clip or a volume are constant in each of its frames.
    """
    if signal.ndim < 3 or min(signal.shape[-3:-1]) < LEAST_SIDE:
        return signal
    flat = in_flat_patches(signal.movedim(-1, 0).flatten(0, -3))
    if float(flat.double().mean()) < FLAT:
        return signal
    side = max(CELL, math.ceil(max(flat.shape) / CELLS))
    is_free = max_pool2d(flat[None].float(), side)[0] == 0
    (top, bottom), (left, right) = largest_rectangle(is_free)
    share = (bottom - top) * (right - left) / is_free.numel()
    if share < LEAST_SHARE or side * min(bottom - top, right - left) < LEAST_SIDE:
        return signal
    return signal[..., side * top : side * bottom, side * left : side * right, :]


def in_flat_patches(channels: Float[Tensor, "channels height width"]) -> Bool[Tensor, "height width"]:
    """Return which pixels are in patches of one color."""
    across, down = ((channels.diff(dim=axis) == 0).all(0) for axis in (2, 1))
    rows, columns = _runs(across, FLAT_SIDE - 1, 1), _runs(down, FLAT_SIDE - 1, 0)
    is_constant = _runs(rows, FLAT_SIDE, 0) & columns[:, : 1 - FLAT_SIDE]
    others = torch.nn.functional.pad(~is_constant, (FLAT_SIDE - 1,) * 4, value=True)
    return ~_runs(_runs(others, FLAT_SIDE, 0), FLAT_SIDE, 1)


def _runs(flags: Bool[Tensor, "height width"], length: int, axis: int) -> Bool[Tensor, "rows columns"]:
    """Return where a run of some length begins along an axis, all of whose flags are set."""
    count = flags.shape[axis] - length + 1
    return reduce(torch.logical_and, (flags.narrow(axis, start, count) for start in range(length)))


def largest_rectangle(is_free: Bool[Tensor, "rows columns"]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the ends of the rows and of the columns of the largest rectangle, all of whose cells are free."""
    cells, largest, best = is_free.tolist(), 0, ((0, 0), (0, 0))
    for top in range(len(cells)):
        columns = [True] * is_free.shape[1]
        for bottom, row in enumerate(cells[top:], start=top + 1):
            columns, left = [a and b for a, b in zip(columns, row, strict=True)], 0
            for free, run in itertools.groupby(columns):
                right = left + len(list(run))
                if free and (area := (bottom - top) * (right - left)) > largest:
                    largest, best = area, ((top, bottom), (left, right))
                left = right
    return best


def blocks_of(signal: Float[Tensor, "*grid channels"]) -> Float[Tensor, "*smaller channels"]:
    """Return a signal of at most about ``MOST_SAMPLES`` samples, of blocks that lie evenly over a larger one.

    Whole rows and columns of blocks are left out along the longest axes. The others stay on a lattice of blocks, so
    that what repeats every 2 or 8 pixels still does.
    """
    side, lengths = BLOCK_SIDES[signal.ndim - 1], list(signal.shape[:-1])
    while math.prod(lengths) > MOST_SAMPLES and max(lengths) > side:
        axis = lengths.index(max(lengths))
        lengths[axis] = (lengths[axis] - 1) // side * side
    for axis, (length, before) in enumerate(zip(lengths, signal.shape, strict=False)):
        if length < before:
            first = torch.linspace(0, before // side - 1, length // side).round().long() * side
            kept = (first.unsqueeze(1) + torch.arange(side)).flatten()
            signal = signal.index_select(axis, kept.to(signal.device))
    return signal
