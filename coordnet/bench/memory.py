"""Peak memory and seconds of ``coordnet reconstruct`` on one large picture, in a process of its own."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from coordnet.media import write_image

LARGE = 4096
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


@dataclass(frozen=True)
class Footprint:
    """Seconds of the fit and the greatest resident memory of its whole process, in GiB."""

    seconds: float
    peak: float
    iterations: int


def footprint(size: int = LARGE, prior: str = "smooth") -> Footprint:
    """Reconstruct a picture of size² × 3 from a random quarter of its pixels, by the command in a fresh process.

    The memory is that of all the command does: it reads the picture, fits, renders, scores and draws. The seconds and
    the iterations are those of the fit.
    """
    with tempfile.TemporaryDirectory() as folder:
        picture, out = Path(folder, "hills.png"), Path(folder, "out")
        write_image(rolling_hills(size), picture)
        options = ["--sample", "random:0.25", "--prior", prior, "--out", str(out), "--quiet"]
        command = [sys.executable, "-c", COMMAND, "reconstruct", str(picture), *options]
        outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        record = json.loads((out / "record.json").read_text())
    return Footprint(record["seconds"]["fit"], float(outcome.stdout), int(record["report"]["iterations"]))


def rolling_hills(size: int) -> torch.Tensor:
    """A picture (size, size, 3) of waves and edges in [0, 1]."""
    x = torch.linspace(0, 1, size)
    waves = [torch.sin(40 * (x.unsqueeze(1) * x) + c) for c in range(3)]
    return torch.stack([(wave + (wave > 0.5)) / 4 + 0.25 for wave in waves], dim=-1)


def peak_gib() -> float:
    """The greatest resident memory of this process so far.

    Linux counts what ``getrusage`` tells from the parent on, before the process had a memory of its own; its
    status file does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    import resource  # absent on Windows

    unit = 2**30 if sys.platform == "darwin" else 2**20  # macOS counts bytes, others KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
