"""Output folders: results appear whole or not at all."""

import mimetypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged_folder(out: Path | None, *, command: str, name: str, force: bool) -> Iterator[tuple[Path, Path]]:
    """Give a hidden folder to write into and the folder that it becomes when all is written.

    Parameters
    ----------
    out : Path, optional
        The folder asked for; a fresh ``results/COMMAND/NAME-1`` (or -2, …) if none was.
    command, name : str
        For the fresh folder's name.
    force : bool
        Let files of the same name be replaced.

    Raises
    ------
    ValueError
        If the folder already holds results, cannot be written, or has the name of a picture, a clip or a recording.
    """
    final = out or _fresh(Path("results") / command, name)
    kind = (mimetypes.guess_type(final.name)[0] or "").partition("/")[0]
    if kind in ("image", "video", "audio") and not final.exists():
        raise ValueError(
            f"--out {final}: expected a folder for the results, found the name of a file ({kind})"
        )
    if final.exists() and not final.is_dir():
        raise ValueError(f"--out {final}: expected a folder, found a file")
    if final.is_dir() and any(final.iterdir()) and not force:
        raise ValueError(
            f"--out {final}: expected a new or empty folder, found files in it (--force replaces)"
        )
    try:
        staging = Path(tempfile.mkdtemp(prefix=".coordnet-", dir=_nearest_folder(final)))
    except OSError as error:
        raise ValueError(
            f"--out {final}: expected a folder that can be written, found {error.strerror}"
        ) from None
    try:
        yield staging, final
        _publish(staging, final)
    except OSError as error:
        raise ValueError(f"--out {final}: expected a folder that can be written, found {error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fresh(folder: Path, name: str) -> Path:
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    return folder / f"{name}-{number}"


def _nearest_folder(path: Path) -> Path:
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _publish(staging: Path, final: Path) -> None:
    final.mkdir(parents=True, exist_ok=True)
    for path in list(staging.iterdir()):
        if path.suffix == ".zarr":
            shutil.rmtree(final / path.name, ignore_errors=True)
            os.replace(path, final / path.name)
    for file in [path for path in staging.rglob("*") if path.is_file()]:
        target = final / file.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.chmod(0o644)
        os.replace(file, target)
