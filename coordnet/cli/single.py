"""Results that are one file, and standard input and output in the place of files."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordnet.cli.common import STANDARD, Output

# The first bytes of the formats that are read from standard input; all else is taken for a table.
STARTS = {b"\x89PNG": ".png", b"RIFF": ".wav", b"\x93NUMPY": ".npy"}


@contextmanager
def readable(signal: str) -> Iterator[str]:
    """Give the path of a signal; that of a file with all of standard input for ``-``."""
    if signal != STANDARD:
        yield signal
        return
    content = sys.stdin.buffer.read()
    suffix = next((suffix for start, suffix in STARTS.items() if content.startswith(start)), ".csv")
    with tempfile.TemporaryDirectory(prefix="coordnet-") as folder:
        path = Path(folder, f"stdin{suffix}")
        path.write_bytes(content)
        yield str(path)


def check_file(output: Output, command: str, *, shared: bool) -> None:
    """Raise ``ValueError`` if ``--out`` cannot be the one file with a result, or asks for what it does not hold."""
    from coordnet.media.formats import WRITTEN

    file, option = output.file, f"--out {output.out}"
    assert file is not None, "the caller has looked"
    if command not in ("reconstruct", "fit", "inpaint", "upscale", "denoise", "demosaic"):
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
    if file.suffix.lower() not in WRITTEN:
        raise ValueError(f"{option}: expected a suffix that is written ({' '.join(WRITTEN)}), found {file.suffix!r}")
    if any(Path(path["path"]).exists() and file.exists() and file.samefile(path["path"]) for path in output.inputs):
        raise ValueError(f"{option}: expected another file than the input, found the input")
    if file.exists() and not output.force:
        raise ValueError(f"{option}: expected no file of this name, found one (--force replaces)")


def publish(staging: Path, file: Path) -> None:
    """Move the result from a hidden folder to its place, or write it to standard output."""
    (made,) = [*staging.glob("reconstruction.*"), *staging.glob("restored.*")]
    if str(file) == STANDARD:
        with made.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        made.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    made.chmod(0o644)
    if made.stat().st_dev == file.parent.stat().st_dev:
        os.replace(made, os.path.realpath(file))
    else:
        shutil.move(made, os.path.realpath(file))
