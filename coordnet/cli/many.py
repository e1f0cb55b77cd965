"""One command on several files, whose results go into folders of their own."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from coordnet.bench.jobs import Failed, outcomes
from coordnet.cli import report
from coordnet.cli.common import Batch, Output, is_folder
from coordnet.cli.declaring import as_typed, plain_warnings
from coordnet.cli.folders import RECORD, readable, refused
from coordnet.cli.report import Outcome, origin, reading
from coordnet.media import SAMPLES, MediaError
from coordnet.media.files import split_member
from coordnet.media.formats import KIND_BY_SUFFIX

Work = Callable[[str, Batch], Outcome]  # carries out the command on one file
Job = Callable[[], Outcome]
Beside = Callable[[str], Iterable[str | Path]]  # the other files on which the result of a file depends


def each(command: str, work: Work, signals: list[str], common: Batch, beside: Beside = lambda _: ()) -> None:
    """Carry out a command on one signal, or on several files and on those in folders, each into a folder of its own.

    If there are several, a file is skipped that has results by the same command and options and has not changed since.
    Anything else in a file's folder, such as results by other options, is only replaced with ``--force``. Files of the
    same name fail. The other files go on after a failure; the failures are printed at the end, with exit status 2.
    """
    files = _files(signals)
    if files == signals and len(files) == 1:
        with readable(signals[0]) as signal:
            outcome = work(signal, reading(common, signal, *beside(signals[0])))
            report.show(outcome.record, outcome.lines, common)
        return
    folder = (common.out or Path("results", command)).absolute()
    jobs, failures = _jobs(command, work, {file: reading(common, file, *beside(file)) for file in files}, folder)
    done, lines = len(files) - len(jobs) - len(failures), []
    disable = None if common.progress else True  # None shows the bar on a screen alone, where it hides no failure
    bar = tqdm(total=len(jobs), desc=command, unit="file", disable=disable, dynamic_ncols=True)
    with bar, outcomes(jobs, workers=common.workers, dask=common.dask) as results:
        for file, outcome in results:
            bar.update()
            if isinstance(outcome, Failed):
                failures[file] = outcome.reason.removeprefix(f"{_absolute(file)}: ")
            elif common.json:
                report.show(outcome.record, outcome.lines, common)
            else:
                lines.append(f"{file}: {outcome.summary}")
    before = f", {done} done before (--force does them again)" if done else ""
    if not (common.json or common.quiet) and len(failures) < len(files):
        print("\n".join([*lines, f"{len(lines)} of {len(files) - done} written to {folder}{before}"]))
    if failures:
        named = (as_typed(f"{file}: {reason}", sys.argv[1:]) for file, reason in failures.items())
        print("\n".join(f"coordnet: {message}" for message in named), file=sys.stderr)
        raise typer.Exit(2)


def _jobs(command: str, work: Work, files: Mapping[str, Batch], folder: Path) -> tuple[dict[str, Job], dict[str, str]]:
    """The jobs of the files that are not done yet, and the reasons why others cannot be done."""
    jobs: dict[str, Job] = {}
    refusals: dict[str, str] = {}
    names = Counter(map(_name, files))
    for file, options in files.items():
        place, asked = folder / _name(file), origin(command, options)
        earlier = {} if options.force else _earlier(place)
        if earlier == asked:
            continue
        if names[place.name] > 1:
            named = f"{names[place.name]} whose results belong into {place}"
            refusals[file] = f"expected files of different names, found {named}; run them apart, each with an --out"
        elif earlier:
            other = f"{_difference(earlier, asked)} (--force replaces)"
            refusals[file] = str(refused(place, "a new or empty folder", other))
        else:
            own = replace(options, out=place, quiet=True, is_one_of_many=True)
            jobs[file] = partial(_warned_plainly, work, _absolute(file), own)
    return jobs, refusals


def _earlier(folder: Path) -> dict[str, Any]:
    """Return the origin of the results in a folder; an empty one if no record there has one."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        if isinstance(record["inputs"][0]["path"], str) and isinstance(record["settings"], dict):
            return {name: record[name] for name in origin("", Output())}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    return {}


def _difference(found: dict[str, Any], asked: dict[str, Any]) -> str:
    """Describe results found in the place of others: by another command, of another file or by other options."""
    path = found["inputs"][0]["path"]
    if (found["command"], path) != (asked["command"], asked["inputs"][0]["path"]):
        return f"the result of {found['command']} on {path}"
    names = found["settings"].keys() | asked["settings"].keys()
    others = sorted(name for name in names if found["settings"].get(name) != asked["settings"].get(name))
    return f"its result by another {', '.join(others)}" if others else "its result from before a file changed"


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


def _warned_plainly(work: Work, signal: str, common: Batch) -> Outcome:
    plain_warnings()  # another process may do the work
    return work(signal, common)
