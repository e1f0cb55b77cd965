"""Jobs that fail, that kill their process, and that are interrupted or lose their cluster."""

import logging
import os
import select
import signal
import sys
import time
from functools import partial

import pytest

from coordnet.bench.jobs import DIED, Failed, limited, outcomes


@pytest.fixture
def cluster():
    """A Dask cluster of one worker in this process."""
    distributed = pytest.importorskip("distributed", reason="needs coordnet[dask]")
    options = {"n_workers": 1, "threads_per_worker": 1, "protocol": "tcp", "processes": False}
    with distributed.LocalCluster(**options, dashboard_address=None) as cluster:
        yield cluster


def carried_out(jobs, **where):
    with outcomes(jobs, **where) as found:
        return dict(found)


JOBS = {"a": partial(str, "a"), "bad": partial(int, "x"), "wrong": partial({}.pop, "key"), "b": partial(str, "b")}
RESULTS = {
    "a": "a",
    "b": "b",
    "bad": Failed("invalid literal for int() with base 10: 'x'"),
    "wrong": Failed("KeyError: 'key'"),
}


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_jobs_have_results_or_the_reason_for_none(workers, forked):
    assert carried_out(JOBS, workers=workers) == RESULTS


@pytest.mark.slow
def test_processes_that_import_all_anew_give_the_same():
    assert carried_out({"bad": JOBS["bad"]}, workers=2) == {"bad": RESULTS["bad"]}


@pytest.mark.filterwarnings("default")
def test_a_cluster_gives_the_same(cluster):
    assert carried_out(JOBS, dask=cluster.scheduler_address) == RESULTS


def _deadly(file):
    """Be killed the first time."""
    if not file.exists():
        file.touch()
        signal.raise_signal(signal.SIGKILL)
    return "alive"


def test_a_process_that_dies_takes_no_other_with_it(forked, tmp_path):
    """Its job is run once more; those beside it and after it are run once."""
    jobs = {"always": partial(signal.raise_signal, signal.SIGKILL), "once": partial(_deadly, tmp_path / "died")}
    jobs |= {name: partial(_count, tmp_path / name) for name in "abcdef"}
    assert carried_out(jobs, workers=2) == {"always": DIED, "once": "alive"} | dict.fromkeys("abcdef", "counted")
    assert [(tmp_path / name).read_text() for name in "abcdef"] == ["x"] * 6


def _count(file):
    time.sleep(0.01)
    with file.open("a") as opened:
        opened.write("x")
    return "counted"


def test_work_beyond_its_limit_is_told_from_work_whose_process_dies(forked):
    with pytest.raises(TimeoutError, match="^exceeded its limit of 0.1 s$"):
        limited(partial(time.sleep, 60), 0.1)
    with pytest.raises(RuntimeError, match="^its process died"):
        limited(partial(signal.raise_signal, signal.SIGKILL), 60)
    result, seconds = limited(partial(max, 2, 3), 60)
    assert result == 3 and 0 <= seconds < 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_job_that_kills_every_worker_of_a_cluster_has_failed(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs coordnet[dask]")
    monkeypatch.setitem(distributed.config["distributed"]["scheduler"], "allowed-failures", 0)
    with distributed.LocalCluster(n_workers=1, dashboard_address=None, silence_logs=logging.CRITICAL) as cluster:
        jobs = {"deadly": partial(signal.raise_signal, signal.SIGKILL)}
        assert carried_out(jobs, dask=cluster.scheduler_address) == {"deadly": DIED}


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_lost_is_told(cluster, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setitem(distributed.config["distributed"]["comm"]["timeouts"], "connect", "1s")
    address = cluster.scheduler_address
    with outcomes({k: partial(time.sleep, 0.05) for k in range(100)}, dask=address) as found:
        next(found)
        cluster.close()
        with pytest.raises(ValueError, match=f"^`dask`: expected the scheduler at {address} to stay, found it gone; "):
            list(found)


def _busy(folder, descriptor):
    """Hold a file that is to be removed whatever happens."""
    unfinished = folder / str(os.getpid())
    unfinished.touch()
    try:
        os.write(descriptor, b"x")
        time.sleep(60)
    finally:
        unfinished.unlink()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_local_processes_end_with_the_one_that_started_them(number, forked, tmp_path):
    """The end of a pipe that they hold is closed when the last of them has ended; they clean up unless it is killed."""
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as the command does
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets jobs beside it ignore the signal
        try:
            carried_out({name: partial(_busy, tmp_path, write) for name in "abc"}, workers=2)
        finally:
            os._exit(7)
    os.close(write)
    assert os.read(read, 1) + os.read(read, 1) == b"xx"
    os.kill(parent, number)
    os.waitpid(parent, 0)
    assert select.select([read], [], [], 20)[0] == [read]
    assert os.read(read, 1) == b""
    os.close(read)
    assert number == signal.SIGKILL or not list(tmp_path.iterdir())
