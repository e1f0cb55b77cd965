"""The command ``coordnet fit``: a field from a table of points."""

import math
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import torch
from torch import Tensor

from coordnet.cli import report, specs
from coordnet.cli.common import Common, Fitting, Place, Tuning
from coordnet.cli.folders import results
from coordnet.cli.reconstruct import fitted
from coordnet.media import Media, MediaError, read_table, write_table
from coordnet.media.files import refuse_large
from coordnet.metrics.scores import value_range
from coordnet.plots.fits import reconstruction_figure
from coordnet.sampling.axes import Bounds
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints

COORDINATES = ("x", "y", "z", "t")  # column names of a table, in the order of the axes


def from_points(points: Path, place: Place, fitting: Fitting, uncertainty: bool, common: Common) -> None:
    """Read the points, fit, render, write."""
    shape, asked = specs.parse_shape(place.shape), specs.parse_fitting(fitting)
    refuse_large("`shape`", math.prod(shape), common.memory_bytes)
    if place.at is not None and not common.is_explained:
        raise MediaError(f"--at: expected --report FOLDER for its values, as --out {common.file} is written alone")
    device, common = specs.choose_device(common.device), report.reading(common, points, place.at)
    with common.stage("reading"):
        names, columns = _columns(points, len(shape), place.columns, values=1)
    coordinates, values = columns[:, : len(shape)], columns[:, len(shape) :]
    bounds = Bounds.of(coordinates) if place.bounds is None else specs.parse_bounds(place.bounds, len(shape))
    inside = _within(coordinates, bounds, points, clamp=place.clamp)
    with specs.naming("`at`"):
        query = None if place.at is None else _columns(place.at, len(shape), place.columns, values=0)[1]
        queried = None if query is None else _within(query, bounds, place.at, clamp=place.clamp)
    with results(common, "fit", points.stem) as (staging, final):
        geometry = ScatteredPoints(shape, bounds.to_unit(inside, shape), blending=place.blending)  # type: ignore[arg-type]
        samples = Samples(geometry, values.float().to(device))
        generator = torch.Generator().manual_seed(common.seed)
        made = fitted(samples, asked, fitting, Tuning(), generator, common, uncertainty=uncertainty)
        fit = made.model
        assert fit is not None, "points are fitted as a whole"
        record = {
            "signal": points.stem,
            **report.origin("fit", common),
            "points": len(values),
            "shape": [*shape, values.shape[1]],
            "bounds": bounds.tolist(),
            **report.describe(made.method, fit),
            "blending": fit.network.blending and fit.network.blending.kind,
            "residual": float((fit(geometry.points).cpu() - values).square().mean().sqrt()),
            "report": made.fit_report.as_dict(),
            "seconds": made.seconds,
        }
        media, options = _media(made.estimate, values, points.stem), {"title": points.stem, "bounds": bounds}
        std, sure = report.uncertainty(fit, value_range(values)[0]) if uncertainty else (None, {})
        with common.stage("drawing"):
            figure = reconstruction_figure(None, samples, made.estimate, score=f"{len(values)} points", **options)
        report.write_results(staging, media, fit, figure, record | sure, common, std)
        if query is not None and queried is not None:
            _write_query(staging / "query.csv", names, query, fit(bounds.to_unit(queried, shape)).double().cpu())
    report.show(record | sure, _points_table(record | sure, final), common)


def _write_query(path: Path, names: Sequence[str], query: Tensor, found: Tensor) -> None:
    """Write the values that were found at coordinates, beside these, by the names that the points' columns have."""
    names = names or [*COORDINATES[: query.shape[1]], *(f"value{c}" for c in range(found.shape[1]))]
    write_table(path, names, torch.cat([query, found], dim=1))


