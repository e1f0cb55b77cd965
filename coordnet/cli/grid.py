"""The command ``coordnet grid``: a table of points onto a grid, both in the user's units."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Common, Gridding
from coordnet.cli.folders import results
from coordnet.cli.point_tables import Stations, read_drift, read_stations
from coordnet.comparison.stopwatch import once, versions
from coordnet.fitting.fit import Method, choose
from coordnet.media import write_table
from coordnet.media.files import refuse_large
from coordnet.media.netcdf import Variable, write_grid
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.stations import GriddedPoints, stations_figure

SURE_POINTS = 20000  # points up to which eleven more fits are made unasked: a few minutes
MOST_ROWS = 2**22  # nodes of a grid that is written as a table, too: a quarter of a gigabyte


@dataclass(frozen=True)
class StationGrid:
    """A fit on a grid: values and deviations (*grid, channels), and where it extrapolates."""

    fit: Reconstruction
    axes: dict[str, np.ndarray]
    field: np.ndarray
    deviation: np.ndarray | None
    beyond: np.ndarray


def from_table(path: Path, asked: Gridding, common: Common) -> None:
    """Read the points, fit, evaluate on the grid, write."""
    common, prior = report.reading(common, path), specs.parse_prior(asked.prior)
    if asked.max_distance is not None:
        _checks.positive("max_distance", asked.max_distance)
    with common.stage("reading"):
        read = read_stations(path, asked, specs.choose_device(common.device))
        drift = read_drift(asked.drift_at, read.drift_names, [axis.name for axis in read.lattice.named])
    named = read.lattice.named
    spacing = _spacing(asked.spacing, len(named))
    nodes = math.prod(axis.covering(step) for axis, step in zip(named, spacing, strict=True))
    refuse_large("`spacing`", nodes, common.memory_bytes)
    with results(common, "grid", path.stem) as (staging, final):
        method = choose(read.samples, prior=prior, robust=asked.robust, progress=common.progress)
        if method.prior is not None:
            method = replace(method, prior=method.prior.seeded(common.seed))
        fit, fitting = once(lambda: method.fit(read.samples, progress=common.progress))
        with common.stage("cross-validating"):
            score, validating = once(lambda: _score(fit, read, asked.sure))
        with common.stage("evaluating"):
            made, evaluating = once(lambda: _evaluated(fit, spacing, asked.max_distance, drift, score is not None))
        record = _record(path, read, method, made, common) | {
            "score": score,
            "seconds": {"fit": fitting, "score": validating, "render": evaluating},
            "report": fit.report.as_dict(),
            "versions": versions(),
        }
        with common.stage("writing"):
            _write(staging, made, read, record, common)
    report.show(record, _lines(record, final), common)


def _spacing(text: str | None, dims: int) -> list[float | None]:
    """Return the distance of nodes along each axis, in the order of the results; None for the fit's own."""
    if text is None:
        return [None] * dims
    numbers = specs.parse_numbers(text, "spacing")
    if len(numbers) not in (1, dims):
        raise _checks.wrong("spacing", f"a number, or {dims}, one for each axis", repr(text))
    if not all(0 < number < math.inf for number in numbers):
        raise _checks.wrong("spacing", "positive numbers such as 0.1, or 0.1,0.2 for two axes", repr(text))
    return [*(numbers * dims)[:dims][::-1]]


def _score(fit: Reconstruction, read: Stations, asked: bool | None) -> dict[str, Any] | None:
    """Return the score by cross-validation, after which deviations are known; None without."""
    if asked is False or (asked is None and len(read.samples.values) > SURE_POINTS):
        return None
    try:
        score = fit.score()
        fit.std()
    except ValueError:  # too few points, or too near each other
        if asked:
            raise
        return None
    fields = asdict(score)
    finite = [[None if x != x else x for x in np.atleast_1d(fields[name]).tolist()] for name in ("rmse", "r2")]
    return fields | {name: _by_column(numbers) for name, numbers in zip(("rmse", "r2"), finite, strict=True)}


def _by_column(numbers: list[float | None]) -> float | None | list[float | None]:
    """Return the number of the only column of values, or those of several, which may have different units."""
    return numbers[0] if len(numbers) == 1 else numbers


