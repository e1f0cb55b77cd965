"""Noise removed in groups of similar patches of a picture, a clip or a volume, one Gaussian each.

The grouping and the filter are those of Lebrun, Buades and Morel, "A nonlocal Bayesian image denoising algorithm"
(2013), in its second step; of clips, as in Arias and Morel, "Video denoising via empirical Bayesian estimation of
space-time patches" (2018).
"""

import itertools
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet.linalg.machine import at_once, cholesky
from coordnet.priors.local.similar_patches import box_sums, references, similar
from coordnet.sampling.axes import ByAxes

# Those of clips and volumes were chosen on crops of ten cubes of video, MRI, climate and synthetic fields: lengths of 2
# to 5, displacements of up to 2 to 8 and distances of 2 to 4 differ by 0.1 dB.
SIDES = ByAxes({2: ((5, 5), (6, 6)), 3: ((3, 4, 4), (3, 4, 4))})  # lengths of patches, in one filter after the other
MOST_DISPLACED = ByAxes({2: (12, 12), 3: (2, 6, 6)})  # largest displacement of a similar patch along each axis
STEP = ByAxes(
    {2: (4, 4), 3: (2, 3, 3)}
)  # distance of the patches whose groups are filtered: 3 in pictures is no better
BAND = ByAxes({2: 5 * 2**22, 3: 2**25})  # bytes of the distances of a band of rows that is filtered at once on a CPU
Signal = Float[Tensor, "channels *lattice"]
Roots = tuple[Float[Tensor, "size size"], Float[Tensor, "size size"]]  # root of a covariance, and the root's inverse


def filter_groups(
    noisy: Signal,
    guide: Signal,
    variance: Float[Tensor, "*lattice"],
    patch: tuple[int, ...],
    roots: Roots | None = None,
) -> Signal:
    """Return the mean of overlapping patches that are filtered in groups of similar ones.

    - noisy, guide: the picture, clip or volume with white noise, and an estimate of it without
    - variance: the variance of the noise; the filter of a group takes its mean
    - patch: the lengths of a patch, which are no longer than those of the lattice
    - roots: the root of the covariance of the noise in a patch of all channels, relative to the variance, and its
      inverse: noise that is not white is whitened, filtered, and colored again
    """
    lattice, axes = tuple(guide.shape[1:]), guide.ndim - 1
    reach, height = MOST_DISPLACED[axes], lattice[-2]
    total, weight = torch.zeros_like(guide), torch.zeros_like(guide[:1])
    *before, rows, columns = (
        references(n, p, s, noisy.device) for n, p, s in zip(lattice, patch, STEP[axes], strict=True)
    )
    each = math.prod(2 * r + 1 for r in reach) * math.prod(map(len, (*before, columns))) * guide.element_size()
    for part in rows.split(at_once(each, guide.device, BAND[axes])):
        top, bottom = max(0, int(part[0]) - reach[-2]), min(height, int(part[-1]) + patch[-2] + reach[-2])
        inside = (..., slice(top, bottom), slice(None))
        groups = similar(guide[inside], (*before, part - top, columns), patch, reach)
        after = [k for p in reversed(patch) for k in (0, p - 1)]
        noise = pad(box_sums(variance[inside], patch) / math.prod(patch), after).flatten()[groups].mean(1)
        sums, weights = _filtered(noisy[inside], guide[inside], groups, noise, patch, roots)
        total[inside] += sums
        weight[inside] += weights
    return torch.where(weight > 0, total / weight.clamp(min=1e-12), guide)


