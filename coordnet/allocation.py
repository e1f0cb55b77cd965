"""Memory for large results."""

import math

import numpy as np
import torch
from torch import Tensor

# Bytes from which the C library returns freed memory to the system, so that its pages are new each time.
HUGE = 2**25


def empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of another's type and device, not filled.

    Large ones on a CPU come from NumPy, which asks Linux for huge pages, where PyTorch does not: to fill new memory
    takes a third of the time.
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < HUGE or like.dtype not in (torch.float32, torch.float64):
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(shape, "float32" if like.dtype == torch.float32 else "float64"))
