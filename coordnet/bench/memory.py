"""The peak memory of a piece of work, and enlargements of large pictures, each of which is run in its own process."""

import ctypes
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import plan
from coordnet.media.row_blocks import open_rows, write_rows
from coordnet.restore.rows import stream_render
from coordnet.sampling import Lattice

T = TypeVar("T")
ROWS_MEMORY = 2**31  # bytes: the limit of an enlargement in rows


def peak_gib() -> float:
    """Return the largest resident memory of this process so far, from Linux's status file.

    ``getrusage`` would also count the memory of the parent before the process had its own.
    """
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
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return work(), None
    before = peak_gib()
    result = work()
    return result, 1024 * (peak_gib() - before)


def enlarge_whole(size: int) -> dict[str, float]:
    """Enlarge a picture of size² × 3 by 2 in memory; return its seconds, the peak memory and the output in GiB."""
    values, geometry = torch.rand(size, size, 3), Lattice((size, size))
    start = time.perf_counter()
    render = plan(ComplexEncoding.like(Gaussian, geometry), geometry).renderer((2 * size, 2 * size))
    return _measured(start, render(values).numel() * 4)


def enlarge_rows(size: int) -> dict[str, float]:
    """Enlarge one channel of size² by 2 from file to file within ``ROWS_MEMORY``, and return the same numbers."""
    geometry, shape = Lattice((size, size)), (2 * size, 2 * size)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.npy"), Path(folder, "result.npy")
        mapped = np.lib.format.open_memmap(source, mode="w+", dtype="float32", shape=(size, size))
        for a in range(0, size, 256):
            mapped[a : a + 256] = np.random.default_rng(a).random((min(256, size - a), size), dtype="float32")
        del mapped
        start = time.perf_counter()
        fit = plan(ComplexEncoding.like(Gaussian, geometry), geometry)
        with open_rows(source) as file:
            blocks = stream_render(fit, file, shape, memory=ROWS_MEMORY)
            write_rows(target, (*shape, 1), "float32", blocks, channel_axis=False)
        return _measured(start, 4 * shape[0] * shape[1])


def _measured(start: float, output: int) -> dict[str, float]:
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_gib": peak_gib(), "output_gib": output / 2**30}
