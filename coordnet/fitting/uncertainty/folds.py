"""Folds: parts of the samples that are hidden in turn, and the errors of fits that do not see them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.ndimage import distance_transform_edt
from tqdm import tqdm

from coordnet import _checks
from coordnet.fitting.uncertainty.halves import FEWEST_HALVED, Half, RegularPart
from coordnet.fitting.uncertainty.point_blocks import cells_of
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.gap_blocks import GAP_DEPTH, blocks_of
from coordnet.sampling.samples import Samples

FOLDS = 5
FEWEST_SAMPLES = 50  # least number of samples of each channel for five folds
SEED = 0
# Distance of frames under moving gaps, in spacings of their nodes: errors follow the distance within the frame. With 1
# intervals under clouds are wider by a tenth; 2, 4, 8 and 16 were tried on eleven cubes under two priors.
FRAME_DISTANCE = 4.0

Refit = Callable[[Samples], Reconstruction]
# Share of the samples in a box as wide as gaps that do not move whose errors count as one. Against 1/2 it moves the
# share that intervals of 90 % cover from 88 to 89 % in 48 photographs with three holes of 40 pixels, and from 91 to
# 92 % in 67 crops with other holes. With 1 these are 90 and 94 %.
ALIKE_SHARE = 2 / 3
NO_CHANCE = 4.0  # width in mean distances of samples from which on an unknown border is no chance of a random mask

Mask = Bool[np.ndarray, "*grid"]


@dataclass(frozen=True)
class FoldErrors:
    """The errors of fits at samples that were hidden from them."""

    node: Int[np.ndarray, " n"]  # the flat index of the lattice's node at a sample, or nearest to it
    error: Float[np.ndarray, "n channels"]  # the estimate minus the sample; NaN for channels that were not hidden there
    # The distance to the nearest node with a sample that was not hidden, in spacings.
    distance: Float[np.ndarray, "n channels"]
    # The standard deviation that the prior expects there, as ``posterior_deviations`` has it.
    deviation: Float[np.ndarray, " n"]
    fit: Int[np.ndarray, " n"]  # the number of the fit that has the error
    shown: float  # the number of samples that a fit saw, in the mean over fits


@dataclass(frozen=True)
class Folded:
    """The errors at folds, each hidden alone, and at two of them, hidden alone and together.

    Beside them are means over the five fits, at every node: of the distance to the nearest sample that was not hidden,
    and of the deviation that the prior expects. Folds ``in_shape`` of what is unknown leave the distances inside of
    that as they are, so that these are the distances to the nearest sample. Errors in a block are ``alike``: they count
    as one for so many hidden samples, that is for Σ n² / Σ n of the numbers n that blocks have in the folds (the design
    effect of Kish, "Survey Sampling", 1965), or, in gaps that do not move, for ``ALIKE_SHARE`` of the samples in a box
    as wide as these. Where blocks are hidden, samples were ``alone`` if they were hidden without their block. The folds
    of a mask of every k-th node are its ``halves``, in which all distances are twice those to the nearest sample.
    """

    distance: Float[np.ndarray, "nodes channels"]
    deviation: Float[np.ndarray, " nodes"]
    single: FoldErrors
    pair: FoldErrors  # the first two folds in ``single``, or all halves
    # The same samples, from one fit that saw neither fold, or for halves those of a half, from a fit to half of it.
    # None for folds ``in_shape``, and for halves of a short lattice.
    together: FoldErrors | None
    in_shape: bool = False
    alike: float = 1.0
    alone: Bool[np.ndarray, " n"] | None = None


class SampleTable:
    """The samples of a lattice or of scattered points as rows: (n, channels), with a node of the grid for each.

    A lattice that skips nodes has gaps here, but refits see lattices. With ``blocks``, the lengths of boxes in the
    units of scattered points, folds hide whole boxes of these, too. Points with gaps, such as tracks, have blocks as
    wide as these. A ``ValueError`` is raised for samples of another kind, for fewer than ``FEWEST_SAMPLES`` of a
    channel, and for a lattice that skips nodes along an axis with fewer than ``FEWEST_HALVED``.
    """

    def __init__(self, samples: Samples, blocks: float | Sequence[float] | None = None) -> None:
        samples.geometry.check_hideable()
        self.regular = None if blocks is not None else RegularPart.of(samples.geometry)
        self.skips = samples.geometry.is_strided
        if self.skips and not self.regular:
            expected = f"at least {FEWEST_HALVED} along each axis on which nodes are skipped"
            raise _checks.wrong("samples", expected, samples.geometry.shape)
        samples = samples.with_gaps()
        geometry = samples.geometry
        if blocks is not None:
            geometry.check_blocks("blocks", "None, but for scattered points (cn.points)")
        self.blocks = blocks
        self.samples, self.shape = samples, (-1, samples.channels)
        self.nodes = geometry.nodes.numpy()
        self.weights = geometry.full_weights.to(samples.values)
        self.known = (self.weights > 0).expand_as(samples.values).reshape(self.shape).cpu().numpy()
        self.values = samples.values.detach().reshape(self.shape).cpu().double().numpy()
        fewest = int(self.known.sum(0).min())
        if fewest < FEWEST_SAMPLES:
            raise _checks.wrong("samples", f"at least {FEWEST_SAMPLES} of each channel for five folds", fewest)

    def folded(self, refit: Refit, *, progress: bool = False) -> Folded:
        """Fit without each fold, and return the errors at what was hidden.

        How errors depend on the number of samples is told by one more fit without the first two folds, or by one to
        half of a half, unless this is short; it does not matter for folds in the shape of what is unknown.
        """
        (hidden, judged), folds = self._parts(), self.folds()
        seen = self._on_halves() if self.skips else map(self._without, hidden)
        fits = [refit(part) for part in tqdm(seen, "refits", len(hidden), disable=not progress, dynamic_ncols=True)]
        expected, apart = posterior_deviations(fits), [self._distances(part) for part in hidden]
        errors = [self._errors(*part) for part in zip(hidden, judged, fits, apart, expected, strict=True)]
        distance, deviation = (np.mean(fold[: len(folds)], axis=0) for fold in (apart, expected))
        if self.is_in_shape:
            distance = self._distances(np.zeros_like(self.known))
        single = _joined(errors[: len(folds)])
        if self.regular:
            distance = np.broadcast_to(self.regular.distances().reshape(-1, 1), distance.shape)
        pair = single if self.regular else _joined(errors[:2])
        alike, alone = self._alike(folds, single), self._alone(folds)
        together = errors[-1] if len(errors) > len(folds) else None
        return Folded(distance, deviation, single, pair, together, self.is_in_shape, alike, alone)

    def _parts(self) -> tuple[list[Bool[np.ndarray, "n channels"]], list[Bool[np.ndarray, "n channels"]]]:
        """Return what each fit does not see, and the part of it where the fit is judged."""
        if self.regular:
            sides = [(~half.shown, half.judged) for half in self._halves]
            hidden, judged = ([side[:, None] & self.known for side in part] for part in zip(*sides, strict=True))
            return hidden, judged
        folds = self.folds()
        hidden = folds if self.is_in_shape else [*folds, folds[0] | folds[1]]
        return hidden, hidden

    @cached_property
    def _halves(self) -> list[Half]:
        if not self.regular:
            return []
        quarter = self.regular.quarter()
        return [*self.regular.halves(), *([quarter] if quarter else [])]

    def _on_halves(self) -> list[Samples]:
        return [half.lattice.sample(self.samples.values) for half in self._halves]

    @cached_property
    def is_in_shape(self) -> bool:
        """Whether folds have the shape of what is unknown."""
        return self._cells is not None or self._hides_gaps or bool(self._strips)

    @cached_property
    def has_moving_gaps(self) -> bool:
        """Whether folds lay the gaps of frames, such as clouds, over others."""
        return self._hides_gaps and self._mask.has_moving_areas

    @property
    def _hides_gaps(self) -> bool:
        return self.regular is None and self.samples.geometry.gaps is not None and self._mask.hides_in_shape

    def folds(self) -> list[Bool[np.ndarray, "n channels"]]:
        """Return what each fold hides: a fifth of the samples, drawn at random, or in the shape of what is unknown.

        Holes, scratches, text and clouds are far from samples as random ones are not; their shape is moved to known
        places (see ``ForwardModel.hide``). Where a random mask lacks a border, too, strips that are like it are hidden
        beside the random fifths, in turn. Of points a tenth of the blocks, hardly any next to another, and a tenth of
        all points are hidden, so that errors near to points and far from them are met. Where every k-th node is known,
        every second one of them is shown (``RegularPart``).
        """
        if self.regular:
            return [~half.shown[:, None] & self.known for half in self.regular.halves()]
        if self._in_blocks:
            drawn = np.random.default_rng(SEED).permutation(len(self.known)) % (2 * FOLDS)
            return [(part | (drawn == k))[:, None] & self.known for k, part in enumerate(self._in_blocks)]
        if self._hides_gaps:
            return self._in_shape()
        strips = self._strips or [np.zeros_like(self.known)]
        return [fold | strips[k % len(strips)] for k, fold in enumerate(self._at_random())]

    @cached_property
    def _strips(self) -> list[Bool[np.ndarray, "n channels"]]:
        """The samples that stand for borders without any beside a random mask; see ``strips_like_borders``."""
        if self.samples.geometry.gaps is None or self.regular or self._hides_gaps:
            return []
        known = self.known.reshape(*self.samples.grid, -1)
        return [
            strip[..., None].reshape(-1, 1) & self.known for strip in strips_like_borders(np.asarray(known.any(-1)))
        ]

    @cached_property
    def _cells(self) -> Int[np.ndarray, "n d"] | None:
        """The numbers of the block of each point along each axis; None if no blocks are hidden."""
        geometry = self.samples.geometry
        return geometry.cells_like_gaps if self.blocks is None else cells_of(geometry, self.blocks)

    @cached_property
    def _in_blocks(self) -> list[Bool[np.ndarray, " n"]]:
        """The points that each fold hides with their blocks; empty if no blocks are hidden."""
        if self._cells is None:
            return []
        part = blocks_of(self._cells, 2 * FOLDS)[1]
        return [part == k for k in range(FOLDS)]

    def _alone(self, folds: list[Bool[np.ndarray, "n channels"]]) -> Bool[np.ndarray, " hidden"] | None:
        """Return whether each hidden point was hidden without its block; None if no blocks are hidden."""
        if not self._in_blocks:
            return None
        return np.concatenate([~part[fold.any(1)] for fold, part in zip(folds, self._in_blocks, strict=True)])

    def _alike(self, folds: list[Bool[np.ndarray, "n channels"]], errors: FoldErrors) -> float:
        """Return the number of hidden samples whose errors count as one: those of a block, or of a gap's width."""
        if self._cells is not None:
            block = np.unique(self._cells, axis=0, return_inverse=True)[1].ravel()
            counts = np.concatenate([np.bincount(block[fold.any(1)]) for fold in folds])
            return float(np.square(counts).sum() / counts.sum())
        if not self._hides_gaps or self.has_moving_gaps:
            return 1.0  # clouds of many frames are many
        edge = max(2 * float(np.quantile(errors.distance, GAP_DEPTH)), 1.0)
        return ALIKE_SHARE * math.prod(min(edge, n) for n in self.samples.grid)

    def _at_random(self) -> list[Bool[np.ndarray, "n channels"]]:
        joint = self.weights.shape[-1] == 1
        rows = self.known[:, :1] if joint else self.known
        number = np.full(rows.shape, -1)
        number[rows] = np.random.default_rng(SEED).permutation(int(rows.sum())) % FOLDS
        return [np.broadcast_to(number == k, self.known.shape) for k in range(FOLDS)]

    @property
    def _mask(self) -> ForwardModel:
        return ForwardModel.mask(self.weights.movedim(-1, 0).unsqueeze(0))

    def _in_shape(self) -> list[Bool[np.ndarray, "n channels"]]:
        """Return folds that have the shape of the gaps, of one copy: with three, intervals in holes cover 4 % less."""
        mask, generator = self._mask, torch.Generator().manual_seed(SEED)
        values = self.samples.values.movedim(-1, 0).unsqueeze(0)
        drawn = [mask.hide(1 / FOLDS, generator, values, copies=1) for _ in range(FOLDS)]
        parts = [hidden[0].movedim(0, -1).expand_as(self.samples.values) > 0 for hidden in drawn if hidden is not None]
        if len(parts) < FOLDS:
            raise _checks.wrong("samples", "enough known samples to hide others of the unknown ones' shape", "too few")
        return [hidden.reshape(self.shape).cpu().numpy() for hidden in parts]

    def _distances(self, hidden: Bool[np.ndarray, "n channels"]) -> Float[np.ndarray, "nodes channels"]:
        """Return the distance of every node to the nearest one with a sample that is not hidden, in spacings.

        Under moving gaps frames are ``FRAME_DISTANCE`` from each other.
        """
        shown = self.known & ~hidden
        columns = shown[:, :1] if self.weights.shape[-1] == 1 else shown
        distances = np.stack([self._distance(column) for column in columns.T], -1)
        return np.broadcast_to(distances, (len(distances), self.samples.channels))

    def _distance(self, shown: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " nodes"]:
        grid = self.samples.grid
        far = np.ones(math.prod(grid), dtype=bool)
        far[self.nodes[shown]] = False
        apart = FRAME_DISTANCE if self.has_moving_gaps else 1.0
        return np.asarray(distance_transform_edt(far.reshape(grid), (apart, *(1.0,) * (len(grid) - 1)))).ravel()

    def _without(self, hidden: Bool[np.ndarray, "n channels"]) -> Samples:
        mask = torch.from_numpy(np.array(hidden)).reshape(self.samples.values.shape)
        return self.samples.without(mask.to(self.weights.device))

    def _errors(
        self,
        hidden: Bool[np.ndarray, "n channels"],
        judged: Bool[np.ndarray, "n channels"],
        fit: Reconstruction,
        distance: Float[np.ndarray, "nodes channels"],
        deviation: Float[np.ndarray, " nodes"],
    ) -> FoldErrors:
        estimate = self.samples.geometry.at_samples(fit).detach().reshape(self.shape).cpu().double().numpy()
        rows = judged.any(1)
        error = np.where(judged, estimate - self.values, np.nan)[rows]
        node, shown = self.nodes[rows], float((self.known & ~hidden).sum())
        return FoldErrors(node, error, distance[node], deviation[node], np.zeros_like(node), shown)


