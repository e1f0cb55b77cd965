"""What the records of ``coordnet bench speed`` say: targets held or not, a figure, and the README's table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from coordnet.bench.speed import ratio_to_peer, seconds
from coordnet.bench.speed_tasks import BICUBIC, COLD, FIT, FLOOR, GRIDDATA, LIMIT, REUSED, SPLINE, TOLERANCE

BEGIN, END = "<!-- speed: coordnet bench speed --report -->", "<!-- end of speed -->"
SMALL, LARGE, CLIP = "256²×3 → 512²", "4096²×3 → 8192²", "64³×3 → 128³"
QUARTER, EIGHTH = "random quarter of 512²×3", "random eighth of 128³×3"
SMOOTH, ADAPTIVE = (f"{name} prior, to {TOLERANCE:g}" for name in ("smooth", "adaptive"))
ZOOM = "ndimage.zoom order 3"
DEVICES = ("cpu", "cuda")

Records = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Target:
    """What is to hold: a method's seconds, or its ratio to a peer of the same task, is at most so much."""

    device: str
    task: str
    method: str
    most: float
    peer: str | None = None
    unit: str = "median"

    def found(self, records: Records) -> float | None:
        """The number measured; None where it was not; a peer that was stopped counts its limit."""
        rows = records.get(self.device, {}).get("rows", [])
        own = next((r for r in rows if (r["task"], r["method"]) == (self.task, self.method)), None)
        if own is None:
            return None
        if self.peer is None:
            return own.get(self.unit)
        peer = next((r for r in rows if (r["task"], r["method"]) == (self.task, self.peer)), None)
        if peer is None or own["median"] is None:
            return None
        if peer["median"] is not None:
            return own["median"] / peer["median"]
        return own["median"] / LIMIT if peer["stopped"].startswith("over") else None

    def line(self, records: Records) -> str:
        """One line: what was asked, what was found, whether it holds."""
        found = self.found(records)
        scale, unit = {"median": (1e3, " ms"), "peak_gib": (1.0, " GiB")}[self.unit]
        scale, unit = (1.0, f" × {self.peer.split(',')[0]}") if self.peer else (scale, unit)
        told = "not measured"
        if found is not None:
            told = f"{scale * found:.3g}{unit}: {'holds' if found <= self.most else 'DOES NOT HOLD'}"
            products = replace(self, peer=FLOOR).found(records) if unit == " ms" else None
            told += "" if products is None else f" ({products:.3g} × {FLOOR})"
        return f"{self.device:5}{self.task:26}{self.method:34}at most {scale * self.most:.3g}{unit}; {told}"


TARGETS = (
    Target("cpu", SMALL, REUSED, 1.5, FLOOR),
    Target("cpu", SMALL, REUSED, 1.0, BICUBIC),
    Target("cpu", SMALL, COLD, 1.0, SPLINE),
    Target("cpu", LARGE, COLD, 0.5, SPLINE),
    Target("cpu", LARGE, COLD, 0.5, ZOOM),
    Target("cpu", f"memory, {LARGE}", "in memory", 3.0, unit="peak_gib"),  # four times the output
    Target("cpu", QUARTER, SMOOTH, 1 / 3, GRIDDATA),
    Target("cpu", QUARTER, ADAPTIVE, 3.0, GRIDDATA),
    Target("cpu", CLIP, REUSED, 1.5, FLOOR),
    Target("cpu", "memory, 16384²×1 → 32768²", "in rows, --memory 2GiB", 3.0, unit="peak_gib"),
    Target("cuda", SMALL, f"{FIT}, CUDA graph", 1e-4),
    Target("cuda", SMALL, COLD, 3e-3),
    Target("cuda", CLIP, f"{FIT}, CUDA graph", 2e-4),
    Target("cuda", "256 of 256²×3 → 512²", FIT, 5e-3),
    Target("cuda", QUARTER, SMOOTH, 5e-3),
    Target("cuda", QUARTER, ADAPTIVE, 4e-2),
    Target("cuda", EIGHTH, SMOOTH, 3e-2),
    Target("cuda", EIGHTH, ADAPTIVE, 0.25),
)
SHOWN = (SMALL, LARGE, CLIP, "256 of 256²×3 → 512²", QUARTER, EIGHTH)


