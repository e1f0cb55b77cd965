"""Where cells run: in this process, in local processes, or on a Dask cluster."""

import multiprocessing
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import torch

from coordnet import _checks
from coordnet.bench.protocols.cells import Cell
from coordnet.bench.protocols.records import Record
from coordnet.bench.protocols.running import failed, run_cell, said

ADDRESS = r"([a-z]+://)?[^/]+:[0-9]+"
DIED = "its process died (killed, or out of memory)"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Pool(ABC):
    """Takes cells and gives records back, each cell's once, in any order.

    Attributes
    ----------
    size : int
        Cells to have on the way at once.
    """

    size: int = 1

    @abstractmethod
    def submit(self, cell: Cell) -> None:
        """Take a cell."""

    @abstractmethod
    def finished(self) -> list[Record]:
        """Wait for at least one record."""

    @abstractmethod
    def close(self) -> None:
        """Leave what still runs."""


@contextmanager
def open_pool(workers: int, address: str | None) -> Iterator[Pool]:
    """The pool that some options mean."""
    pool = DaskPool(address) if address else ProcessPool(workers) if workers > 1 else OwnProcess()
    try:
        yield pool
    finally:
        pool.close()


class OwnProcess(Pool):
    """One cell after another, in this process."""

    def submit(self, cell: Cell) -> None:
        """Take a cell."""
        self._cell = cell

    def finished(self) -> list[Record]:
        """Carry it out."""
        return [run_cell(self._cell)]

    def close(self) -> None:
        """Nothing runs."""


class ProcessPool(Pool):
    """Spawned processes, each with its share of the threads.

    A process that dies takes the pool with it. The cells that were on the way then run again, each in a process of
    its own, and a cell whose own process dies has failed.

    Parameters
    ----------
    workers : int
        How many.
    """

    def __init__(self, workers: int) -> None:
        self.size = workers
        self._threads = max(1, (os.cpu_count() or 1) // workers)
        self._executor: ProcessPoolExecutor | None = None
        self._cells: dict[Future[Record], Cell] = {}

    def submit(self, cell: Cell) -> None:
        """Take a cell."""
        self._executor = self._executor or self._open(self.size)
        try:
            future = self._executor.submit(run_cell, cell)
        except BrokenProcessPool as error:  # an earlier cell's end: this one shares it
            future = Future[Record]()
            future.set_exception(error)
        self._cells[future] = cell

    def finished(self) -> list[Record]:
        """Wait for at least one record."""
        done, _ = wait(self._cells, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            self._executor = None
            done, _ = wait(self._cells)
        return [self._record(future) for future in done]

    def close(self) -> None:
        """Leave what still runs."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _record(self, future: Future[Record]) -> Record:
        cell, error = self._cells.pop(future), future.exception()
        if error is None:
            return future.result()
        return self._alone(cell) if isinstance(error, BrokenProcessPool) else failed(cell, said(error))

    def _alone(self, cell: Cell) -> Record:
        with self._open(1) as alone:
            try:
                return alone.submit(run_cell, cell).result()
            except BrokenProcessPool:
                return failed(cell, DIED)

    def _open(self, workers: int) -> ProcessPoolExecutor:
        for name in THREADS:  # spawned processes take them over, where the user did not say otherwise
            os.environ.setdefault(name, str(self._threads))
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(self._threads,))


def _begin(threads: int) -> None:
    """Take a share of the threads, and do not outlive the process that started this one, even if it is killed."""
    torch.set_num_threads(min(threads, torch.get_num_threads()))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class DaskPool(Pool):
    """The workers of a Dask cluster; they read the data folder at the same path.

    Cells of a worker that is lost run again on another one, as Dask has it.

    Parameters
    ----------
    address : str
        Of the scheduler.

    Raises
    ------
    ValueError
        If ``distributed`` is not installed, nobody answers at the address, or, later, nobody does any more.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, as_completed
        except ImportError:
            raise ValueError(
                "`dask`: expected the package distributed (coordnet[dask]), found none"
            ) from None
        if re.fullmatch(ADDRESS, address) is None:
            raise _checks.wrong("dask", "a scheduler's address such as tcp://host:8786", repr(address))
        try:
            self._client: Any = Client(address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"`dask`: expected a scheduler at {address}, found none ({error})") from None
        self._address = address
        self._completed: Any = as_completed(loop=self._client.loop)
        self._cells: dict[Any, Cell] = {}
        self.size = max(1, 2 * sum(self._client.nthreads().values()))

    def submit(self, cell: Cell) -> None:
        """Take a cell."""
        future = self._client.submit(run_cell, cell, pure=False, key=f"{cell.experiment}-{cell.key}")
        self._cells[future] = cell
        self._completed.add(future)

    def finished(self) -> list[Record]:
        """Wait for at least one record."""
        future = next(self._completed)
        if future.cancelled():
            raise ValueError(
                f"`dask`: expected the scheduler at {self._address} to stay, found it gone; "
                "what is recorded is kept, and the same command goes on from there"
            )
        cell, error = self._cells.pop(future), future.exception()
        return [future.result() if error is None else failed(cell, said(error))]

    def close(self) -> None:
        """Leave the cluster."""
        self._client.cancel(list(self._cells))
        self._client.close()
