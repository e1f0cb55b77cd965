"""Noise of a picture removed in groups of similar patches, one Gaussian each.

The grouping and the filter are those of Lebrun, Buades and Morel, "A nonlocal Bayesian image denoising algorithm"
(2013), in its second step.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from coordnet.linalg.machine import at_once, cholesky
from coordnet.priors.local.similar_patches import REACH, Picture, box_sums, references, similar

STEP = 4  # distance of the patches whose groups are filtered: 3 takes 1.8 times as long for 0.001 dB
BAND = 5 * 2**22  # bytes of the distances of a band of rows that is filtered at once on a CPU
Roots = tuple[Float[Tensor, "size size"], Float[Tensor, "size size"]]  # root of a covariance, and the root's inverse


def filter_groups(
    noisy: Picture, guide: Picture, variance: Float[Tensor, "height width"], side: int, roots: Roots | None = None
) -> Picture:
    """Return the mean of overlapping patches that are filtered in groups of similar ones.

    Parameters
    ----------
    noisy, guide : (channels, height, width)
        The picture with white noise, and an estimate of it without.
    variance : (height, width)
        The variance of the noise; the filter of a group takes its mean.
    side : int
        The height and width of a patch; no longer than those of the picture.
    roots : pair of (size, size), optional
        The root of the covariance of the noise in a patch of all channels, relative to the variance, and its inverse:
        noise that is not white is whitened, filtered, and colored again.
    """
    height, width = guide.shape[1:]
    total, weight = torch.zeros_like(guide), torch.zeros_like(guide[:1])
    rows, columns = (references(n, side, STEP, noisy.device) for n in (height, width))
    each = (2 * REACH + 1) ** 2 * len(columns) * guide.element_size()
    for part in rows.split(at_once(each, guide.device, BAND)):
        top, bottom = max(0, int(part[0]) - REACH), min(height, int(part[-1]) + side + REACH)
        inside = slice(top, bottom)
        groups = similar(guide[:, inside], part - top, columns, side)
        noise = pad(box_sums(variance[inside], side) / side**2, (0, side - 1, 0, side - 1))
        noise = noise.flatten()[groups].mean(1)
        sums, weights = _filtered(noisy[:, inside], guide[:, inside], groups, noise, side, roots)
        total[:, inside] += sums
        weight[:, inside] += weights
    return torch.where(weight > 0, total / weight.clamp(min=1e-12), guide)


def _filtered(
    noisy: Picture,
    guide: Picture,
    groups: Int[Tensor, "references group"],
    noise: Float[Tensor, " references"],
    side: int,
    roots: Roots | None,
) -> tuple[Picture, Float[Tensor, "1 height width"]]:
    """Return the sums of weighted filtered patches, and of their weights."""
    y, x = _unfold(noisy, side), _unfold(guide, side)
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
    return _fold(sums, guide.shape, side), _fold(
        weights.unsqueeze(1).expand(-1, side * side), (1, *guide.shape[1:]), side
    )


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


def _unfold(f: Picture, side: int) -> Float[Tensor, "pixels size"]:
    """Return the patch whose first pixel each pixel is, row after row; patches that would leave the picture are 0."""
    channels, height, width = f.shape
    result = f.new_zeros(height, width, channels, side * side)
    for i in range(side * side):
        y, x = divmod(i, side)
        result[: height - y, : width - x, :, i] = f[:, y:, x:].movedim(0, -1)
    return result.reshape(height * width, -1)


def _fold(patches: Float[Tensor, "pixels size"], shape: torch.Size | tuple[int, ...], side: int) -> Picture:
    """Return the sum of patches at their places: the adjoint of ``_unfold``."""
    channels, height, width = shape
    patches = patches.reshape(height, width, channels, side * side)
    result = patches.new_zeros(channels, height, width)
    for i in range(side * side):
        y, x = divmod(i, side)
        result[:, y:, x:] += patches[: height - y, : width - x, :, i].movedim(-1, 0)
    return result
