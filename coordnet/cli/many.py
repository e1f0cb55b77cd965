"""One command on several files: in this process, in local processes or on a Dask cluster."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
import typer
from tqdm import tqdm

from coordnet.bench.limits import end_with
from coordnet.cli import report
from coordnet.cli.common import Common, Many, is_folder, plain_warnings
from coordnet.cli.folders import refused
from coordnet.cli.origin import difference, earlier, origin, reading
from coordnet.cli.report import Outcome
from coordnet.media import SAMPLES, MediaError
from coordnet.media.array_files import split_member
from coordnet.media.read import KIND_BY_SUFFIX

DIED = "its process died (killed, or out of memory)"

Work = Callable[[str, Common], Outcome]  # one file, which it restores, writes and describes
Job = Callable[[], Outcome | str]  # the reason where it failed
Beside = Callable[[str], Iterable[str | Path]]  # the files that the result of a file follows from too


def each(
    command: str, work: Work, signals: list[str], many: Many, common: Common, beside: Beside = lambda _: ()
) -> None:
    """Carry out a command on one signal, or on several files and on those in folders, each into a folder of its own.

    Where there are several, a file is left out whose results are there already, by the same command and options and
    of the file as it is. Anything else in its folder, results by other options among them, is replaced with ``--force``
    alone; files of one name fail. One that fails stops no other; the failures are printed at the end, and the exit
    status is then 2.
    """
    files = _files(signals)
    if files == signals and len(files) == 1:
        outcome = work(signals[0], reading(common, signals[0], *beside(signals[0])))
        report.show(outcome.record, outcome.lines, common)
        return
    folder = (common.out or Path("results", command)).absolute()
    jobs, failures = _jobs(command, work, {file: reading(common, file, *beside(file)) for file in files}, folder)
    done, lines = len(files) - len(jobs) - len(failures), []
    disable = None if common.progress else True  # None shows the bar on a screen alone, where it hides no failure
    with tqdm(total=len(jobs), desc=command, unit="file", disable=disable, dynamic_ncols=True) as bar:
        for file, outcome in _outcomes(jobs, many):
            bar.update()
            if isinstance(outcome, str):
                failures[file] = outcome
            elif common.json:
                report.show(outcome.record, outcome.lines, common)
            else:
                lines.append(f"{file}: {outcome.summary}")
    before = f", {done} done before (--force does them again)" if done else ""
    if not (common.json or common.quiet) and len(failures) < len(files):
        print("\n".join([*lines, f"{len(lines)} of {len(files) - done} written to {folder}{before}"]))
    if failures:
        print("\n".join(f"coordnet: {file}: {reason}" for file, reason in failures.items()), file=sys.stderr)
        raise typer.Exit(2)


def _jobs(command: str, work: Work, files: Mapping[str, Common], folder: Path) -> tuple[dict[str, Job], dict[str, str]]:
    """The jobs of the files that are not done yet, and the reasons why others cannot be done."""
    jobs: dict[str, Job] = {}
    refusals: dict[str, str] = {}
    names = Counter(map(_name, files))
    for file, options in files.items():
        place, asked = folder / _name(file), origin(command, options)
        found = {} if options.force else earlier(place)
        if found == asked:
            continue
        if names[place.name] > 1:
            named = f"{names[place.name]} whose results belong into {place}"
            refusals[file] = f"expected files of different names, found {named}; run them apart, each with an --out"
        elif found:
            other = f"{difference(found, asked)} (--force replaces)"
            refusals[file] = str(refused(place, "a new or empty folder", other))
        else:
            own = replace(options, out=place, quiet=True)
            jobs[file] = partial(_attempt, work, _absolute(file), own)
    return jobs, refusals


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
        inside = [str(file) for file in sorted(path.iterdir()) if file.suffix.lower() in KIND_BY_SUFFIX]
        if not inside:
            raise MediaError(f"{signal}: expected a folder of pictures or other signals, found none in it")
        files += inside
    return list({_absolute(file): file for file in files}.values())


def _name(file: str) -> str:
    """The name of the folder for the results of a file, which depends on its own name alone."""
    path, member = split_member(file)
    return path.stem if member is None else f"{path.stem}-{member}".replace("/", "-")


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


def _start(threads: int, parent: int) -> None:
    """Prepare a local process."""
    end_with(parent)
    torch.set_num_threads(threads)
    plain_warnings()


@contextmanager
def _executor(many: Many) -> Iterator[Executor]:
    """Yield local processes, or the workers of a Dask cluster."""
    if many.dask is None:
        threads = max(1, (os.cpu_count() or 1) // many.workers)
        local = {"mp_context": get_context("spawn"), "initializer": _start, "initargs": (threads, os.getpid())}
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
