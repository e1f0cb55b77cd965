"""Memory for large results."""

import math

import numpy as np
import torch
from torch import Tensor

# Bytes from which the C library returns freed memory to the system, so that its pages are new each time.
HUGE = 2**25
NUMPY = {torch.float32: "float32", torch.float64: "float64", torch.uint8: "uint8"}


def empty(like: Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of another's device, and of its type if no other is given; not filled.

    Large ones on a CPU come from NumPy, which asks Linux for huge pages, where PyTorch does not: to fill new memory
    takes a third of the time.
    """
    dtype = dtype or like.dtype
    if like.device.type != "cpu" or math.prod(shape) * dtype.itemsize < HUGE or dtype not in NUMPY:
        return like.new_empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, NUMPY[dtype]))
