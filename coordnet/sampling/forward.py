"""Forward models: how samples depend on the lattice signal, y = S f, with a weight for each squared error."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag, max_pool1d

from coordnet.linalg.conjugate_gradients import Places, subset
from coordnet.linalg.machine import is_tracked, is_transformed
from coordnet.linalg.operators import Identity, LinearOperator, Shape, followed

MOVED_SHARE = 0.2  # share of the samples that is hidden under the gaps of other frames, about
LEAST_SHARE = 0.05  # share of a frame's samples, or of the largest gaps, that the gaps of another frame hide at least
FEWEST_FRAMES = 4  # frames with samples from which on gaps are laid over others
CLUSTERED = 0.2  # part of the way from independence to certainty at which surrounded points make areas

Known = Bool[Tensor, "masks frames *space"]
Outside = Literal["error", "clamp"]
CLUSTERING = 0.25  # in a structured mask a neighbor of an unknown point is unknown this much more often than at random
MIN_LEFT = 20  # samples that must be left when some are hidden
TRIES = 16  # random draws
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


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """Samples y = S f + noise of a lattice signal f, with weights W of the squared errors, 0 where nothing is known.

    S maps signals (signals, channels, *lattice) to samples (signals, channels, *samples); ``row_energy`` is the squared
    norm of every row of S, where S is an entry or a blend of the lattice's.
    """

    operator: LinearOperator
    weights: Float[Tensor, "signals channels *samples"]
    row_energy: float | Float[Tensor, "*samples"] = 1.0
    is_general: bool = False  # whether S is any operator, whose rows are no entries or blends of the lattice's

    @cached_property
    def density(self) -> float:
        """The trace of SᵀWS divided by the size of the lattice: the fraction of known points, for a mask."""
        traces = (self.weights * self.row_energy).flatten(2).sum(-1)
        return float(traces.mean()) / math.prod(self.operator.domain)

    @classmethod
    def mask(cls, weights: Float[Tensor, "signals channels *lattice"]) -> "ForwardModel":
        """Return the measurement of the lattice's own entries, unknown where the weight is 0."""
        return cls(Identity(tuple(weights.shape[2:])), weights)

    @property
    def is_mask(self) -> bool:
        """Whether the samples are entries of the lattice itself."""
        return isinstance(self.operator, Identity)

    @property
    def is_plain_mask(self) -> bool:
        """Whether the samples are entries of the lattice, with weights of 0 and 1 alone."""
        return self.is_mask and bool(((self.weights == 0) | (self.weights == 1)).all())

    @property
    def is_structured_mask(self) -> bool:
        """Whether the samples are entries of the lattice, and the unknown ones are clustered (``are_clustered``)."""
        return self.is_mask and are_clustered((self.weights == 0).flatten(0, 1))

    def __call__(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *samples"]:
        """Return S f."""
        return self.operator(f)

    def backproject(self, y: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀW y; gradients flow to y."""
        return followed(self.operator.T, self.weights * y)

    def normal(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀWS f."""
        return self.backproject(self(f))

    def hide(
        self,
        share: float,
        generator: torch.Generator,
        values: Float[Tensor, "signals channels *samples"],
        copies: int = MOST_COPIES,
    ) -> Float[Tensor, "1 masks *samples"] | None:
        """Draw samples to hide of these values: 1 where a known sample is hidden, 0 elsewhere, (1, 1 or channels, …).

        A random ``share`` of the samples is hidden. A draw that hides more than twice as many is repeated: the mask was
        drawn from the same seed. If the unknown points of a mask are clustered, the hidden points have their shape
        instead: the unknown pattern is shifted, or mirrored along an axis with a gap at one end, to ``copies`` places
        at most where much of it is known and the values vary as they do around the gaps. Of three axes or more the
        first is time: where its frames have gaps that others have not, the gaps of some frames are laid over others.
        The result is None if ``share`` is 0 or too few samples are known.
        """
        known = (self.weights > 0).any(0, keepdim=True)
        under = hide_under_gaps(known[0], generator) if self.has_moving_areas else None
        if under is not None:
            hidden = under.unsqueeze(0)
        elif self._has_holes:
            hidden = _copies_of_gaps(known, values.detach(), generator, copies)
        else:
            draws = (torch.rand(known.shape, generator=generator, dtype=torch.float32) < share for _ in range(TRIES))
            drawn = (draw.to(known.device) & known for draw in draws)
            most = max(2 * share * int(known.sum()), MIN_LEFT)
            hidden = next((draw for draw in drawn if int(draw.sum()) <= most), known)
        left = int((known & ~hidden).sum())
        if share == 0 or int(hidden.sum()) < 2 or left < MIN_LEFT:
            return None
        return hidden.to(self.weights)

    @property
    def hides_in_shape(self) -> bool:
        """Whether samples that ``hide`` hides have the shape of what is unknown."""
        return self.has_moving_areas or self._has_holes

    @property
    def _moving(self) -> Bool[Tensor, "channels frames *space"] | None:
        """Where the samples of a mask of three axes or more are known, if frames have gaps beside what none knows."""
        known = (self.weights > 0).any(0)
        return known if self.is_mask and known.ndim > 3 and bool(moving_gaps(known).any()) else None

    @property
    def has_moving_areas(self) -> bool:
        """Whether the first axis is time, and areas are unknown in some of its frames and known in others."""
        return self._moving is not None and are_areas(self._moving)

    @property
    def _has_holes(self) -> bool:
        moving = self._moving
        return self.is_structured_mask and (moving is None or are_clustered(moving_gaps(moving).flatten(0, 1)))

    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "ForwardModel":
        """Return the same samples with each weight multiplied by a factor."""
        return replace(self, weights=self.weights * factor)

    def select(self, kept: Places) -> "ForwardModel":
        """Return the measurement of some signals' channels, for an operator that does not mix channels."""
        return replace(self, weights=subset(self.weights, kept))


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


def _copies_of_gaps(known: Tensor, values: Tensor, generator: torch.Generator, copies: int) -> Tensor:
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


class Interpolation(LinearOperator):
    """The sparse matrix S that maps a lattice signal to values at scattered points.

    ``index`` holds the flat indices of the m nodes that each point depends on, ``weights`` their weights.
    """

    is_portable = True

    def __init__(self, lattice: Shape, index: Int[Tensor, "n m"], weights: Float[Tensor, "n m"]) -> None:
        self.domain, self.codomain = tuple(lattice), (len(index),)
        self.index, self.weights = index, weights

    def _apply(self, x: Float[Tensor, "*signals_lattice"]) -> Float[Tensor, "*signals n"]:
        batch = self.batch_of(x)
        rows = x.reshape(-1, math.prod(self.domain)).T.contiguous()
        if is_tracked(self.weights) or is_transformed(rows):  # embedding_bag has one derivative, and none forward
            values = (rows[self.index] * self.weights.unsqueeze(-1)).sum(1).T
        else:
            values = embedding_bag(self.index, rows, per_sample_weights=self.weights, mode="sum").T
        return values.reshape(*batch, *self.codomain)

    def _apply_adjoint(self, y: Float[Tensor, "*signals n"]) -> Float[Tensor, "*signals_lattice"]:
        parts = (y.unsqueeze(-2) * self.weights.T).flatten(-2)
        result = y.new_zeros(*y.shape[:-1], math.prod(self.domain)).index_add_(-1, self._nodes, parts)
        return result.reshape(*y.shape[:-1], *self.domain)

    @cached_property
    def _nodes(self) -> Int[Tensor, " nm"]:
        """The first node of every point, then the second of every point, and so on."""
        return self.index.T.flatten()
