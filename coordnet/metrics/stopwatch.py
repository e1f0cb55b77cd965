"""Timings of calls: warmed up, synchronized with the GPU, as median and spread; and the machine that they depend on."""

import platform
import re
import statistics
import time
from collections import deque
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
    """The median, the shortest and the longest time of a call in seconds, and how often it was repeated."""

    median: float
    low: float
    high: float
    repeats: int

    def as_json(self) -> dict[str, Any]:
        """Return the four numbers for JSON."""
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
    """Return the result of a call, and the median of its seconds from ``measure``."""
    kept: deque[T] = deque(maxlen=1)
    timing = measure(lambda: kept.append(work()), repeats=repeats, budget=budget)
    return kept[0], timing.median


def once(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its seconds, without a warm-up."""
    _synchronize()
    start = time.perf_counter()
    result = work()
    _synchronize()
    return result, time.perf_counter() - start


def machine(device: torch.device) -> dict[str, Any]:
    """Describe a machine for the record of a timing: processor, threads and versions."""
    versions = {}
    for name in ("coordnet", "torch", "numpy", "scipy", "scikit-image", "PyWavelets"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **versions,
    }


def _processor() -> str:
    """The processor's model where Linux reports it, else its architecture."""
    report = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", report, re.MULTILINE)
    return found[1] if found else platform.machine()


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
