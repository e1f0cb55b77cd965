"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coordnet.media.errors import MediaError, StrPath, one_line


@contextmanager
def atomic_path(path: StrPath, *, force: bool = False) -> Iterator[Path]:
    """Lend a temporary path in the folder of `path`, and move it to `path` when the block succeeds.

    The temporary file has the same suffix, so that encoders choose the same format. If the block raises
    anything, `KeyboardInterrupt` included, the temporary file is removed and what was at `path` stays.
    A symbolic link is followed: its target is replaced, the link stays.

    Parameters
    ----------
    path
        Where the file shall appear.
    force
        Whether a file that is already there may be replaced.

    Raises
    ------
    MediaError
        If `path` exists and `force` is false, if it is a folder, if its folder is missing or cannot be
        written to, or if the system refuses a write inside the block (a full disk).

    Examples
    --------
    >>> with atomic_path("record.json", force=True) as temporary:
    ...     _ = temporary.write_text("{}")
    """
    target = Path(os.path.realpath(path))
    _refuse_existing(path, target, force)
    temporary = target.with_name(f".tmp-{secrets.token_hex(8)}{target.suffix[:32]}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        _refuse_existing(path, target, force)
        os.replace(temporary, target)
    except OSError as error:
        raise MediaError(f"{path}: expected a place to write to, found {_obstacle(target, error)}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _refuse_existing(path: StrPath, target: Path, force: bool) -> None:
    if target.is_dir():
        raise MediaError(f"{path}: expected the name of a file to write, found a folder")
    if target.exists() and not force:
        raise MediaError(f"{path}: expected no file of this name, found one (force replaces it)")


def _obstacle(target: Path, error: OSError) -> str:
    if not target.parent.is_dir():
        return f"no folder {target.parent}"
    return f"a refusal ({one_line(error)})"
