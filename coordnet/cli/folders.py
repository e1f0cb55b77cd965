"""Folders and single files for results, written out of sight and put into place when complete; standard input."""

import fcntl
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from coordnet.cli.common import STANDARD, Output

UNFINISHED = ".coordnet-"  # prefix of the folders that hold unfinished results
RANDOM = 8  # number of characters that ``tempfile`` appends to the prefix
RECORD = "record.json"
# Names of the files that commands write, without their suffix.
RESULTS = ("compare", "figure", "grid", "model", "query", "reconstruction", "record", "restored", "uncertainty")
# Names of the results that become the one file of ``--out``.
ALONE = ("grid", "reconstruction", "restored")
# The first bytes of the formats that are read from standard input; all else is taken for a table.
STARTS = {b"\x89PNG": ".png", b"RIFF": ".wav", b"\x93NUMPY": ".npy"}


def check(output: Output, command: str, *, shared: bool = False, tried: bool = True) -> None:
    """Raise ``ValueError`` if ``--out`` cannot be the folder for the results, or the file (see ``check_file``).

    Refused are a folder with files unless ``--force`` is given, the folder of an input that a result would replace, and
    one that cannot be written, if that is ``tried``. A folder that is ``shared`` by the results of several files may
    hold others.
    """
    explained = getattr(output, "report", None)
    if output.file is not None:
        check_file(output, command, shared=shared)
        if explained is not None:
            check(replace(output, out=explained, report=None), command)
        return
    if explained is not None:
        raise ValueError(f"--report {explained}: expected --out with the name of a file beside it, found none")
    out = output.out
    if out is None:
        return
    try:
        out.exists()
    except OSError as error:  # a name that is too long
        raise refused(out, "a folder that can be written", error.strerror) from None
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise refused(out, "a folder", "a file" if nearest == out else f"a file above it, {nearest.name}")
    is_free = output.force or shared or not out.is_dir()
    if not is_free and any(not path.name.startswith(UNFINISHED) for path in out.iterdir()):
        raise refused(out, "a new or empty folder", "files in it (--force replaces)")
    for path in (Path(file["path"]) for file in output.inputs):
        if path.stem in RESULTS and out.exists() and path.parent.exists() and path.parent.samefile(out):
            raise refused(out, "another folder than the input's own", f"{path.name}, named like a result")
    if tried:
        with staging_folder(out):
            pass


@contextmanager
def results(output: Output, command: str, name: str) -> Iterator[tuple[Path, Path]]:
    """Give a hidden folder to write into, and the file or the folder to which the files move when all are written.

    A file gets what is named as in ``ALONE``, and a ``--report`` beside it the others. A folder is
    ``--out``, or a fresh ``results/COMMAND/NAME-1`` (or -2, …) if it is not given; see ``check`` for what is refused. A
    folder that does not exist is made at once, so that no other run takes it, and is exchanged for the hidden one in a
    single step; a failure removes it again.
    """
    check(output, command, tried=False)
    if output.file is not None:
        with _one_file(output, command, name) as staging:
            yield staging, output.file
        return
    fresh = (Path("results", command, f"{name}-{number}") for number in itertools.count(1))
    places = fresh if output.out is None else [output.out]
    final, made = next((place, made) for place in places if (made := reserve(place)) or output.out)
    try:
        with staging_folder(final.parent if made else final) as staging:
            with _naming_final(staging, final):
                yield staging, final
            (exchange if made else move)(staging, final, output.force)
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _one_file(output: Output, command: str, name: str) -> Iterator[Path]:
    """Give a hidden folder, whose result becomes the one file of ``--out``, and the others the ``--report``."""
    file, explained = Path(output.file or ""), getattr(output, "report", None)
    with ExitStack() as stack:
        if explained is not None:
            beside = results(replace(output, out=explained, report=None), command, name)
            staging, _ = stack.enter_context(beside)
        else:
            staging = stack.enter_context(staging_folder(file))
        with _naming_final(staging, file):
            yield staging
            publish(staging, file, output.force)


@contextmanager
def _naming_final(staging: Path, final: Path) -> Iterator[None]:
    """Name the folder for the results, not the hidden one nor that above, in what is wrong with a file or the disk."""
    try:
        yield
    except (ValueError, OSError) as error:
        inside = re.escape(str(staging)) + (rf"/({'|'.join(ALONE)})\.\w+" if not final.is_dir() else "")
        if re.search(inside, str(error)):
            raise ValueError(re.sub(inside, lambda _: str(final), str(error))) from error
        if isinstance(error, OSError):
            raise refused(final, "a folder that can be written", error.strerror or error) from error
        raise


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """Make a hidden folder on the disk of ``final``, which may not exist yet; ``ValueError`` if it cannot be written.

    Hidden folders of killed runs are removed: each run locks its own, and the kernel releases the lock when a process
    ends. On a disk without locks they stay.
    """
    parent = next(folder for folder in (final.absolute(), *final.absolute().parents) if folder.is_dir())
    try:
        with _locked(parent.parent):  # a run whose own folder does not exist yet writes beside it
            _remove_left(parent.parent)
        with ExitStack() as stack:
            with _locked(parent):  # a run that begins now would remove a folder that is not locked yet
                _remove_left(parent)
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=parent)))
                stack.enter_context(_locked(folder))
            yield folder
    except OSError as error:
        raise refused(final, "a folder that can be written", error.strerror or error) from None


