"""Fixtures shared by all tests, and one thread for every worker."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read when NumPy and PyTorch are first imported, here and in subprocesses

import functools
import gc
import sys
import warnings
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings

from tests import annotations as annotated

MAX_WORKERS = 8  # each holds PyTorch and a third of a gigabyte
TESTS = Path(__file__).parent
DATA = TESTS.parents[1] / "shared" / "data"
# Rooms that call the others, and README's lines.
CALLERS = ("cli", "bench", "comparison", "restore", "xarray", "test_readme.py")

IMPORTED = {}  # states of the modules' `RNG` after their import, by the modules' names

# Fixtures import what they need, because the process that starts the workers reads this file too, before they start.


def pytest_xdist_auto_num_workers(config):
    """One worker per CPU that this process may use, up to `MAX_WORKERS`."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return min(len(usable), MAX_WORKERS)


def pytest_addoption(parser):
    """Let the tests of devices run on a real GPU: ``pytest --device cuda tests/test_devices.py``."""
    parser.addoption("--device", default="pretend", help="pretend (default), or cuda or cuda:1 for a real GPU")


def pytest_collection():
    """Collect no garbage while tests are collected: imports make none, and looking for it takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish():
    gc.enable()


def pytest_collection_modifyitems(items):
    """Begin with the slow tests, so that no worker waits for one of them at the end."""
    items.sort(key=lambda item: "slow" not in item.keywords)


annotated.install()  # before coordnet is imported
settings.register_profile("tests", deadline=None, max_examples=20)  # an example may wait for a busy machine
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def annotations(request, monkeypatch):
    """Execute no annotations in the tests of `CALLERS`: those below them call the same functions."""
    annotated.begin(request.node)
    if request.path.relative_to(TESTS).parts[0] in CALLERS:
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(autouse=True)
def seeded(request):
    """Draw the same numbers in each run of a test, wherever it gives no generator or draws from its module's `RNG`."""
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)  # seeding all devices formats the stack: 0.8 ms
    rng = getattr(request.module, "RNG", None)
    if rng is not None:
        rng.bit_generator.state = IMPORTED.setdefault(request.module.__name__, rng.bit_generator.state)


@pytest.fixture(autouse=True)
def frozen_modules():
    """Keep modules out of collections of garbage, which imageio asks for after each 16-bit picture and video."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def parser():
    """Build the parser of the command line once: each time takes longer than most of its tests."""
    from typer import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "get_command", functools.cache(main.get_command))
        yield


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """Carry timed work out once, without a run to warm up: no test looks at the seconds of a method."""
    from coordnet.comparison import stopwatch
    from tests.helpers import measured_once

    monkeypatch.setattr(stopwatch, "measure", measured_once)


@pytest.fixture
def forked(monkeypatch):
    """Local processes that are forked, and so import nothing anew."""
    from multiprocessing import get_context

    monkeypatch.setattr("coordnet.bench.jobs.get_context", lambda _: get_context("fork"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # a process with threads forks
        yield


@pytest.fixture
def coarse(monkeypatch):
    """Write figures of few pixels, without the search for a layout, which takes longer than to draw them."""
    from matplotlib.figure import Figure

    write = Figure.savefig

    def savefig(figure, path, **_):
        figure.set_layout_engine("none")
        write(figure, path, dpi=10)

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture
def blank_figures(request, monkeypatch, coarse):
    """Write blank figures, unless the test is marked ``figures``: drawing takes most of the time of small commands."""
    if "figures" not in request.keywords:
        from matplotlib.figure import Figure

        write = Figure.savefig
        monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: write(Figure((1, 1)), path))


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(1)


@pytest.fixture
def photograph():
    from tests.helpers import synthetic_photograph

    return synthetic_photograph(64, 48)


@pytest.fixture
def inputs(tmp_path):
    """A folder for the inputs of commands, beside those that they write."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def photo(inputs):
    """The path of a small photograph, a PNG file."""
    from coordnet.media import write_media
    from tests.helpers import synthetic_photograph

    write_media(synthetic_photograph(40, 33), inputs / "photo.png", depth="uint8")
    return inputs / "photo.png"


@pytest.fixture(scope="session")
def data():
    if not DATA.is_dir():
        pytest.skip(f"needs the photographs in {DATA}")
    return DATA


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, blank_figures):
    """Run the command line in an empty folder: (exit status, standard output, standard error)."""
    from coordnet.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["coordnet", *map(str, arguments)])
        status = main()
        out, err = capsys.readouterr()
        return status, out, err

    return run
