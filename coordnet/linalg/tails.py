"""Tails: numbers so small that products with them change nothing, but take time."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import hardshrink

TAIL = 1e-30  # of the largest magnitude; it is above the subnormal numbers of float32


def without_tails(values: Float[Tensor, "*shape"], peak: float = 1.0) -> Float[Tensor, "*shape"]:
    """Return new values with zeros where they are below ``TAIL`` times a peak.

    Processors may multiply subnormal numbers, which a Gaussian's tails are full of, a hundred times slower than others.
    """
    return hardshrink(values, TAIL * peak)
