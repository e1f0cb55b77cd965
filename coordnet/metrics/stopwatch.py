"""Seconds that mean something: warmed up, synchronised, median and spread."""

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
    """Seconds of one piece of work.

    Attributes
    ----------
    median, low, high : float
        Over the repeats.
    repeats : int
        How often it was timed.
    """

    median: float
    low: float
    high: float
    repeats: int

    def as_json(self) -> dict[str, Any]:
        """The four numbers."""
        return asdict(self)


def measure(work: Callable[[], object], *, repeats: int = 9, budget: float = 20.0) -> Timing:
    """Time some work, after one run to warm up; fewer repeats where they exceed ``budget`` seconds.

    Where one run does, it is the only one.
    """
    _synchronise()
    start = time.perf_counter()
    work()
    _synchronise()
    warm_up = time.perf_counter() - start
    if warm_up > budget:
        return Timing(warm_up, warm_up, warm_up, 1)
    repeats = max(1, min(repeats, int(budget / max(warm_up, 1e-9))))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        _synchronise()
        seconds.append(time.perf_counter() - start)
    return Timing(statistics.median(seconds), min(seconds), max(seconds), repeats)


def timed(work: Callable[[], T], *, repeats: int = 5, budget: float = 2.0) -> tuple[T, float]:
    """The result of some work, and the median of its seconds as ``measure`` has them."""
    box: list[T] = []

    def keep() -> None:
        box[:] = [work()]

    seconds = measure(keep, repeats=repeats, budget=budget).median
    return box[0], seconds


def once(work: Callable[[], T]) -> tuple[T, float]:
    """The result of some work and its seconds, nothing warmed up."""
    _synchronise()
    start = time.perf_counter()
    made = work()
    _synchronise()
    return made, time.perf_counter() - start


def machine(device: torch.device) -> dict[str, Any]:
    """What a timing depends on: processor, threads, versions of what is timed."""
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
    """Its model where Linux tells it, else its architecture."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        told = ""
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return found[1] if found else platform.machine()


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
