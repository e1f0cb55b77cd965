"""``coordnet bench gpu``: what only a GPU can show, by the other experiments, in runs that go on from their records."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from coordnet import _checks
from coordnet.bench.needed import CHECKOUT
from coordnet.bench.record_tables import markdown
from coordnet.bench.records import NAME, Cell, Options, Record, Result, Study
from coordnet.bench.runner import STUDIES, run
from coordnet.bench.speed import TASK_GROUPS
from coordnet.comparison.stopwatch import once

NETWORKS_IN = ("table1", "table2", "table3", "figure7", "rethinking", "sampling", "noise")  # papers with networks
MAX_SECONDS = 300.0  # seconds after which the tests of devices, or a notebook, are stopped
EXECUTE = "from nbclient.cli import main; main()"  # Python's own call of ``jupyter execute``


class Checkout(Study):
    """The tests of devices and the notebooks, each in a process of its own."""

    name = "gpu"

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield one cell after another of ``options.only``: tests, or notebooks."""
        if "tests" in options.only:
            shown = ["--collect-only"] if options.quick else []
            plain = ["-o", "addopts=", "-o", "filterwarnings=default", "-p", "no:cacheprovider", "-q", *shown]
            arguments = ["-m", "pytest", *plain, "--device", options.device, "tests/test_devices.py"]
            yield [self._cell("tests", "test_devices", arguments, options.device)]
        if "notebooks" in options.only:
            for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb")):
                yield [self._cell("notebook", path.stem, ["-c", EXECUTE, str(path)], options.device)]

    def _cell(self, task: str, name: str, arguments: Sequence[str], device: str) -> Cell:
        subject = {"task": task, "method": {"name": name, "arguments": list(arguments[1:])}}
        return Cell(experiment=self.name, subject=subject, work=partial(succeeded, arguments), device=device)

    def contents(self, records: list[Record]) -> dict[str, Any]:
        """Return a table of the tests and the notebooks, with the last line of those that failed."""
        lines = [
            {
                "what": record["cell"]["task"],
                "name": record["cell"]["method"]["name"],
                "where": record["machine"]["gpu"] or record["machine"]["processor"],
                "result": record.get("reason") or f"{record['seconds']['run']:.0f} s; {record['notes']['said']}",
            }
            for record in records
        ]
        return {".md": f"# Tests and notebooks\n\n{markdown(pd.DataFrame(lines))}\n"}


def succeeded(arguments: Sequence[str], cell: Cell) -> Result:
    """Run Python in the checkout for ``MAX_SECONDS`` at most; RuntimeError is raised unless its exit status is 0.

    The output of what failed is printed on standard error.
    """
    path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": path}
    options = {"cwd": CHECKOUT, "env": environment, "capture_output": True, "text": True, "timeout": MAX_SECONDS}
    done, seconds = once(partial(subprocess.run, command, **options))
    said = (done.stdout + done.stderr).strip()
    last = said.splitlines()[-1] if said else ""
    if done.returncode:
        print(said, file=sys.stderr)
        raise RuntimeError(last or f"exit status {done.returncode}")
    return Result({}, {"run": seconds}, {"said": last})


EVIDENCE: dict[str, tuple[Study, dict[str, Any]]] = {
    "tests": (Checkout(), {"only": ("tests",)}),
    **{group: (STUDIES["speed"], {"only": (group,)}) for group in TASK_GROUPS},
    "notebooks": (Checkout(), {"only": ("notebooks",)}),
    **{name: (STUDIES[name], {"methods": ("gradient",)}) for name in NETWORKS_IN},
}


def parts(options: Options) -> list[str]:
    """Return the names of the parts that are asked for; ``ValueError`` is raised if an option does not fit."""
    names = options.named(EVIDENCE) or list(EVIDENCE)
    if options.data is None and set(names) & set(NETWORKS_IN):
        raise _checks.wrong("data", "a folder with pictures and clips (--data DIR)", "none")
    return names


def gather(options: Options, folder: Path, minutes: float) -> Iterator[tuple[str, int]]:
    """Carry out the parts that are asked for, and yield a line for each with its failed cells.

    A part's records and tables are in ``folder``/NAME, as those of ``coordnet bench NAME``, and cells that are recorded
    there are left out. Papers are run on the first picture or clip of each before all. Of the cells that are left one
    is begun, and no other after some ``minutes``.
    """
    until, names = time.monotonic() + 60 * minutes, parts(options)
    every = [] if options.quick else [(name, None) for name in names if name in NETWORKS_IN]
    for name, images in [*((name, 1) for name in names), *every]:
        study, changes = EVIDENCE[name]
        place, before = folder / study.name, _size(folder / study.name)
        chosen = replace(options, **changes, images=images, resume=True, until=until)
        count, failed = run(study, chosen, place)
        if _size(place) > before:
            study.write(place)
            yield f"{name}: {count} cells, {failed} of them failed, in {place}", failed
            if time.monotonic() >= until:
                yield f"nothing more is begun after {minutes:g} minutes: the same command goes on", 0
                return
    yield f"all is recorded in {folder}", 0


def _size(folder: Path) -> int:
    """Return the bytes of a folder's records."""
    path = folder / NAME
    return path.stat().st_size if path.exists() else 0


def rehearse(options: Options) -> Iterator[tuple[str, int]]:
    """Begin each part: carry out its first cell at a small size, and leave nothing behind; yield as ``gather`` does."""
    with tempfile.TemporaryDirectory() as folder:
        for name in parts(options):
            _, failed = next(gather(replace(options, only=(name,), quick=True), Path(folder), 0.0))
            yield f"{name}: {'fails' if failed else 'begins'}", failed
