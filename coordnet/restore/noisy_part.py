"""The part of a signal that shows its noise, beside bars, captions, masks and grounds that have none."""

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
# Pixels along each axis of a block, a multiple of the longest window and of the 8 of JPEG's blocks; as many times as
# the shorter side of the picture has ``LARGE`` pixels.
SIDE, LARGE = 32, 512
# Blocks without such patches from which on they tell the noise, and their share. At a tenth of the blocks, maps with
# fine lines are given noise that they do not have.
FEWEST, LEAST_SHARE = 4, 0.15


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
    across, down = ((channels.diff(dim=axis) == 0).all(0) for axis in (2, 1))
    rows, columns = _runs(across, FLAT_SIDE - 1, 1), _runs(down, FLAT_SIDE - 1, 0)
    is_constant = _runs(rows, FLAT_SIDE, 0) & columns[:, : 1 - FLAT_SIDE]
    others = torch.nn.functional.pad(~is_constant, (FLAT_SIDE - 1,) * 4, value=True)
    return ~_runs(_runs(others, FLAT_SIDE, 0), FLAT_SIDE, 1)


def _runs(flags: Bool[Tensor, "height width"], length: int, axis: int) -> Bool[Tensor, "rows columns"]:
    """Return where a run of some length begins along an axis, all of whose flags are set."""
    count = flags.shape[axis] - length + 1
    return reduce(torch.logical_and, (flags.narrow(axis, start, count) for start in range(length)))
