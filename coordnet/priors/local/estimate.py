"""The local prior's estimate of a signal: the mean of overlapping patches, by what a mixture says of each."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.priors.local.patches import Overlap, Patches


@dataclass(frozen=True)
class Observed:
    """Known entries of a signal and a pilot, a first estimate of all of them."""

    values: Float[Tensor, "channels *lattice"]
    known: Bool[Tensor, "#channels *lattice"]
    pilot: Float[Tensor, "channels *lattice"]


@dataclass(frozen=True)
class Posterior:
    """The means and variances of some patches' entries, and the likeliest class of each patch."""

    patches: Patches
    mean: Float[Tensor, "patches channels size"]
    variance: Float[Tensor, "patches channels size"]
    classes: Int[Tensor, " patches"]
    noise: float | Float[Tensor, "#patches 1 1"]  # variance of the noise on an entry


@dataclass(frozen=True)
class Estimate:
    """A signal as its patches see it, in the channels of the mixture."""

    f: Float[Tensor, "channels *lattice"]
    classes: Int[Tensor, " patches"]  # the likeliest of each patch
    variances: Float[Tensor, " patches"]  # the mean posterior variance of a patch's entries
    spread: Float[Tensor, "channels *lattice"]  # the mean posterior variance of an entry in its patches, 0 without any

    @classmethod
    def of(cls, posteriors: Iterable[Posterior], pilot: Float[Tensor, "channels *lattice"]) -> "Estimate":
        """Return the mean of overlapping patches by their precision, and the pilot's entries where no patch is."""
        overlap, classes, variances = Overlap(pilot), [], []
        for part in posteriors:
            overlap.add(part.patches, part.mean, part.variance, part.noise)
            classes.append(part.classes)
            variances.append(part.variance.mean((1, 2)))
        return cls(overlap.mean(pilot), torch.cat(classes), torch.cat(variances), overlap.spread)

    def learned(self, span: float) -> dict[str, Tensor]:
        """Return the class and the posterior standard deviation of every patch, for a signal with a range."""
        deviations = span * self.variances.sqrt()
        return {"patch_class": self.classes.unsqueeze(0), "patch_deviation": deviations.unsqueeze(0)}

    def mapped(self, span: float) -> dict[str, Tensor]:
        """Return what ``learned`` does, with the posterior standard deviation of every entry, for all channels."""
        return self.learned(span) | {"deviation": span * self.spread.mean(0, keepdim=True).sqrt()}
