"""The command ``coordnet fit``: a signal from scattered points."""

from itertools import takewhile
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from coordnet.cli import report, specs, sureness
from coordnet.cli.common import Common, Fitting, Place
from coordnet.cli.origin import origin, reading
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import choose
from coordnet.media import Media, MediaError, read_table, write_table
from coordnet.media.files import refuse_large
from coordnet.metrics.scores import value_range
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import reconstruction_figure
from coordnet.sampling.axes import Bounds
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints

COORDINATES = ("x", "y", "z", "t")  # column names of a table, in the order of the axes


def run(points: Path, place: Place, fitting: Fitting, uncertainty: bool, common: Common) -> None:
    """Read the points, fit, render, write."""
    shape, model = specs.parse_shape(place.shape), specs.parse_fitting(fitting)
    refuse_large("`shape`", prod(shape), common.memory_bytes)
    device = specs.choose_device(common.device)
    common = reading(common, points, place.at)
    with report.stage("reading", common):
        columns = _columns(points, len(shape), values=1)
    coordinates, values = columns[:, : len(shape)], columns[:, len(shape) :]
    bounds = Bounds.of(coordinates) if place.bounds is None else specs.parse_bounds(place.bounds, len(shape))
    inside = _within(coordinates, bounds, points, clamp=place.clamp)
    with specs.naming_option("at"):
        query = None if place.at is None else _columns(place.at, len(shape), values=0)
        asked = None if query is None else _within(query, bounds, place.at, clamp=place.clamp)
    with report.results(common, "fit", points.stem) as (staging, final):
        geometry = ScatteredPoints(shape, bounds.to_unit(inside, shape), blending=place.blending)  # type: ignore[arg-type]
        samples = Samples(geometry, values.float().to(device))
        method, choosing = once(lambda: choose(samples, **model, progress=common.progress))
        sureness.check(samples, method, asked=uncertainty)
        generator = torch.Generator().manual_seed(common.seed)
        options = {"generator": generator, "epochs": fitting.epochs, "lr": fitting.lr, "progress": common.progress}
        fit, seconds = once(lambda: method.fit(samples, **options))
        with report.stage("rendering", common):
            estimate, render_seconds = once(lambda: fit.render().cpu())
        record = {
            "signal": points.stem,
            **origin("fit", common),
            "points": len(values),
            "shape": [*shape, values.shape[1]],
            "bounds": bounds.tolist(),
            **report.describe(method, fit),
            **_found(fit, geometry, values),
            "seconds": {"fit": choosing + seconds, "render": render_seconds},
        }
        media, score = _media(estimate, values, points.stem), f"{len(values)} points"
        sure = sureness.Sureness.of(fit, value_range(values)[0]) if uncertainty else None
        record |= sure.record if sure else {}
        with report.stage("drawing", common):
            figure = reconstruction_figure(None, samples, estimate, title=points.stem, score=score, bounds=bounds)
        report.write_results(staging, media, fit, figure, record, common)
        sureness.write(staging, sure, media)
        if query is not None and asked is not None:
            _write_query(staging / "query.csv", query, fit(bounds.to_unit(asked, shape)).double().cpu())
    report.show(record, _table(record, final), common)


def _write_query(path: Path, query: Tensor, found: Tensor) -> None:
    """Write the values that were found at coordinates, beside these."""
    names = [*COORDINATES[: query.shape[1]]] + [f"value{c}" for c in range(found.shape[1])]
    write_table(path, names, torch.cat([query, found], dim=1))


def _found(fit: Reconstruction, geometry: ScatteredPoints, values: Tensor) -> report.Record:
    """The part of a record that says how points were fitted."""
    return {
        "blending": fit.network.blending and fit.network.blending.kind,
        "residual": float((fit(geometry.points).cpu() - values).square().mean().sqrt()),
        "report": fit.report.as_dict(),
    }


def _columns(path: Path, dims: int, *, values: int) -> Tensor:
    """Read the columns of a file, coordinates first; fewer ``values`` after them, or infinite ones, are refused."""
    names, found = read_table(path)
    if values and not names and dims == 1 and found.shape[1] > 2:
        expected = "a position and a value a line, or a header such as x,value0,value1"
        raise MediaError(f"{path}: expected {expected}, as --shape has one length, found {found.shape[1]} columns")
    found = found[:, _order(path, names, dims)] if names else found
    if found.shape[1] < dims + values:
        expected = f"{dims} coordinates{' and a value' if values else ''} a line"
        raise MediaError(f"{path}: expected {expected}, found {found.shape[1]} columns")
    found = found if values else found[:, :dims]
    if not bool(torch.isfinite(found).all()):
        raise MediaError(f"{path}: expected finite numbers, found empty cells, NaN or infinity")
    return found


def _order(path: Path, names: tuple[str, ...], dims: int) -> list[int]:
    """Return the order of a table's columns with x, y, z, t first; a missing or an extra one of these is refused."""
    lower = [name.lower() for name in names]
    axes = list(takewhile(lower.__contains__, COORDINATES))
    if len(axes) > dims:
        columns = ", ".join(axes)
        raise MediaError(f"{path}: expected a --shape of {len(axes)} lengths for the columns {columns}, found {dims}")
    if len(axes) < dims or len(set(lower)) < len(lower):
        wanted, shown = ", ".join(COORDINATES[:dims]), ", ".join(names)
        expected = f"columns named {wanted} and others for the values, or no names and {wanted} first"
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


def _table(record: report.Record, folder: Path) -> list[str]:
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
