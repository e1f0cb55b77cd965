"""Studies and their cells, the pieces of work of an experiment, with their records: lines of JSON, keyed by cell."""

import fcntl
import hashlib
import json
import math
import subprocess
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench.signals import Signal
from coordnet.comparison.stopwatch import machine, tried
from coordnet.media import atomic_path

Record = dict[str, Any]
NAME = "records.jsonl"
_short = partial(textwrap.shorten, width=200, placeholder="…")


class Result(NamedTuple):
    """The numbers that a cell measured: scores and seconds by name, None where there are none, and any notes."""

    scores: Mapping[str, float | None]
    seconds: Mapping[str, float | None]
    notes: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """A method applied to a task, with the seed of everything drawn and the epochs of a trained method."""

    experiment: str
    subject: dict[str, Any]  # describes the task and the method, with ``task`` and ``method.name`` in each
    work: Callable[["Cell"], Result]  # takes the cell, for its seed, epochs and device; can be pickled
    signal: Signal | None = None  # it is read before the first cell is run
    seed: int = 0
    epochs: int | None = None
    device: str = "cpu"

    def configuration(self) -> dict[str, Any]:
        """Return everything on which the cell's numbers depend, as JSON holds it."""
        rest = {"seed": self.seed, "epochs": self.epochs, "device": self.device}
        return {"experiment": self.experiment, **self.subject, **rest}

    @cached_property
    def key(self) -> str:
        """The hash of the configuration."""
        return key_of(self.configuration())

    def run(self) -> Record:
        """Carry the cell out and record its result, with any warnings, or the reason for its failure."""
        trial = tried(self._measured)
        if trial.error is not None:
            return self.failed(f"{type(trial.error).__name__}: {trial.error}")
        texts = sorted(set(map(_short, trial.warnings)))
        return self._record(trial.result | ({"warnings": texts} if texts else {}))

    def _measured(self) -> dict[str, Any]:
        outcome = self.work(self)
        scores = {k: v if v is not None and math.isfinite(v) else None for k, v in outcome.scores.items()}
        result = {"status": "done", "scores": scores, "seconds": dict(outcome.seconds), "notes": dict(outcome.notes)}
        json.dumps(result, allow_nan=False)  # a value that JSON cannot hold is a failure of this cell alone
        return result

    def failed(self, reason: str) -> Record:
        """Record that the cell failed."""
        return self._record({"status": "failed", "reason": _short(reason)})

    def _record(self, content: dict[str, Any]) -> Record:
        return {"key": self.key, "cell": self.configuration(), **content, "machine": _where(self.device)}


def plain(value: Any) -> Any:
    """Return the parameters of an object as JSON holds them.

    Classes and functions become their names, and dataclasses their fields. Fields with their default value are left
    out, except for numbers, so that a new option does not change the keys of old records. Infinity becomes "inf".
    """
    if isinstance(value, partial):
        return {"function": plain(value.func), **value.keywords}
    if is_dataclass(value) and not isinstance(value, type):
        values = {f.name: (getattr(value, f.name), f.default) for f in fields(value)}
        kept = {k: v for k, (v, default) in values.items() if type(v) in (int, float) or v != default}
        return {"kind": type(value).__name__, **{k: plain(v) for k, v in kept.items()}}
    if callable(value):
        return getattr(value, "name", None) or value.__name__
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@cache
def _where(device: str) -> dict[str, Any]:
    """Describe the machine, with the commit of the code if it is a checkout."""
    command = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    commit = None
    with suppress(OSError):  # there may be no git
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
        commit = described.stdout.strip() or None
    return {**machine(torch.device(device)), "commit": commit}


