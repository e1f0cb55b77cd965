"""Hidden samples: the part of the samples by whose error the free numbers of a method are chosen."""

import math

from jaxtyping import Float
from torch import Tensor

from coordnet.sampling.forward import ForwardModel


def hidden_error(
    measurement: ForwardModel,
    f: Float[Tensor, "signals channels *lattice"],
    values: Float[Tensor, "signals channels *samples"],
    hidden: Float[Tensor, "#signals #channels *samples"],
) -> float:
    """Return the weighted mean squared error of a lattice signal at hidden samples."""
    residual = measurement(f) - values
    weights = (hidden * measurement.weights).expand_as(residual)
    return float((weights * residual.square()).sum() / weights.sum())


def middle(shape: tuple[int, ...], size: int) -> tuple[slice, ...]:
    """Return the middle of a large lattice, of about ``size`` points and at least 16 along an axis."""
    scale = (size / math.prod(shape)) ** (1 / max(1, sum(n > 1 for n in shape)))
    lengths = [min(n, max(16, round(n * scale))) for n in shape]
    return tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(shape, lengths, strict=True))