def posterior_deviations(fits: list[Reconstruction]) -> list[Float[np.ndarray, " nodes"]]:
    """Return the posterior deviations at every node under the local priors of fits; 1 if not all of them have some."""
    if any("deviation" not in fit.learned for fit in fits):
        return [np.ones(math.prod(fit.lengths)) for fit in fits]
    return [fit.learned["deviation"].flatten().cpu().double().numpy() for fit in fits]


def _joined(errors: list[FoldErrors]) -> FoldErrors:
    names = ("node", "error", "distance", "deviation")
    parts = {name: np.concatenate([getattr(e, name) for e in errors]) for name in names}
    fit = np.repeat(np.arange(len(errors)), [len(e.node) for e in errors])
    return FoldErrors(**parts, fit=fit, shown=float(np.mean([e.shown for e in errors])))


def strips_like_borders(known: Mask) -> list[Mask]:
    """Return known strips as wide as each unknown border: next to it, and at the opposite end if that is known.

    A fit without a strip extrapolates there as it does on the border. A strip has half of what is known along its axis
    at most.
    """
    strips = []
    for axis in range(known.ndim):
        along = np.flatnonzero(known.any(tuple(j for j in range(known.ndim) if j != axis)))
        if not len(along):
            return []
        first, end, length = int(along[0]), int(along[-1]) + 1, known.shape[axis]
        inside = known.size * (end - first) / length
        usual = NO_CHANCE * (inside / known.sum()) ** (1 / known.ndim)
        depths = [depth if depth > usual else 0 for depth in (first, length - end)]
        width = min(max(depths), (end - first) // 2)
        if width:
            strips += [_slab(known, axis, slice(first, first + width)), _slab(known, axis, slice(end - width, end))]
    return strips


def _slab(known: Mask, axis: int, part: slice) -> Mask:
    slab = np.zeros_like(known)
    at = (slice(None),) * axis + (part,)
    slab[at] = known[at]
    return slab
