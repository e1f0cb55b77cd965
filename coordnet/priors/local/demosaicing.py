"""Mosaics with the local prior: the three colors of a patch jointly, one of which is known at each pixel."""

from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import conv2d
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import LocalReport
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.local.classes import COLORFULNESS, ENTRY_VARIANCE, joint_shapes
from coordnet.priors.local.masks import Signal
from coordnet.priors.local.mixture import ENERGIES, Mixture, Moments, SharedPatches, View
from coordnet.priors.local.parameters import LocalParameters
from coordnet.priors.local.patches import Estimate, Observed, Patches, distinct_masks
from coordnet.sampling.grids import MaskedLattice, period_of

Colorfulness = tuple[tuple[float, float], ...]

STRIDE, LEARNED_STRIDE = 4, 8  # distance of patches, and of those that adapt the classes
# Patches are also at these shifts, so that every phase of a mosaic of 2×2 pixels comes.
SHIFTS, LEARNED_SHIFTS = ((2, 1), (1, 2), (3, 3)), ((2, 1), (5, 2), (3, 7))
STRENGTH = 0.75  # strength of the starting shapes relative to the prior's: all energies of a shape learn together
# The weight of the estimate from groups of similar patches, and the share of a group's variance that a patch has alone.
# On the middle 256² of scikit-image's astronaut, chelsea, coffee and rocket the best weights are from 1.0 to 2.1. This
# is half of the least: other photographs have finer texture, which groups blur.
GROUPS_WEIGHT, OWN_SHARE = 0.5, 0.02
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)  # factors on the energy of color differences at high frequency, as they are tried
# The relative fall of the squared error of samples left out, 0.2 dB, for which a factor is doubled. It is less on
# Kodak's photographs, where more energy loses, and more on pictures of saturated fine colors.
WORTH = 0.045
INNER = 4  # side of the middle of a patch in pixels, whose samples are left out one by one
MOST_PATCHES = 2**13  # patches of a mosaic whose samples are predicted; more hardly change their mean error


class LocalMosaicPlan(Plan):
    """Fill the colors that a mosaic lacks by the posterior means of patches of all three colors.

    The classes are adapted to the mosaic itself. Patch means come from bilinear interpolation, then from the estimate
    of the round before. No hidden samples decide, because nothing else of the pilot is used. Where samples predict each
    other better with finer colors (``color_factor``), the estimate is made again with them. Groups of patches that are
    similar in the result then correct it with a fixed weight. Samples stay as they are, unless the prior has noise: its
    variance is then that of samples of weight 1, and in inverse proportion to the weights of others. ``is_mosaic`` says
    of which masks.
    """

    def __init__(
        self, encoding: FourierEncoding, geometry: MaskedLattice, prior: LocalParameters, **options: Any
    ) -> None:
        super().__init__(encoding, geometry, **options)
        weights = geometry.weights.movedim(-1, 0).to(self.device)
        self.known = weights > 0
        # The variance of the noise at a pixel, relative to the prior's; that does not matter where nothing is known.
        self.variance = (self.known.sum(0, keepdim=True) / weights.sum(0, keepdim=True)).nan_to_num(1.0)
        self.prior, self.shape = prior, prior.patch_on(geometry.shape)

    def _solve(self, values: Float[Tensor, "1 3 height width"]) -> Fitted:
        signal = Signal.of(values[0], self.known)
        noise = self.prior.noise_in(signal.range) ** 2
        variance = (noise * self.variance.to(values)).clamp(min=ENTRY_VARIANCE)
        level = float(variance.mean())
        estimate, mixture = self._estimate(signal, variance)
        factor = color_factor(Observed(signal.values, signal.known, estimate.f), self._learned(signal), level)
        if factor > 1:
            estimate, mixture = self._estimate(signal, variance, factor)
        f = estimate.f if noise else signal.kept(estimate.f)
        sought = torch.ones_like(signal.known) if noise else ~signal.known
        f = f + GROUPS_WEIGHT * (signal.from_similar(f, sought, variance, OWN_SHARE) - f)
        f = f if noise else signal.kept(f)
        method = "posterior means of patches, local prior, colors jointly, then groups of similar patches"
        learned: dict[str, Any] = {"classes": mixture.weights.numel(), "colors": factor if factor > 1 else None}
        report = LocalReport(method=method, patch=list(self.shape), **learned)
        coefficients = make_periodic(signal.range * f.unsqueeze(0), self.encoding.shape)
        return Fitted(coefficients, report, estimate.mapped(signal.range))

    def _learned(self, signal: Signal) -> Patches:
        """Return the patches that adapt the classes."""
        lattice = tuple(signal.values.shape[1:])
        return Patches.shifted(LEARNED_STRIDE, LEARNED_SHIFTS, lattice, self.shape, signal.values.device)

    def _estimate(self, signal: Signal, variance: Tensor, factor: float = 1.0) -> tuple[Estimate, Mixture]:
        """Adapt classes with a ``color_factor``; return the estimate of patches that lie closer, and the classes."""
        start = joint_shapes(self.shape, colors_of(factor), signal.values.device).to(signal.values)
        mixture, learned = Mixture.begin(start, ENERGIES, float(variance.mean())), self._learned(signal)
        lattice, device = tuple(signal.values.shape[1:]), signal.values.device
        pilot = bilinear(signal.values, signal.known)
        with tqdm(total=self.prior.rounds + 1, desc="patches", disable=not self.progress) as bar:
            for _ in range(self.prior.rounds):
                moments = Moments.zero(mixture)
                observed = Observed(signal.values, signal.known, pilot)
                pilot = SharedPatches(observed, learned, variance).estimate(mixture, moments).f
                pilot = torch.where(signal.known, signal.values, pilot)
                mixture = mixture.updated(moments, start, STRENGTH * self.prior.strength)
                bar.update()
            patches = Patches.shifted(STRIDE, SHIFTS, lattice, self.shape, device)
            estimate = SharedPatches(Observed(signal.values, signal.known, pilot), patches, variance).estimate(mixture)
            bar.update()
        return estimate, mixture


