"""Safe reading and writing of files: an error is one line, and a file is written completely or not at all."""

import os
import secrets
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]


class MediaError(ValueError):
    """A file cannot be read or written; the message is one line with the file, the expected and the found content.

    Readers raise it for a file that is missing, damaged, of another format, or that has an infinite value; writers for
    a signal that the format cannot hold, and for a file that exists already.
    """


def mismatch(path: StrPath, expected: str, found: str) -> MediaError:
    """Return the error that says what was expected of a file and what was found."""
    return MediaError(f"{path}: expected {expected}, found {found}")


def readable_file(path: StrPath, expected: str) -> Path:
    """Return the path of a regular file that can be opened and is not empty; raise a ``MediaError`` for any other."""
    path = Path(path)
    try:
        if path.exists() and not path.is_dir() and not path.is_file():  # opening a pipe would wait
            raise mismatch(path, expected, "no regular file")
        with path.open("rb") as file:
            if file.read(1):
                return path
        found = "an empty file"
    except IsADirectoryError:
        found = "a folder"
    except (FileNotFoundError, NotADirectoryError):
        found = "no file of this name"
    except MediaError:
        raise
    except (OSError, ValueError) as error:
        found = f"a file that cannot be opened ({_one_line(error)})"
    raise mismatch(path, expected, found)


@contextmanager
def decoding(path: StrPath, expected: str, found: str = "a file that cannot be decoded") -> Iterator[None]:
    """Turn every error of a decoder into a ``MediaError``, and silence its warnings."""
    # Decoders raise nearly anything for a damaged file (SyntaxError, struct.error, KeyError).
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MediaError, MemoryError):
        raise
    except Exception as error:
        raise mismatch(path, expected, f"{found} ({_one_line(error)})") from error


def encoding(path: StrPath, content: str) -> AbstractContextManager[None]:
    """Turn every error of an encoder into a ``MediaError``, and silence its warnings."""
    return decoding(path, f"to write {content}", "a failure of its encoder")


def _one_line(error: BaseException) -> str:
    """Return the text of an error on one line of at most 200 characters, without path and number."""
    if isinstance(error, OSError) and error.errno is None and error.__cause__:
        error = error.__cause__  # imageio hides the plugin's error behind one of its own
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return textwrap.shorten(text, 200, placeholder="…")


@contextmanager
def atomic_path(path: StrPath, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``, and move the file to ``path`` when the block succeeds.

    The temporary file has the same suffix, so that encoders choose the same format. If the block raises an
    exception, ``KeyboardInterrupt`` included, the temporary file is removed and an earlier file at ``path`` stays.
    A symbolic link is followed: its target is replaced and the link stays. An existing file is replaced only if
    ``force`` is true.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise mismatch(path, "the name of a file to write", "a folder")
    if target.exists() and not force:
        raise mismatch(path, "no file of this name", "one")
    if not target.parent.is_dir():
        raise mismatch(path, "a file in an existing folder", f"no folder {target.parent}")
    temporary = target.with_name(f".tmp-{secrets.token_hex(8)}{target.suffix[:32]}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise mismatch(path, "a file that can be written", f"an error ({_one_line(error)})") from error
    finally:
        temporary.unlink(missing_ok=True)
