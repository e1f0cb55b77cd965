"""Devices by name."""

import torch

from coordnet import _checks


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
