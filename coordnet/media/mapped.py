"""Memory maps read so that few of their pages count as this process's memory at any time."""

import mmap
from typing import Any

import numpy as np

TOUCHED = 2**24  # bytes of a map that are read before they are given back
AROUND = 2**16  # bytes that a system maps about one that is read


def read_rows(source: Any, rows: slice) -> np.ndarray:
    """Some rows of an array, copied where it is a memory map in Fortran's order.

    There every value of a row lies on a page of its own, and some rows touch the whole file.
    """
    if not isinstance(source, np.memmap) or source.flags.c_contiguous or not source.flags.f_contiguous:
        return np.asarray(source[rows])
    columns = source.reshape(len(source), -1, order="F")
    out = np.empty((len(columns[rows]), columns.shape[1]), source.dtype, order="F")
    step = max(1, TOUCHED // (AROUND + out[:, 0].nbytes))
    for a in range(0, columns.shape[1], step):
        out[:, a : a + step] = columns[rows, a : a + step]
        release(source)
    return out.reshape(-1, *source.shape[1:], order="F")


def release(source: object) -> None:
    """Give the pages of a memory map back to the system, which else count as this process's memory.

    Those of a map in mode "c" stay: what was written to them is nowhere else.
    """
    mapped = getattr(source, "_mmap", None)  # of NumPy's memory maps
    if (
        getattr(source, "mode", "r") != "c"
        and isinstance(mapped, mmap.mmap)
        and hasattr(mmap, "MADV_DONTNEED")
    ):
        mapped.madvise(mmap.MADV_DONTNEED)
