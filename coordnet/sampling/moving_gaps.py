"""Gaps that move from frame to frame, as clouds do, and samples that are hidden under those of other frames."""

import torch
from jaxtyping import Bool
from torch import Tensor

MOVED_SHARE = 0.2  # share of the samples that is hidden under the gaps of other frames, about
LEAST_SHARE = 0.05  # share of a frame's samples, or of the largest gaps, that the gaps of another frame hide at least
FEWEST_FRAMES = 4  # frames with samples from which on gaps are laid over others
CLUSTERED = 0.2  # part of the way from independence to certainty at which surrounded points make areas

Known = Bool[Tensor, "masks frames *space"]


def moving_gaps(known: Known) -> Known:
    """Return the unknown entries of frames that other frames know; those that none knows, as land, are no gaps."""
    return known.any(1, keepdim=True) & ~known


def are_areas(known: Known) -> bool:
    """Return whether moving gaps form areas: all neighbors within the frame are gaps more often than at random.

    Those beyond the border of a frame count as gaps.
    """
    gaps = moving_gaps(known)
    count = int(gaps.sum())
    if not count:
        return False
    share = count / float(known.any(1).sum() * known.shape[1])
    around = gaps.clone()
    axes = range(2, gaps.ndim)
    for axis in axes:
        n = gaps.shape[axis]
        around.narrow(axis, 1, n - 1).logical_and_(gaps.narrow(axis, 0, n - 1))
        around.narrow(axis, 0, n - 1).logical_and_(gaps.narrow(axis, 1, n - 1))
    chance = share ** (2 * len(axes))
    return float(around.sum()) / count > chance + CLUSTERED * (1 - chance)


def hide_under_gaps(known: Known, generator: torch.Generator) -> Known | None:
    """Hide the samples of some frames that are under the gaps of others; None if fewer than four frames have samples.

    Frames are taken in random order, each with the gaps of a frame drawn at random, until ``MOVED_SHARE`` of the
    samples is hidden.
    """
    gaps = moving_gaps(known)
    inside = tuple(d for d in range(known.ndim) if d != 1)
    donors = gaps.any(inside).nonzero().flatten().tolist() if known.ndim > 2 else []
    if not donors or int(known.any(inside).sum()) < FEWEST_FRAMES:
        return None
    hidden, limit, largest = torch.zeros_like(known), MOVED_SHARE * int(known.sum()), int(gaps.sum(inside).max())
    for frame in torch.randperm(known.shape[1], generator=generator).tolist():
        donor = donors[int(torch.randint(len(donors), (1,), generator=generator))]
        under = gaps[:, donor] & known[:, frame]
        if int(under.sum()) > LEAST_SHARE * min(int(known[:, frame].sum()), largest):
            hidden[:, frame] = under
        if int(hidden.sum()) > limit:
            break
    return hidden
