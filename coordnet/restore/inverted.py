"""Masks that are inverted: what they call unknown is the picture."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.sampling.forward import are_clustered

MAX_INSIDE = 0.5  # largest mean squared difference of neighbors in a picture, relative to that of any two values
MAX_ACROSS = 4.0  # largest mean squared difference across the mask's border in half of the channels, relative to inside


def looks_inverted(values: Float[Tensor, "*grid channels"], known: Bool[Tensor, "*grid channels"]) -> bool:
    """Return whether a mask seems to call the picture unknown, and its damage known.

    Less than half is then known, in areas or strokes and not in single points; the unknown values are a picture: they
    vary, and neighbors are alike. They go on where the mask begins, in half of the channels or more, since the opacity
    of a layer changes there; or the mask has values of one color.
    """
    if 2 * int(known.sum()) >= known.numel() or bool(values.isnan().any()):
        return False
    known_part = known.any(-1)
    if not are_clustered(known_part.unsqueeze(0)):
        return False
    unknown = (values[~known_part] - values[~known_part].mean(0)).double()
    spread = 2 * float(unknown.square().mean())
    inside, across = _differences(values.double(), known_part)
    if not (spread > 0 and float(inside.mean()) < MAX_INSIDE * spread):
        return False
    is_one_color = bool((values[known_part] == values[known_part][0]).all())
    varies = inside > 0
    return is_one_color or float((across[varies] / inside[varies]).median()) <= MAX_ACROSS


def _differences(
    values: Float[Tensor, "*grid channels"], known: Bool[Tensor, "*grid"]
) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
    """Return each channel's mean squared difference of neighbors that are unknown, and of those of which one is."""
    inside, across = [], []
    for axis in range(known.ndim):
        if known.shape[axis] > 1:
            squared = values.diff(dim=axis).square()
            first, second = (known.narrow(axis, k, known.shape[axis] - 1) for k in (0, 1))
            inside.append(squared[~first & ~second])
            across.append(squared[first != second])
    return torch.cat(inside).mean(0), torch.cat(across).mean(0)
