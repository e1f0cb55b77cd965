"""The default beside the best of several peers, which only the truth chooses: their cells, and what peers share."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.interpolate import RBFInterpolator, griddata

from coordnet.bench.records import Cell, Record, Result, Study, failed
from coordnet.comparison.stopwatch import once, tried

KERNELS = ("linear", "thin_plate_spline", "cubic", "quintic")
COORDNET, PEERS = "coordnet", "peers"

Places = Float[np.ndarray, "n d"]
Values = Float[np.ndarray, " n"]
Estimate = Callable[[], np.ndarray]


def radial(
    places: Places, values: Values, at: Places, kernel: str, smoothing: float = 0.0, neighbors: int | None = None
) -> Values:
    """Interpolate or smooth by SciPy's ``RBFInterpolator``, from all points or the nearest ``neighbors``."""
    options: Any = {"kernel": kernel, "smoothing": smoothing, "neighbors": neighbors}
    return RBFInterpolator(places, values, **options)(at)


def triangulated(places: Places, values: Values, at: Places, method: str) -> Values:
    """Interpolate by ``griddata``, and by the nearest point beyond the hull."""
    made, near = (griddata(places, values, at, method=kind) for kind in (method, "nearest"))
    return np.where(np.isnan(made), near, made)


def by_kernels(work: Callable[[str], np.ndarray], suffix: str) -> dict[str, Estimate]:
    """Return the work with each kernel, by the kernel's name."""
    return {f"RBF {kernel.replace('_', ' ')}{suffix}": partial(work, kernel) for kernel in KERNELS}


def scored(
    method: str, default: Estimate, peers: Mapping[str, Estimate], score: Callable[[np.ndarray], float]
) -> Result:
    """Score the default, whose error is its cell's, or every peer; one that refuses the samples has no score."""
    if method == COORDNET:
        trials = {COORDNET: once(default)}
    else:
        tries = {name: tried(partial(once, work)) for name, work in peers.items()}
        trials = {name: trial.result for name, trial in tries.items() if not trial.error}
    return Result({name: score(made) for name, (made, _) in trials.items()}, {k: s for k, (_, s) in trials.items()})


def described(kind: str, name: str, values: np.ndarray) -> dict[str, Any]:
    """Describe a field for the records: its kind, its name, a digest of its values as float32, and its lengths."""
    digest = hashlib.sha256(np.nan_to_num(values).astype(np.float32).tobytes()).hexdigest()[:8]
    return {"kind": kind, "name": name, "digest": digest, "grid": list(values.shape)}


class BestPeerStudy(Study):
    """A study that has two cells for each case: the default, and all peers."""

    def cells(self, task: str, work: Callable[[str, Cell], Result], device: str, **subject: Any) -> list[Cell]:
        """Return the cells of a case, whose work takes one of ``COORDNET`` and ``PEERS``, and the cell."""
        return [
            Cell(
                experiment=self.name,
                subject={"task": task, "method": {"name": method}, **subject},
                work=partial(work, method),
                device="cpu" if method == PEERS else device,
            )
            for method in (COORDNET, PEERS)
        ]


def pairs(records: Sequence[Record], case: Callable[[Record], Any]) -> dict[Any, tuple[Record, Record]]:
    """Return the record of the default and that of the peers, by the cases that both have."""
    by_case: dict[Any, dict[str, Record]] = {}
    for record in (r for r in records if not failed(r) and r["scores"]):
        by_case.setdefault(case(record["cell"]), {})[record["cell"]["method"]["name"]] = record
    return {key: (of[COORDNET], of[PEERS]) for key, of in by_case.items() if len(of) == 2}
