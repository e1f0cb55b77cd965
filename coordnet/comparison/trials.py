"""Trials of methods, whose warnings and failures are kept: in a comparison, and in each cell of the bench."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Trial(NamedTuple):
    """The result of some work and the texts of its warnings, each once; or the error with which it failed."""

    result: Any
    warnings: list[str]
    error: Exception | None = None


def tried(work: Callable[[], Any]) -> Trial:
    """Carry some work out, whatever it raises, and collect its warnings to users instead of showing them."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = work()
    except Exception as error:
        return Trial(None, [], error)
    texts = (str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return Trial(result, list(dict.fromkeys(texts)))


def finite(estimate: Tensor) -> Tensor:
    """Return an estimate without its gradient on the CPU; NaN or infinity in it raises FloatingPointError."""
    estimate = estimate.detach().cpu()
    if not bool(torch.isfinite(estimate).all()):
        raise FloatingPointError("NaN or infinity in the estimate")
    return estimate
