"""Channels in one unit, such as colors, and those in units of their own, such as columns of a table."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.sampling.samples import Samples

MOST_UNLIKE = 10.0  # ratio of the standard deviations of two channels up to which they may have one unit


def by_channel(samples: Samples) -> list[Samples]:
    """Return the samples of each channel if the channels have units of their own, else all samples as they are.

    Columns of points (``cn.points``) have units of their own, and so have other channels whose standard deviations
    differ by more than ``MOST_UNLIKE``, unless all values are in [0, 1], as those of pictures are. Channels that are
    constant, or of which nothing is known, do not tell.
    """
    if samples.channels == 1:
        return [samples]
    each = _known_values(samples)
    if not all(map(len, each)):
        return [samples]
    if samples.geometry.is_laid:
        return [_channel(samples, k) for k in range(samples.channels)]
    found = torch.stack([torch.stack([part.std(correction=0), *part.aminmax()]) for part in each]).tolist()
    deviations = [deviation for deviation, *_ in found if deviation > 0]
    is_picture = all(0 <= low and high <= 1 for _, low, high in found)
    is_alike = not deviations or max(deviations) <= MOST_UNLIKE * min(deviations)
    return [samples] if is_alike or is_picture else [_channel(samples, k) for k in range(samples.channels)]


def _channel(samples: Samples, k: int) -> Samples:
    weights, values = samples.weights, samples.values[..., k : k + 1].contiguous()
    if weights is None or weights.shape[-1] == 1:
        return Samples(samples.geometry, values)
    return Samples(samples.geometry.reweighted(weights[..., k : k + 1]), values)


def _known_values(samples: Samples) -> list[Float[Tensor, " _"]]:
    """Return the values of each channel that are known."""
    values = samples.values.detach()
    if samples.weights is None:
        return list(values.flatten(0, -2).unbind(-1))
    known = (samples.weights > 0).to(values.device).expand_as(values)
    return [values[..., k][known[..., k]] for k in range(samples.channels)]
