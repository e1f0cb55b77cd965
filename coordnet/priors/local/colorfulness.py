"""How fine the colors of a mosaic are: the energy of color differences that best predicts samples left out."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.priors.local.color_classes import COLORFULNESS, ENERGIES, joint_shapes
from coordnet.priors.local.patches import Observed, Patches, distinct_masks
from coordnet.priors.local.scale_mixture import ScaleMixture, View

Colorfulness = tuple[tuple[float, float], ...]

FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)  # factors on the energy of color differences at high frequency, as they are tried
# The relative fall of the squared error of samples left out, 0.2 dB, for which a factor is doubled. It is less on
# Kodak's photographs, where more energy loses, and more on pictures of saturated fine colors.
WORTH = 0.045
INNER = 4  # side of the middle of a patch in pixels, whose samples are left out one by one
MOST_PATCHES = 2**13  # patches of a mosaic whose samples are predicted; more hardly change their mean error


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
    mixture = ScaleMixture.begin(shapes, ENERGIES, noise)
    means = patches.of(observed.pilot).mean(2, keepdim=True)
    y = (patches.of(observed.values) - means).flatten(1)
    masks, which = distinct_masks(patches.of(observed.known).flatten(1))
    inner = _inner(patches.shape).to(y.device).repeat(means.shape[1])
    total, count = 0.0, 0
    for i, mask in enumerate(masks):
        view = mixture.view(torch.eye(len(mask)).to(y)[mask])
        errors = left_out(mixture, y[which == i][:, mask], view)[:, inner[mask]]
        total, count = total + float(errors.double().square().sum()), count + errors.numel()
    return total / max(count, 1)


def left_out(mixture: ScaleMixture, y: Float[Tensor, "patches n"], view: View) -> Float[Tensor, "patches n"]:
    """Return the errors of the posterior mean of each entry given all others, in the likeliest class of its patch.

    For a covariance C of the entries they are C⁻¹y / diag C⁻¹ (Rasmussen and Williams, "Gaussian processes for machine
    learning", 2006, equation 5.12).
    """
    labels = (mixture.evidence(y, view) + mixture.weights.log()).flatten(1).argmax(1)
    errors, y64, every = torch.empty_like(y), y.double(), view.vectors.double()
    precisions = 1 / (mixture.energies[:, None] * view.energies.unsqueeze(1) + mixture.noise).double()
    order, parts = mixture.by_shape(labels)
    for j, part, which in parts:
        rows = order[part]
        vectors = every[j]
        weighted = ((y64[rows] @ vectors) * precisions[j][which]) @ vectors.T
        errors[rows] = (weighted / (precisions[j] @ vectors.square().T)[which]).to(y)
    return errors


def _inner(shape: tuple[int, ...]) -> Bool[Tensor, " size"]:
    """Return which entries of a patch are in its middle."""
    inside = torch.zeros(shape, dtype=torch.bool)
    inside[tuple(slice((n - min(n, INNER)) // 2, (n + min(n, INNER)) // 2) for n in shape)] = True
    return inside.flatten()