def load(folder: Path) -> Records:
    """The records of every device that are in a folder.

    Raises
    ------
    ValueError
        If there is none.
    """
    paths = {device: folder / f"{device}.json" for device in DEVICES}
    found = {device: json.loads(path.read_text()) for device, path in paths.items() if path.is_file()}
    if not found:
        raise ValueError(f"--out {folder}: expected cpu.json or cuda.json, found neither")
    return found


def targets(records: Records) -> str:
    """Every target with what was found, and how evenly the work grows with the points."""
    lines = [target.line(records) for target in TARGETS]
    for device in records:
        spread = work_spread(records[device]["rows"])
        found = "not measured" if spread is None else f"{spread:.2f}"
        lines.append(
            f"{device:5}seconds a point of '{REUSED}' from 512² to 8192²: most over least {found}, at most 2"
        )
    return "\n".join(lines)


def work_spread(rows: Sequence[dict[str, Any]]) -> float | None:
    """The most over the least seconds a rendered point, of pictures from 512² to 8192²; None below two of them."""
    each = [
        row["median"] / row["outputs"]
        for row in rows
        if row["method"] == REUSED and _square(row["task"]) and 512**2 <= row["outputs"] <= 8192**2
    ]
    return max(each) / min(each) if len(each) > 1 else None


def table(records: Records) -> str:
    """The README's table: the tasks of ``SHOWN``, a row a method, a column a device."""
    lines = [
        "| task | method | CPU | × its peer | CUDA | × its peer |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for task in SHOWN:
        for method in _methods(records, task):
            cells = [cell for device in DEVICES for cell in _cells(records, device, task, method)]
            lines.append(f"| {task} | {method} | {' | '.join(cells)} |")
    machines = [_machine(device, records) for device in DEVICES]
    return "\n".join([*lines, "", f"Medians of one run each. {' '.join(machines)}"])


def _methods(records: Records, task: str) -> list[str]:
    rows = [row for record in records.values() for row in record["rows"] if row["task"] == task]
    return list(dict.fromkeys(row["method"] for row in rows))


def _cells(records: Records, device: str, task: str, method: str) -> tuple[str, str]:
    rows = records.get(device, {}).get("rows", [])
    row = next((r for r in rows if (r["task"], r["method"]) == (task, method)), None)
    if row is None:
        return "not measured", ""
    ratio = ratio_to_peer(row, rows)
    return seconds(row), "" if ratio is None else f"{ratio:.2f} × {row['peer'].split(',')[0]}"


def _machine(device: str, records: Records) -> str:
    if device not in records:
        return f"{device.upper()}: not measured."
    found = records[device]["machine"]
    where = found["gpu"] or f"{found['processor']}, {found['threads']} threads"
    return f"{device.upper()}: {where}, torch {found['torch']}, SciPy {found['scipy']}."


def insert(readme: Path, text: str) -> None:
    """Put a table between the README's markers.

    Raises
    ------
    ValueError
        If the file has no markers.
    """
    content = readme.read_text() if readme.is_file() else ""
    before, begin, rest = content.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme}: expected the markers {BEGIN} and {END}, found none")
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def figure(records: Records) -> Figure:
    """Seconds against rendered points of pictures, both logarithmic, a panel a device."""
    fig = Figure(figsize=(7 * len(records), 5), layout="tight")
    panels = fig.subplots(1, len(records), squeeze=False, sharey=True)
    for panel, (device, record) in zip(panels[0], records.items(), strict=True):
        _lines(panel, [r for r in record["rows"] if _square(r["task"]) and r["median"]])
        panel.set_title(
            record["machine"]["gpu"] or f"{device.upper()}, {record['machine']['threads']} threads"
        )
        panel.set_xlabel("rendered points, 3 channels")
        panel.grid(alpha=0.3, which="both")
    panels[0][0].set_ylabel("seconds")
    if panels[0][0].lines:
        panels[0][0].legend(fontsize=8)
    return fig


def _square(task: str) -> bool:
    return "²×3 → " in task and task[0].isdigit() and " of " not in task


def _lines(panel: Any, rows: Sequence[dict[str, Any]]) -> None:
    drawn = (REUSED, COLD, "dense, fit + render, plan reused", FLOOR, BICUBIC, SPLINE, ZOOM)
    for method in drawn:
        own = sorted((r["outputs"], r["median"]) for r in rows if r["method"] == method)
        if own:
            width = 2.5 if method in (REUSED, COLD) else 1.2
            panel.loglog(*zip(*own, strict=True), "o-", label=method, linewidth=width, markersize=4)
