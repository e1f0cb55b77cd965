"""Run the cells of a study in this process, in local processes or on a Dask cluster, and record each result."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from coordnet import _checks
from coordnet.bench.cells import Cell, describe
from coordnet.bench.records import Record, Writer, failed, read
from coordnet.bench.study import Options, Study

ADDRESS = r"([a-z]+://)?[^/]+:[0-9]+"
DIED = "its process died (killed, or out of memory)"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run(study: Study, options: Options, folder: Path, *, progress: bool = True) -> tuple[int, int]:
    """Carry out the cells that are not recorded yet; return the number of cells, and of those that failed.

    An option that does not fit, or a signal that cannot be read, raises ValueError before anything is run.
    """
    keys: set[str] = set()
    done = read(folder)
    for cells in study.stages(options, done):
        new = [c for c in cells if study.always or c.key not in done or (options.retry and failed(done[c.key]))]
        new = [cell for cell in new if cell.key not in keys]
        for cell in {json.dumps(c.subject().get("signal")): c for c in new}.values():
            cell.check()  # a broken file ends the run before anything is written
        keys |= {cell.key for cell in cells}
        if new:
            bar = partial(tqdm, total=len(cells), desc=study.name, disable=not progress, dynamic_ncols=True)
            _carry_out(new, options, folder, done, partial(bar, initial=len(cells) - len(new)))
    return len(keys), sum(failed(done[key]) for key in keys)


def _carry_out(
    cells: Sequence[Cell], options: Options, folder: Path, done: dict[str, Record], bar: Callable[[], tqdm]
) -> None:
    with _opened(options) as client, Writer(folder) as writer, bar() as shown:
        for record in (cell.run() for cell in cells) if client is None else _distributed(cells, client):
            writer.add(record)
            done[record["key"]] = record
            cell = record["cell"]
            shown.set_postfix_str(f"{cell['task']}, {cell['method']['name']}", refresh=False)
            shown.update()


def _distributed(cells: Sequence[Cell], client: Any) -> Iterator[Record]:
    """Yield the records of cells in the order in which the workers finish.

    Dask runs the cells of a lost worker again on another one. A cell that loses several workers has failed. A lost
    scheduler raises ValueError.
    """
    from distributed import KilledWorker, as_completed

    address = client.scheduler.address
    futures = {client.submit(run_cell, c, pure=False, key=f"{c.experiment}-{c.key}"): c for c in cells}
    for future in as_completed(futures, loop=client.loop):
        if future.cancelled():
            raise ValueError(
                f"`dask`: expected the scheduler at {address} to stay, found it gone; "
                "the records so far are kept, and the same command goes on from there"
            )
        cell, error = futures.pop(future), future.exception()
        if error is None:
            yield future.result()
        else:
            yield cell.failed(DIED if isinstance(error, KilledWorker) else describe(error))


def run_cell(cell: Cell) -> Record:
    """Run a cell in a worker."""
    return cell.run()


@contextmanager
def _opened(options: Options) -> Iterator[Any]:
    """Connect to the workers that some options describe; None stands for this process."""
    if options.dask is None and options.workers == 1:
        yield None
        return
    try:
        import distributed
    except ImportError:
        name = "workers" if options.dask is None else "dask"
        message = f"`{name}`: expected the package distributed (pip install 'coordnet[dask]'), found none"
        raise ValueError(message) from None
    if options.dask is not None:
        with _connected(distributed, options.dask) as client:
            yield client
        return
    share = max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // options.workers))
    library: Any = distributed
    cluster = library.LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        memory_limit=0,  # a large cell may take what it needs
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        env={name: os.environ.get(name, str(share)) for name in THREADS},
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def _connected(distributed: Any, address: str) -> Any:
    if re.fullmatch(ADDRESS, address) is None:
        raise _checks.wrong("dask", "a scheduler's address such as tcp://host:8786", repr(address))
    try:
        return distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"`dask`: expected a scheduler at {address}, found none ({error})") from None
