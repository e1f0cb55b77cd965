"""Whether PyTorch follows a tensor, for a derivative or over a batch."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def tracked(x: Tensor) -> bool:
    """Whether a gradient is wanted of what is made of a tensor, so that it may not be written into kept memory.

    So too where ``torch.func`` follows the tensor, which then has no memory of its own.
    """
    if (torch.is_grad_enabled() and x.requires_grad) or forward_ad.unpack_dual(x).tangent is not None:
        return True
    try:
        x.data_ptr()
    except RuntimeError:
        return True
    return False


def transforming() -> bool:
    """Whether ``torch.func`` follows all that is made now."""
    return tracked(torch.empty(0))
