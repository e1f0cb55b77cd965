"""The test by which an enlargement is chosen: how well it enlarges pictures from their own halves."""

import math

from jaxtyping import Float
from torch import Tensor

from coordnet.metrics.scores import psnr, value_range
from coordnet.networks.reconstruction import Reconstruction

SMALLEST = 8  # pixels along the shorter side of a picture that can be tested

Pictures = Float[Tensor, "*batch height width channels"]


def halved(values: Pictures) -> tuple[Tensor, Tensor] | None:
    """Return pictures reduced by two, by averaging, and the even part of them; None for small pictures."""
    height, width = (n // 2 * 2 for n in values.shape[-3:-1])
    if min(height, width) < SMALLEST:
        return None
    truth = values[..., :height, :width, :]
    return truth.unflatten(-2, (-1, 2)).unflatten(-4, (-1, 2)).mean((-2, -4)), truth


def enlarged_psnr(fit: Reconstruction, truth: Pictures) -> float | None:
    """Return the PSNR in dB of a fit rendered at the size of the pictures themselves; None where it is infinite."""
    span, bounded = value_range(truth)
    found = psnr(fit.render(tuple(truth.shape[-3:-1])), truth, data_range=span, clip=bounded)
    return None if math.isinf(found) else found


def center(values: Pictures, side: int) -> Tensor:
    """Return the middle of pictures, at most ``side`` pixels a side."""
    rows, columns = (slice((n - min(n, side)) // 2, (n + min(n, side)) // 2) for n in values.shape[-3:-1])
    return values[..., rows, columns, :]
