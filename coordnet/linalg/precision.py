"""Mode products in a named precision: float32, or faster on a GPU's tensor cores."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.banded import Windows
from coordnet.linalg.kronecker import Operator, mode_product, product_along
from coordnet.linalg.scratch import scratch

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS = ("float32", "tf32", "bf16")


def check_precision(precision: str, dtype: torch.dtype) -> Precision:
    """Return the precision.

    Raises
    ------
    ValueError
        If it has another name, or is below that of values which are not float32.
    """
    _checks.choice("precision", precision, PRECISIONS)
    if precision != "float32" and dtype != torch.float32:
        raise _checks.wrong("precision", f"float32, values being {dtype}", precision)
    return cast(Precision, precision)


def prepared(operator: Operator, precision: Precision, dtype: torch.dtype) -> Operator:
    """An operator of values of ``dtype``, in the form that ``multiply`` takes."""
    if isinstance(operator, Windows):
        operator = operator.trimmed(max(torch.finfo(dtype).eps / 16, 1e-15))
    operator = operator.to(dtype)
    if precision == "bf16":
        return operator.to(torch.bfloat16)
    if precision == "tf32":
        return operator.map(to_tf32) if isinstance(operator, Windows) else to_tf32(operator)
    return operator


def multiply(
    tensor: Float[Tensor, "..."],
    operators: Sequence[Operator],
    precision: Precision,
    out: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "..."]:
    """The mode product with operators that were ``prepared``; see ``mode_product`` for ``out``.

    "float32" is the values' own precision. "tf32" has 10 bits of mantissa in both factors and sums in float32: what a
    GPU's tensor cores do, imitated on a CPU by rounding the factors. "bf16" has 7 bits, in every axis's result too.
    """
    if precision == "float32":
        return mode_product(tensor, operators, out)
    if precision == "bf16":
        return _in_bf16(tensor, operators, out)
    if tensor.is_cuda:
        with _tensor_cores():
            return mode_product(tensor, operators, out)
    for j, operator in reversed(list(enumerate(operators))):
        tensor, axis = to_tf32(tensor), tensor.ndim - len(operators) + j
        tensor = product_along(tensor, operator, axis, out if j == 0 else None)
    return tensor


def _in_bf16(tensor: Tensor, operators: Sequence[Operator], out: Tensor | None) -> Tensor:
    if out is None:
        return mode_product(tensor.bfloat16(), operators).to(tensor.dtype)
    half = tensor.new_empty(0, dtype=torch.bfloat16)
    rounded = scratch(half, tuple(tensor.shape), tensor, out).copy_(tensor)
    return out.copy_(mode_product(rounded, operators, scratch(half, tuple(out.shape), rounded, out)))


def to_tf32(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Round float32 to the 10 bits of mantissa of TF32, to nearest."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """TF32 for CUDA's products, by the setting that PyTorch has: it refuses to mix the newer one with the older."""
    matmul = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, value)
    try:
        yield
    finally:
        setattr(matmul, name, before)
