"""Timings of calls: warmed up, synchronized with the GPU, as median and spread; and the machine that they depend on."""

import platform
import re
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """The seconds that a call takes.

    Attributes
    ----------
    median, low, high : float
        The median, the shortest and the longest time of the repeats.
    repeats : int
        The number of repeats.
    """

    median: float
    low: float
    high: float
    repeats: int

    def as_json(self) -> dict[str, Any]:
        """The four numbers, as JSON holds them."""
        return asdict(self)


def measure(work: Callable[[], object], *, repeats: int = 9, budget: float = 20.0) -> Timing:
    """Time a call after one run to warm up, with fewer repeats where they would exceed ``budget`` seconds.

    A warm-up that exceeds the budget is the only run.
    """
    warm_up = once(work)[1]
    if warm_up > budget:
        return Timing(warm_up, warm_up, warm_up, 1)
    repeats = max(1, min(repeats, int(budget / max(warm_up, 1e-9))))
    seconds = [once(work)[1] for _ in range(repeats)]
    return Timing(statistics.median(seconds), min(seconds), max(seconds), repeats)


def timed(work: Callable[[], T], *, repeats: int = 5, budget: float = 2.0) -> tuple[T, float]:
    """The result of a call, and the median of its seconds from ``measure``."""
    box: list[T] = []

    def keep() -> None:
        box[:] = [work()]

    seconds = measure(keep, repeats=repeats, budget=budget).median
    return box[0], seconds


def once(work: Callable[[], T]) -> tuple[T, float]:
    """The result of a call and its seconds, without a warm-up."""
    _synchronize()
    start = time.perf_counter()
    result = work()
    _synchronize()
    return result, time.perf_counter() - start


def machine(device: torch.device) -> dict[str, Any]:
    """The description of a machine for the record of a timing: processor, threads and versions."""
    cuda = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": str(device),
        "gpu": cuda,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **_versions(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in ("coordnet", "torch", "numpy", "scipy", "scikit-image", "PyWavelets"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _processor() -> str:
    """The processor's model where Linux reports it, else its architecture."""
    try:
        report = Path("/proc/cpuinfo").read_text()
    except OSError:
        report = ""
    found = re.search(r"^model name\s*:\s*(.+)$", report, re.MULTILINE)
    return found[1] if found else platform.machine()


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
