"""``coordnet bench cubes``: fields in time with gaps, beside interpolation in space and time, and DINEOF.

Every method fills the same hidden values; the score is the root mean square of its errors there, in the field's units.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench.best_peer import described, triangulated
from coordnet.bench.cube_fields import CUBES, HIDINGS, Cube, Given, cube, given, rmse
from coordnet.bench.record_tables import Frame, failures, flat, markdown
from coordnet.bench.records import Cell, Options, Record, Result, Study
from coordnet.comparison.stopwatch import once
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior
from coordnet.priors.evolving import Evolving
from coordnet.restore.fill import fill

VALIDATION = 0.03  # share of the values that DINEOF hides to choose the number of modes
MOST_MODES, MODES_PATIENCE = 40, 3  # modes of DINEOF at most, and further ones that are tried after the best
SWEEPS, TOLERANCE = 300, 1e-3  # iterations for a number of modes, and their last change in standard deviations

Matrix = Float[np.ndarray, "frames points"]
Known = Bool[np.ndarray, "frames points"]
OURS: dict[str, Prior | str] = {"cn.fill": "auto", "evolving alone": Evolving(), "adaptive alone": Adaptive()}
DEFAULT = "cn.fill"
CUBES_PREFACE = (
    "Root mean square of the errors at hidden values, in the units of each field. `cn.fill` is the default, which "
    "weighs the priors by what it hides itself; below it are two of its candidates on their own. The peers are "
    "interpolation by triangles in each frame (`griddata`), linear interpolation of each point in time, the mean of "
    "the two, and DINEOF, whose modes are chosen by values under clouds of other frames. In bold is the least of a "
    "row. *Best peer* is the least of the four peers with hindsight, which no user has."
)


def in_space(case: Given) -> Cube:
    """Interpolate every frame linearly over triangles, by the nearest value beyond them; the mean of an empty frame."""
    made = case.known.copy()
    for frame in made:
        known = np.isfinite(frame)
        sought = case.wanted & ~known
        if known.sum() < 4 or not sought.any():
            frame[sought] = np.nanmean(case.known)
            continue
        frame[sought] = triangulated(np.argwhere(known), frame[known], np.argwhere(sought), "linear")
    return made


def in_time(case: Given) -> Cube:
    """Interpolate every point linearly in time, by the nearest value beyond the ends; the mean of an empty series."""
    made = np.full(case.known.shape, np.nanmean(case.known))
    for i, j in np.argwhere(case.wanted):
        series = case.known[:, i, j]
        known = np.isfinite(series)
        if known.any():
            made[:, i, j] = np.interp(case.times, case.times[known], series[known])
    return made


def mean_of_both(case: Given) -> Cube:
    """Return the mean of interpolation in space and in time; where a frame is empty, that in time."""
    space, time = in_space(case), in_time(case)
    has_values = np.isfinite(case.known).any((1, 2), keepdims=True)
    return np.where(has_values, (space + time) / 2, time)


def dineof(case: Given) -> Cube:
    """Fill by a truncated singular value decomposition that is iterated, whose modes clouds laid on others choose.

    Beckers and Rixen, "EOF calculations and data filling from incomplete oceanographic datasets" (2003);
    Alvera-Azcárate et al., "Reconstruction of incomplete oceanographic data sets using empirical orthogonal functions"
    (2005).
    """
    wanted = case.wanted
    x = case.known[:, wanted]
    known, mean = np.isfinite(x), float(np.nanmean(x))
    centered = np.where(known, x - mean, 0.0)
    hidden = _validation(known)
    y, errors = np.where(known & ~hidden, centered, 0.0), []
    for modes in range(1, min(len(x) - 1, MOST_MODES) + 1):
        low_rank, y = _completed(centered, known & ~hidden, modes, y)
        errors.append(np.square((low_rank - centered)[hidden]).mean())
        if modes - 1 - int(np.argmin(errors)) >= MODES_PATIENCE:
            break
    y = low_rank = centered
    for modes in range(1, int(np.argmin(errors)) + 2):
        low_rank, y = _completed(centered, known, modes, y)
    made = np.full(case.known.shape, np.nan)
    made[:, wanted] = low_rank + mean
    return made


def _validation(known: Known) -> Known:
    """Return values under the gaps of other frames, about ``VALIDATION`` of all, or as many at random."""
    generator, hidden = np.random.default_rng(1), np.zeros(known.shape, bool)
    gaps = np.flatnonzero(~known.all(1))
    for frame in generator.permutation(len(known)) if len(gaps) else ():
        under = ~known[generator.choice(gaps)] & known[frame]
        if under.sum() < 0.9 * known[frame].sum():
            hidden[frame] = under
        if hidden.sum() > VALIDATION * known.sum():
            break
    return hidden if hidden.any() else known & (generator.random(known.shape) < VALIDATION)


def _completed(x: Matrix, known: Known, modes: int, y: Matrix) -> tuple[Matrix, Matrix]:
    """Return the matrix of a rank that the known values and itself elsewhere have, and the completed values."""
    scale, low_rank = float(y[known].std()), y
    for _ in range(SWEEPS):
        basis = np.linalg.eigh(y @ y.T)[1][:, -modes:]
        low_rank = basis @ (basis.T @ y)
        new = np.where(known, x, low_rank)
        change = np.sqrt(np.square(new - y)[~known].mean()) if not known.all() else 0.0
        y = new
        if change < TOLERANCE * scale:
            break
    return low_rank, y


CUBE_PEERS: dict[str, Callable[[Given], Cube]] = {
    "linear in space": in_space,
    "linear in time": in_time,
    "mean of these": mean_of_both,
    "DINEOF": dineof,
}


def ours(case: Given, prior: Prior | str) -> Cube:
    """Return what ``cn.fill`` makes of a cube."""
    from xarray import DataArray  # other experiments do without it

    dims = ("time", "y", "x")
    array = DataArray(case.known, {"time": case.times}, dims)
    return fill(array, dims, valid=case.wanted, prior=prior).array.values  # type: ignore[arg-type]


def measured(name: str, hiding: str, method: str, data: Path | None, _: Cell) -> Result:
    """Fill a cube by a method and score it."""
    case = given(name, hiding, data)
    made, seconds = once(partial(ours, case, OURS[method]) if method in OURS else partial(CUBE_PEERS[method], case))
    return Result({"rmse": rmse(made, case)}, {"fit": seconds})


class Cubes(Study):
    """The command ``coordnet bench cubes``."""

    name = "cubes"

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of the cubes that are there, or of those that are named."""
        chosen = options.named(CUBES) or list(name for name in CUBES if self._is_there(name, options.data))
        missing = sorted(set(CUBES) - set(chosen)) if not options.only else []
        if missing:
            text = f"left out, since neither --data nor iris-sample-data (coordnet[bench]) has them: {missing}"
            warnings.warn(text, _checks.CoordnetWarning, stacklevel=2)
        yield [
            self.cell(name, hiding, method, options.data)
            for name in chosen
            for hiding in (list(HIDINGS[name])[:1] if options.quick else HIDINGS[name])
            for method in (*OURS, *CUBE_PEERS)
        ]

    def _is_there(self, name: str, data: Path | None) -> bool:
        origin = CUBES[name].origin
        return (
            find_spec(origin) is not None if isinstance(origin, str) else data is not None and (data / origin).is_file()
        )

    def cell(self, name: str, hiding: str, method: str, data: Path | None) -> Cell:
        """Return the cell of one method on one cube."""
        subject = {"task": hiding, "method": {"name": method}, "signal": described("cube", name, cube(name, data)[0])}
        work = partial(measured, name, hiding, method, data)
        return Cell(experiment=self.name, subject=subject, work=work, device="cpu")

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the errors as a table, and the ratios to the best peer as a figure."""
        table = errors(records)
        return {".md": report(table, records), ".csv": table.to_csv(), ".png": figure(table)}


def errors(records: Sequence[Record]) -> Frame:
    """Return the root mean square errors with a cube and its hidden values a row, and a method a column."""
    frame = flat(records).rename(columns={"cell.signal.name": "cube", "cell.task": "hidden"})
    rows = frame.set_index(["cube", "hidden", "cell.method.name"])["scores.rmse"].dropna().unstack()
    order = [(name, hiding) for name in CUBES for hiding in HIDINGS[name] if (name, hiding) in rows.index]
    return rows.reindex(order).reindex(columns=[*OURS, *CUBE_PEERS])


def ratios(found: Frame) -> Any:
    """Return the default's errors relative to the best peer's with hindsight."""
    return found[DEFAULT] / found[list(CUBE_PEERS)].min(axis=1)


def report(found: Frame, records: Sequence[Record]) -> str:
    """Return the report in Markdown."""
    ratio = ratios(found)
    best = found.min(axis=1)
    shown = found.apply(lambda column: [_shown(v, least) for v, least in zip(column, best, strict=True)])
    shown.insert(0, "values hidden", [hiding for _, hiding in found.index])
    shown.insert(0, "cube", [name for name, _ in found.index])
    shown["over the best peer"] = ratio.map("{:.2f}".format)
    finite = ratio.dropna()
    summary = (
        f"{len(finite)} cases: the default's errors are {np.exp(np.log(finite).mean()):.2f} of the best peer's in the "
        f"geometric mean, and {finite.max():.2f} at most."
    )
    parts = ["# Fields in time", CUBES_PREFACE, summary, markdown(shown), "![ratios](cubes.png)"]
    seconds = flat(records).groupby("cell.method.name", sort=False)["seconds.fit"].sum()
    parts.append("Seconds in all: " + ", ".join(f"{name} {total:.0f}" for name, total in seconds.items()) + ".")
    parts += failures(records, lambda cell: f"{cell['signal']['name']}, {cell['task']}")
    names = {name for name, _ in found.index}
    parts += ["## The cubes", "\n".join(f"- {name}: {CUBES[name].content}" for name in CUBES if name in names)]
    return "\n\n".join(parts) + "\n"


def _shown(value: float, least: float) -> str:
    if np.isnan(value):
        return ""
    return f"**{value:.3g}**" if value == least else f"{value:.3g}"


def figure(found: Frame) -> Figure:
    """Return the errors of each method relative to the best peer's, a case a row."""
    best = found[list(CUBE_PEERS)].min(axis=1)
    page = Figure(figsize=(8, 1.2 + 0.34 * len(found)), layout="constrained")
    ax = page.add_subplot()
    rows = np.arange(len(found))[::-1]
    for name in found.columns:
        options = {"marker": "D", "s": 60} if name == DEFAULT else {"marker": "o" if name in OURS else "x", "s": 28}
        ax.scatter(found[name] / best, rows, label=name, zorder=3 if name == DEFAULT else 2, **options)
    ax.axvline(1, color="0.6", linewidth=1)
    ax.set_xscale("log")
    ax.set_yticks(rows, [f"{name}, {hiding}" for name, hiding in found.index])
    ax.set_xlabel("error over the best peer's")
    ax.grid(axis="y", color="0.92")
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return page
