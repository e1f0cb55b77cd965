"""Folders for results: written out of sight, and put into place when they are complete."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HIDDEN = ".coordnet-"  # how the names of the folders begin in which results are written until they are complete


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """Give a hidden folder on the disk of a folder that need not exist; a refusal to write raises a ``ValueError``."""
    parent = next(folder for folder in (final.absolute(), *final.absolute().parents) if folder.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=HIDDEN, dir=parent) as folder:
            yield Path(folder)
    except OSError as error:
        raise refused(final, "a folder that can be written", error.strerror or error) from None


def refused(folder: Path, expected: str, found: object) -> ValueError:
    """Return the error that says what was expected of a folder for results and what was found."""
    return ValueError(f"--out {folder}: expected {expected}, found {found}")


def reserve(folder: Path) -> list[Path]:
    """Make a folder and those above it; return those that were made, the innermost first, none if it was there."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=path != folder)
    except FileExistsError:
        return []
    except OSError as error:
        raise refused(folder, "a folder that can be written", error.strerror or error) from None
    return missing


def exchange(staging: Path, final: Path, force: bool) -> None:
    """Put a folder in the place of an empty one, or its files where another run has written into that."""
    for file in staging.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)  # safetensors writes files that no one else may read
    staging.chmod(final.stat().st_mode & 0o777)
    try:
        os.rename(staging, final)
    except OSError:
        move(staging, final, force)


def move(staging: Path, final: Path, force: bool) -> None:
    """Move files into a folder, which is looked at once more."""
    if not force and any(not path.name.startswith(HIDDEN) for path in final.iterdir()):
        raise refused(final, "a new or empty folder", "files in it that another run has written")
    for array in staging.glob("*.zarr"):
        shutil.rmtree(final / array.name, ignore_errors=True)  # chunks of an earlier array would be taken for its own
    files = [path for path in staging.rglob("*") if path.is_file()]
    for file in sorted(files, key=lambda path: path.name == "record.json"):  # which says that the others are there
        target = final / file.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.chmod(0o644)  # safetensors writes files that no one else may read
        os.replace(file, target)
