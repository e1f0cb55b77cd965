"""Tables and records of a benchmark of quality."""

import json
import statistics
from pathlib import Path

import torch

from coordnet.bench.cases import Row, Settings
from coordnet.metrics.stopwatch import machine

UNITS = {"psnr": "dB", "snr": "dB", "peak": "GiB", "steps": ""}


def report(rows: list[Row]) -> str:
    """A table of means over the signals, each method against its task's first, in the same run."""
    lines = [
        f"{'task':22}{'method':32}{'signals':>8}{'mean':>10}{'to peer':>10}{'least':>9}{'below':>7}"
        f"{'seconds':>10}{'ratio':>7}"
    ]
    for task in dict.fromkeys(row.task for row in rows):
        methods = dict.fromkeys(row.method for row in rows if row.task == task)
        peer = [row for row in rows if row.task == task and row.method == next(iter(methods))]
        lines += [
            _line([r for r in rows if r.task == task and r.method == method], peer) for method in methods
        ]
    return "\n".join(lines)


def _line(rows: list[Row], peer: list[Row]) -> str:
    unit = UNITS[rows[0].measure]
    mean, seconds = statistics.fmean(r.score for r in rows), statistics.fmean(r.seconds for r in rows)
    head = f"{rows[0].task:22}{rows[0].method:32}{len(rows):>8}{mean:>7.2f} {unit}"
    if rows[0].method == peer[0].method:
        return f"{head:72}{'':26}{seconds:>8.2f} s"
    gains = [r.score - p.score for r, p in zip(rows, peer, strict=True)]
    below = sum(gain < 0 for gain in gains)
    ratio = seconds / statistics.fmean(p.seconds for p in peer)
    against = f"{statistics.fmean(gains):>+10.2f}{min(gains):>+9.2f}{below:>7}"
    return f"{head:72}{against}{seconds:>8.2f} s{ratio:>6.1f}×"


def write(name: str, rows: list[Row], settings: Settings, folder: Path) -> Path:
    """Write the rows, what was asked for and the machine to ``folder``/NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "machine": machine(torch.device("cpu")),
        "images": settings.images,
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
