"""Append-only files of records: one line of JSON for each cell, keyed by a hash of the cell's configuration."""

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
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
            if record["key"] not in found or not failed(record) or failed(found[record["key"]]):
                found.pop(record["key"], None)
                found[record["key"]] = record
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}: expected a record in line {number}, found {line[:40]!r}") from None
    return found


class Writer:
    """Appends records to the file of a folder, which it locks against other runs.

    Each record is one write at the file's end. The line that a killed run left unfinished is removed. The kernel
    releases the lock when the process ends, so a kill leaves nothing locked. A folder that is missing is created; one
    that cannot be written, or that another run writes into, raises ValueError.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: expected no other run of this folder, found one (see --workers)") from None
        except OSError as error:
            raise ValueError(f"{folder}: expected a folder that can be written, found {error.strerror}") from None
        os.ftruncate(self._file, self.path.read_bytes().rfind(b"\n") + 1)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def add(self, record: Record) -> None:
        """Append a record, or raise OSError without a trace in the file if the disk is full."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        end = os.fstat(self._file).st_size
        if os.write(self._file, line) < len(line):
            os.ftruncate(self._file, end)
            raise OSError(f"{self.path}: expected room for a record, found the disk full")
