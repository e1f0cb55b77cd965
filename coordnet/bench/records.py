"""Append-only files of records: one line of JSON for each cell, keyed by a hash of the cell's configuration."""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Record = dict[str, Any]
NAME = "records.jsonl"


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
    path, found = folder / NAME, {}
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if not isinstance(record["key"], str) or not isinstance(record.get("cell", {}), dict):
                raise TypeError(line)
            if record["key"] not in found or not failed(record) or failed(found[record["key"]]):
                found.pop(record["key"], None)
                found[record["key"]] = record
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path}: expected a record in line {number}, found {line[:40]!r}") from None
    return found


@contextmanager
def appending(folder: Path) -> Iterator[Callable[[Record], None]]:
    """Lock the file of a folder against other runs, and yield a function that appends a record to it.

    The line that a killed run left unfinished is removed. The kernel releases the lock when the process ends, so a kill
    leaves nothing locked. A folder that is missing is created; one that cannot be written, or that another run writes
    into, raises ValueError, and so does a full disk.
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
