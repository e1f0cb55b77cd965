"""Banding of pictures, as of scanners and sensors: offsets of whole rows, or of whole columns.

The steps from row to row are those on which most pixels agree. Parts of a picture that lie side by side agree on the
steps of banding, and hardly on those of what is shown. The offsets are independent in rows that lie apart.
"""

import math

import torch
from jaxtyping import Bool, Float
from scipy.linalg import matmul_toeplitz, solve_toeplitz
from torch import Tensor
from torch.nn.functional import avg_pool2d

from coordnet.networks.noise_reports import BandingReport
from coordnet.noise.drawn import rounding_step
from coordnet.plans.hold_out import middle

SHOWING = 2**18  # pixels of the picture's middle that decide whether there is banding
FEWEST = 32  # least number of rows, and of columns
PARTS = 4  # parts side by side whose steps are compared
AROUND = 5  # side in pixels of the square whose differences within rows are the texture around a pixel
AT_END = 1e-3  # share of the values at an end of the range that shows clipping
REWEIGHTINGS = 4  # rounds of reweighted means
LEAST_TEXTURE = 1e-5  # added to the variances of differences, relative to the picture's
HEIGHTS = (1, 2, 3, 4)  # rows that may have an offset in common
RATIOS = (0.0, *(10.0 ** (k / 10) for k in range(-40, 41)))  # variances of offsets relative to that of other steps
AGREEING = 0.5  # least rank correlation of the fine steps in any two parts
GAINED = 0.01  # least logarithm of the likelihood of offsets, per row
# Rows from which on offsets are independent, and the largest autocorrelation there in standard errors: stripes repeat.
APART, REPEATED = 5, 5.5
# Least and largest ratio of the median differences between rows, without the steps, and within rows: a chart of stripes
# has none within rows, and curves of sensors and waves differ more from row to row.
ISOTROPIC = (0.4, 2.0)
# Least and largest standard deviation of the offsets in the range of the picture: they are more than rounding, and less
# than what the rows of a chart differ by.
FAINTEST, LARGEST = 3e-3, 0.15

Picture = Float[Tensor, "height width channels"]
Steps = Float[Tensor, "steps channels"]


def without_banding(picture: Picture) -> tuple[Picture, BandingReport | None]:
    """Return a picture without the banding of its rows and of its columns, and the deviations that were found.

    Pixels at an end of the range that clips many stay as they are, and no others go beyond it. Values remain multiples
    of a step to which they were rounded, or their differences would look as if they had no noise.
    """
    found = {}
    for name in ("rows", "columns"):
        turned = picture if name == "rows" else picture.transpose(0, 1)
        offsets = banding(turned.detach().double().cpu())
        if offsets is not None:
            found[name] = float(offsets.square().mean().sqrt())
            ends, step = _at_ends(turned), rounding_step(turned)
            without = ((turned / step).round() - (offsets.unsqueeze(1).to(turned) / step).round()) * step
            without = without.clamp(*turned.aminmax()) if bool(ends.any()) else without
            turned = torch.where(ends, turned, without)
            picture = turned if name == "rows" else turned.transpose(0, 1)
    return picture, BandingReport(**found) if found else None


def banding(picture: Picture) -> Float[Tensor, "height channels"] | None:
    """Return the offsets of the rows of a picture, None if it does not show any."""
    part = picture[middle(tuple(picture.shape[:2]), SHOWING)]
    if min(part.shape[:2]) < FEWEST or _agreement(parts := steps_of_parts(part)) < AGREEING:
        return None
    steps = row_steps(part)
    offsets, gain = offsets_of(steps, parts)
    share = float(offsets.std()) / max(float(part.max() - part.min()), 1e-300)
    if not FAINTEST < share < LARGEST or gain < GAINED or _repetition(steps) > REPEATED:
        return None
    across, along = ((f.abs().median()) for f in (part.diff(dim=0) - steps.unsqueeze(1), part.diff(dim=1)))
    if not ISOTROPIC[0] * float(along) < float(across) < ISOTROPIC[1] * float(along):
        return None
    if len(part) < len(picture):
        return offsets_of(row_steps(picture), steps_of_parts(picture))[0]
    return offsets


def row_steps(picture: Picture) -> Steps:
    """Return the steps from each row to the next on which most pixels agree.

    They start from the medians of the differences, and are means with weights that are the inverse of the squared
    deviation plus the mean squared difference within rows around a pixel. Pixels at clipped ends do not count.
    """
    differences, ends = picture.diff(dim=0), _at_ends(picture)
    counted = ~(ends[1:] | ends[:-1])
    texture = _texture(picture) + LEAST_TEXTURE * float(picture.var()) + torch.finfo(torch.float64).tiny
    steps = torch.where(counted, differences, torch.nan).nanmedian(dim=1, keepdim=True).values.nan_to_num()
    for _ in range(REWEIGHTINGS):
        weight = counted / (texture + (differences - steps).square())
        steps = (weight * differences).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1e-300)
    return steps[:, 0]


