"""Timings of calls, warmed up and synchronized with the GPU, what is shown meanwhile, and the machine."""

import platform
import re
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from tqdm import tqdm

MOST = 200  # repetitions of a short call
T = TypeVar("T")


class Timing(NamedTuple):
    """The median, the shortest and the longest time of a call in seconds, and how often it was repeated."""

    median: float
    low: float
    high: float
    repeats: int


def measure(work: Callable[[], object], *, repeats: int = 9, budget: float = 20.0, least: float = 0.0) -> Timing:
    """Time a call after one warm-up run, in at most ``budget`` seconds; a longer warm-up is the only run.

    Short calls are repeated more often, up to ``MOST`` times, until they took ``least`` seconds together.
    """
    warm_up = once(work)[1]
    if warm_up > budget:
        return Timing(warm_up, warm_up, warm_up, 1)
    repeats = max(1, min(repeats, int(budget / max(warm_up, 1e-9))))
    seconds = [once(work)[1] for _ in range(repeats)]
    while sum(seconds) < least and len(seconds) < MOST:
        seconds.append(once(work)[1])
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


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


def announced(name: str, *, shown: bool) -> AbstractContextManager[object]:
    """Show the name of a stage that does not count its steps on a terminal, until the stage is over."""
    return tqdm(desc=name, bar_format="{desc} …", leave=False, disable=None if shown else True)


def machine(device: torch.device) -> dict[str, Any]:
    """Describe the machine for a record of timings: device, GPU, processor, threads and versions."""
    cpuinfo, versions = Path("/proc/cpuinfo"), {}
    report = cpuinfo.read_text() if cpuinfo.exists() else ""  # Linux reports the processor's model
    model = re.search(r"^model name\s*:\s*(.+)$", report, re.MULTILINE)
    for name in ("coordnet", "torch", "numpy", "scipy", "scikit-image", "PyWavelets"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "processor": model[1] if model else platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **versions,
    }


def _synchronize() -> None:
    """Wait for every GPU on which this process holds memory: work can only be under way there."""
    for device in range(torch.cuda.device_count()):
        if torch.cuda.memory_reserved(device):
            torch.cuda.synchronize(device)
