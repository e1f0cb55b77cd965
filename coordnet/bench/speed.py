"""``coordnet bench speed``: the targets that hold, a table and a figure of timings beside their peers."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench import timings as t
from coordnet.bench.record_tables import markdown
from coordnet.bench.records import Cell, Options, Record, Study, failed

TASK_GROUPS = ("grid", "video", "batch", "random", "memory")  # the last takes minutes and gigabytes of disk
SIZES, QUICK_SIZES, LEAST_SIZE = (128, 256, 512, 1024, 2048, 4096), (128, 256), 8
SMALL, LARGE, CLIP = "256²×3 → 512²", "4096²×3 → 8192²", "64³×3 → 128³"
BATCH = "256 of 256²×3 → 512²"
QUARTER, EIGHTH = "random quarter of 512²×3", "random eighth of 128³×3"
SHOWN = (SMALL, LARGE, CLIP, BATCH, QUARTER, EIGHTH)
DRAWN = (t.REUSED, t.COLD, f"{t.REUSED}, {t.GRAPH}", t.DENSE, t.BARE_PRODUCTS, t.BICUBIC, t.SPLINE, t.ZOOM)
ON_CPU = (t.SPLINE, t.ZOOM)  # drawn methods that have no GPU
DEVICES = ("cpu", "cuda")
Tasks = dict[tuple[str, str], Record]  # the latest timing for each device and task


@dataclass(frozen=True)
class Target:
    """An upper bound for a method's seconds, its ratio to a peer of the same task, or its memory in GiB."""

    device: str
    task: str
    method: str
    most: float
    peer: str | None = None

    def found(self, tasks: Tasks) -> float | None:
        """Return the measured number, None if there is none; a peer that was stopped counts as its limit."""
        record = tasks.get((self.device, self.task))
        if record is None or record["seconds"].get(self.method) is None:
            return None
        if self.peer is not None:
            return ratio(record, self.method, self.peer, t.LIMIT)
        return record["scores"].get("peak_gib", record["seconds"][self.method])

    def line(self, tasks: Tasks) -> dict[str, str]:
        """Return a row of the table of targets."""
        measured = self.found(tasks)
        holds = "not measured" if measured is None else "holds" if measured <= self.most else "DOES NOT HOLD"
        factor, unit = (1, "GiB") if self.task.startswith("memory") else (1e3, "ms")
        factor, unit = (factor, unit) if self.peer is None else (1, f"× {self.peer.split(',')[0]}")
        most, text = ("" if value is None else f"{factor * value:.3g} {unit}" for value in (self.most, measured))
        head = {"device": self.device, "task": self.task, "method": self.method}
        return {**head, "at most": most, "found": text, "": holds}


TARGETS = (
    Target("cpu", SMALL, t.REUSED, 1.5, t.BARE_PRODUCTS),
    Target("cpu", SMALL, t.REUSED, 1.0, t.BICUBIC),
    Target("cpu", SMALL, t.THEN, 1.5, t.REUSED),
    Target("cpu", LARGE, t.THEN, 1.5, t.REUSED),
    Target("cpu", SMALL, t.COLD, 1.0, t.SPLINE),
    Target("cpu", LARGE, t.COLD, 0.5, t.SPLINE),
    Target("cpu", LARGE, t.COLD, 0.5, t.ZOOM),
    Target("cpu", f"memory, {LARGE}", t.IN_MEMORY, 3.0),  # four times the output
    Target("cpu", QUARTER, t.SMOOTH, 1 / 3, t.LINEAR_GRIDDATA),
    Target("cpu", QUARTER, t.ADAPTIVE, 3.0, t.LINEAR_GRIDDATA),
    Target("cpu", CLIP, t.REUSED, 1.5, t.BARE_PRODUCTS),
    Target("cpu", "memory, 16384²×1 → 32768²", t.IN_ROWS, 3.0),
    Target("cuda", SMALL, f"{t.FIT}, {t.GRAPH}", 1e-4),
    Target("cuda", SMALL, t.COLD, 3e-3),
    Target("cuda", CLIP, f"{t.FIT}, {t.GRAPH}", 2e-4),
    Target("cuda", BATCH, t.FIT, 5e-3),
    Target("cuda", QUARTER, t.SMOOTH, 5e-3),
    Target("cuda", QUARTER, t.ADAPTIVE, 4e-2),
    Target("cuda", QUARTER, t.LOCAL, 0.5),
    Target("cuda", EIGHTH, t.SMOOTH, 3e-2),
    Target("cuda", EIGHTH, t.ADAPTIVE, 0.25),
)