def _evaluated(
    fit: Reconstruction, spacing: list[float | None], max_distance: float | None, drift: Any, is_sure: bool
) -> StationGrid:
    """Evaluate a fit on the grid."""
    options: Any = {"spacing": spacing, "max_distance": max_distance, "drift": drift}
    field, beyond = fit.grid(**options), fit.extrapolates(spacing)
    axes = {axis.name: axis.covered(step) for axis, step in zip(fit.lattice.named, spacing, strict=True)}  # type: ignore[union-attr]
    shape = tuple(map(len, axes.values()))
    deviation = fit.grid(std=True, **options).values.reshape(*shape, -1) if is_sure else None
    return StationGrid(fit, axes, field.values.reshape(*shape, -1), deviation, beyond.values)


def _record(path: Path, read: Stations, method: Method, made: StationGrid, common: Common) -> report.Record:
    geometry, fit = read.samples.geometry, made.fit
    residual = (geometry.at_samples(fit) - read.samples.values).double().square()
    weights = geometry.full_weights.to(residual).expand_as(residual)
    return {
        "signal": path.stem,
        **report.origin("grid", common),
        "points": len(read.samples.values),
        "left_out": geometry.left_out,  # type: ignore[attr-defined]
        "merged": geometry.merged,  # type: ignore[attr-defined]
        "values": list(read.names),
        "unused": dict(read.unused),
        "axes": {
            axis.name: {"unit": axis.unit, "period": axis.period, "low": axis.low, "high": axis.high}
            for axis in read.lattice.named
        },
        "nodes": list(read.lattice.grid),
        "grid": {name: [float(x[0]), float(x[-1]), len(x)] for name, x in made.axes.items()},
        **report.describe(method, fit),
        "device": fit.report.device or str(read.samples.values.device),
        "seed": common.seed,
        "residual": _by_column(((weights * residual).sum(0) / weights.sum(0)).sqrt().tolist()),
        "extrapolated": float(made.beyond.mean()),
        "expected_error": None if made.deviation is None else _by_column(list(map(_rms, made.deviation.T))),
    }


def _rms(values: np.ndarray) -> float | None:
    return float(np.sqrt(np.nanmean(np.square(values)))) if np.isfinite(values).any() else None


def _write(folder: Path, made: StationGrid, read: Stations, record: report.Record, common: Common) -> None:
    variables = _variables(made, read)
    made_by = f"coordnet {record['versions'].get('coordnet', 'that is not installed')}"
    source = f"{made_by}, {record['prior']}, from {record['points']} points"
    attributes = {"title": record["signal"], "source": source}
    options: Any = {"units": read.units, "axis_names": read.standard_names, "attributes": attributes}
    alone = common.file and (common.file.suffix.lower() or ".csv")
    if alone in (None, ".nc"):
        write_grid(folder / "grid.nc", made.axes, variables, **options)
    if alone == ".csv" or (alone is None and made.beyond.size <= MOST_ROWS):
        is_written = _write_rows(folder / "grid.csv", made.axes, variables)
        if alone and not is_written:
            raise _checks.wrong("max_distance", "a distance within which there is a node", "none")
    if common.is_drawn:
        stations_figure(_shown(made, read, record)).savefig(folder / "figure.png", dpi=110)
        if common.keep_model or made.fit.network.parameter_count <= report.SMALL_MODEL:
            made.fit.save(folder / "model.safetensors")
    if common.is_explained:
        report.write_record(folder, record)


def _variables(made: StationGrid, read: Stations) -> dict[str, Variable]:
    """Return the values, their deviations, and where they are extrapolated, with what CF says of them."""
    variables = {}
    for channel, name in enumerate(read.names):
        told = {"units": read.units.get(name), "standard_name": read.standard_names.get(name)}
        own = {key: text for key, text in told.items() if text}
        if made.deviation is not None:
            error = own | {key: f"{text} standard_error" for key, text in own.items() if key == "standard_name"}
            error["long_name"] = f"standard deviation of the errors of {name}"
            variables[f"{name}_std"] = Variable(made.deviation[..., channel], error)
            own["ancillary_variables"] = f"{name}_std extrapolated"
        variables[name] = Variable(made.field[..., channel], {"long_name": name, **own})
    flags = {"long_name": "1 where the values are extrapolated", "units": "1"}
    return {name: variables[name] for name in sorted(variables, key=lambda name: name not in read.names)} | {
        "extrapolated": Variable(made.beyond.astype(float), flags)
    }


