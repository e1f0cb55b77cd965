"""Patches under noise whose entries are correlated: whitened for the mixture by the root of the noise's covariance."""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from coordnet.priors.local.patches import Estimate, Observed, Patches, Posterior
from coordnet.priors.local.scale_mixture import Moments, ScaleMixture


@dataclass(frozen=True)
class CorrelatedPatches:
    """The patches of a signal that is known everywhere, with noise of covariance v N in a patch.

    With the root R of N, the entries R⁻¹y have noise of variance v: the mixture sees the patch through the matrix R⁻¹.
    """

    observed: Observed
    patches: Patches
    variance: Float[Tensor, "1 *lattice"]  # v, of which a patch takes the mean
    whitener: Float[Tensor, "columns columns"]  # R⁻¹, for the channels of a patch one after another

    def estimate(self, mixture: ScaleMixture, moments: Moments | None = None) -> Estimate:
        """Return the mean of overlapping patches, each entry weighted by its posterior precision.

        The moments from which the mixture learns are added to those given. A patch is divided by the root of its
        variance relative to the mixture's, which only moves it to another energy.
        """
        view = mixture.view(self.whitener)

        def posteriors() -> Iterator[Posterior]:
            for part in self.patches.split(mixture.at_once):
                means = part.of(self.observed.pilot).mean(2, keepdim=True)
                scale = part.of(self.variance).mean(2, keepdim=True) / mixture.noise
                y = ((part.of(self.observed.values) - means) / scale.sqrt()).flatten(1)
                found, variance, classes = mixture.posterior(y @ self.whitener.mT, view, moments)
                mean = found.reshape(len(y), means.shape[1], -1) * scale.sqrt() + means
                yield Posterior(part, mean, variance.reshape(mean.shape) * scale, classes, scale * mixture.noise)

        return Estimate.of(posteriors(), self.observed.pilot)
