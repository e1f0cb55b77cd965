"""Peak memory and seconds of the fit of one large masked picture, measured in a process of its own."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from coordnet.closed_form import fit_closed_form
from coordnet.encoders import Triangle
from coordnet.encodings import ComplexEncoding
from coordnet.priors import Smoothness
from coordnet.sampling import sample

LARGE = 4096


@dataclass(frozen=True)
class Footprint:
    """Seconds of the fit and the greatest resident memory of its whole process, in GiB."""

    seconds: float
    peak: float
    iterations: int


def footprint(size: int = LARGE) -> Footprint:
    """Fit a random quarter of a picture of size² × 3 in a fresh process, and say what it took."""
    command = [sys.executable, "-m", "coordnet.experiments.memory", str(size)]
    outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Footprint(**json.loads(outcome.stdout))


def fit_large(size: int) -> Footprint:
    """Fit a random quarter of size² × 3 float32 samples with the smooth prior, in this process."""
    samples = sample(rolling_hills(size), "random:0.25")
    encoding = ComplexEncoding.like(Triangle, samples)
    start = time.perf_counter()
    fit = fit_closed_form(encoding, samples, prior=Smoothness(1.5, 0.01))
    seconds = time.perf_counter() - start
    return Footprint(seconds, peak_gib(), int(fit.report["iterations"]))


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


if __name__ == "__main__":
    print(json.dumps(vars(fit_large(int(sys.argv[1])))))
