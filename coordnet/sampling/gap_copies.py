"""Hidden samples like what is unknown: under gaps of other frames, in copies of holes, or beside points outside."""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise, product

import numpy as np
import torch
from jaxtyping import Bool
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn.functional import max_pool1d

MOVED_SHARE = 0.2  # share of the samples that is hidden under the gaps of other frames, about
LEAST_SHARE = 0.05  # share of a frame's samples, or of the largest gaps, that the gaps of another frame hide at least
FEWEST_FRAMES = 4  # frames with samples from which on gaps are laid over others
CLUSTERED = 0.2  # part of the way from independence to certainty at which surrounded points make areas
CLUSTERING = 0.25  # in a structured mask a neighbor of an unknown point is unknown this much more often than at random
MOST_SHIFTS = 64  # shifts of the unknown pattern from which some are taken
FULL = 0.8  # known points under a shift, relative to the one with most, from which on it counts
# Copies of the unknown pattern that are hidden at most, out of some tries: one hole tells little of another. In holes
# and scratches of 96 crops of 96² pixels three gain 0.2 dB over one in the mean (-3 to +9 dB), and 0.04 dB in those of
# 45 others that were not looked at before. There a trained denoiser that is weighed by three gains 0.3 dB over the
# estimate without it, and loses 1.2 dB at most; weighed by one it gains 0.2 dB, and loses 1.6.
MOST_COPIES, COPY_TRIES = 3, 8
MOST_COPIED = 0.3  # share of the known points that is hidden by further copies at most
ALIKE_COPIES = 0.7  # difference of the logarithms of variations up to which a further copy is hidden
LEAST_SOUGHT = 1e-3  # mean squared difference of neighbors that is sought around copies, relative to that of all
AROUND = 2  # steps from a gap up to which values are around it
# Share of the unknown points that are outside the known ones, above which those beside them are hidden. On 18 fields
# and crops of photographs with corners, two sides or all borders unknown that gains 1.3 dB in the mean over copies of
# the gaps (each change cut at 6 dB), and on 16 other photographs with two sides or corners 0.1 dB (-1.8 to +3.7 dB),
# where the expected PSNR is off by 4 instead of 6 dB. Of 30 random points 0.59 are outside.
OUTSIDE = 0.6
DEPTH = 0.9  # quantile of the distances of points outside from the known ones that is hidden beside them
SHALLOWER = 0.2  # largest share of this depth by which a draw is shallower
MOST_BESIDE = 0.5  # share of the known points that is hidden there at most

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
    samples is hidden. The first and the last of those with samples are hidden as a whole if nothing is known of a drawn
    frame beyond them, and others otherwise: errors beyond them are a multiple of those between frames.

    If only every k-th frame has samples, every second of these is hidden instead, as of a lattice that skips samples. A
    spectrum that is aliased in time predicts any of them from the others, and errs between them.
    """
    gaps = moving_gaps(known)
    inside = tuple(d for d in range(known.ndim) if d != 1)
    donors = gaps.any(inside).nonzero().flatten().tolist() if known.ndim > 2 else []
    seen = known.any(inside).nonzero().flatten().tolist()
    if not donors or len(seen) < FEWEST_FRAMES:
        return None
    hidden, limit, largest = torch.zeros_like(known), MOVED_SHARE * int(known.sum()), int(gaps.sum(inside).max())
    steps = {after - before for before, after in pairwise(seen[:-1])}  # the last frame is often given as well
    if len(steps) == 1 and steps != {1}:
        first = seen[int(torch.randint(1, 3, (1,), generator=generator))]
        every_second = slice(first, seen[-1], 2 * steps.pop())
        hidden[:, every_second] = known[:, every_second]
        return hidden
    for frame in torch.randperm(known.shape[1], generator=generator).tolist():
        donor = donors[int(torch.randint(len(donors), (1,), generator=generator))]
        under = gaps[:, donor] & known[:, frame]
        is_end, is_beyond = frame in (seen[0], seen[-1]), not seen[0] < donor < seen[-1]
        if donor not in seen and is_end != is_beyond:
            continue
        if int(under.sum()) > LEAST_SHARE * min(int(known[:, frame].sum()), largest):
            hidden[:, frame] = under
        if int(hidden.sum()) > limit:
            break
    return hidden


def are_clustered(unknown: Bool[Tensor, "masks *lattice"]) -> bool:
    """Return whether unknown points have unknown neighbors by ``CLUSTERING`` more often than at random.

    Those of holes, scratches and text have; those of random masks have not.
    """
    counts = [unknown.sum()]  # those of all axes, and one wait for a GPU
    for axis in range(1, unknown.ndim):
        length = unknown.shape[axis]
        left, right = unknown.narrow(axis, 0, length - 1), unknown.narrow(axis, 1, length - 1)
        counts += [left.sum(), (left & right).sum()]
    total, *each = torch.stack(counts).tolist()
    pairs, both = sum(each[::2]), sum(each[1::2])
    return pairs > 0 and both / pairs > total / unknown.numel() + CLUSTERING


def outside(known: Bool[Tensor, "masks *lattice"]) -> Bool[Tensor, "masks *lattice"] | None:
    """Return the points outside the known ones of a plane or volume; None if they are few of the unknown ones.

    A point is outside if one of its orthants has no known point: it is not in the orthogonal convex hull (Ottmann,
    Soisalon-Soininen and Wood 1984). In a row there are none, nor where all corners of the lattice are known.
    """
    axes = list(range(1, known.ndim))
    corners = known
    for axis in axes:
        corners = corners[(slice(None),) * axis + (slice(None, None, max(1, known.shape[axis] - 1)),)]
    if len(axes) < 2 or bool(corners.all()):
        return None
    outer = torch.zeros_like(known)
    for flips in product((False, True), repeat=len(axes)):
        flipped = [axis for axis, flip in zip(axes, flips, strict=True) if flip]
        reached = known.flip(flipped).to(torch.uint8)
        for axis in axes:
            reached = reached.cummax(axis).values
        outer |= (reached == 0).flip(flipped)
    return outer if int(outer.sum()) > OUTSIDE * int((~known).sum()) else None


def beside(
    outer: Bool[Tensor, "masks *lattice"], known: Bool[Tensor, "masks *lattice"], generator: torch.Generator
) -> Bool[Tensor, "masks *lattice"]:
    """Return the known points next to those ``outside``, about as deep as these are, up to ``MOST_BESIDE``.

    Between known points all candidates err about as much. How far each errs where it extrapolates is seen only beyond
    the last points that it is shown.
    """
    hidden, drawn = torch.zeros_like(known), float(torch.rand(1, generator=generator, dtype=torch.float32))
    share = 1 - SHALLOWER * drawn
    for mask, out, result in zip(known.cpu().numpy(), outer.cpu().numpy(), hidden, strict=True):
        if out.any() and mask.any():
            distance = np.asarray(distance_transform_edt(~out))
            depth = share * np.quantile(np.asarray(distance_transform_edt(~mask))[out], DEPTH)
            near_all = distance <= min(depth, np.quantile(distance[mask], MOST_BESIDE))
            result.copy_(torch.from_numpy(mask & near_all))
    return hidden


def copies_of_gaps(known: Tensor, values: Tensor, generator: torch.Generator, copies: int) -> Tensor:
    """Return known points that lie as the unknown ones do, where values vary as they do around the unknown ones.

    The unknown pattern is shifted at random. Along axes that are open at one end it is mirrored instead: values there
    are extrapolated, which inner ones are not. Of ``MOST_SHIFTS`` shifts those count that have at least ``FULL`` times
    the known points of the best. They are ordered by how near the mean squared difference of known neighbors around
    them is, in its logarithm, to that around the unknown points, or to ``LEAST_SOUGHT`` of that of all known points if
    this is more: without any variation nothing could be learned. Errors in gaps follow it, and where most of a signal
    is flat, most shifts would tell too little of a gap among edges. The result is the first of them with further ones
    that are ``ALIKE_COPIES`` and apart (``_apart``). In rows, which are compared at further draws, it is the first one.
    """
    axes = list(range(2, known.ndim))
    stacked = [axis + 1 for axis in axes]  # the same axes, behind one for the direction of a pair of neighbors
    open_axes = [axis for axis in axes if _is_open(~known, axis)]
    lengths = torch.tensor([1 if axis in open_axes else known.shape[axis] for axis in axes])
    shifts = (torch.rand(MOST_SHIFTS, len(axes), generator=generator, dtype=torch.float32) * lengths).int().tolist()
    exist, around = _pairs(known), _pairs(near(~known, AROUND, axes) & known)
    squared = torch.stack([(values.roll(-1, axis) - values).square().sum(0, keepdim=True) for axis in axes])
    squared = torch.where(exist, squared.sum(2, keepdim=True) if known.shape[1] == 1 else squared, 0.0)
    gaps, mirrored = (~known).flip(open_axes), around.flip([axis + 1 for axis in open_axes])
    found = [torch.stack([pairs.sum(), (squared * pairs).sum(), pairs.sum()]) for pairs in (exist, around)]
    for shift in shifts:
        pairs = mirrored.roll(shift, stacked) & exist
        found.append(torch.stack([(gaps.roll(shift, axes) & known).sum(), (squared * pairs).sum(), pairs.sum()]))
    size, total, count = torch.stack(found).double().cpu().T
    variation = total / count.clamp(min=1) + torch.finfo(values.dtype).tiny
    overall, sought = variation[:2]
    unlike = (variation[2:] / torch.maximum(sought, LEAST_SOUGHT * overall)).log().abs()
    unlike[size[2:] < FULL * size[2:].max()] = math.inf
    first, *others = unlike.argsort(stable=True).tolist()
    further = [i for i in others[:COPY_TRIES] if unlike[i] < ALIKE_COPIES] if len(axes) > 1 else []
    return _apart((gaps.roll(shifts[i], axes) & known for i in (first, *further)), known, axes, copies)


def _apart(copies: Iterator[Tensor], known: Tensor, axes: list[int], most: int) -> Tensor:
    """Return the first of copies of gaps with those that are not near it, ``most`` together at most.

    Further ones do not hide more than ``MOST_COPIED`` of the known points.
    """
    hidden, taken = next(copies), 1
    while taken < most and (copy := next(copies, None)) is not None:
        both = hidden | copy
        touching = (near(hidden, AROUND, axes) & copy).sum()
        near_others, size, total = torch.stack([touching, both.sum(), known.sum()]).tolist()
        if not near_others and size <= MOST_COPIED * total:
            hidden, taken = both, taken + 1
    return hidden


def near(points: Bool[Tensor, "*shape"], steps: int, axes: Iterable[int]) -> Bool[Tensor, "*shape"]:
    """Return what is at most some steps along axes and diagonals from points."""
    reached = points.float()
    for axis in axes:
        lines = reached.movedim(axis, -1)
        pooled = max_pool1d(lines.reshape(-1, 1, lines.shape[-1]), 2 * steps + 1, 1, steps)
        reached = pooled.reshape(lines.shape).movedim(-1, axis)
    return reached > 0


def _pairs(points: Tensor) -> Tensor:
    """Return for each axis of the lattice which points have the next one along it beside them, (axes, *points)."""
    both = [points & points.roll(-1, axis) for axis in range(2, points.ndim)]
    for axis, part in enumerate(both, 2):
        part.select(axis, -1).zero_()
    return torch.stack(both)


def _is_open(unknown: Tensor, axis: int) -> bool:
    """Return whether one end of an axis is unknown by ``CLUSTERING`` more often than all points, and the other not."""
    shares = [float(unknown.select(axis, end).float().mean()) for end in (0, -1)]
    limit = float(unknown.float().mean()) + CLUSTERING
    return max(shares) > limit >= min(shares)
