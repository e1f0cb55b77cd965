"""Devices by name, and work timed on them."""

import time
from collections.abc import Callable
from typing import TypeVar

import torch

from coordnet import _checks

T = TypeVar("T")


def choose_device(name: str) -> torch.device:
    """The device that a name stands for; auto is CUDA where there is one.

    Raises
    ------
    ValueError
        If there is no such device.
    """
    _checks.choice("device", name.partition(":")[0], ("auto", "cpu", "cuda"))
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise _checks.wrong("device", "one that is present", f"{name!r}, and no CUDA device is")
    return torch.device(
        "cuda" if name == "auto" and torch.cuda.is_available() else name.replace("auto", "cpu")
    )


def timed(device: torch.device, work: Callable[[], T]) -> tuple[T, float]:
    """Do some work and say how many seconds it took, the device's queue emptied before and after."""
    _synchronise(device)
    start = time.perf_counter()
    result = work()
    _synchronise(device)
    return result, time.perf_counter() - start


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