def key_of(configuration: Mapping[str, Any]) -> str:
    """Return sixteen hexadecimal digits that identify a configuration."""
    text = json.dumps(configuration, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def failed(record: Record) -> bool:
    """Return whether a record holds a failure instead of a result."""
    return record.get("status") == "failed"


def read(folder: Path) -> dict[str, Record]:
    """Read the records of a folder by key, in the order in which they were written; none without a file.

    The last result of several records with the same key counts, or the last failure if there is no result. A last line
    without a line end was cut off by a kill and is skipped; any other line that is not a record raises ValueError.
    """
    path, by_key = folder / NAME, {}
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if not isinstance(record["key"], str) or not isinstance(record.get("cell", {}), dict):
                raise TypeError(line)
            if record["key"] not in by_key or not failed(record) or failed(by_key[record["key"]]):
                by_key.pop(record["key"], None)
                by_key[record["key"]] = record
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path}: expected a record in line {number}, found {line[:40]!r}") from None
    return by_key


@contextmanager
def appending(folder: Path) -> Iterator[Callable[[Record], None]]:
    """Lock the file of a folder against other runs, and yield a function that appends a record to it.

    The line that a killed run left unfinished is removed. The kernel releases the lock when the process ends. A missing
    folder is created; one that cannot be written, or that another run writes into, raises ValueError, and so does a
    full disk.
    """
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise ValueError(f"{folder}: expected a folder that can be written, found {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: expected no other run of this folder, found one (see --workers)") from None
        file.truncate(path.read_bytes().rfind(b"\n") + 1)

        def add(record: Record) -> None:
            line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
            try:
                while line:  # a disk may take a part of a line
                    line = line[file.write(line) :]
            except OSError as error:
                raise ValueError(f"{path}: expected a file that can be written, found {error.strerror}") from error

        yield add


@dataclass(frozen=True)
class Options:
    """The part of a study that is run, and where; a study ignores the options that do not concern it."""

    data: Path | None = None  # the data folder
    quick: bool = False  # one signal, few samples, few epochs
    images: int | None = None  # the number of files, from the first on
    epochs: int | None = None  # the length of trainings, instead of the study's
    seeds: int | None = None  # the number of draws, instead of the study's
    methods: tuple[str, ...] = ()  # groups or patterns of names in the shell's syntax; all methods if empty
    only: tuple[str, ...] = ()  # parts of the study; the usual ones if empty
    sizes: tuple[int, ...] = ()  # samples along a side, instead of the study's
    device: str = "cpu"  # or "cuda", "cuda:1" …
    workers: int = 1  # local processes
    dask: str | None = None  # the address of a Dask scheduler that runs the cells instead
    retry: bool = False  # carry failed cells out again
    resume: bool = False  # carry no recorded cell out again, not even a timing
    until: float = math.inf  # the time of ``time.monotonic`` from which no more cells are begun

    def named(self, parts: Iterable[str]) -> list[str]:
        """Return the names in ``only``; one that is not among the parts of a study raises a ``ValueError``."""
        return [_checks.choice("only", name, parts) for name in self.only]


class Study(ABC):
    """A collection of cells, and the tables and figures of their records."""

    name: str  # names the command, the folder and the files
    experiments: ClassVar[tuple[str, ...]] = ()  # experiments in the tables; the study's own if empty
    always: ClassVar[bool] = False  # carry recorded cells out again, because timings belong to one run

    @abstractmethod
    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of a run, in stages that may depend on the records by key of earlier stages."""

    @abstractmethod
    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the tables and figures of records by the suffixes of their files, the report in Markdown first."""

    def records(self, folder: Path) -> list[Record]:
        """Read the study's records, or raise ValueError if there are none."""
        names = self.experiments or (self.name,)
        own = [r for r in read(folder).values() if r["cell"]["experiment"] in names]
        if not own:
            expected = f"expected records of {self.name}, found none; run coordnet bench {self.name} first"
            raise ValueError(f"{folder / NAME}: {expected}")
        return own

    def write(self, folder: Path) -> list[Path]:
        """Write the tables and the figure beside the records, and return their paths."""
        contents = self.contents(self.records(folder))
        written = {folder / f"{self.name}{suffix}": content for suffix, content in contents.items()}
        for target, content in written.items():
            with atomic_path(target, force=True) as path:
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8")
                else:
                    content.savefig(path, dpi=110)
        return list(written)
