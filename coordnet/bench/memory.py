"""The memory and the seconds of large pictures, each measured in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import plan
from coordnet.media import write_image
from coordnet.media.rows import open_rows, write_rows
from coordnet.restore.rows import stream_render
from coordnet.sampling.samples import Lattice

LARGE = 4096
MEMORY = 2**31  # bytes: the limit of an enlargement in rows
COMMAND = """
import sys
from coordnet.cli import main
from coordnet.bench.memory import peak_gib
try:
    main()
except SystemExit as end:
    assert not end.code
print(peak_gib())
"""


def footprint(size: int = LARGE, prior: str = "smooth") -> tuple[float, float, int]:
    """Reconstruct a picture of size² × 3 from a random quarter of its pixels, by the command in a fresh process.

    Returns the seconds of the fit, the largest memory of the whole command in GiB (it reads the picture, fits, renders,
    scores and draws), and the iterations of the fit.
    """
    with tempfile.TemporaryDirectory() as folder:
        picture, out = Path(folder, "hills.png"), Path(folder, "out")
        write_image(rolling_hills(size), picture)
        options = ["--sample", "random:0.25", "--prior", prior, "--out", str(out), "--quiet"]
        command = [sys.executable, "-c", COMMAND, "reconstruct", str(picture), *options]
        outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        record = json.loads((out / "record.json").read_text())
    return record["seconds"]["fit"], float(outcome.stdout), int(record["report"]["iterations"])


def rolling_hills(size: int) -> torch.Tensor:
    """Return a picture (size, size, 3) of waves and edges in [0, 1]."""
    x = torch.linspace(0, 1, size)
    waves = [torch.sin(40 * (x.unsqueeze(1) * x) + c) for c in range(3)]
    return torch.stack([(wave + (wave > 0.5)) / 4 + 0.25 for wave in waves], dim=-1)


def peak_gib() -> float:
    """Return the largest resident memory of this process so far, from Linux's status file.

    ``getrusage`` would also count the memory of the parent before the process had its own.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20


def enlarged(kind: str, size: int) -> dict[str, float]:
    """Enlarge a picture of size² by 2 in a fresh process; return its seconds, memory and output in GiB.

    It has three channels in memory ("whole"), or one channel from file to file within ``MEMORY`` ("rows").
    """
    command = [sys.executable, "-m", __name__, kind, str(size)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _whole(size: int) -> dict[str, float]:
    values, geometry = torch.rand(size, size, 3), Lattice((size, size))
    start = time.perf_counter()
    render = plan(ComplexEncoding.like(Gaussian, geometry), geometry).renderer((2 * size, 2 * size))
    return _measured(start, render(values).numel() * 4)


def _rows(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.npy"), Path(folder, "result.npy")
        mapped = np.lib.format.open_memmap(source, mode="w+", dtype="float32", shape=(size, size))
        for a in range(0, size, 256):
            mapped[a : a + 256] = np.random.default_rng(a).random((min(256, size - a), size), dtype="float32")
        del mapped
        geometry, shape = Lattice((size, size)), (2 * size, 2 * size)
        start = time.perf_counter()
        fit = plan(ComplexEncoding.like(Gaussian, geometry), geometry)
        with open_rows(source) as file:
            blocks = stream_render(fit, file, shape, memory=MEMORY)
            write_rows(target, (*shape, 1), "float32", blocks, channel_axis=False)
        return _measured(start, 4 * shape[0] * shape[1])


def _measured(start: float, output: int) -> dict[str, float]:
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_gib": peak_gib(), "output_gib": output / 2**30}


if __name__ == "__main__":
    print(json.dumps({"whole": _whole, "rows": _rows}[sys.argv[1]](int(sys.argv[2]))))
