"""The command ``coordnet fit``: a signal from scattered points."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli.common import Common
from coordnet.cli.devices import choose_device
from coordnet.cli.outputs import staged_folder
from coordnet.cli.report import finish
from coordnet.cli.specs import (
    choose_encoder,
    choose_prior,
    describe_encoder,
    describe_prior,
    make_encoding,
    parse_prior,
    robust_prior,
)
from coordnet.fit.closed_form import fit_closed_form
from coordnet.media import Media, MediaError, Table, read_table, write_media, write_table
from coordnet.metrics.stopwatch import once
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.reconstruction import reconstruction_figure
from coordnet.sampling.samples import Samples, ScatteredPoints


@dataclass(frozen=True)
class Options(Common):
    """The command's own options, in their order."""

    points: Path
    shape: str
    bounds: str | None
    at: Path | None
    encoder: str | None
    prior: str
    robust: bool
    clamp: bool


def run(options: Options) -> None:
    """Read the points, fit, render, write."""
    shape, prior = parse_shape(options.shape), parse_prior(options.prior)
    device = choose_device(options.device)
    table = read_table(options.points)
    coordinates, values = split_table(table, len(shape), options.points)
    bounds = parse_bounds(options.bounds, coordinates)
    coordinates = within(coordinates, bounds, options.points, clamp=options.clamp)
    query = None if options.at is None else read_query(options.at, bounds, clamp=options.clamp)
    with staged_folder(options.out, command="fit", name=options.points.stem, force=options.force) as (
        staging,
        final,
    ):
        geometry = ScatteredPoints(shape, to_unit(coordinates, bounds, shape))
        samples = Samples(geometry, values.float().to(device))
        generator = torch.Generator().manual_seed(options.seed)
        chosen = choose_prior(prior, samples, robust=options.robust)
        encoder = choose_encoder(options.encoder, chosen, samples)
        encoding = make_encoding(encoder, "complex", samples, generator)
        fit, seconds = once(
            lambda: fit_closed_form(
                encoding, samples, robust_prior(chosen, options.robust), progress=options.progress
            ),
        )
        estimate, render_seconds = once(fit.render)
        record = {
            "signal": options.points.stem,
            "points": len(values),
            "shape": [*shape, values.shape[1]],
            "bounds": bounds.tolist(),
            "encoder": describe_encoder(encoder, encoding),
            "prior": describe_prior(chosen),
            "parameters": fit.network.parameter_count,
            "residual": float((fit(geometry.points).cpu() - values).square().mean().sqrt()),
            "seconds": {"fit": seconds, "render": render_seconds},
            "report": fit.report,
        }
        _write(staging, options, samples, fit, estimate.cpu(), query, bounds)
        finish(staging, record)
    if options.json or not options.quiet:
        _print(record, final, options.json)


