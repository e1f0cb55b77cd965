"""Borders that are unknown beside a random mask, and the known strips that stand for them where errors are met."""

import numpy as np
from jaxtyping import Bool

NO_CHANCE = 4.0  # width in mean distances of samples from which on an unknown border is no chance of a random mask

Mask = Bool[np.ndarray, "*grid"]


def strips_like_borders(known: Mask) -> list[Mask]:
    """Return known strips as wide as each unknown border: next to it, and at the opposite end if that is known.

    A fit without a strip extrapolates there as it does on the border. A strip has half of what is known along its axis
    at most.
    """
    strips = []
    for axis in range(known.ndim):
        along = np.flatnonzero(known.any(tuple(j for j in range(known.ndim) if j != axis)))
        if not len(along):
            return []
        first, end, length = int(along[0]), int(along[-1]) + 1, known.shape[axis]
        inside = known.size * (end - first) / length
        usual = NO_CHANCE * (inside / known.sum()) ** (1 / known.ndim)
        depths = [depth if depth > usual else 0 for depth in (first, length - end)]
        width = min(max(depths), (end - first) // 2)
        if width:
            strips += [_slab(known, axis, slice(first, first + width)), _slab(known, axis, slice(end - width, end))]
    return strips


def _slab(known: Mask, axis: int, part: slice) -> Mask:
    slab = np.zeros_like(known)
    at = (slice(None),) * axis + (part,)
    slab[at] = known[at]
    return slab
