"""One command on several files: in this process, in local processes or on a Dask cluster."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
import typer
from tqdm import tqdm

from coordnet.cli import report
from coordnet.cli.common import Common, Many, is_folder, plain_warnings
from coordnet.cli.report import Outcome
from coordnet.media import SAMPLES, MediaError
from coordnet.media.arrays import split_member
from coordnet.media.read import KINDS

DIED = "its process died (killed, or out of memory)"
DONE = "record.json"  # moved into a folder of results after all other files

Work = Callable[[str, Common], Outcome]  # one file, which it restores, writes and describes
Job = Callable[[], Outcome | str]  # the reason where it failed


def each(command: str, work: Work, signals: list[str], many: Many, common: Common) -> None:
    """Carry out a command on one signal, or on several files and on those in folders, each into a folder of its own.

    Where there are several, files with results are left out, unless ``--force`` is given. One that fails stops no
    other; the failures are printed at the end, and the exit status is then 2.
    """
    files = _files(signals)
    if files == signals and len(files) == 1:
        outcome = work(signals[0], common)
        report.show(outcome.record, outcome.lines, common)
        return
    folder = (common.out or Path("results", command)).absolute()
    places = _places(files, folder)
    left = {file: place for file, place in places.items() if common.force or not (place / DONE).exists()}
    quiet = {place: replace(common, out=place, quiet=True, force=True) for place in left.values()}
    jobs = {file: partial(_attempt, work, _absolute(file), quiet[place]) for file, place in left.items()}
    lines, failures = [], []
    with tqdm(total=len(jobs), desc=command, unit="file", disable=not common.progress, dynamic_ncols=True) as bar:
        for file, outcome in _outcomes(jobs, many):
            bar.update()
            if isinstance(outcome, str):
                failures.append(f"coordnet: {file}: {outcome}")
            elif common.json:
                report.show(outcome.record, outcome.lines, common)
            else:
                lines.append(f"{file}: {outcome.summary}")
    before = f", {len(files) - len(left)} done before (--force does them again)" if len(left) < len(files) else ""
    if not (common.json or common.quiet) and len(failures) < len(files):
        print("\n".join([*lines, f"{len(jobs) - len(failures)} of {len(jobs)} written to {folder}{before}"]))
    if failures:
        print("\n".join(failures), file=sys.stderr)
        raise typer.Exit(2)


def _files(signals: list[str]) -> list[str]:
    """The signals, with the files of folders in their place; a folder without any raises a ``ValueError``."""
    files: list[str] = []
    for signal in signals:
        path = Path(signal)
        if not signal.strip():
            raise MediaError("signal: expected a file, a folder or a built-in picture, found an empty name")
        if not is_folder(path) or signal in SAMPLES:
            files.append(signal)
            continue
        inside = [str(file) for file in sorted(path.iterdir()) if file.suffix.lower() in KINDS]
        if not inside:
            raise MediaError(f"{signal}: expected a folder of pictures or other signals, found none in it")
        files += inside
    return list(dict.fromkeys(files))


def _places(files: list[str], folder: Path) -> dict[str, Path]:
    """The folder for the results of each file: its name, with its suffix and a number where others have that name."""
    places: dict[str, Path] = {}
    for file in files:
        path = Path(file)
        names = [path.stem, f"{path.stem}-{path.suffix[1:]}", *(f"{path.stem}-{n}" for n in range(2, len(files) + 2))]
        places[file] = next(folder / name for name in names if folder / name not in places.values())
    return places


def _absolute(signal: str) -> str:
    """The absolute path of a file, which a worker elsewhere can read; the name of a built-in picture as it is."""
    return str(Path(signal).absolute()) if split_member(signal)[0].exists() else signal


def _attempt(work: Work, signal: str, common: Common) -> Outcome | str:
    try:
        return work(signal, common)
    except Exception as error:
        return " ".join(str(error).removeprefix(f"{signal}: ").split()) or type(error).__name__


def _outcomes(jobs: Mapping[str, Job], many: Many) -> Iterator[tuple[str, Outcome | str]]:
    """Yield the outcome of every job as it comes. Jobs whose process died with that of another run once more, alone."""
    if many.workers == 1 and many.dask is None:
        yield from ((file, job()) for file, job in jobs.items())
        return
    died = []
    with _executor(many) as executor:
        futures = {executor.submit(job): file for file, job in jobs.items()}
        for future in as_completed(futures):
            if future.exception() is None:
                yield futures[future], future.result()
            else:
                died.append(futures[future])
    for file in died:
        if many.dask is not None or len(jobs) == 1:
            yield file, DIED
        else:
            yield from _outcomes({file: jobs[file]}, replace(many, workers=2))


def _start(threads: int) -> None:
    """Prepare a local process."""
    torch.set_num_threads(threads)
    plain_warnings()


@contextmanager
def _executor(many: Many) -> Iterator[Executor]:
    """Yield local processes, or the workers of a Dask cluster."""
    if many.dask is None:
        threads = max(1, (os.cpu_count() or 1) // many.workers)
        local = {"mp_context": get_context("spawn"), "initializer": _start, "initargs": (threads,)}
        executor = ProcessPoolExecutor(many.workers, **local)
        try:
            yield executor
        finally:
            executor.shutdown(cancel_futures=True)
        return
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "`dask`: expected the package distributed (pip install 'coordnet[dask]'), found none"
        ) from None
    try:
        client = Client(many.dask, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"`dask`: expected a scheduler's address, found {many.dask} ({error})") from None
    with client:
        yield client.get_executor(pure=False)
