"""Channels in one unit, such as colors, and those in units of their own, such as columns of a table."""

from dataclasses import replace

from jaxtyping import Bool
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
    parts = [_channel(samples, k) for k in range(samples.channels)]
    known = [part.values.detach()[_known(part)].double() for part in parts]
    if not all(map(len, known)):
        return [samples]
    if samples.geometry.is_laid:
        return parts
    deviations = [d for values in known if (d := float(values.std(correction=0))) > 0]
    is_picture = all(0 <= float(values.min()) and float(values.max()) <= 1 for values in known)
    is_alike = not deviations or max(deviations) <= MOST_UNLIKE * min(deviations)
    return [samples] if is_alike or is_picture else parts


def _channel(samples: Samples, k: int) -> Samples:
    weights, values = samples.weights, samples.values[..., k : k + 1].contiguous()
    if weights is None or weights.shape[-1] == 1:
        return replace(samples, values=values)
    return Samples(samples.geometry.reweighted(weights[..., k : k + 1]), values)


def _known(part: Samples) -> Bool[Tensor, "*samples 1"]:
    weights = part.geometry.full_weights.to(part.values.device)
    return (weights > 0).expand_as(part.values)
