"""What goes wrong with files, said in one line."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]


class MediaError(ValueError):
    """A file cannot be read or written: one line with its name, what was expected and what was found."""


def one_line(error: BaseException, limit: int = 200) -> str:
    """Return what an exception says on one line of at most `limit` characters, without the path or number."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = " ".join(re.sub(r"^\[Errno \d+\] ", "", said).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


def readable_file(path: StrPath, expected: str) -> Path:
    """Return the path of a file that exists, can be opened and holds at least one byte.

    Raises
    ------
    MediaError
        If nothing is there, or a folder, or an empty file, or a file without permission to read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except IsADirectoryError:
        raise MediaError(f"{path}: expected {expected}, found a folder") from None
    except (FileNotFoundError, NotADirectoryError):
        raise MediaError(f"{path}: expected {expected}, found no file of this name") from None
    except (OSError, ValueError) as error:
        found = f"found a file that cannot be opened ({one_line(error)})"
        raise MediaError(f"{path}: expected {expected}, {found}") from None
    if empty:
        raise MediaError(f"{path}: expected {expected}, found an empty file")
    return path


@contextmanager
def decoding(path: StrPath, expected: str) -> Iterator[None]:
    """Turn whatever a decoder raises into a `MediaError`, and keep its warnings to itself.

    Decoders raise nearly anything for a damaged file (`SyntaxError`, `struct.error`, `KeyError`), so nothing
    but a lack of memory is let through.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MediaError, MemoryError):
        raise
    except Exception as error:
        found = f"found a file that cannot be decoded ({one_line(error)})"
        raise MediaError(f"{path}: expected {expected}, {found}") from error


@contextmanager
def encoding(path: StrPath, content: str) -> Iterator[None]:
    """Turn whatever an encoder raises into a `MediaError`, and keep its warnings to itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MediaError, MemoryError):
        raise
    except Exception as error:
        why = f"found a failure of its encoder ({one_line(error)})"
        raise MediaError(f"{path}: expected to write {content}, {why}") from error
