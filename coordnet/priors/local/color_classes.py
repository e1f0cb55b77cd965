"""Classes of patches for mosaics, noise and means over cells: shapes of all colors jointly, and their estimate."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet.priors.local.mixture import LUMA, Spectra
from coordnet.priors.local.patches import Estimate, Observed, Patches, Posterior, distinct_masks
from coordnet.priors.local.scale_mixture import Moments, ScaleMixture, View

ENERGIES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # variances of a patch, for signals of range 1
# The energy of color differences relative to luma's at low and at high frequency: three kinds of colorfulness.
COLORFULNESS = ((0.02, 0.0015), (0.1, 0.005), (0.3, 0.03))
CROSSOVER, STEEPNESS = 0.07, 4  # frequency in cycles per sample between low and high, and the power of the transition
SECOND_DIFFERENCE = 0.6  # energy of the second difference of colors, relative to the first
MEAN_ERRORS = (0.1, 0.02, 0.02)  # variances of the pilot's patch means in luma and the differences, relative to energy


def joint_shapes(
    shape: tuple[int, ...],
    colorfulness: tuple[tuple[float, float], ...] = COLORFULNESS,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "shapes columns columns"]:
    """Return covariances of patches of three colors, color after color, for luma of mean variance 3.

    Each shape of luma comes with every colorfulness.
    """
    spectra = Spectra.of(shape, device)
    luma = spectra.covariances(shape)
    transition = 1 / (1 + (spectra.squared_frequency.sqrt() / CROSSOVER) ** STEEPNESS)
    basis = torch.tensor(LUMA, dtype=torch.float64, device=device).T
    basis = basis / basis.norm(dim=0)
    shapes = []
    for low, high in colorfulness:
        difference = spectra.covariances(shape, high + (low - high) * transition)
        parts = (luma, difference, SECOND_DIFFERENCE * difference)
        total = torch.zeros((), device=device)
        for vector, part, error in zip(basis.T, parts, MEAN_ERRORS, strict=True):
            total = total + 3 * torch.stack([torch.kron(vector.outer(vector), c + error) for c in part])
        shapes.append(total)
    return torch.cat(shapes)


def gray_shapes(shape: tuple[int, ...], device: torch.device | str = "cpu") -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches of one channel, of mean variance 1."""
    return Spectra.of(shape, device).covariances(shape) + MEAN_ERRORS[0]


@dataclass(frozen=True)
class SharedPatches:
    """The patches of a signal whose known entries have few masks, under a mixture of shapes and energies.

    Where the variance of the noise differs by place, a patch is divided by the root of its mean variance relative to
    the mixture's. That only moves the patch to another energy.
    """

    observed: Observed
    patches: Patches
    variance: Float[Tensor, "1 *lattice"] | None = None  # the noise's; the mixture's if not given

    def estimate(self, mixture: ScaleMixture, moments: Moments | None = None) -> Estimate:
        """Return the mean of overlapping patches, each entry weighted by its posterior precision.

        The moments from which the mixture learns are added to those given. Where all entries are known, the posterior
        variance is that of the noise times the derivative of the estimate by its own sample (Robbins, "An empirical
        Bayes approach to statistics", 1956), of which Stein's estimate of the risk has the sum.
        """
        views: dict[bytes, View] = {}

        def posterior(part: Patches) -> Posterior:
            means = part.of(self.observed.pilot).mean(2, keepdim=True)
            scale = self._relative_variance(part, mixture)
            mean, variance, classes = self._posterior(part, means, scale.sqrt(), mixture, views, moments)
            return Posterior(part, mean * scale.sqrt() + means, variance * scale, classes, scale * mixture.noise)

        return Estimate.of(map(posterior, self.patches.split(mixture.at_once)), self.observed.pilot)

    def _relative_variance(self, part: Patches, mixture: ScaleMixture) -> Float[Tensor, "#patches 1 1"]:
        if self.variance is None:
            return self.observed.values.new_ones(1, 1, 1)
        return part.of(self.variance).mean(2, keepdim=True) / mixture.noise

    def _posterior(
        self,
        part: Patches,
        means: Tensor,
        scale: Tensor,
        mixture: ScaleMixture,
        views: dict[bytes, View],
        moments: Moments | None,
    ) -> tuple[Float[Tensor, "patches c size"], Float[Tensor, "patches c size"], Int[Tensor, " patches"]]:
        """Return the mean and the variance of the patches around their means in the pilot, and their classes.

        The patches are divided by their ``scale``.
        """
        y = ((part.of(self.observed.values) - means) / scale).flatten(1)
        mean, variance = torch.empty_like(y), torch.empty_like(y)
        classes = torch.empty(len(y), dtype=torch.long, device=y.device)
        known = part.of(self.observed.known).expand(-1, means.shape[1], -1).flatten(1)
        masks, which = distinct_masks(known)
        for i, mask in enumerate(masks):
            rows, key = (which == i).nonzero()[:, 0], mask.cpu().numpy().tobytes()
            if key not in views:
                views[key] = mixture.view(torch.eye(len(mask)).to(y)[mask])
            mean[rows], variance[rows], classes[rows] = mixture.posterior(y[rows][:, mask], views[key], moments)
        shape = (len(y), means.shape[1], -1)
        return mean.reshape(shape), variance.reshape(shape), classes
