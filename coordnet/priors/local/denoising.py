"""Noisy lattices with the local prior: posterior means of patches, then groups of similar patches, one Gaussian each.

The grouping and the filter are those of Lebrun, Buades and Morel, "A nonlocal Bayesian image denoising algorithm"
(2013), in its second step; of clips, as in Arias and Morel, "Video denoising via empirical Bayesian estimation of
space-time patches" (2018).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.machine import at_once, cholesky
from coordnet.networks.fit_reports import LocalReport
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.local.classes import Channels, gray_shapes, joint_shapes
from coordnet.priors.local.mixture import ENERGIES, Mixture, Moments, SharedPatches
from coordnet.priors.local.parameters import NOISE_BOUNDS, LocalParameters
from coordnet.priors.local.patches import Estimate, Observed, Patches
from coordnet.priors.local.similar_patches import box_sums, references, similar
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import Geometry

# Those of clips and volumes were chosen on crops of ten cubes of video, MRI, climate and synthetic fields: lengths of 2
# to 5, displacements of up to 2 to 8 and distances of 2 to 4 differ by 0.1 dB.
SIDES = ByAxes({2: ((5, 5), (6, 6)), 3: ((3, 4, 4), (3, 4, 4))})  # lengths of patches, in one filter after the other
MOST_DISPLACED = ByAxes({2: (12, 12), 3: (2, 6, 6)})  # largest displacement of a similar patch along each axis
STEP = ByAxes(
    {2: (4, 4), 3: (2, 3, 3)}
)  # distance of the patches whose groups are filtered: 3 in pictures is no better
BAND = ByAxes({2: 5 * 2**22, 3: 2**25})  # bytes of the distances of a band of rows that is filtered at once on a CPU
COLORFULNESS = ((0.1, 0.005),)  # noise hides what further kinds of colorfulness would tell
STRIDE = 4  # distance of patches
STRENGTH = 2.5  # strength of the starting shapes relative to the prior's
DEVIATIONS = 4.0  # range of a signal in its standard deviations

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


def white(means: Signal) -> Signal:
    """Return the variance 1 wherever the means of the values are."""
    return torch.ones_like(means)


@dataclass(frozen=True)
class Cleaned:
    """A signal without its noise, and how it was found."""

    f: Signal
    spread: Signal  # the posterior variance of the patches, before groups were filtered
    learned: dict[str, Tensor]
    method: str


@dataclass(frozen=True)
class LocalDenoiser:
    """The local prior's estimate of a signal with white noise on all of its samples.

    The three channels of a picture are colors, whose patches are treated jointly; other channels are uncorrelated
    first. In pictures, clips and volumes, groups of similar patches are then found on the result, and filtered, twice.
    """

    prior: LocalParameters
    # The variance of the noise, relative to the prior's, for the means of values (channels, *lattice). Each patch and
    # each group takes its mean.
    variance: Callable[[Signal], Signal] = field(default=white)
    progress: bool = False  # whether a bar shows the stages
    model: NoiseModel = NoiseModel()  # the noise's spectrum; it is white if not given, or without one

    def __call__(self, noisy: Signal) -> Cleaned:
        """Return the estimate of a signal (channels, *lattice)."""
        lattice = tuple(noisy.shape[1:])
        mean = noisy.flatten(1).mean(1).reshape(-1, *(1,) * len(lattice))
        # The squares of more noise than that overflow.
        level = min(self.prior.noise, NOISE_BOUNDS[1] * (float(noisy.abs().max()) or 1.0))
        energy = float((noisy - mean).double().square().mean()) - level**2
        span = max(DEVIATIONS * math.sqrt(max(energy, 0.0)), level)
        y, noise = (noisy - mean) / span, self.prior.noise_in(span)

        def variance(f: Signal) -> Float[Tensor, "1 *lattice"]:
            return noise**2 * self.variance(span * f + mean).mean(0, keepdim=True)

        joint = len(y) == 3 and len(lattice) == 2
        patches = SIDES.get(len(lattice), ())
        grouped = patches if all(p <= n for patch in patches for p, n in zip(patch, lattice, strict=True)) else ()
        total = (1 if joint else len(y)) * (1 + self.prior.useful_rounds) + len(grouped)
        with tqdm(total=total, desc="patches", disable=not self.progress, leave=None, dynamic_ncols=True) as bar:
            f, spread, estimates = self._posterior(y, variance(smoothed(y)), noise, joint, bar)
            for patch in grouped:
                f = filter_groups(y, f, variance(f)[0], patch, self._roots(patch, y))
                bar.update()
        method = "posterior means of patches, local prior" + bool(grouped) * ", then groups of similar patches"
        learned = estimates[0].learned(span)
        return Cleaned(span * f + mean, span**2 * spread, learned, method)

    def _posterior(
        self, noisy: Signal, variance: Tensor, noise: float, joint: bool, bar: tqdm
    ) -> tuple[Signal, Signal, list[Estimate]]:
        """Return posterior means, their variances, and the estimates: one of all colors, or one of each channel."""
        shape = self.prior.patch_on(tuple(noisy.shape[1:]))
        if joint:
            root = self._roots(shape, noisy)
            estimate = self._estimate(
                noisy, variance, noise, joint_shapes(shape, COLORFULNESS, noisy.device), root, bar
            )
            return estimate.f, estimate.spread, [estimate]
        channels = Channels.of(noisy, torch.ones_like(noisy[:1], dtype=torch.bool))
        parts = torch.tensordot(channels.basis.T, noisy, 1).split(1)
        estimates = [
            self._estimate(
                part, variance, noise, gray_shapes(shape, part.device), self._roots(shape, part, vector), bar
            )
            for part, vector in zip(parts, channels.basis.mT, strict=True)
        ]
        f, spread = (torch.cat(parts) for parts in zip(*((e.f, e.spread) for e in estimates), strict=True))
        return (torch.tensordot(channels.basis, f, 1), torch.tensordot(channels.basis.square(), spread, 1), estimates)

    def _roots(self, patch: tuple[int, ...], like: Tensor, vector: Tensor | None = None) -> Roots | None:
        """Return the root of the noise's covariance in a patch of all channels, and its inverse; None if white.

        With a ``vector`` they are those of the channels' sum with these weights.
        """
        if self.model.spectrum is None:
            return None
        root, whitener = self.model.roots(patch, vector)
        return root.to(like), whitener.to(like)

    def _estimate(
        self,
        noisy: Float[Tensor, "columns *lattice"],
        variance: Tensor,
        noise: float,
        start: Tensor,
        roots: Roots | None,
        bar: tqdm,
    ) -> Estimate:
        """Adapt classes to a signal of which all channels are treated jointly, then return its estimate."""
        start, lattice, device = start.to(noisy), tuple(noisy.shape[1:]), noisy.device
        shape = self.prior.patch_on(lattice)
        mixture, pilot = Mixture.begin(start, ENERGIES, noise**2), noisy
        known = torch.ones_like(noisy[:1], dtype=torch.bool)
        patches, whitener = Patches.every(STRIDE, lattice, shape, device), None if roots is None else roots[1]

        def seen(pilot: Signal) -> SharedPatches:
            return SharedPatches(Observed(noisy, known, pilot), patches, variance, whitener)

        for _ in range(self.prior.useful_rounds):
            moments = Moments.zero(mixture)
            pilot = seen(pilot).estimate(mixture, moments).f
            mixture = mixture.updated(moments, start, STRENGTH * self.prior.strength)
            bar.update()
        estimate = seen(pilot).estimate(mixture)
        bar.update()
        return estimate


class LocalNoisePlan(Plan):
    """Remove white noise from a full lattice by the posterior means of patches under classes that it adapts itself.

    ``LocalDenoiser`` has the method. The parameters are those of ``plan``; the prior has the standard deviation of the
    noise.
    """

    def __init__(self, encoding: FourierEncoding, geometry: Geometry, prior: LocalParameters, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.shape = prior.patch_on(geometry.shape)
        self.denoiser = LocalDenoiser(prior, progress=self.progress)

    def _solve(self, values: Float[Tensor, "1 channels *lattice"]) -> Fitted:
        cleaned = self.denoiser(values[0])
        report = LocalReport(method=cleaned.method, patch=list(self.shape), noise=self.denoiser.prior.noise)
        return Fitted(make_periodic(cleaned.f.unsqueeze(0), self.encoding.shape), report, cleaned.learned)


def smoothed(f: Signal) -> Signal:
    """Return means over four neighbors along each axis that is as long, of reflected signals at the ends."""
    for axis, length in enumerate(f.shape[1:], start=1):
        if length >= 4:
            longer = torch.cat([f.narrow(axis, 0, 2).flip(axis), f, f.narrow(axis, length - 2, 2).flip(axis)], axis)
            f = longer.unfold(axis, 4, 1).mean(-1).narrow(axis, 0, length)
    return f
