"""Run the cells of a study in this process, in local processes or on a Dask cluster, and record each result."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from coordnet.bench import papers
from coordnet.bench.attention_study import Attention
from coordnet.bench.cells import Cell
from coordnet.bench.quality import Quality
from coordnet.bench.records import NAME, Record, appending, failed, read
from coordnet.bench.series import Series
from coordnet.bench.speed import Speed
from coordnet.bench.study import Options, Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (*papers.STUDIES, Quality(), Speed(), Attention(), Series())
}
DIED = "its process died (killed, or out of memory)"


def report(name: str, options: Options | None, folder: Path, *, progress: bool = True) -> tuple[str, int]:
    """Run a study, write its tables and figures; return the text of its report, and the number of cells that failed.

    Without options the records that exist are reported; without records ValueError is raised.
    """
    study, lines, broken = STUDIES[name], [], 0
    if options is not None:
        count, broken = run(study, options, folder, progress=progress)
        lines.append(f"{count} cells, {broken} of them failed, in {folder / NAME}")
    try:
        written = study.write(folder)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder / NAME}: expected records of {name}, found others ({error!r})") from error
    lines.insert(0, written[0].read_text(encoding="utf-8"))
    return "\n".join([*lines, "written to " + ", ".join(str(path) for path in written)]), broken


def run(study: Study, options: Options, folder: Path, *, progress: bool = True) -> tuple[int, int]:
    """Carry out the cells that are not recorded yet; return the number of cells, and of those that failed.

    An option that does not fit, or a signal that cannot be read, raises ValueError before anything is run.
    """
    keys: set[str] = set()
    done = read(folder)
    for stage in study.stages(options, done):
        cells = {cell.key: cell for cell in stage if cell.key not in keys}
        keys |= set(cells)
        new = [c for k, c in cells.items() if study.always or k not in done or (options.retry and failed(done[k]))]
        for signal in dict.fromkeys(cell.signal for cell in new if cell.signal):
            signal.load()  # a broken file ends the run before anything is written
        if not new:
            continue
        bar: dict[str, Any] = {"total": len(cells), "initial": len(cells) - len(new), "desc": study.name}
        with _workers(options) as client, appending(folder) as add, tqdm(**bar, disable=not progress) as shown:
            for record in map(Cell.run, new) if client is None else _distributed(new, client):
                add(record)
                done[record["key"]] = record
                shown.set_postfix_str(f"{record['cell']['task']}, {record['cell']['method']['name']}", refresh=False)
                shown.update()
    return len(keys), sum(failed(done[key]) for key in keys)


def _distributed(cells: Sequence[Cell], client: Any) -> Iterator[Record]:
    """Yield the records of cells in the order in which the workers finish.

    Dask runs the cells of a lost worker again on another one. A cell that loses several workers has failed. A lost
    scheduler raises ValueError.
    """
    from distributed import KilledWorker, as_completed

    address = client.scheduler.address
    futures = {client.submit(Cell.run, c, pure=False, key=f"{c.experiment}-{c.key}"): c for c in cells}
    for future in as_completed(futures, loop=client.loop):
        if future.cancelled():
            raise ValueError(
                f"`dask`: expected the scheduler at {address} to stay, found it gone; "
                "the records so far are kept, and the same command goes on from there"
            )
        cell, error = futures.pop(future), future.exception()
        reason = DIED if isinstance(error, KilledWorker) else f"{type(error).__name__}: {error}"
        yield future.result() if error is None else cell.failed(reason)


@contextmanager
def _workers(options: Options) -> Iterator[Any]:
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
    local: dict[str, Any] = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": None}
    local |= {"memory_limit": 0, "silence_logs": logging.CRITICAL}  # a cell may take what it needs
    try:
        client = distributed.Client(options.dask, set_as_default=False, **({} if options.dask else local))
    except (OSError, ValueError) as error:
        raise ValueError(f"`dask`: expected a scheduler's address, found {options.dask} ({error})") from None
    with client:
        yield client
