"""``coordnet bench NAME``: which cells a run has, and how they come to be recorded."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tqdm import tqdm

from coordnet import _checks
from coordnet.bench.protocols.cells import Cell, Method
from coordnet.bench.protocols.records import Records, read
from coordnet.bench.protocols.tables import EXPERIMENTS, Experiment
from coordnet.bench.protocols.workers import Pool, open_pool

QUICK_IMAGES = 1
PAUSE = 0.2  # seconds between looks at cells that another run is at


@dataclass(frozen=True)
class Options:
    """What of an experiment is run, and where.

    Attributes
    ----------
    data : Path
        The data folder.
    quick : bool
        One signal, small, with few epochs.
    images : int, optional
        The first so many files; all if not given.
    epochs, seeds : int, optional
        In place of the experiment's.
    methods : tuple of str
        Groups, or patterns of names as the shell has them; all methods if none is given.
    device : str
        "cpu" or "cuda".
    workers : int
        Local processes.
    dask : str, optional
        Address of a scheduler that runs the cells instead.
    retry : bool
        Carry out cells that failed again.
    """

    data: Path
    quick: bool = False
    images: int | None = None
    epochs: int | None = None
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    device: str = "cpu"
    workers: int = 1
    dask: str | None = None
    retry: bool = False


def cells(name: str, options: Options) -> list[Cell]:
    """The cells of a run, cheap methods first, of them those of a signal together.

    Raises
    ------
    ValueError
        If a number is below 1, no method is of a pattern's name, or the data folder has no signals.
    """
    for option in ("images", "epochs", "seeds", "workers"):
        if getattr(options, option) is not None:
            _checks.integer(option, getattr(options, option), 1)
    experiment = EXPERIMENTS[_checks.choice("name", name, EXPERIMENTS)]
    made = list(_cells(name, experiment, options, _chosen(experiment, options.methods)))
    return sorted(made, key=lambda cell: (cell.method.cost, cell.signal.path, cell.signal.kind))


def _cells(name: str, experiment: Experiment, options: Options, chosen: set[str]) -> Iterator[Cell]:
    size = experiment.quick_size if options.quick else experiment.size
    images = QUICK_IMAGES if options.quick and options.images is None else options.images
    epochs = options.epochs or (experiment.quick_epochs if options.quick else experiment.epochs)
    seeds = options.seeds or (1 if options.quick else experiment.seeds)
    found = list(experiment.find(options.data, size, images))
    for task, methods in experiment.blocks:
        for method in methods:
            if method.name not in chosen:
                continue
            for signal in found:
                for seed in range(seeds if task.draws or method.draws else 1):
                    yield Cell(
                        name,
                        task,
                        signal,
                        method,
                        seed,
                        epochs if method.group == "gradient" else None,
                        "cpu" if method.group == "baseline" else options.device,
                    )


def _chosen(experiment: Experiment, patterns: tuple[str, ...]) -> set[str]:
    """The names of the methods that some patterns mean."""
    methods = {method.name: method for _, block in experiment.blocks for method in block}
    if not patterns:
        return set(methods)
    chosen: set[str] = set()
    for pattern in patterns:
        meant = {name for name, method in methods.items() if _means(pattern, method)}
        if not meant:
            expected = "a group (baseline, closed form, gradient) or a name among " + "; ".join(methods)
            raise _checks.wrong("methods", expected, repr(pattern))
        chosen |= meant
    return chosen


def _means(pattern: str, method: Method) -> bool:
    return fnmatchcase(method.name, pattern) or method.group == pattern


def run(name: str, options: Options, folder: Path, *, progress: bool = True) -> tuple[int, int]:
    """Carry out what is not recorded yet; how many cells there are, and how many of them failed.

    Parameters
    ----------
    name : str
        Of the experiment.
    options : Options
        What of it.
    folder : Path
        Where the records are.
    progress : bool
        Show a bar over the cells.

    Raises
    ------
    MediaError
        If a signal of what is not recorded yet cannot be read; nothing is run then.
    """
    wanted = cells(name, options)
    recorded = {record["key"] for record in read(folder) if not options.retry or record["status"] == "done"}
    new = [cell for cell in wanted if cell.key not in recorded]
    for signal in dict.fromkeys(cell.signal for cell in new):
        signal.load()  # a broken file ends the run here, before anything is written, not every cell of it
    with (
        open_pool(options.workers, options.dask if new else None) as pool,
        Records(folder, retry=options.retry) as records,
    ):
        todo = [cell for cell in wanted if cell.key not in records]
        done = len(wanted) - len(todo)
        with tqdm(
            total=len(wanted), initial=done, desc=name, disable=not progress, dynamic_ncols=True
        ) as bar:
            _work(todo, records, pool, bar)
        rows = [cell.key for cell in wanted]
        return len(rows), sum(records[key]["status"] == "failed" for key in rows)


def _work(todo: list[Cell], records: Records, pool: Pool, bar: tqdm) -> None:
    """Keep the pool busy with cells that nobody else is at, until every one is recorded."""
    waiting = {cell.key: cell for cell in todo}
    running: set[str] = set()
    while waiting or running:
        _fill(waiting, running, records, pool, bar)
        if not running:
            time.sleep(PAUSE)  # the rest is with another run
            records.refresh()
            continue
        for record in pool.finished():
            records.add(record)
            running.discard(record["key"])
            records.release(record["key"])
            _tell(bar, record["cell"])


def _fill(waiting: dict[str, Cell], running: set[str], records: Records, pool: Pool, bar: tqdm) -> None:
    for key, cell in list(waiting.items()):
        if len(running) >= pool.size:
            return
        if not records.claim(key):
            continue
        records.refresh()
        del waiting[key]
        if key in records:
            records.release(key)
            bar.update()
            continue
        running.add(key)
        pool.submit(cell)


def _tell(bar: tqdm, cell: dict[str, object]) -> None:
    method, signal = cell["method"], cell["signal"]
    assert isinstance(method, dict) and isinstance(signal, dict)
    bar.set_postfix_str(f"{method['name']}, {signal['name']}", refresh=False)
    bar.update()
