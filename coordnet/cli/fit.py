"""The command ``coordnet fit``: a signal from scattered points."""

from pathlib import Path

import torch
from torch import Tensor

from coordnet.cli import report, specs
from coordnet.cli.common import Common, Model, Place
from coordnet.fit.defaults import choose
from coordnet.media import Media, MediaError, Table, read_table, write_table
from coordnet.metrics.stopwatch import once
from coordnet.plots.reconstruction import reconstruction_figure
from coordnet.sampling.bounds import Bounds
from coordnet.sampling.samples import Samples, ScatteredPoints


def run(points: Path, place: Place, model: Model, common: Common) -> None:
    """Read the points, fit, render, write."""
    shape, prior = specs.parse_shape(place.shape), specs.parse_prior(model.prior)
    encoder = None if model.encoder is None else specs.parse_encoder(model.encoder)
    device = specs.choose_device(common.device)
    coordinates, values = _split(read_table(points), len(shape), points)
    bounds = Bounds.of(coordinates) if place.bounds is None else specs.parse_bounds(place.bounds, len(shape))
    inside = _within(coordinates, bounds, points, clamp=place.clamp)
    query = None if place.at is None else _query(place.at, bounds, clamp=place.clamp)
    with report.staged_folder(common.out, command="fit", name=points.stem, force=common.force) as (
        staging,
        final,
    ):
        geometry = ScatteredPoints(shape, bounds.to_unit(inside, shape))
        samples = Samples(geometry, values.float().to(device))
        method = choose(samples, encoder, prior=prior, robust=model.robust)
        generator = torch.Generator().manual_seed(common.seed)
        fit, seconds = once(lambda: method.fit(samples, generator=generator, progress=common.progress))
        estimate, render_seconds = once(fit.render)
        described = report.describe(method, fit)
        record = {
            "signal": points.stem,
            "points": len(values),
            "shape": [*shape, values.shape[1]],
            "bounds": bounds.tolist(),
            "encoder": described["encoder"],
            "prior": described["prior"],
            "parameters": fit.network.parameter_count,
            "residual": float((fit(geometry.points).cpu() - values).square().mean().sqrt()),
            "seconds": {"fit": seconds, "render": render_seconds},
            "report": fit.report,
        }
        title = f"{len(values)} points"
        figure = reconstruction_figure(None, samples, estimate.cpu(), title=title, score=title)
        media = _media(estimate.cpu(), values, points.stem)
        report.write_results(staging, media, fit, figure, record)
        if query is not None:
            asked, inside = query
            _write_values(staging / "query.csv", asked, fit(bounds.to_unit(inside, shape)))
    report.show(record, _table(record, final), common)


def _split(table: Table, dims: int, path: Path) -> tuple[Tensor, Tensor]:
    """Coordinates (n, dims) and values (n, channels) of a table.

    Raises
    ------
    MediaError
        If no column is left for values, or a number is not finite.
    """
    columns = table.values.shape[1]
    if columns <= dims:
        raise MediaError(f"{path}: expected {dims} coordinates and a value a line, found {columns} columns")
    if not bool(torch.isfinite(table.values).all()):
        raise MediaError(f"{path}: expected finite numbers, found empty cells, NaN or infinity")
    return table.values[:, :dims], table.values[:, dims:]


def _query(path: Path, bounds: Bounds, *, clamp: bool) -> tuple[Tensor, Tensor]:
    """The query points (n, d) in the first columns of a file: as they were given, and within the bounds.

    Raises
    ------
    MediaError
        If there are too few columns, or a point is not finite or, unless clamped, outside the bounds.
    """
    found, dims = read_table(path).values, len(bounds.low)
    if found.shape[1] < dims:
        raise MediaError(f"{path}: expected {dims} coordinates a line, found {found.shape[1]} columns")
    if not bool(torch.isfinite(found[:, :dims]).all()):
        raise MediaError(f"{path}: expected finite coordinates, found empty cells, NaN or infinity")
    return found[:, :dims], _within(found[:, :dims], bounds, path, clamp=clamp)


def _within(coordinates: Tensor, bounds: Bounds, path: Path, *, clamp: bool) -> Tensor:
    """The points of a file, those outside the bounds moved to the border.

    Raises
    ------
    MediaError
        If a point is outside and points are not to be clamped.
    """
    inside = bounds.clamp(coordinates)
    outside = (inside != coordinates).any(1)
    if bool(outside.any()) and not clamp:
        first = ", ".join(f"{x:g}" for x in coordinates[outside][0].tolist())
        raise MediaError(f"{path}: expected points within the bounds (or --clamp), found ({first})")
    return inside


def _media(estimate: Tensor, values: Tensor, name: str) -> Media:
    """The reconstruction as a picture where it can be one, else as an array."""
    picture = estimate.ndim == 3 and estimate.shape[-1] <= 4
    if picture and bool(((values >= 0) & (values <= 1)).all()):
        return Media(estimate, "image", name, "uint8")
    return Media(estimate, "array", name, "float32")


def _write_values(path: Path, query: Tensor, values: Tensor) -> None:
    names = ["x", "y", "z", "t"][: query.shape[1]] + [f"value{c}" for c in range(values.shape[1])]
    write_table(path, names, torch.cat([query, values.double().cpu()], dim=1))


def _table(record: report.Record, folder: Path) -> list[str]:
    return [
        f"{record['points']} points onto {report.size(record['shape'])}, {record['encoder']}, "
        f"prior {record['prior']}",
        f"residual {record['residual']:.3g} at the points, fitted in {record['seconds']['fit']:.3f} s",
        f"written to {folder}",
    ]
