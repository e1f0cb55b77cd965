"""What a GPU would round or order in another way than a CPU: products of float32, and medians."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor


@contextmanager
def full_precision() -> Iterator[None]:
    """Round products of float32 as float32 does, whatever ``torch.set_float32_matmul_precision`` says.

    "high" and "medium" let a GPU multiply numbers with 10 or 7 bits of mantissa, as cuDNN's convolutions do by default.
    Methods that compare a residual or a sum of products with its rounding would go wrong. These are settings of the
    process, which are put back at the end.
    """
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def lower_median(values: Float[Tensor, "*rest n"]) -> Float[Tensor, " *rest"]:
    """Return the ⌈n/2⌉-th smallest number of the last axis, which ``torch.median`` has too.

    PyTorch's own returns indices beside it, which ``torch.use_deterministic_algorithms`` refuses on a GPU.
    """
    return values.sort(-1).values[..., (values.shape[-1] - 1) // 2]
