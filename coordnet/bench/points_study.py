"""``coordnet bench points``: the default of ``cn.fit(cn.points(…))`` beside the peers on clouds of points.

The peers are SciPy, PyKrige, GSTools and verde, with their free numbers at their defaults or best with hindsight.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from coordnet.bench.best_peer import COORDNET, BestPeerStudy, Estimate, by_kernels, pairs, radial, scored, triangulated
from coordnet.bench.point_clouds import CLOUDS, Given, Values
from coordnet.bench.record_tables import Frame, failures, markdown
from coordnet.bench.records import Cell, Options, Record, Result, failed
from coordnet.comparison.stopwatch import finite
from coordnet.fitting.fit import fit
from coordnet.sampling.points import points

NEIGHBORS = 50  # nearest points from which RBFInterpolator finds a value, where there are more than DENSE
DENSE = 3000  # points up to which a dense matrix is factorized
SMOOTHINGS = tuple(10.0**power for power in range(-8, 4))
DAMPINGS = (None, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # those that verde's cross-validation chooses from
KRIGED = 2000  # points up to which kriging is tried

# The ratio of the default's error to the best peer's that is wanted of each kind, and the peers that count.
WANTED: dict[str, tuple[float, str]] = {
    "smooth, 500": (1.0, "RBF quintic"),
    "smooth, 3000": (0.1, "RBF quintic"),
    "noisy": (1.0, "RBF"),
    "terrain": (1.01, ""),
    "photograph": (10 ** (-1 / 20), ""),
    "volume": (1.0, ""),
    "row": (1.0, ""),
}
QUICK_CLOUDS = ("waves 500", "waves 500 noise")
LARGEST_RATIO = 2.0  # powers of ten at which the axis of the figure ends
POINTS_PREFACE = (
    "Root mean square errors of the default of `cn.fit(cn.points(…))` and of the best peer, which the truth chooses, "
    "at 2,000 hidden points (of photographs and rows, at all others). The peers are SciPy's `RBFInterpolator` with "
    "four kernels (of 50 neighbors above 3,000 points; with noise, of the best smoothing with hindsight) and "
    "`griddata`; on 2,000 points of terrain kriging by PyKrige and GSTools, and verde's SplineCV. The ratio is "
    "that of the two errors, and wanted is what it may be at most: a tenth of the quintic kernel's error at 3,000 "
    "points without noise and not above it at 500, not above the best kernel with noise, not above the best by more "
    "than 1 % on terrain, 1 dB below the best on photographs."
)


def by_kernel(given: Given, kernel: str) -> Values:
    """Interpolate by a kernel, or smooth noise by it with the parameter that is best with hindsight."""
    neighbors, scale = NEIGHBORS if len(given.places) > DENSE else None, np.ptp(given.places, axis=0)
    places, at = given.places / scale, given.hidden / scale
    smoothings = SMOOTHINGS if given.noise else (0.0,)
    each = (radial(places, given.values, at, kernel, s, neighbors) for s in smoothings)
    return min(each, key=lambda made: rms(made - given.truth))


def kriged_by_pykrige(given: Given) -> Values:
    """Krige by PyKrige's ``OrdinaryKriging`` with a spherical variogram."""
    from pykrige.ok import OrdinaryKriging  # pyright: ignore[reportMissingImports]

    y, x = given.places.T
    made = OrdinaryKriging(x, y, given.values, variogram_model="spherical")
    return np.asarray(made.execute("points", given.hidden[:, 1], given.hidden[:, 0])[0])


def kriged_by_gstools(given: Given) -> Values:
    """Krige by GSTools' ``Ordinary`` with a spherical variogram that is fitted to the estimated one."""
    import gstools  # pyright: ignore[reportMissingImports]

    bins, gamma = gstools.vario_estimate(given.places.T, given.values)
    model = gstools.Spherical(dim=2)
    model.fit_variogram(bins, gamma, nugget=given.noise > 0)
    krige = gstools.krige.Ordinary(model, given.places.T, given.values, exact=given.noise == 0)
    return np.asarray(krige(given.hidden.T, return_var=False))


def splined_by_verde(given: Given) -> Values:
    """Fit verde's ``SplineCV``, whose damping is chosen by cross-validation."""
    import verde  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = verde.SplineCV(dampings=DAMPINGS).fit(tuple(given.places.T), given.values)
        return np.asarray(made.predict(tuple(given.hidden.T)))


def peers(given: Given, kind: str) -> dict[str, Estimate]:
    """Return the peers that suit a cloud of a kind, by their names."""
    suitable = by_kernels(partial(by_kernel, given), ", best smoothing" if given.noise else "")
    for method in {1: (), 2: ("linear", "cubic")}.get(given.places.shape[1], ("linear",)):
        suitable[f"griddata {method}"] = partial(triangulated, given.places, given.values, given.hidden, method)
    if kind == "terrain" and len(given.places) <= KRIGED:
        packages = {"pykrige": kriged_by_pykrige, "gstools": kriged_by_gstools, "verde": splined_by_verde}
        names = {"pykrige": "PyKrige", "gstools": "GSTools", "verde": "verde SplineCV"}
        suitable |= {names[key]: partial(made, given) for key, made in packages.items() if find_spec(key) is not None}
    return suitable


