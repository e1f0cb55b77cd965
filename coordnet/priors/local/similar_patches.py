"""Groups of similar patches of a picture, and unknown entries that are filled by one Gaussian for each group.

A first estimate says which patches are similar and has their covariance.
"""

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet.linalg.machine import at_once, cholesky, in_threads
from coordnet.priors.local.patches import Observed, Overlap, Patches, flat_indices

# Chosen on the middle 160² to 256² of scikit-image's astronaut, chelsea, coffee, rocket, brick and camera, of which 10,
# 25 and 50 % were known: sides of 5 to 7, groups of 16 to 64, steps of 2 to 4, displacements of up to 6 to 12.
SIDE, FILL_STEP = 6, 3
SIMILAR_REACH = 8  # largest displacement of a similar patch along each axis
GROUP_FLOOR = 2e-5  # the part of v that is the same for all groups, for signals of range 1
GROUP_SHARE = 0.15  # the other part of v, relative to the mean variance of a group's entries
FILL_BAND = 2**22  # bytes of the distances that are found at once on a CPU
BYTES_AT_ONCE = 3 * 2**21  # bytes of the groups that are solved at once on a CPU
GROUP = 48  # patches in a group
Picture = Float[Tensor, "channels height width"]


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
    found = guide.new_empty(len(offsets), len(moves), *map(len, starts))
    count = at_once(guide.numel() * guide.element_size(), device, cached=0)  # one after another on a CPU
    *before, columns = (at.reshape(-1, *(1,) * k) for k, at in zip(range(len(starts))[::-1], starts, strict=True))
    order = torch.arange(count, device=device).reshape(-1, *(1,) * len(lattice))
    for k in range(len(offsets) // 2, len(offsets)):  # the others are the mirror images of these
        ahead, behind = ([at + max(s * o, 0) for at, o in zip(before, offsets[k], strict=True)] for s in (1, -1))
        for x in range(right if k == len(offsets) // 2 else 0, len(moves), count):
            distance = _distances(guide, moved[:, x : x + count], offsets[k], patch, right)
            found[k, x : x + count] = distance[(slice(None), *ahead, columns + right)]
            some, first = order[: len(distance)], len(moves) - x - len(distance)
            mirrored = distance[(some.flip(0), *behind, columns + (first + some))]
            found[len(offsets) - 1 - k, first : first + len(distance)] = mirrored
    nearest = found.flatten(2).flatten(0, 1).T.topk(min(GROUP, len(offsets) * len(moves)), 1, largest=False)
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


def fill_from_similar(
    observed: Observed,
    sought: Bool[Tensor, "#channels height width"],
    noise: float | Float[Tensor, "1 height width"],
    share: float = GROUP_SHARE,
) -> Picture:
    """Return the mean of overlapping patches, each entry weighted by its posterior precision.

    Parameters
    ----------
    observed : Observed
        Known entries of a picture in units of its range, and a pilot of all of them.
    sought : (channels or 1, height, width)
        Where the estimate is needed; patches without such an entry are left out. Entries of no patch are the pilot's.
    noise : float or (1, height, width)
        The variance of the noise on known entries; a patch takes its mean.
    share : float
        The part of v beside ``GROUP_FLOOR``, relative to the mean variance of a group's entries.
    """
    pilot = observed.pilot
    height, width = pilot.shape[1:]
    side = min(SIDE, height, width)
    rows, columns = (references(n, side, FILL_STEP, pilot.device) for n in (height, width))

    moves, size = (2 * SIMILAR_REACH + 1) ** 2, len(pilot) * side**2 * pilot.element_size()
    together = at_once(GROUP * size, pilot.device, BYTES_AT_ONCE)

    def block(part: Tensor, across: Tensor) -> list[tuple[Patches, Tensor, Tensor]]:
        rows_in, columns_in = (_reached(at, side, n) for at, n in ((part, height), (across, width)))
        corners = (part.unsqueeze(1) * width + across).flatten()
        needed = Patches((height, width), (side, side), corners).of(sought).flatten(1).any(1)
        inside = pilot[:, rows_in, columns_in]
        starts = (part - rows_in.start, across - columns_in.start)
        groups = similar(inside, starts, (side, side), (SIMILAR_REACH, SIMILAR_REACH))
        groups = (groups // inside.shape[2] + rows_in.start) * width + groups % inside.shape[2] + columns_in.start
        found = []
        for at in needed.nonzero()[:, 0].split(together):
            group, patches = groups[at], Patches((height, width), (side, side), corners[at])
            similars = Patches((height, width), (side, side), group.flatten()).of(pilot)
            x = similars.unflatten(0, group.shape).flatten(2)
            known = patches.of(observed.known.expand_as(pilot)).flatten(1)
            level = patches.of(noise).mean((1, 2)) if isinstance(noise, torch.Tensor) else noise
            mean, variance = condition(patches.of(observed.values).flatten(1), known, x, level, share)
            shape = (len(at), len(pilot), side * side)
            found.append((patches, mean.reshape(shape), variance.reshape(shape)))
        return found

    def band(part: Tensor) -> list[tuple[Patches, Tensor, Tensor]]:
        seen = sought[:, int(part[0]) : int(part[-1]) + side].flatten(0, 1).any(0)
        needed = columns[seen.unfold(0, side, 1).any(1)[columns]]
        gaps = (needed.diff() > 2 * SIMILAR_REACH + side).nonzero()[:, 0] + 1
        parts = needed.tensor_split(gaps.cpu()) if len(needed) else ()
        return [each for across in parts for each in block(part, across)]

    overlap = Overlap(pilot)
    bands = rows.split(at_once(moves * len(columns) * pilot.element_size(), pilot.device, FILL_BAND))
    for found in in_threads(band, bands, pilot.device):
        for part in found:
            overlap.add(*part)
    return overlap.mean(pilot)


def _reached(corners: Int[Tensor, " n"], side: int, length: int) -> slice:
    """Return the part of an axis that patches similar to those at some corners may take."""
    return slice(max(0, int(corners[0]) - SIMILAR_REACH), min(length, int(corners[-1]) + side + SIMILAR_REACH))


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
    - the posterior variances are v + (v + s²) diag(XᵀC⁻¹X).

    Where fewer entries are known than a group has patches, the same comes from K = X_oᵀX_o + n (v + s²) I of their
    number: the mean m + XᵀX_o K⁻¹ (y - m)_o, and the variances v + diag(XᵀX - XᵀX_o K⁻¹ X_oᵀX)/n.

    Notes
    -----
    Yu, Sapiro and Mallat (2012) condition a Gaussian on a part of a patch.
    """
    mean = x.mean(1)
    x = x - mean.unsqueeze(1)
    floor = GROUP_FLOOR + share * x.square().mean((1, 2))
    deviation = torch.where(known, y - mean, 0.0).unsqueeze(2)
    ridge = (x.shape[1] * (floor + noise)).unsqueeze(1)
    most = int(known.sum(1).max())
    if most < x.shape[1]:
        index = known.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        seen = x.gather(2, index.unsqueeze(1).expand(-1, x.shape[1], -1)) * known.gather(1, index).unsqueeze(1)
        half, white = _halves(seen.mT @ seen, ridge, x.mT @ seen, deviation.gather(1, index.unsqueeze(2)))
        variance = (x.square().sum(1) - half.square().sum(2)).clamp(min=0) / x.shape[1]
    else:
        seen = x * known.unsqueeze(1)
        half, white = _halves(seen @ seen.mT, ridge, x.mT, seen @ deviation)
        variance = (floor + noise).unsqueeze(1) * half.square().sum(2)
    return mean + (half @ white)[..., 0], floor.unsqueeze(1) + variance


def _halves(gram: Tensor, ridge: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return left L⁻ᵀ and L⁻¹ right for gram + ridge I = LLᵀ."""
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    factor = cholesky(gram)
    half = torch.linalg.solve_triangular(factor.mT, left, upper=True, left=False)  # in this order needs no copies
    return half, torch.linalg.solve_triangular(factor, right, upper=False)