def _write_rows(path: Path, axes: Mapping[str, np.ndarray], variables: Mapping[str, Variable]) -> bool:
    """Write a row for each node that has a value, the first coordinate of the table first; return if there is one."""
    columns = [x.ravel() for x in np.meshgrid(*axes.values(), indexing="ij")][::-1]
    columns += [variable.values.ravel() for variable in variables.values()]
    rows = np.stack(columns, 1)
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows):
        write_table(path, [*list(axes)[::-1], *variables], torch.from_numpy(rows))
    return len(rows) > 0


def _shown(made: StationGrid, read: Stations, record: report.Record) -> list[GriddedPoints]:
    score, shown = record["score"], []
    said = [""] * len(read.names)
    if score is not None:
        said = [f"error by cross-validation {rmse:.3g}" for rmse in np.atleast_1d(score["rmse"])]
    places, weights = read.samples.geometry.places.numpy(), read.samples.geometry.full_weights  # type: ignore[attr-defined]
    known = (weights.to(read.samples.values) > 0).expand_as(read.samples.values)
    values = torch.where(known, read.samples.values, torch.nan).cpu().double().numpy()
    for channel, name in enumerate(read.names):
        deviation = None if made.deviation is None else made.deviation[..., channel]
        field = made.field[..., channel]
        shown.append(
            GriddedPoints(
                places, values[:, channel], made.axes, field, deviation, made.beyond, read.units, name, said[channel]
            )
        )
    return shown


def _lines(record: report.Record, folder: Path) -> list[str]:
    """The lines that the command prints."""
    axes = ", ".join(reversed(record["axes"]))
    notes = [f"{record[key]} {words}" for key, words in (("left_out", "left out"), ("merged", "merged")) if record[key]]
    noted = f" ({', '.join(notes)})" if notes else ""
    counts = " by ".join(f"{count} {name}" for name, (*_, count) in reversed(record["grid"].items()))
    score, seconds = record["score"], record["seconds"]
    lines = [
        f"{record['points']:,} points of {', '.join(record['values'])} at {axes}{noted}",
        f"{report.size(record['nodes'])} nodes, prior {record['prior']}, fitted in {report.duration(seconds['fit'])}",
        *_column_lines(record),
    ]
    for letter, name in record["unused"].items():
        lines.insert(1, f"{name} is not used: --{letter} {name} takes it for a coordinate, --drift {name} for a drift")
    if score is not None:
        blocks = f"{score['folds']} folds of {score['blocks']} blocks of points"
        lines.append(f"cross-validation by {blocks} ({report.duration(seconds['score'])})")
    share = 100 * record["extrapolated"]
    beyond = f", {share:.3g} % of it extrapolated (hatched in figure.png)" if share else ""
    return [*lines, f"grid of {counts}{beyond}", f"written to {folder}"]


def _column_lines(record: report.Record) -> list[str]:
    """Return what was found of each column of values."""
    lines, score, names = [], record["score"] or {}, record["values"]
    numbers = record["residual"], score.get("rmse"), score.get("r2"), record["report"].get("signals", record["report"])
    columns = (part if isinstance(part, list) else [part] * len(names) for part in numbers)
    for name, residual, rmse, r2, fitted in zip(names, *columns, strict=True):
        error = "" if rmse is None else f", error by cross-validation {rmse:.3g}"
        share = "" if r2 is None else f", R² {r2:.4f}"
        lines.append(f"{name}: {_chosen(record['prior'], fitted)}residual {residual:.3g} at the points{error}{share}")
        for drift, (value,) in (fitted.get("drift") or {}).items():
            lines.append(f"{name}: drift by {drift} {value:.4g} for each unit of it")
    return lines


def _chosen(prior: str, fitted: report.Record) -> str:
    """Return the numbers of plates in words, where hidden points chose them; nothing for other priors."""
    name, _, given = prior.partition(":")
    if name != "plates" or "order" not in fitted or "cutoff=" in given:
        return ""
    cutoff, corner = fitted["cutoff"], fitted["corner"]
    smoothing = "interpolating" if cutoff is None else f"cut-off {cutoff:g}"
    return f"order {fitted['order']}, {smoothing}, " + (f"corner {corner:g}, " if corner else "")
