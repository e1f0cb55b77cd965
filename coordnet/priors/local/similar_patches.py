"""Groups of similar patches of a signal, and unknown entries that are filled by one Gaussian for each group.

A first estimate says which patches are similar and has their covariance.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet.linalg.machine import at_once, cholesky, in_threads
from coordnet.priors.local.patches import Observed, Overlap, Patches, flat_indices
from coordnet.sampling.axes import ByAxes

# Chosen on the middle 160² to 256² of scikit-image's astronaut, chelsea, coffee, rocket, brick and camera, of which 10,
# 25 and 50 % were known: sides of 5 to 7, groups of 16 to 64, steps of 2 to 4, displacements of up to 6 to 12. Those of
# clips and volumes were chosen on crops of thirteen, half of them synthetic, with random samples and moving holes.
FILL_PATCH = ByAxes({2: (6, 6), 3: (2, 5, 5)})  # lengths of a patch
FILL_STEP = ByAxes({2: (3, 3), 3: (1, 3, 3)})  # distances of the patches that are filled
FILL_REACH = ByAxes({2: (8, 8), 3: (2, 6, 6)})  # largest displacement of a similar patch along each axis
GROUP_FLOOR = 2e-5  # the part of v that is the same for all groups, for signals of range 1
GROUP_SHARE = 0.15  # the other part of v, relative to the mean variance of a group's entries
FILL_BAND = ByAxes({2: 2**22, 3: 2**25})  # bytes of the distances that are found at once on a CPU
BYTES_AT_ONCE = 3 * 2**21  # bytes of the groups that are solved at once on a CPU
GROUP = 48  # patches in a group
# Least square of a step around an entry, relative to the mean, with which groups fill it: 0.2 spares a third to two
# thirds of the patches of each pass, and costs 0.01 dB on crops of eleven pictures.
MOVED = 0.2
# Distance of the patches of a group that give posterior variances: all of them take half the time again. On crops of
# four pictures, half of them known or under text, every second one costs 0.01 dB, every third 0.02 dB. ``MOVED`` and it
# cost 0.01 dB at a quarter of sixteen photographs, and 0.03 dB at a half, at four fifths, and under text.
THINNED = 2
Posterior = Callable[[Patches, Tensor], tuple[Tensor, Tensor]]


def references(length: int, side: int, step: int, device: torch.device) -> Int[Tensor, " n"]:
    """Return the starts of reference patches along an axis; the last one touches the end."""
    starts = torch.arange(0, length - side + 1, step, device=device)
    return torch.cat([starts, starts.new_tensor([length - side])]).unique()


def similar(
    guide: Float[Tensor, "channels *lattice"],
    starts: Sequence[Int[Tensor, " _"]],
    patch: tuple[int, ...],
    reach: tuple[int, ...],
) -> Int[Tensor, "references group"]:
    """Return the flat indices of the first entries of the patches most similar to each reference, itself among them.

    The references' first entries are at all combinations of ``starts``, those of each axis of the lattice. A group has
    ``GROUP`` patches of the lengths ``patch``, or one for each displacement of at most ``reach`` if these are fewer;
    where the lattice ends, the reference is repeated.
    """
    lattice, device = tuple(guide.shape[1:]), guide.device
    *outer, right = (min(r, n - p) for r, n, p in zip(reach, lattice, patch, strict=True))
    moves = torch.arange(-right, right + 1, device=device)
    offsets = list(itertools.product(*(range(-r, r + 1) for r in outer)))
    moved = pad(guide, (right, right), value=torch.inf).unfold(-1, lattice[-1], 1).movedim(-2, 1)
    distances = guide.new_empty(len(offsets), len(moves), *map(len, starts))
    count = at_once(guide.numel() * guide.element_size(), device, cached=0)  # one after another on a CPU
    *before, columns = (at.reshape(-1, *(1,) * k) for k, at in zip(range(len(starts))[::-1], starts, strict=True))
    order = torch.arange(count, device=device).reshape(-1, *(1,) * len(lattice))
    for k in range(len(offsets) // 2, len(offsets)):  # the others are the mirror images of these
        ahead, behind = ([at + max(s * o, 0) for at, o in zip(before, offsets[k], strict=True)] for s in (1, -1))
        for x in range(right if k == len(offsets) // 2 else 0, len(moves), count):
            distance = _distances(guide, moved[:, x : x + count], offsets[k], patch, right)
            distances[k, x : x + count] = distance[(slice(None), *ahead, columns + right)]
            some, first = order[: len(distance)], len(moves) - x - len(distance)
            mirrored = distance[(some.flip(0), *behind, columns + (first + some))]
            distances[len(offsets) - 1 - k, first : first + len(distance)] = mirrored
    nearest = distances.flatten(2).flatten(0, 1).T.topk(min(GROUP, len(offsets) * len(moves)), 1, largest=False)
    steps = flat_indices([torch.arange(-r, r + 1, device=device) for r in (*outer, right)], lattice)
    corners = flat_indices(starts, lattice).unsqueeze(1)
    return torch.where(nearest.values.isinf(), corners, corners + steps[nearest.indices])


def _distances(
    guide: Float[Tensor, "channels *lattice"],
    moved: Float[Tensor, "channels moves *lattice"],
    offset: tuple[int, ...],
    patch: tuple[int, ...],
    right: int,
) -> Float[Tensor, "moves *corners"]:
    """Return the squared distances of all patches from the moved ones, by an offset along the first axes too.

    They are infinite for further corners at both ends of each axis: as many as the offset is long, and ``right``.
    """
    sizes = list(zip(offset, guide.shape[1:], strict=False))
    here, there = ([slice(max(-s * o, 0), n - max(s * o, 0)) for o, n in sizes] for s in (1, -1))
    squares = (moved[(slice(None), slice(None), *there)] - guide[(slice(None), None, *here)]).square_().sum(0)
    around = [abs(o) for o in reversed(offset) for _ in range(2)]
    return pad(box_sums(squares, patch), (right, right, *around), value=torch.inf)


def box_sums(f: Float[Tensor, "*lattice"], patch: tuple[int, ...]) -> Float[Tensor, "*corners"]:
    """Return the sums over all patches of some lengths along the last axes, one axis after the other."""
    for axis, length in enumerate(patch, start=-len(patch)):
        f = _window_sums(f, length, axis)
    return f


def _window_sums(f: Tensor, n: int, axis: int) -> Tensor:
    """Return the sums over all windows of n entries along an axis, from those over windows of half the length."""
    if n == 1:
        return f
    half = _window_sums(f, n // 2, axis)
    count = half.shape[axis] - n // 2
    total = half.narrow(axis, 0, count) + half.narrow(axis, n // 2, count)
    return total.narrow(axis, 0, count - 1).add_(f.narrow(axis, n - 1, count - 1)) if n % 2 else total


def where_moved(
    step: Float[Tensor, "channels *lattice"], sought: Bool[Tensor, "#channels *lattice"]
) -> Bool[Tensor, "#channels *lattice"]:
    """Return the sought entries around which a step from one estimate to the next is long, all if it is zero.

    Groups gain where the estimate before gained. The squared step, summed over a patch around an entry, is at least
    ``MOVED`` of its mean over sought entries.
    """
    patch = FILL_PATCH[step.ndim - 1]
    around = [n for side in reversed(patch) for n in (side // 2, (side - 1) // 2)]
    energy = box_sums(pad(step.square().sum(0), around), patch)
    return sought & (energy >= MOVED * (energy * sought).sum() / sought.sum().clamp(min=1))


def fill_from_similar(
    observed: Observed,
    sought: Bool[Tensor, "#channels *lattice"],
    noise: float | Float[Tensor, "1 *lattice"],
    share: float = GROUP_SHARE,
) -> Float[Tensor, "channels *lattice"]:
    """Return the mean of overlapping patches, each entry weighted by its posterior precision.

    - observed: known entries of a picture, a clip or a volume in units of its range, and a pilot of all of them
    - sought: where the estimate is needed; patches without such an entry are left out. Entries of no patch are the
      pilot's.
    - noise: the variance of the noise on known entries; a patch takes its mean
    - share: the part of v beside ``GROUP_FLOOR``, relative to the mean variance of a group's entries
    """
    pilot, values = observed.pilot.contiguous(), observed.values.contiguous()  # each call of ``of`` would copy them
    axes = pilot.ndim - 1
    patch = tuple(map(min, FILL_PATCH[axes], pilot.shape[1:]))
    steps = zip(pilot.shape[1:], patch, FILL_STEP[axes], strict=True)
    starts = [references(n, p, step, pilot.device) for n, p, step in steps]

    def posterior(patches: Patches, x: Tensor) -> tuple[Tensor, Tensor]:
        known = patches.of(observed.known).expand(-1, len(pilot), -1).flatten(1)
        level = patches.of(noise).flatten(1).mean(1) if isinstance(noise, Tensor) else noise
        return condition(patches.of(values).flatten(1), known, x, level, share)

    return from_groups(pilot, sought, patch, starts, posterior)


def from_groups(
    pilot: Float[Tensor, "channels *lattice"],
    sought: Bool[Tensor, "#channels *lattice"],
    patch: tuple[int, ...],
    starts: Sequence[Int[Tensor, " _"]],
    posterior: Posterior,
) -> Float[Tensor, "channels *lattice"]:
    """Return the mean of overlapping patches by what their groups say, each entry weighted by its precision.

    - pilot: a signal whose similar patches are groups; its entries stay where no patch is
    - sought: where the mean is needed; patches without such an entry are left out
    - patch: the lengths of a patch
    - starts: the first entries of patches along each axis
    - posterior: ``posterior(patches, x)`` has the means and variances of patches, (patches, size) each, for groups x of
      (patches, group, size), the channels of a patch being one after the other
    """
    filling = _Filling(pilot, sought, posterior, patch, starts)
    displacements = math.prod(2 * r + 1 for r in filling.reach)
    each = displacements * math.prod(map(len, (*starts[:-2], starts[-1]))) * pilot.element_size()
    bands = starts[-2].split(at_once(each, pilot.device, FILL_BAND[len(patch)]))
    overlap = Overlap(pilot)
    for filled in in_threads(filling.band, bands, pilot.device):
        for part in filled:
            overlap.add(*part)
    return overlap.mean(pilot)


@dataclass(frozen=True)
class _Filling:
    """The posteriors of patches by their groups, a band of rows at a time; see ``from_groups``."""

    pilot: Float[Tensor, "channels *lattice"]
    sought: Bool[Tensor, "#channels *lattice"]
    posterior: Posterior
    patch: tuple[int, ...]
    starts: Sequence[Int[Tensor, " _"]]

    @property
    def reach(self) -> tuple[int, ...]:
        """The largest displacement of a similar patch along each axis."""
        return FILL_REACH[len(self.patch)]

    def band(self, rows: Int[Tensor, " _"]) -> list[tuple[Patches, Tensor, Tensor]]:
        """Return the patches that start in some rows, with their posterior means and variances, where they are sought.

        Places that are far from each other are filled apart.
        """
        columns, side = self.starts[-1], self.patch[-1]
        seen = self.sought[..., int(rows[0]) : int(rows[-1]) + self.patch[-2], :].flatten(0, -2).any(0)
        needed = columns[seen.unfold(0, side, 1).any(1)[columns]]
        gaps = (needed.diff() > 2 * self.reach[-1] + side).nonzero()[:, 0] + 1
        parts = needed.tensor_split(gaps.cpu()) if len(needed) else ()
        return [each for part in parts for each in self._block(rows, part)]

    def _block(self, rows: Tensor, columns: Tensor) -> Iterator[tuple[Patches, Tensor, Tensor]]:
        pilot, patch, lattice = self.pilot, self.patch, tuple(self.pilot.shape[1:])
        before = self.starts[:-2]
        patches = Patches(lattice, patch, flat_indices((*before, rows, columns), lattice))
        needed = patches.of(self.sought).flatten(1).any(1).nonzero()[:, 0]
        ends = zip((rows, columns), patch[-2:], self.reach[-2:], lattice[-2:], strict=True)
        rows_in, columns_in = (slice(max(0, int(at[0]) - r), min(n, int(at[-1]) + p + r)) for at, p, r, n in ends)
        inside = pilot[..., rows_in, columns_in]
        groups = similar(inside, (*before, rows - rows_in.start, columns - columns_in.start), patch, self.reach)
        height, width = inside.shape[-2:]
        frame, row = groups // (height * width), groups // width % height + rows_in.start
        row = frame * lattice[-2] + row  # rows are counted over all frames
        groups = row * lattice[-1] + groups % width + columns_in.start
        together = at_once(GROUP * len(pilot) * math.prod(patch) * pilot.element_size(), pilot.device, BYTES_AT_ONCE)
        for at in needed.split(together):
            yield self._posterior(groups[at], Patches(lattice, patch, patches.corners[at]))

    def _posterior(self, groups: Int[Tensor, "n group"], patches: Patches) -> tuple[Patches, Tensor, Tensor]:
        similars = Patches(patches.lattice, self.patch, groups.flatten()).of(self.pilot)
        mean, variance = self.posterior(patches, similars.unflatten(0, groups.shape).flatten(2))
        shape = (len(groups), len(self.pilot), math.prod(self.patch))
        return patches, mean.reshape(shape), variance.reshape(shape)


def condition(
    y: Float[Tensor, "groups size"],
    known: Bool[Tensor, "groups size"],
    x: Float[Tensor, "groups n size"],
    noise: float | Float[Tensor, " groups"],
    share: float = GROUP_SHARE,
) -> tuple[Float[Tensor, "groups size"], Float[Tensor, "groups size"]]:
    """Return the posterior mean and variances of patches y under the Gaussians of their groups x, by known entries.

    The deviations of a group's patches from their mean m are the rows of X, (n, size). Its patches are modeled as
    m + Xᵀa + e with a ~ N(0, I/n) and e ~ N(0, v), a Gaussian of the group's covariance XᵀX/n + v. From the known
    entries o of y, with C = X_o X_oᵀ + n (v + s²) I for noise of variance s²,

    - the posterior mean is m + Xᵀ C⁻¹ X_o (y - m)_o;
    - the posterior variances are v + (v + s²) diag(XᵀC⁻¹X), from every ``THINNED``-th patch of the group alone.

    Yu, Sapiro and Mallat (2012) condition a Gaussian on a part of a patch.
    """
    mean = x.mean(1)
    x = x - mean.unsqueeze(1)
    floor = GROUP_FLOOR + share * torch.linalg.vector_norm(x, dim=(1, 2)).square() / x[0].numel()
    total, seen = (floor + noise).unsqueeze(1), x * known.unsqueeze(1)
    gram, few = seen @ seen.mT, x[:, ::THINNED]
    weights = torch.cholesky_solve(seen @ (y - mean).unsqueeze(2), ridge_factor(gram, x.shape[1] * total))
    factor = ridge_factor(gram[:, ::THINNED, ::THINNED], few.shape[1] * total)
    half = torch.linalg.solve_triangular(factor.mT, few.mT, upper=True, left=False)  # in this order needs no copies
    variance = floor.unsqueeze(1) + total * half.square().sum(2)
    return mean + (weights.mT @ x)[:, 0], variance


def ridge_factor(gram: Float[Tensor, "groups n n"], ridge: Float[Tensor, "groups 1"]) -> Float[Tensor, "groups n n"]:
    """Return the Cholesky factors of matrices to whose diagonals a ridge is added."""
    return cholesky(gram + torch.diag_embed(ridge.expand(gram.shape[:2])))
