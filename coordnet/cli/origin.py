"""The origin of results in their record: the command, its options and the files that it read."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from coordnet.cli.common import Output
from coordnet.cli.folders import RECORD
from coordnet.media.array_files import split_member

Options = TypeVar("Options", bound=Output)


def reading(options: Options, *files: str | Path | None) -> Options:
    """Return the options of a command, completed by the present sizes and times of the files that it reads."""
    return replace(options, inputs=tuple(_described(file) for file in files if file is not None))


def origin(command: str, options: Output) -> dict[str, Any]:
    """Return the part of a record that identifies its results."""
    return {"command": command, "settings": options.settings, "inputs": list(options.inputs)}


def earlier(folder: Path) -> dict[str, Any]:
    """Return the origin of the results in a folder; an empty one if no record there has one."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        if isinstance(record["inputs"][0]["path"], str) and isinstance(record["settings"], dict):
            return {name: record[name] for name in origin("", Output())}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    return {}


def difference(found: dict[str, Any], asked: dict[str, Any]) -> str:
    """Describe results found in the place of others: by another command, of another file or by other options."""
    path = found["inputs"][0]["path"]
    if (found["command"], path) != (asked["command"], asked["inputs"][0]["path"]):
        return f"the result of {found['command']} on {path}"
    names = found["settings"].keys() | asked["settings"].keys()
    others = sorted(name for name in names if found["settings"].get(name) != asked["settings"].get(name))
    return f"its result by another {', '.join(others)}" if others else "its result from before a file changed"


def _described(file: str | Path) -> dict[str, Any]:
    """Return a file's or Zarr array's path, bytes and time of change; for a built-in picture, its name alone."""
    path = split_member(file)[0]
    try:
        parts = [p.stat() for p in (path, *path.rglob("*"))] if path.is_dir() else [path.stat()]
    except (OSError, ValueError):
        return {"path": str(file)}
    changed = max(part.st_mtime for part in parts)
    return {"path": os.path.abspath(file), "bytes": sum(part.st_size for part in parts), "changed": changed}
