"""A call's seconds, synchronized with the GPU, its peak memory, its warnings or its failure; and the machine."""

import functools
import platform
import re
import statistics
import time
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from coordnet.linalg.machine import release_freed

MAX_REPEATS = 200  # repetitions of a short call
T = TypeVar("T")


class Timing(NamedTuple):
    """The median, the shortest and the longest time of a call in seconds, and how often it was repeated."""

    median: float
    low: float
    high: float
    repeats: int


def measure(work: Callable[[], object], *, repeats: int = 9, budget: float = 20.0, least: float = 0.0) -> Timing:
    """Time a call after one warm-up run, in at most ``budget`` seconds; a longer warm-up is the only run.

    Short calls are repeated more often, up to ``MAX_REPEATS`` times, until they took ``least`` seconds together.
    """
    warm_up = once(work)[1]
    if warm_up > budget:
        return Timing(warm_up, warm_up, warm_up, 1)
    repeats = max(1, min(repeats, int(budget / max(warm_up, 1e-9))))
    seconds = [once(work)[1] for _ in range(repeats)]
    while sum(seconds) < least and len(seconds) < MAX_REPEATS:
        seconds.append(once(work)[1])
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


def timed(work: Callable[[], T], *, repeats: int = 5, budget: float = 2.0) -> tuple[T, float]:
    """Return the result of a call, and the median of its seconds from ``measure``."""
    kept: deque[T] = deque(maxlen=1)
    timing = measure(lambda: kept.append(work()), repeats=repeats, budget=budget)
    return kept[0], timing.median


def once(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its seconds, without a warm-up.

    Where this process holds memory of GPUs they are the seconds between events in the queues of these, which leave out
    the host's last wait, some 20 µs.
    """
    events = {device: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for device in _synchronized()}
    for device, (begin, _) in events.items():
        begin.record(torch.cuda.current_stream(device))
    start = time.perf_counter()
    result = work()
    for device, (_, end) in events.items():
        end.record(torch.cuda.current_stream(device))
    _synchronized()
    seconds = time.perf_counter() - start
    return result, max((begin.elapsed_time(end) / 1e3 for begin, end in events.values()), default=seconds)


def _synchronized() -> list[int]:
    """Wait for every GPU on which this process holds memory, and return these: work can only be under way there."""
    held = [device for device in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(device)]
    for device in held:
        torch.cuda.synchronize(device)
    return held


class Tried(NamedTuple):
    """The result of some work and the texts of its warnings, each once; or the error with which it failed."""

    result: Any
    warnings: list[str]
    error: Exception | None = None


def tried(work: Callable[[], Any]) -> Tried:
    """Carry some work out, whatever it raises, and collect its warnings to users instead of showing them."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = work()
    except Exception as error:
        return Tried(None, [], error)
    texts = (str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return Tried(result, list(dict.fromkeys(texts)))


def finite(estimate: Tensor) -> Tensor:
    """Return an estimate without its gradient on the CPU; NaN or infinity in it raises FloatingPointError."""
    estimate = estimate.detach().cpu()
    if not bool(torch.isfinite(estimate).all()):
        raise FloatingPointError("NaN or infinity in the estimate")
    return estimate


def peak_gib() -> float:
    """Return the largest resident memory of this process so far; ``getrusage`` would count its parent's, too."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20


def with_peak(work: Callable[[], T], device: str) -> tuple[T, float | None]:
    """Return the result of some work, and the MiB by which it raised the memory of the GPU or of this process.

    It is None on a processor whose system does not let a process reset its peak and return what it has freed, as Linux
    with glibc does. Buffers that earlier work keeps are not counted.
    """
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        result = work()
        return result, (torch.cuda.max_memory_allocated(device) - before) / 2**20
    try:
        is_released = release_freed()
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        is_released = False
    if not is_released:
        return work(), None
    before = peak_gib()
    result = work()
    return result, 1024 * (peak_gib() - before)


@functools.cache  # to read them from the packages' metadata takes longer than to restore a small picture
def versions(*others: str) -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on, but for those that are not installed."""
    present = {"python": platform.python_version()}
    for name in ("coordnet", "torch", "numpy", "scipy", *others):
        with suppress(PackageNotFoundError):  # a checkout may not be installed
            present[name] = version(name)
    return present


def machine(device: torch.device) -> dict[str, Any]:
    """Describe the machine for a record of timings: device, GPU, processor, threads and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    report = cpuinfo.read_text() if cpuinfo.exists() else ""  # Linux reports the processor's model
    model = re.search(r"^model name\s*:\s*(.+)$", report, re.MULTILINE)
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "processor": model[1] if model else platform.machine(),
        "threads": torch.get_num_threads(),
        **versions("scikit-image", "PyWavelets"),
    }
