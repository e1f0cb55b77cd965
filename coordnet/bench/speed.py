"""``coordnet bench speed``: closed-form fits timed against their peers in the same run."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coordnet import _checks
from coordnet.bench import speed_tasks as tasks
from coordnet.bench.speed_tasks import Row
from coordnet.metrics.stopwatch import machine

SIZES = (128, 256, 512, 1024, 2048, 4096)
QUICK = (128, 256)
LARGEST_RANDOM = 2048  # beyond, a fit with the adaptive prior takes minutes
GROUPS = ("grid", "video", "batch", "random", "memory")
DEFAULT = GROUPS[:-1]  # memory of large pictures takes minutes and gigabytes of disk


@dataclass(frozen=True)
class Settings:
    """What is measured.

    Attributes
    ----------
    device : torch.device
        Where; peers that know no GPU run on the CPU all the same.
    groups : tuple of str
        Of ``GROUPS``.
    sizes : tuple of int
        Samples a side of the pictures of ``grid`` and, up to ``LARGEST_RANDOM``, of ``random``.
    quick : bool
        Leave out what takes long: large clips, batches and pictures.
    """

    device: torch.device
    groups: tuple[str, ...] = DEFAULT
    sizes: tuple[int, ...] = SIZES
    quick: bool = False


def run(settings: Settings, tell: Callable[[Row], None] | None = None) -> list[Row]:
    """Time every task, and tell of each row as it is measured."""
    rows = []
    for row in _rows(settings):
        rows.append(row)
        if tell is not None:
            tell(row)
    return rows


def _rows(settings: Settings) -> Iterator[Row]:
    device, quick = settings.device, settings.quick
    for group in settings.groups:
        if group == "grid":
            for size in settings.sizes:
                yield from tasks.grid(size, device)
        elif group == "video":
            for size in (64,) if quick else (64, 128):
                yield from tasks.video(size, device)
        elif group == "batch":
            for signals in (1, 16) if quick else (1, 16, 256):
                yield from tasks.batch(signals, device)
        elif group == "random":
            for size in (size for size in settings.sizes if size <= LARGEST_RANDOM):
                yield from tasks.random_samples((size, size), 0.25, device)
            if not quick:
                yield from tasks.random_samples((128, 128, 128), 0.125, device)
        elif group == "memory":
            yield from tasks.enlarging(512 if quick else 4096, 1024 if quick else 16384)


def parse_groups(text: str | None) -> tuple[str, ...]:
    """The groups of a list of names separated by commas; those that take no minutes if none are given."""
    if text is None:
        return DEFAULT
    return tuple(_checks.choice("only", name.strip(), GROUPS) for name in text.split(","))


def parse_sizes(text: str | None, quick: bool) -> tuple[int, ...]:
    """The sizes of a list of numbers separated by commas."""
    if text is None:
        return QUICK if quick else SIZES
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 8:
        raise _checks.wrong("sizes", "numbers of at least 8 separated by commas", repr(text))
    return sizes


def line(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """One row as text, with its ratio to its peer in the same run."""
    ratio = ratio_to_peer(row, rows)
    against = f"{ratio:.2f} × {row['peer'].split(',')[0]}" if ratio is not None else ""
    found = [f"{k} {row[k]:.4g}" for k in ("psnr", "iterations", "peak_gib", "output_gib") if k in row]
    spread = ""
    if row["median"] is not None:
        spread = f"{1e3 * row['low']:>11.2f} …{1e3 * row['high']:>10.2f}"
    said = ", ".join(part for part in (against, *found) if part)
    return f"{row['task']:28}{row['method']:42}{seconds(row):>13}{spread:>24}  {said}"


def seconds(row: dict[str, Any]) -> str:
    """A row's time as text."""
    return row["stopped"] if row["median"] is None else f"{1e3 * row['median']:.2f} ms"


def ratio_to_peer(row: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """A row's median over its peer's in the same task."""
    peers = (r["median"] for r in rows if (r["task"], r["method"]) == (row["task"], row["peer"]))
    peer = next(peers, None)
    return None if peer is None or row["median"] is None else row["median"] / peer


def write(rows: list[Row], settings: Settings, folder: Path) -> Path:
    """Write the rows and the machine to ``folder``/DEVICE.json.

    Tasks that an earlier run on the same machine measured, and this one did not, stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{settings.device.type}.json"
    content = {"machine": machine(settings.device), "rows": [row.as_json() for row in rows]}
    before = json.loads(path.read_text()) if path.is_file() else {}
    if before.get("machine") == content["machine"]:
        measured = {row.task for row in rows}
        content["rows"] += [r for r in before["rows"] if r["task"] not in measured]
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