def _texture(picture: Picture) -> Float[Tensor, "steps width channels"]:
    """Return the mean squared difference within rows around each pixel, in the mean of two rows."""
    squares = picture.diff(dim=1).square().movedim(-1, 0)
    squares = torch.cat([squares, squares[..., -1:]], -1)
    around = avg_pool2d(squares, AROUND, 1, AROUND // 2, count_include_pad=False).movedim(0, -1)
    return (around[1:] + around[:-1]) / 2


def _at_ends(picture: Picture) -> Bool[Tensor, "height width channels"]:
    """Return which pixels are at an end of the range that has many."""
    ends = torch.stack([picture == end for end in picture.aminmax()])
    return (ends & (ends.double().mean((1, 2, 3), keepdim=True) > AT_END)).any(0)


def _fine(steps: Steps) -> Float[Tensor, "inner channels"]:
    """Return what distinguishes each step from those beside it; slopes have none of it."""
    return steps[1:-1] - (steps[:-2] + steps[2:]) / 2


def steps_of_parts(picture: Picture) -> Float[Tensor, "parts steps channels"]:
    """Return the steps in parts of a picture side by side."""
    return torch.stack([row_steps(part) for part in picture.chunk(PARTS, 1)])


def _agreement(parts: Float[Tensor, "parts steps channels"]) -> float:
    """Return the least rank correlation of the fine steps in any two parts, in the mean over channels."""
    ranks = torch.stack([_fine(steps) for steps in parts]).argsort(1).argsort(1).double()
    ranks = ranks - ranks.mean(1, keepdim=True)
    return float((torch.einsum("prc,qrc->pq", ranks, ranks) / ranks[0].square().sum()).min())


def offsets_of(
    steps: Steps, parts: Float[Tensor, "parts steps channels"]
) -> tuple[Float[Tensor, "rows channels"], float]:
    """Return the posterior mean of the offsets for the steps, and the largest gain of likelihood per row.

    Channels are rotated so that their fine steps are uncorrelated: an offset may be that of all colors. In each, the
    number of rows with an offset in common, the variance of the offsets and that of other steps are most likely by
    Whittle's approximation. The latter is at least that of the mean over parts, by which these differ.
    """
    fine = _fine(steps)
    rotation = torch.linalg.eigh(fine.mT @ fine).eigenvectors
    least = (parts @ rotation).var(0).mean(0) / len(parts)
    found = zip((steps @ rotation).unbind(1), least.tolist(), strict=True)
    made, gains = zip(*(_offsets_of_one(one, variance) for one, variance in found), strict=True)
    return torch.stack(made, 1) @ rotation.mT, max(gains)


def _offsets_of_one(steps: Float[Tensor, " steps"], least: float) -> tuple[Float[Tensor, " rows"], float]:
    """Return the offsets for the steps of one channel, and the gain of likelihood per row."""
    n = len(steps)
    angles = 2 * math.pi * torch.arange(1, n // 2 + 1).double() / n
    power = torch.fft.rfft(steps)[1 : n // 2 + 1].abs().square() / n
    ratios, tried = torch.tensor(RATIOS, dtype=torch.float64).unsqueeze(1), []
    for height in HEIGHTS:
        # The autocorrelation of offsets is a triangle, so that their steps have Fejér's kernel times 2 - 2 cos.
        relative = 1 + ratios * 2 * (1 - torch.cos(height * angles)) / height
        seen = (power / relative).mean(1)
        variance = seen.clamp(min=max(least, torch.finfo(torch.float64).tiny))
        misfit = relative.log().mean(1) + variance.log() + seen / variance
        tried += [(float(x), height, ratio) for x, ratio in zip(misfit, RATIOS, strict=True)]
    most, height, ratio = min(tried)
    return _posterior_mean(steps, height, ratio), (tried[0][0] - most) / 2


def _posterior_mean(steps: Float[Tensor, " steps"], height: int, ratio: float) -> Float[Tensor, " rows"]:
    """Return the mean of offsets for their steps plus white noise of variance 1, less its own mean over the rows.

    The offsets have the variance ``ratio``, and an autocorrelation that falls linearly to 0 over ``height`` rows.
    """
    n = len(steps)
    own = ratio * (1 - torch.arange(n + 1).double() / height).clamp(min=0)
    of_steps = 2 * own[:n] - own[1:] - torch.cat([own[1:2], own[: n - 1]])
    of_steps[0] += 1
    solved, zero = torch.from_numpy(solve_toeplitz(of_steps.numpy(), steps.numpy())), torch.zeros(1).double()
    back = torch.cat([zero, solved]) - torch.cat([solved, zero])
    offsets = torch.from_numpy(matmul_toeplitz(own.numpy(), back.numpy()))
    return offsets - offsets.mean()


def _repetition(steps: Steps) -> float:
    """Return the largest autocorrelation of the fine steps of rows that lie apart, in standard errors."""
    fine = _fine(steps)
    n = len(fine)
    energy = torch.fft.rfft(fine, 2 * n, dim=0).abs().square()
    correlation = torch.fft.irfft(energy, dim=0).sum(1)
    return float((correlation[APART : n // 2] / correlation[0]).abs().max()) * math.sqrt(n)