def _columns(path: Path, dims: int, asked: str | None, *, values: int) -> tuple[Sequence[str], Tensor]:
    """Read the columns of a file, those that were ``asked`` for or coordinates first, and their names if there are any.

    Fewer ``values`` after the coordinates, or infinite ones, are refused.
    """
    names, columns = read_table(path)
    if values and not names and dims == 1 and columns.shape[1] > 2:
        expected = "a position and a value a line, or a header such as x,value0,value1"
        raise MediaError(f"{path}: expected {expected}, as --shape has one length, found {columns.shape[1]} columns")
    if asked is not None and not names:
        raise MediaError(f"{path}: expected a header with the names of --columns, found numbers")
    if names:
        order = _order(path, names, dims) if asked is None else _asked(path, names, asked, dims, values)
        names, columns = [names[i] for i in order], columns[:, order]
    if columns.shape[1] < dims + values:
        expected = f"{dims} coordinates{' and a value' if values else ''} a line"
        raise MediaError(f"{path}: expected {expected}, found {columns.shape[1]} columns")
    columns = columns if values else columns[:, :dims]
    if not bool(torch.isfinite(columns).all()):
        raise MediaError(f"{path}: expected finite numbers, found empty cells, NaN or infinity")
    return names, columns


def _asked(path: Path, names: Sequence[str], asked: str, dims: int, values: int) -> list[int]:
    """Return the places of the columns that ``--columns`` names; without ``values`` those of the coordinates alone."""
    wanted, lower = [name.strip() for name in asked.split(",")], [name.lower() for name in names]
    if len(wanted) <= dims or len(set(wanted)) < len(wanted):
        raise MediaError(f"--columns: expected {dims} coordinates and then values, each once, found {asked}")
    wanted = wanted if values else wanted[:dims]
    for name in wanted:
        if lower.count(name.lower()) != 1:
            raise MediaError(f"{path}: expected one column {name} (--columns), found {', '.join(names)}")
    return [lower.index(name.lower()) for name in wanted]


def _order(path: Path, names: tuple[str, ...], dims: int) -> list[int]:
    """Return the order of a table's columns with x, y, z, t first; a missing or an extra one of these is refused."""
    lower = [name.lower() for name in names]
    axes = list(takewhile(lower.__contains__, COORDINATES))
    if len(axes) > dims:
        columns = ", ".join(axes)
        remedy = f"--columns {','.join(names)}, if only the first {dims} are coordinates"
        expected = f"a --shape of {len(axes)} lengths for the columns {columns} ({remedy})"
        raise MediaError(f"{path}: expected {expected}, found {dims}")
    if len(axes) < dims or len(set(lower)) < len(lower):
        wanted, shown = ", ".join(COORDINATES[:dims]), ", ".join(names)
        expected = f"columns named {wanted} and others for the values (or --columns with the coordinates first)"
        raise MediaError(f"{path}: expected {expected}, found {shown}")
    return [lower.index(axis) for axis in axes] + [i for i, name in enumerate(lower) if name not in axes]


def _within(coordinates: Tensor, bounds: Bounds, path: Path | None, *, clamp: bool) -> Tensor:
    """Return the points of a file; those outside the bounds are moved to the border, or refused."""
    inside = bounds.clamp(coordinates)
    outside = (inside != coordinates).any(1)
    if bool(outside.any()) and not clamp:
        first = ", ".join(f"{x:g}" for x in coordinates[outside][0].tolist())
        raise MediaError(f"{path}: expected points within the bounds (or --clamp), found ({first})")
    return inside


def _media(estimate: Tensor, values: Tensor, name: str) -> Media:
    """The reconstruction as a picture where it can be one, else as an array."""
    picture = estimate.ndim == 3 and estimate.shape[-1] <= 4 and bool(((values >= 0) & (values <= 1)).all())
    return Media(estimate, *(("image", name, "uint8") if picture else ("array", name, "float32")))


def _points_table(record: report.Record, folder: Path) -> list[str]:
    beyond = record["report"].get("beyond_samples", 0.0)
    blended = f", blended by {record['blending']}" if record["blending"] else ""
    return [
        f"{record['points']} points onto {report.size(record['shape'])}, {record['encoder']}, {record['head']} head, "
        f"prior {record['prior']}{blended}",
        f"residual {record['residual']:.3g} at the points, fitted in {report.duration(record['seconds']['fit'])}",
        *([report.sure_line(record["uncertainty"])] if "uncertainty" in record else []),
        *([f"{100 * beyond:.3g} % of the nodes are beyond the outermost points, and extrapolated"] if beyond else []),
        f"written to {folder}",
    ]
