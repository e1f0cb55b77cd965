"""Carry out jobs: many, in this process, in local processes or on a Dask cluster, or one within a limit of seconds."""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

import torch

from coordnet.comparison.stopwatch import once

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True)
class Failed:
    """The reason, in one line, why a job has no result."""

    reason: str


Found = Generator[tuple[K, T | Failed], None, None]
LONG = 3600.0  # seconds: the limit of one job where none is given
DIED = Failed("its process died (killed, or out of memory)")


@contextmanager
def outcomes(
    jobs: Mapping[K, Callable[[], T]], *, workers: int = 1, dask: str | None = None
) -> Iterator[Iterator[tuple[K, T | Failed]]]:
    """Give the results of jobs with their keys, in the order in which they come.

    One worker is this process, several are local processes, and the address of a Dask scheduler stands for its workers.
    There jobs and results are pickled. A job that raises an exception has failed, and the others go on. A job whose
    process dies is run again, after the others and alone where the processes are local, and has failed if its process
    dies again. When the context is left early, by Ctrl-C for instance, local processes are ended and jobs that wait on
    a cluster are cancelled. ``ValueError`` is raised if there is no scheduler at the address or it is lost.
    """
    if dask is not None:
        with _connected(dask) as client:
            yield _on_cluster(jobs, client)
    elif workers == 1:
        yield ((key, _attempt(job)) for key, job in jobs.items())
    else:
        with closing(_in_processes(jobs, workers)) as done:
            yield done


def _attempt(job: Callable[[], T]) -> T | Failed:
    """Return the result of a job, or the reason why it failed."""
    try:
        return job()
    except Exception as error:
        return _failed(error)


def _failed(error: BaseException) -> Failed:
    """Return the message of an error, behind the name of its type unless it is about input or files."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    return Failed(text if text and isinstance(error, (ValueError, OSError)) else f"{kind}: {text}".rstrip(": "))


def _in_processes(jobs: Mapping[K, Callable[[], T]], workers: int) -> Found[K, T]:
    """Carry out jobs in local processes, and those whose process died once more, one after another."""
    died: dict[K, Callable[[], T]] = {}
    for count, left in ((workers, jobs), (1, died)):
        with closing(_once_in_processes(left, count)) as done:
            for key, outcome in done:
                if outcome == DIED and left is jobs:
                    died[key] = jobs[key]
                else:
                    yield key, outcome


def _once_in_processes(jobs: Mapping[K, Callable[[], T]], workers: int) -> Found[K, T]:
    """Carry out each job once. Each process is an executor of its own, so that its death breaks no other."""
    others = set(active_children())
    threads = max(1, torch.get_num_threads() // workers)
    waiting, idle = deque(jobs.items()), [_process(threads) for _ in range(min(workers, len(jobs)))]
    running: dict[Future[T | Failed], tuple[K, ProcessPoolExecutor]] = {}
    try:
        while waiting or running:
            while waiting and idle:
                (key, job), executor = waiting.popleft(), idle.pop()
                running[_submit(executor, job)] = key, executor
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                key, executor = running.pop(future)
                error = future.exception()
                died = isinstance(error, BrokenProcessPool)
                idle.append(_process(threads) if died else executor)
                yield key, future.result() if error is None else DIED if died else _failed(error)
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        for executor in (*idle, *(executor for _, executor in running.values())):
            executor.shutdown(cancel_futures=True)


def _process(threads: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _prepare, (threads,))


def _prepare(threads: int) -> None:
    """Prepare a local process: it cleans up when terminated, and ends with its parent, however that ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    torch.set_num_threads(threads)


def _end_with_parent() -> None:
    parent: Any = parent_process()
    parent.join()
    os._exit(1)


def limited(work: Callable[[], T], limit: float = LONG) -> tuple[T, float]:
    """Return the result of picklable work in a process of its own, and its seconds without the start of the process.

    TimeoutError is raised if the work takes more than ``limit`` seconds, RuntimeError if it raises or its process dies.
    """
    start = time.monotonic()
    ((_, outcome),) = _once_in_processes({None: partial(_alarmed, work, limit)}, 1)
    if outcome == DIED and time.monotonic() - start >= limit:
        raise TimeoutError(f"exceeded its limit of {limit:g} s")
    if isinstance(outcome, Failed):
        raise RuntimeError(outcome.reason)
    return outcome


def _alarmed(work: Callable[[], T], limit: float) -> tuple[T, float]:
    """Carry out and time work; the alarm, or a signal to terminate, ends the process at once, whatever it does."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit)
    return once(work)


def _submit(executor: ProcessPoolExecutor, job: Callable[[], T]) -> Future[T | Failed]:
    """Hand a job to a process, which starts now and inherits that Ctrl-C is left to this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return executor.submit(_attempt, job)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler."""
    try:
        from distributed import Client
    except ImportError:
        expected = "the package distributed (pip install 'coordnet[dask]')"
        raise ValueError(f"`dask`: expected {expected}, found none") from None
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"`dask`: expected a scheduler's address, found {address} ({error})") from None
    with client:
        yield client


def _on_cluster(jobs: Mapping[K, Callable[[], T]], client: Any) -> Found[K, T]:
    """Carry out jobs on the workers of a cluster, which runs the jobs of a lost worker again on another one."""
    from distributed import KilledWorker, as_completed

    address = client.scheduler.address
    futures = {client.submit(_attempt, job, pure=False): key for key, job in jobs.items()}
    for future in as_completed(futures, loop=client.loop):
        if future.cancelled():
            raise ValueError(
                f"`dask`: expected the scheduler at {address} to stay, found it gone; "
                "the results so far are kept, and the same command goes on from there"
            )
        key, error = futures.pop(future), future.exception()
        died = isinstance(error, KilledWorker)
        yield key, future.result() if error is None else DIED if died else _failed(error)