def _remove_left(parent: Path) -> None:
    """Remove the hidden folders in a folder that no living process has locked."""
    for folder in parent.glob(UNFINISHED + "?" * RANDOM):
        with suppress(OSError), _locked(folder, wait=False):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder against other runs.

    Without ``wait``, a folder that another run has locked raises ``OSError``. With it, a folder that cannot be locked,
    because of permissions or the disk, is used without a lock.
    """
    with ExitStack() as stack:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not wait:
                raise
        yield


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
    """Replace an empty folder by another one; if a run has written into it meanwhile, move the files."""
    for file in staging.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)  # safetensors writes files that no one else may read
    staging.chmod(final.stat().st_mode & 0o777)
    try:
        os.rename(staging, final)
    except OSError:
        move(staging, final, force)


def move(staging: Path, final: Path, force: bool) -> None:
    """Move files into a folder, checked once more for other files; results of an earlier run are removed."""
    with _locked(final):
        if not force and any(not path.name.startswith(UNFINISHED) for path in final.iterdir()):
            raise refused(final, "a new or empty folder", "files in it that another run has written")
        earlier = [path for path in final.iterdir() if path.stem in RESULTS] if (final / RECORD).exists() else []
        for path in sorted(earlier, key=lambda path: path.name != RECORD):  # the record goes first
            _remove(path)
        for array in staging.glob("*.zarr"):
            _remove(final / array.name)  # or chunks of an earlier array would be taken for its own
        files = [path for path in staging.rglob("*") if path.is_file()]
        for file in sorted(files, key=lambda path: path.name == RECORD):
            target = final / file.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.chmod(0o644)  # safetensors writes files that no one else may read
            os.replace(file, target)


def _remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def readable(signal: str) -> Iterator[str]:
    """Give the path of a signal; that of a file with all of standard input for ``-``, which errors name so."""
    if signal != STANDARD:
        yield signal
        return
    content = sys.stdin.buffer.read()
    suffix = next((suffix for start, suffix in STARTS.items() if content.startswith(start)), ".csv")
    with tempfile.TemporaryDirectory(prefix="coordnet-") as folder:
        path = Path(folder, f"stdin{suffix}")
        path.write_bytes(content)
        try:
            yield str(path)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "standard input")) from error


def check_file(output: Output, command: str, *, shared: bool) -> None:
    """Raise ``ValueError`` if ``--out`` cannot be the one file with a result, or asks for what it does not hold."""
    from coordnet.media.formats import WRITTEN

    file, option = output.file, f"--out {output.out}"
    assert file is not None, "the caller has looked"
    signals = dict.fromkeys(("reconstruct", "fit", "inpaint", "upscale", "denoise", "demosaic"), WRITTEN)
    suffixes = {**signals, "grid": (".nc", ".csv")}.get(command)
    if suffixes is None:
        raise ValueError(f"{option}: expected a folder for the results, found the name of a file")
    if shared:
        raise ValueError(f"{option}: expected a folder for the results of several files, found the name of one file")
    asked = {"keep_model": "--model", "uncertainty": "--uncertainty"}
    for name in (name for name in asked if output.settings.get(name) and getattr(output, "report", None) is None):
        raise ValueError(f"{asked[name]}: expected --report FOLDER for it, as {option} is written alone, found none")
    if str(file) == STANDARD:
        if output.json:
            raise ValueError("--json: expected another --out than standard output, found both")
        return
    if file.suffix.lower() not in suffixes:
        raise ValueError(f"{option}: expected a suffix that is written ({' '.join(suffixes)}), found {file.suffix!r}")
    if any(Path(path["path"]).exists() and file.exists() and file.samefile(path["path"]) for path in output.inputs):
        raise ValueError(f"{option}: expected another file than the input, found the input")
    if file.exists() and not output.force:
        raise ValueError(f"{option}: expected no file of this name, found one (--force replaces)")


def publish(staging: Path, file: Path, force: bool) -> None:
    """Move the result from a hidden folder to its place, checked once more, or write it to standard output."""
    (made,) = [path for name in ALONE for path in staging.glob(f"{name}.*")]
    if str(file) == STANDARD:
        with made.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        made.unlink()
        return
    if file.exists() and not force:
        raise refused(file, "no file of this name", "one that another run has written (--force replaces)")
    file.parent.mkdir(parents=True, exist_ok=True)
    made.chmod(0o644)
    if made.stat().st_dev == file.parent.stat().st_dev:
        os.replace(made, os.path.realpath(file))
    else:
        shutil.move(made, os.path.realpath(file))