def parse_shape(text: str) -> tuple[int, ...]:
    """Lengths from a text such as ``256,256``.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise _checks.wrong("shape", "whole numbers such as 256,256", repr(text)) from None
    for length in shape:
        _checks.integer("shape", length, 1)
    if len(shape) > 4:
        raise _checks.wrong("shape", "one to four axes", repr(text))
    return shape


def split_table(table: Table, dims: int, path: Path) -> tuple[Tensor, Tensor]:
    """Coordinates (n, dims) and values (n, channels) of a table.

    Raises
    ------
    MediaError
        If it has no column left for values, no row, or a number that is not finite.
    """
    columns = table.values.shape[1]
    if columns <= dims:
        raise MediaError(f"{path}: expected {dims} coordinates and a value a line, found {columns} columns")
    if not bool(torch.isfinite(table.values).all()):
        raise MediaError(f"{path}: expected finite numbers, found empty cells, NaN or infinity")
    return table.values[:, :dims], table.values[:, dims:]


def parse_bounds(text: str | None, coordinates: Tensor) -> Tensor:
    """The (d, 2) bounds that a text gives, or the coordinates' own range.

    Raises
    ------
    ValueError
        If the text has not two numbers an axis, rising.
    """
    dims = coordinates.shape[1]
    if text is None:
        low, high = coordinates.min(0).values, coordinates.max(0).values
        return torch.stack([low, torch.where(high > low, high, low + 1)], dim=1)
    try:
        bounds = torch.tensor([float(part) for part in text.split(",")], dtype=torch.float64).reshape(dims, 2)
    except (ValueError, RuntimeError):
        raise _checks.wrong("bounds", f"{2 * dims} numbers x0,x1,y0,y1,…", repr(text)) from None
    if not bool(torch.isfinite(bounds).all() & (bounds[:, 1] > bounds[:, 0]).all()):
        raise _checks.wrong("bounds", "a first finite number below the second on each axis", repr(text))
    return bounds


@dataclass(frozen=True)
class Query:
    """Points (n, d) whose values are asked for: as they were given, and within the bounds."""

    coordinates: Tensor
    inside: Tensor


def read_query(path: Path, bounds: Tensor, *, clamp: bool) -> Query:
    """The query points in the first columns of a file.

    Raises
    ------
    MediaError
        If there are too few columns, or a point is not finite or, unless clamped, outside the bounds.
    """
    table, dims = read_table(path), len(bounds)
    if table.values.shape[1] < dims:
        raise MediaError(f"{path}: expected {dims} coordinates a line, found {table.values.shape[1]} columns")
    coordinates = table.values[:, :dims]
    if not bool(torch.isfinite(coordinates).all()):
        raise MediaError(f"{path}: expected finite coordinates, found empty cells, NaN or infinity")
    return Query(coordinates, within(coordinates, bounds, path, clamp=clamp))


def within(coordinates: Tensor, bounds: Tensor, path: Path, *, clamp: bool) -> Tensor:
    """The points of a file, those outside the bounds moved to them.

    Raises
    ------
    MediaError
        If a point is outside and not to be clamped.
    """
    inside = coordinates.clamp(bounds[:, 0], bounds[:, 1])
    outside = (inside != coordinates).any(1)
    if bool(outside.any()) and not clamp:
        first = ", ".join(f"{x:g}" for x in coordinates[outside][0].tolist())
        raise MediaError(f"{path}: expected points within the bounds (or --clamp), found ({first})")
    return inside


def to_unit(coordinates: Tensor, bounds: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Points in [0, 1)^d in array order: x, the first column, runs along the last axis.

    The bounds are the first and the last node of each axis.
    """
    unit = (coordinates - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    lengths = torch.tensor(shape, dtype=torch.float64)
    return unit.flip(-1) * (lengths - 1) / lengths


def _write(
    staging: Path,
    options: Options,
    samples: Samples,
    fit: Reconstruction,
    estimate: Tensor,
    query: Query | None,
    bounds: Tensor,
) -> None:
    picture = estimate.ndim == 3 and estimate.shape[-1] <= 4
    shown = bool(((samples.values >= 0) & (samples.values <= 1)).all())
    media = Media(estimate, "array", options.points.stem, "float32")
    if picture and shown:
        media = replace(media, kind="image", depth="uint8")
    write_media(media, staging / f"reconstruction{media.lossless_suffix}")
    title = f"{len(samples.values)} points"
    figure = reconstruction_figure(None, samples, estimate, title=title, score=title)
    figure.savefig(staging / "figure.png", dpi=110)
    fit.save(staging / "model.safetensors")
    if query is not None:
        _write_query(staging / "query.csv", fit, query, bounds)


def _write_query(path: Path, fit: Reconstruction, query: Query, bounds: Tensor) -> None:
    values = fit(to_unit(query.inside, bounds, fit.grid)).double().cpu()
    names = ["x", "y", "z", "t"][: len(fit.grid)] + [f"value{c}" for c in range(values.shape[1])]
    write_table(path, names, torch.cat([query.coordinates, values], dim=1))


def _print(record: dict[str, Any], folder: Path, json_only: bool) -> None:
    import json

    if json_only:
        print(json.dumps(record, ensure_ascii=False))
        return
    shape = "×".join(str(n) for n in record["shape"])
    print(f"{record['points']} points onto {shape}, {record['encoder']}, prior {record['prior']}")
    print(f"residual {record['residual']:.3g} at the points, fitted in {record['seconds']['fit']:.3f} s")
    print(f"written to {folder}", file=sys.stdout)
