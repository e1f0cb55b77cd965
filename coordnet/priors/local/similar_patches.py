"""Groups of similar patches of a picture, and unknown entries that are filled by one Gaussian for each group.

A first estimate says which patches are similar and has their covariance.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet.linalg.machine import at_once, cholesky, in_threads
from coordnet.priors.local.patches import Observed, Overlap, Patches

# Chosen on the middle 160² to 256² of scikit-image's astronaut, chelsea, coffee, rocket, brick and camera, of which 10,
# 25 and 50 % were known: sides of 5 to 7, groups of 16 to 64, steps of 2 to 4, displacements of up to 6 to 12.
SIDE, FILL_STEP = 6, 3
SIMILAR_REACH = 8  # largest displacement of a similar patch along each axis
GROUP_FLOOR = 2e-5  # the part of v that is the same for all groups, for signals of range 1
GROUP_SHARE = 0.15  # the other part of v, relative to the mean variance of a group's entries
FILL_BAND = 2**22  # bytes of the distances that are found at once on a CPU
BYTES_AT_ONCE = 3 * 2**21  # bytes of the groups that are solved at once on a CPU
REACH = 12  # largest displacement of a similar patch along each axis
GROUP = 48  # patches in a group
Picture = Float[Tensor, "channels height width"]


def references(length: int, side: int, step: int, device: torch.device) -> Int[Tensor, " n"]:
    """Return the starts of reference patches along an axis; the last one touches the end."""
    starts = torch.arange(0, length - side + 1, step, device=device)
    return torch.cat([starts, starts.new_tensor([length - side])]).unique()


def similar(
    guide: Picture, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"], side: int, reach: int = REACH
) -> Int[Tensor, "references group"]:
    """Return the flat indices of the first pixels of the patches most similar to each reference, itself among them.

    The references' first pixels are at all pairs of ``rows`` and ``columns``. A group has ``GROUP`` patches, or one for
    each displacement within ``reach`` if these are fewer; where the picture ends, the reference is repeated.
    """
    height, width = (n - side + 1 for n in guide.shape[1:])
    down, right = min(reach, height - 1), min(reach, width - 1)
    moves = torch.arange(-right, right + 1, device=guide.device)
    moved = pad(guide, (right, right), value=torch.inf).unfold(2, guide.shape[2], 1).movedim(2, 1)
    found = guide.new_empty(2 * down + 1, len(moves), len(rows), len(columns))
    count = at_once(guide.numel() * guide.element_size(), guide.device, cached=0)  # one after another on a CPU
    below, across, order = rows.unsqueeze(1), columns + right, torch.arange(count, device=guide.device)[:, None, None]
    for y in range(down + 1):
        for x in range(0 if y else right, len(moves), count):  # the others are the mirror images of these
            b = moved[:, x : x + count, y:]
            squares = (b - guide[:, None, : guide.shape[1] - y]).square_().sum(0)
            distance = pad(box_sums(squares, side), (right, right, y, y), value=torch.inf)
            found[down + y, x : x + count] = distance[:, below + y, across]
            some = order[: len(distance)]
            first = len(moves) - x - len(distance)
            found[down - y, first : first + len(distance)] = distance[some.flip(0), below, columns + (first + some)]
    nearest = found.flatten(2).flatten(0, 1).T.topk(min(GROUP, found[:, :, 0, 0].numel()), 1, largest=False)
    steps = torch.arange(-down, down + 1, device=guide.device).unsqueeze(1) * guide.shape[2] + moves
    corners = (below * guide.shape[2] + columns).flatten().unsqueeze(1)
    return torch.where(nearest.values.isinf(), corners, corners + steps.flatten()[nearest.indices])


def box_sums(f: Float[Tensor, "*moves height width"], side: int) -> Float[Tensor, "*moves rows columns"]:
    """Return the sums over all squares of a side: over their columns, then over their rows."""
    return _window_sums(_window_sums(f, side, -2), side, -1)


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
        groups = similar(inside, part - rows_in.start, across - columns_in.start, side, SIMILAR_REACH)
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