def bilinear(
    values: Float[Tensor, "channels height width"], known: Bool[Tensor, "channels height width"]
) -> Float[Tensor, "channels height width"]:
    """Return means of known values, weighted by triangles as wide as the mask's period along each axis."""
    sides = [(period_of(known, axis) or 1) for axis in (1, 2)]
    triangles = [s - torch.arange(1 - s, s, dtype=values.dtype, device=values.device).abs() for s in sides]
    kernel = triangles[0].outer(triangles[1])[None, None]
    padding = (sides[0] - 1, sides[1] - 1)
    sums, weights = (conv2d(f.to(values).unsqueeze(1), kernel, padding=padding)[:, 0] for f in (values * known, known))
    return sums / weights.clamp(min=torch.finfo(values.dtype).tiny)


def colors_of(factor: float) -> Colorfulness:
    """Return ``COLORFULNESS`` with more energy at high frequency, at most luma's; at low frequency it is no less."""
    high = [min(1.0, factor * energy) for _, energy in COLORFULNESS]
    return tuple((max(low, h), h) for (low, _), h in zip(COLORFULNESS, high, strict=True))


def color_factor(observed: Observed, patches: Patches, noise: float) -> float:
    """Return the factor on fine color differences by which the samples of a mosaic predict each other best.

    Factors are tried in turn, as long as each lowers the mean squared error of samples left out by ``WORTH`` of it
    (Allen, "The relationship between variable selection and data augmentation and a method for prediction", 1974).
    Means of patches are those of the pilot, a first estimate. The patches have the lengths of ``patches``, and
    ``noise`` is the variance of that on the samples.
    """
    some = patches.thinned(MOST_PATCHES)
    before = _error(observed, some, FACTORS[0], noise)
    for factor, more in pairwise(FACTORS):
        error = _error(observed, some, more, noise)
        if not error < (1 - WORTH) * before:
            return factor
        before = error
    return FACTORS[-1]


def _error(observed: Observed, patches: Patches, factor: float, noise: float) -> float:
    """Return the mean squared error of the samples in the middle of patches, each predicted from all others."""
    shapes = joint_shapes(patches.shape, colors_of(factor), observed.values.device).to(observed.values)
    mixture = Mixture.begin(shapes, ENERGIES, noise)
    means = patches.of(observed.pilot).mean(2, keepdim=True)
    y = (patches.of(observed.values) - means).flatten(1)
    masks, which = distinct_masks(patches.of(observed.known).flatten(1))
    inner = in_middle(patches.shape).to(y.device).repeat(means.shape[1])
    total, count = 0.0, 0
    for i, mask in enumerate(masks):
        view = mixture.view(torch.eye(len(mask)).to(y)[mask])
        errors = left_out(mixture, y[which == i][:, mask], view)[:, inner[mask]]
        total, count = total + float(errors.double().square().sum()), count + errors.numel()
    return total / max(count, 1)


def left_out(mixture: Mixture, y: Float[Tensor, "patches n"], view: View) -> Float[Tensor, "patches n"]:
    """Return the errors of the posterior mean of each entry given all others, in the likeliest class of its patch.

    For a covariance C of the entries they are C⁻¹y / diag C⁻¹ (Rasmussen and Williams, "Gaussian processes for machine
    learning", 2006, equation 5.12).
    """
    labels = (mixture.evidence(y, view) + mixture.weights.log()).flatten(1).argmax(1)
    errors, y64, every = torch.empty_like(y), y.double(), view.vectors.double()
    precisions = 1 / (mixture.energies[:, None] * view.energies.unsqueeze(1) + mixture.noise).double()
    for alike in mixture.by_shape(labels):
        which, vectors = labels[alike.places] % len(mixture.energies), every[alike.shapes]
        own = precisions[alike.shapes]
        weighted = ((y64[alike.places] @ vectors) * alike.which(own, which)) @ vectors.mT
        errors[alike.places] = (weighted / alike.which(own @ vectors.square().mT, which)).to(y)
    return errors


def in_middle(shape: tuple[int, ...]) -> Bool[Tensor, " size"]:
    """Return which entries of a patch are in its middle."""
    inside = torch.zeros(shape, dtype=torch.bool)
    inside[tuple(slice((n - min(n, INNER)) // 2, (n + min(n, INNER)) // 2) for n in shape)] = True
    return inside.flatten()