class Speed(Study):
    """The command ``coordnet bench speed``; every run measures anew, and the latest timing of a task counts."""

    name = "speed"
    always = True

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
        if min(sizes) < LEAST_SIZE:
            raise _checks.wrong("sizes", f"numbers of at least {LEAST_SIZE}", sizes)
        for group in options.named(TASK_GROUPS) or TASK_GROUPS[:-1]:
            yield from ([cell] for cell in t.tasks(group, sizes, options.quick, options.device))

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the targets, the times of the tasks that show them, and a figure of the times of pictures."""
        tasks = latest(records)
        targets = pd.DataFrame([target.line(tasks) for target in TARGETS])
        head = f"Medians of one run each. {' '.join(_machine(tasks, device) for device in DEVICES)}"
        even = " ".join(filter(None, (spread(tasks, device) for device in DEVICES)))
        parts = ["# How fast it is", head, "## Targets", markdown(targets), *([even] if even else [])]
        parts += ["## Times", markdown(times(tasks)), f"![Seconds by rendered points]({self.name}.png)"]
        return {".md": "\n\n".join(parts) + "\n", ".png": self._figure(tasks)}

    def _figure(self, tasks: Tasks) -> Figure:
        """Draw seconds by rendered points of pictures, both logarithmic; solid on the CPU and dashed on a GPU."""
        figure = Figure(figsize=(10, 5.5), layout="tight")
        ax = figure.subplots()
        for device, (number, method) in itertools.product(DEVICES, enumerate(DRAWN)):
            points = medians(tasks, device, method)
            if points and not (device == "cuda" and method in ON_CPU):
                width, style = 2.5 if method in DRAWN[:3] else 1.2, "o-" if device == "cpu" else "s--"
                options = {"color": f"C{number}", "linewidth": width, "markersize": 4, "label": f"{method}, {device}"}
                ax.loglog(*zip(*points, strict=True), style, **options)
        ax.set(xlabel="rendered points, 3 channels", ylabel="seconds")
        ax.grid(alpha=0.3, which="both")
        if ax.lines:
            ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        return figure


def latest(records: Sequence[Record]) -> Tasks:
    """Return the timings by kind of device and task, only those of the machine that timed each kind last."""
    done = [(r["cell"]["device"].partition(":")[0], r) for r in records if not failed(r)]
    machines = {kind: r["machine"] | {"commit": None} for kind, r in done}
    kept = ((kind, r) for kind, r in done if r["machine"] | {"commit": None} == machines[kind])
    return {(kind, r["cell"]["task"]): r for kind, r in kept}


def times(tasks: Tasks) -> pd.DataFrame:
    """Return the times of the shown tasks, a row for each method and two columns for each device."""
    lines = []
    for task in SHOWN:
        records = {device: tasks.get((device, task)) for device in DEVICES}
        for method in dict.fromkeys(m for record in records.values() if record for m in record["seconds"]):
            line = {"task": task, "method": method}
            for device, record in records.items():
                line[device.upper()], line[f"{device.upper()} × its peer"] = _time(record, method)
            lines.append(line)
    return pd.DataFrame(lines)


def _time(record: Record | None, method: str) -> tuple[str, str]:
    if record is None or method not in record["seconds"]:
        return "not measured", ""
    seconds, notes = record["seconds"][method], record["notes"][method]
    if seconds is None:
        return notes["stopped"], ""
    relative = notes["peer"] and ratio(record, method, notes["peer"])
    return f"{1e3 * seconds:.2f} ms", "" if relative is None else f"{relative:.2f} × {notes['peer'].split(',')[0]}"


def ratio(record: Record, method: str, peer: str, limit: float | None = None) -> float | None:
    """Return a method's median over its peer's; ``limit`` stands for the seconds of a peer that was stopped."""
    own, other = record["seconds"][method], record["seconds"].get(peer)
    if other is None and record["notes"].get(peer, {}).get("stopped") == t.over(t.LIMIT):
        other = limit
    return None if own is None or other is None else own / other


def _machine(tasks: Tasks, device: str) -> str:
    machine = next((r["machine"] for key, r in tasks.items() if key[0] == device), None)
    if machine is None:
        return f"{device.upper()}: not measured."
    where = machine["gpu"] or f"{machine['processor']}, {machine['threads']} threads"
    return f"{device.upper()}: {where}, torch {machine['torch']}, SciPy {machine['scipy']}."


def medians(tasks: Tasks, device: str, method: str) -> list[tuple[int, float]]:
    """Return the rendered points and the seconds of a method on pictures of every size."""
    kind = t.picture.__name__
    records = [r for (where, _), r in tasks.items() if where == device and r["cell"]["method"]["name"] == kind]
    return sorted((r["notes"][method]["outputs"], r["seconds"][method]) for r in records if r["seconds"].get(method))


def spread(tasks: Tasks, device: str) -> str:
    """Say by how much the seconds for a rendered point differ between pictures from 512² to 8192²."""
    each = [s / count for count, s in medians(tasks, device, t.REUSED) if 512**2 <= count <= 8192**2]
    text = f"{device}: the seconds for a rendered point of '{t.REUSED}' differ from 512² to 8192² by a factor of"
    return f"{text} {max(each) / min(each):.2f}, at most 2." if len(each) > 1 else ""
