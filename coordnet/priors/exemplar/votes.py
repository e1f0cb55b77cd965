"""The pixels of a hole from patches that resemble those around each pixel: their weighted mean, or the surest one."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from coordnet.plans.hold_out import depths
from coordnet.priors.exemplar.nearest import Distances, Matches
from coordnet.priors.exemplar.resolutions import Features, Known, Resolution

FALL = 1.3  # factor by which a vote's weight falls per pixel into a hole, as Wexler et al. (2007) have it
DEEPEST = 64  # pixels from the border of a hole from which on the weight falls no further, so that it is above 0
SPREAD = 0.75  # quantile of the distances that is the variance of the votes, as Newson et al. (2014) have it
LEAST_ALIKE = 1e-20  # smallest factor of a weight for the distance, so that a pixel without a near patch has a mean
LEAST_VOTE = 1e-30  # smallest sum of weights, which is below that of one vote


def averaged(level: Resolution, matches: Matches, patch: int) -> Features:
    """Return the picture with the weighted mean of what the patches found have at each unknown pixel."""
    flat, weights = level.features.flatten(0, 1), _weights(level.known, matches, patch)
    total, weight = torch.zeros_like(flat), torch.zeros_like(flat[:, 0])
    for onto, source in _pixels(level.known, matches, patch):
        total.index_add_(0, onto, flat[source] * weights[:, None])
        weight.index_add_(0, onto, weights)
    means = (total / weight.clamp(min=LEAST_VOTE)[:, None]).reshape(level.features.shape)
    return torch.where(level.known[..., None], level.features, means)


def copied(level: Resolution, matches: Matches, patch: int) -> Features:
    """Return the picture with each unknown pixel as the found patch of the largest weight has it."""
    flat, weights = level.features.flatten(0, 1), _weights(level.known, matches, patch)
    source, surest = torch.arange(len(flat), device=flat.device), torch.zeros_like(flat[:, 0])
    for onto, found in _pixels(level.known, matches, patch):
        surer = weights > surest[onto]
        surest[onto[surer]], source[onto[surer]] = weights[surer], found[surer]
    return torch.where(level.known[..., None], level.features, flat[source].reshape(level.features.shape))


def _weights(known: Known, matches: Matches, patch: int) -> Distances:
    """Return the weights of patches: large near the known part, and where the patch that was found is alike."""
    distances, middle = matches.distances, matches.targets + patch // 2
    depth = torch.from_numpy(depths(known.unsqueeze(0))[0]).to(distances)
    spread = 2 * distances.kthvalue(max(1, round(SPREAD * len(distances)))).values
    alike = torch.exp(-distances / spread.clamp(min=torch.finfo(distances.dtype).tiny))
    return FALL ** -depth[middle[:, 0], middle[:, 1]].clamp(max=DEEPEST) * alike.clamp(min=LEAST_ALIKE)


def _pixels(known: Known, matches: Matches, patch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each pixel of a patch its flat index in every target, and in the patches that were found."""
    width = known.shape[1]
    for row, column in itertools.product(range(patch), range(patch)):
        onto, source = ((corners[:, 0] + row) * width + corners[:, 1] + column for corners in matches[:2])
        yield onto, source
