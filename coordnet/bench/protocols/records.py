"""Records: one line of JSON a cell, appended whole, keyed by a hash of the cell's configuration."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Record = dict[str, Any]
NAME = "records.jsonl"


def key_of(configuration: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that name a configuration."""
    text = json.dumps(configuration, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(folder: Path) -> list[Record]:
    """The records of a folder in the order they came, none if there are none.

    Raises
    ------
    ValueError
        If a line is no record; the last one may be torn, and does not count then.
    """
    path = folder / NAME
    if not path.is_file():
        return []
    return list(_parse(path, path.read_bytes()).values())


class Records:
    """The records of a folder, to which several processes may add at once.

    A record is one write at the file's end under a lock, so that lines never mix. What a killed writer left of a line
    has no line end: readers leave it out, and the next writer cuts it off. Locks are the kernel's and are gone with
    their process, so that nothing stays locked after a kill. Byte 0 of ``.lock`` is the file's; every other byte
    claims a cell, so that two runs do not compute the same one.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    retry : bool
        Count cells that failed as not there.

    Raises
    ------
    ValueError
        If the folder cannot be written, or a whole line is no record.

    Notes
    -----
    POSIX record locks exclude other processes, not other ``Records`` of the same one.
    """

    def __init__(self, folder: Path, *, retry: bool = False) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise ValueError(
                f"{folder}: expected a folder that can be written, found {error.strerror}"
            ) from None
        self._rows: dict[str, Record] = {}
        self._retry = retry
        self._end = 0  # of the last whole line that was read
        self.refresh()

    def __contains__(self, key: str) -> bool:
        return key in self._rows and not (self._retry and _open(self._rows, key))

    def __getitem__(self, key: str) -> Record:
        return self._rows[key]

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        os.close(self._lock)

    def refresh(self) -> None:
        """Read what was added since."""
        size = os.fstat(self._file).st_size
        added = os.pread(self._file, max(0, size - self._end), self._end)
        for key, record in _parse(self.path, added).items():
            if _open(self._rows, key):
                self._rows[key] = record
        self._end += added.rfind(b"\n") + 1

    def add(self, record: Record) -> bool:
        """Append a record unless its key is there already, or only failed; say whether it was added.

        Raises
        ------
        OSError
            If it cannot be written whole; what was written of it is taken back.
        """
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._locked(0):
            self.refresh()
            if not _open(self._rows, record["key"]):
                return False
            os.ftruncate(self._file, self._end)
            if os.write(self._file, line) < len(line):
                os.ftruncate(self._file, self._end)
                raise OSError(f"{self.path}: expected room for a record, found the disk full")
            self._rows[record["key"]] = record
            self._end += len(line)
        return True

    def claim(self, key: str) -> bool:
        """Claim a cell for this process; false where another one has it."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, key: str) -> None:
        """Give a claimed cell back."""
        fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, _byte(key))

    @contextmanager
    def _locked(self, byte: int) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX, 1, byte)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, byte)


def _byte(key: str) -> int:
    return 1 + int(key[:15], 16)


def _open(rows: dict[str, Record], key: str) -> bool:
    """Whether a record of a key would count: none is there, or one that failed."""
    return key not in rows or rows[key].get("status") == "failed"


def _parse(path: Path, content: bytes) -> dict[str, Record]:
    """Records by key, of each the first that is done, else the last; a last line without its end is left out."""
    rows: dict[str, Record] = {}
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
            if _open(rows, record["key"]):
                rows[record["key"]] = record
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}: expected a record in line {number}, found {line[:40]!r}") from None
    return rows