def rms(errors: Values) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def ours(given: Given, device: str) -> np.ndarray:
    """Return the default's estimates at the hidden points."""
    samples = points(given.places, torch.from_numpy(given.values).to(device))
    return finite(fit(samples)(torch.from_numpy(given.hidden)))[:, 0].double().numpy()


def measured(name: str, method: str, cell: Cell) -> Result:
    """Score the default, or every peer, on one cloud."""
    given = CLOUDS[name].draw()
    each = partial(ours, given, cell.device), peers(given, CLOUDS[name].kind)
    return scored(method, *each, lambda made: rms(made - given.truth))._replace(notes={"span": given.span})


class PointsStudy(BestPeerStudy):
    """The command ``coordnet bench points``."""

    name = "points"

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of the clouds whose packages are installed, or of those that are named."""
        chosen = options.named(CLOUDS) or (QUICK_CLOUDS if options.quick else CLOUDS)
        there = [name for name in chosen if CLOUDS[name].is_there]
        yield [cell for name in there for cell in self.cells(name, partial(measured, name), options.device)]

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the ratios to the best peer as a table, every cell, and a figure."""
        cells = ratios(records)
        return {".md": report(cells, records), ".csv": every_score(records).to_csv(index=False), ".png": figure(cells)}


def ratios(records: Sequence[Record]) -> Frame:
    """Return a row for each cloud that both have: the default's error, the best peer, and the ratio."""
    rows, found = [], pairs(records, lambda cell: cell["task"])
    for name in (name for name in CLOUDS if name in found):
        own, others = found[name]
        wanted, counted = WANTED[CLOUDS[name].kind]
        best = min((p for p in others["scores"] if p.startswith(counted)), key=others["scores"].__getitem__)
        error, peer = own["scores"][COORDNET], others["scores"][best]
        times = own["seconds"][COORDNET], others["seconds"][best]
        rows.append([name, error, best, peer, error / peer, wanted, *times])
    columns = ["points", "coordnet", "best peer", "its error", "ratio", "wanted", "seconds", "its seconds"]
    return pd.DataFrame(rows, columns=columns)


def every_score(records: Sequence[Record]) -> Frame:
    """Return the error and the seconds of every method on every cloud."""
    rows = [
        (record["cell"]["task"], method, error, record["seconds"][method])
        for record in records
        if not failed(record)
        for method, error in record["scores"].items()
    ]
    return pd.DataFrame(rows, columns=["points", "method", "error", "seconds"])


def report(cells: Frame, records: Sequence[Record]) -> str:
    """Return the report in Markdown: the ratios, the clouds on which the default is behind, and the failures."""
    missed = cells[cells["ratio"] > cells["wanted"]]
    summary = (
        f"{len(cells)} clouds: {len(cells) - len(missed)} as wanted, {(cells['ratio'] > 1).sum()} behind the peer."
    )
    forms = dict.fromkeys(("coordnet", "its error", "ratio"), "{:.3g}".format)
    forms |= dict.fromkeys(("seconds", "its seconds"), "{:.2f}".format) | {"wanted": "{:.3g}".format}
    shown = cells.assign(**{name: cells[name].map(form) for name, form in forms.items()})
    shown["met"] = np.where(cells["ratio"] <= cells["wanted"], "yes", "no")
    parts = [
        "# Points anywhere, beside the best peer",
        POINTS_PREFACE,
        summary,
        markdown(shown),
        "![ratios](points.png)",
    ]
    parts += failures(records, lambda cell: f"{cell['task']}, {cell['method']['name']}")
    return "\n\n".join(parts) + "\n"


def figure(cells: Frame) -> Figure:
    """Return the ratios as points on a logarithmic axis, with what is wanted."""
    page = Figure(figsize=(7.5, 1.2 + 0.24 * len(cells)), layout="constrained")
    ax = page.add_subplot()
    rows = range(len(cells))
    colors = np.where(cells["ratio"] <= cells["wanted"], "C0", "C3")
    ax.barh(rows, np.log10(cells["ratio"]), color=list(colors))
    ax.plot(np.log10(cells["wanted"]), rows, "k|", ms=9, label="wanted at most")
    ax.set_yticks(rows, list(cells["points"]))
    low = min(-1.5, float(np.log10(cells["ratio"]).min()) - 0.2)
    ax.set(xlim=(max(low, -2 * LARGEST_RATIO), 0.5), xlabel="log₁₀ of the error over the best peer's")
    ax.invert_yaxis()
    ax.legend(fontsize=8)
    return page
