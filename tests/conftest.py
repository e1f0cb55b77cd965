"""Fixtures shared by all tests, and one thread for every worker."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read when NumPy and PyTorch are first imported, here and in subprocesses

import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

from coordnet.cli import main
from coordnet.linalg.conjugate_gradients import _Iteration
from coordnet.metrics import stopwatch
from tests.helpers import synthetic_photograph

MAX_WORKERS = 8  # each holds PyTorch and a third of a gigabyte
DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_xdist_auto_num_workers(config):
    """One worker per CPU that this process may use, up to `MAX_WORKERS`."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return min(len(usable), MAX_WORKERS)


@pytest.fixture(autouse=True, scope="session")
def sparing_annotations():
    """Execute the annotations in the first step of conjugate gradients with a system: the others repeat its calls."""
    advance = _Iteration.advance

    def sparing(run):
        first = getattr(run, "checked", None) is not run.system
        run.checked = run.system
        with pytest.MonkeyPatch.context() as patch:
            if not first:
                patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
            advance(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Iteration, "advance", sparing)
        yield


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """Carry timed work out once, without a run to warm up: no test looks at the seconds of a method."""
    monkeypatch.setattr(stopwatch, "measure", lambda work, **_: stopwatch.Timing(*[stopwatch.once(work)[1]] * 3, 1))


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(1)


@pytest.fixture
def photograph():
    return synthetic_photograph(64, 48)


@pytest.fixture(scope="session")
def data():
    if not DATA.is_dir():
        pytest.skip(f"needs the photographs in {DATA}")
    return DATA


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["coordnet", *map(str, arguments)])
        status = main()
        out, err = capsys.readouterr()
        return status, out, err

    return run
