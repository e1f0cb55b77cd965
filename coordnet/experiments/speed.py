"""``coordnet bench speed``: closed-form fits timed against their peers in the same run."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coordnet.closed_form import plan
from coordnet.coordinates import Axis
from coordnet.encoders import Gaussian
from coordnet.encodings import ComplexEncoding
from coordnet.experiments.timing import Timing, machine, measure
from coordnet.samples import Lattice


@dataclass(frozen=True)
class Row:
    """One method at one size."""

    task: str
    method: str
    timing: Timing
    peer: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as a record."""
        return {"task": self.task, "method": self.method, "peer": self.peer, **self.timing.as_json()}


def run(device: torch.device) -> list[Row]:
    """Time every task."""
    return list(_grid_fits(256, device))


def _grid_fits(size: int, device: torch.device) -> Iterator[Row]:
    """Fit size² × 3 samples, and render them at twice the resolution, beside a cubic spline."""
    task = f"{size}²×3 → {2 * size}²"
    values = torch.rand(size, size, 3, generator=torch.Generator().manual_seed(0)).to(device)
    geometry = Lattice((2 * size, 2 * size), (2, 2))
    encoding = ComplexEncoding.like(Gaussian, geometry)

    def cold() -> None:
        plan(encoding, geometry, device=device).fit(values)

    reused = plan(encoding, geometry, device=device)
    spline = "RectBivariateSpline cubic, fit + render"
    yield Row(task, spline, measure(lambda: rect_bivariate_spline(values.cpu(), geometry)))
    yield Row(task, "fit, factorisation included", measure(cold), spline)
    yield Row(task, "fit, plan reused", measure(lambda: reused.fit(values)), spline)
    yield Row(task, "fit + render, plan reused", measure(lambda: reused.fit(values).render()), spline)


def rect_bivariate_spline(values: Tensor, geometry: Lattice) -> None:
    """Interpolate each channel by SciPy's cubic spline, and evaluate it on the whole grid."""
    from scipy.interpolate import RectBivariateSpline

    x, y = (axis.points().numpy() for axis in geometry.axes)
    u, v = (Axis(n).points().numpy() for n in geometry.grid)
    for channel in values.movedim(-1, 0).double().numpy():
        RectBivariateSpline(x, y, channel)(u, v)


def report(rows: list[Row]) -> str:
    """A table with each method's time, and its ratio to its peer in the same run."""
    peers = {(r.task, r.method): r.timing.median for r in rows}
    lines = [f"{'task':22}{'method':42}{'median':>11}{'ratio to its peer':>32}"]
    for row in rows:
        ratio = ""
        if row.peer:
            ratio = f"{row.timing.median / peers[row.task, row.peer]:.2f} × {row.peer.split(',')[0]}"
        lines.append(f"{row.task:22}{row.method:42}{1e3 * row.timing.median:>8.2f} ms{ratio:>32}")
    return "\n".join(lines)


def write(rows: list[Row], device: torch.device, folder: Path) -> Path:
    """Write the rows and the machine to ``folder``/DEVICE.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{device.type}.json"
    content = {"machine": machine(device), "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
