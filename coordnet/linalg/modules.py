"""Copies of modules, which take a tenth of the time of ``copy.deepcopy``."""

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def duplicate(module: M) -> M:
    """Return a copy of a module with tensors of its own, to which no gradient flows, and the same other attributes.

    A plan gives one to each of its fits. A module that is in two places has a copy in each.
    """
    copied = type(module).__new__(type(module))
    parts = {name: None if part is None else duplicate(part) for name, part in module._modules.items()}
    own = {"_modules": parts, "_parameters": _copies(module._parameters), "_buffers": _copies(module._buffers)}
    copied.__dict__.update(module.__dict__ | own)
    return copied


def _copies(tensors: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
    copies = {name: None if tensor is None else tensor.detach().clone() for name, tensor in tensors.items()}
    fixed = {"requires_grad": False}
    return {k: nn.Parameter(c, **fixed) if isinstance(tensors[k], nn.Parameter) else c for k, c in copies.items()}  # type: ignore[arg-type]