def _filtered(
    noisy: Signal,
    guide: Signal,
    groups: Int[Tensor, "references group"],
    noise: Float[Tensor, " references"],
    patch: tuple[int, ...],
    roots: Roots | None,
) -> tuple[Signal, Float[Tensor, "1 *lattice"]]:
    """Return the sums of weighted filtered patches, and of their weights."""
    y, x = _unfold(noisy, patch), _unfold(guide, patch)
    if roots is not None:
        y, x = y @ roots[1], x @ roots[1]
    sums, weights = torch.zeros_like(x), x.new_zeros(len(x))
    count, size = groups.shape[1], x.shape[1]
    together = at_once(8 * 4 * count * size, x.device)
    for part, variance in zip(groups.split(together), noise.split(together), strict=True):
        patches, weight = wiener(y[part], x[part], variance)
        sums.index_add_(0, part.flatten(), (patches * weight[:, None, None]).flatten(0, 1))
        weights.index_add_(0, part.flatten(), weight.repeat_interleave(count))
    sums = sums if roots is None else sums @ roots[0]
    weights = weights.unsqueeze(1).expand(-1, math.prod(patch))
    return _fold(sums, guide.shape, patch), _fold(weights, (1, *guide.shape[1:]), patch)


def wiener(
    y: Float[Tensor, "groups count size"], x: Float[Tensor, "groups count size"], noise: Float[Tensor, " groups"]
) -> tuple[Float[Tensor, "groups count size"], Float[Tensor, " groups"]]:
    """Filter noisy patches y by the mean and covariance C of patches x: mean + (y - mean) (C + v)⁻¹ C for variance v.

    The weight of a group is 1 / (1 + trace of the filter), which is largest where the filter removes most. Where the
    rounding of C exceeds v, the filter is that of float64, and v at least its rounding.
    """
    count, size = y.shape[1:]
    mean = x.mean(1, keepdim=True)
    x, y = x - mean, y - mean
    few = count < size  # then the same filter in the space of the patches has smaller matrices
    gram = x @ x.mT if few else x.mT @ x
    rounding = 4 * torch.finfo(x.dtype).eps * gram.diagonal(dim1=1, dim2=2).sum(1)
    if x.dtype != torch.float64 and bool((count * noise < rounding).any()):
        result, weight = wiener(y.double(), x.double(), noise.double())
        return mean + result.to(x), weight.to(x)
    ridge = torch.maximum(count * noise, rounding).clamp(min=torch.finfo(x.dtype).tiny)
    regularized = gram.clone()
    regularized.diagonal(dim1=1, dim2=2).add_(ridge.unsqueeze(1))
    inverse = torch.cholesky_inverse(cholesky(regularized))
    result = (y @ x.mT) @ (inverse @ x) if few else y @ (inverse @ gram)
    trace = len(gram[0]) - ridge * inverse.diagonal(dim1=1, dim2=2).sum(1)
    return mean + result, 1 / (1 + trace.clamp(min=0))


def _unfold(f: Signal, patch: tuple[int, ...]) -> Float[Tensor, "entries size"]:
    """Return the patch whose first entry each entry is, in flat order; patches that would leave the lattice are 0."""
    channels, *lattice = f.shape
    result = f.new_zeros(*lattice, channels, math.prod(patch))
    for i, offset in enumerate(itertools.product(*map(range, patch))):
        corners = tuple(slice(n - o) for n, o in zip(lattice, offset, strict=True))
        result[(*corners, slice(None), i)] = f[(slice(None), *(slice(o, None) for o in offset))].movedim(0, -1)
    return result.flatten(0, -3).flatten(1)


def _fold(patches: Float[Tensor, "entries size"], shape: tuple[int, ...], patch: tuple[int, ...]) -> Signal:
    """Return the sum of patches at their places: the adjoint of ``_unfold``."""
    channels, *lattice = shape
    patches = patches.reshape(*lattice, channels, math.prod(patch))
    result = patches.new_zeros(shape)
    for i, offset in enumerate(itertools.product(*map(range, patch))):
        corners = tuple(slice(n - o) for n, o in zip(lattice, offset, strict=True))
        result[(slice(None), *(slice(o, None) for o in offset))] += patches[(*corners, slice(None), i)].movedim(-1, 0)
    return result
