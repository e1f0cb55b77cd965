"""Peak memory and seconds of enlarging one large picture by 2, in a process of its own."""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coordnet.bench.memory import peak_gib
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fit.closed_form import plan
from coordnet.media.rows import open_rows, write_rows
from coordnet.restore.rows import stream_render
from coordnet.sampling.samples import Lattice

MEMORY = 2**31
GIB = 2**30


def whole(size: int) -> dict[str, float]:
    """Fit and render size² × 3 random numbers, factorisation included."""
    values = torch.rand(size, size, 3)
    geometry = Lattice((size, size))
    start = time.perf_counter()
    made: Tensor = plan(ComplexEncoding.like(Gaussian, geometry), geometry).renderer((2 * size, 2 * size))(
        values
    )
    return _told(start, 3, made.numel() * 4)


def rows(size: int) -> dict[str, float]:
    """The same of a memory-mapped size² × 1, written as a stream."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.npy", Path(folder) / "result.npy"
        mapped = np.lib.format.open_memmap(source, mode="w+", dtype="float32", shape=(size, size))
        for a in range(0, size, 256):
            mapped[a : a + 256] = np.random.default_rng(a).random((min(256, size - a), size), dtype="float32")
        del mapped
        geometry = Lattice((size, size))
        start = time.perf_counter()
        made = plan(ComplexEncoding.like(Gaussian, geometry), geometry)
        shape = (2 * size, 2 * size)
        with open_rows(source) as file:
            blocks = stream_render(made, file, shape, memory=MEMORY)
            write_rows(target, (*shape, 1), "float32", blocks, channel_axis=False)
        return _told(start, 1, 4 * shape[0] * shape[1])


def _told(start: float, channels: int, output: int) -> dict[str, float]:
    return {
        "seconds": time.perf_counter() - start,
        "channels": channels,
        "peak_gib": peak_gib(),
        "output_gib": output / GIB,
    }


if __name__ == "__main__":
    print(json.dumps({"whole": whole, "rows": rows}[sys.argv[1]](int(sys.argv[2]))))
