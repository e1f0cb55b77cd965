"""The commands ``coordnet reconstruct`` and ``coordnet fit``: a signal from some of its samples, or from points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common, Fitting, Place, Sampling, Tuning
from coordnet.cli.folders import results
from coordnet.cli.many import each
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import choose, tuned
from coordnet.fitting.methods import Method
from coordnet.media import Media, MediaError, read_table, write_table
from coordnet.media.files import refuse_large
from coordnet.metrics.scores import Scoring, value_range
from coordnet.networks.fit_reports import FitReport, TiledReport, TrainingReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import reconstruction_figure
from coordnet.restore.restored import Tiles, crop, fit_large
from coordnet.sampling.axes import Bounds
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints

COORDINATES = ("x", "y", "z", "t")  # column names of a table, in the order of the axes
BASELINES = {"linear": "linear interpolation", "cubic": "cubic spline", "biharmonic": "biharmonic inpainting"}
TUNINGS = 5  # number of the best candidates of --tune that are printed


@dataclass(frozen=True)
class Fitted:
    """A fit of samples by a method, with the signal that it estimates and the seconds that it took."""

    method: Method
    model: Reconstruction | None  # None for a large signal that is fitted in tiles
    estimate: Tensor
    fit_report: FitReport
    seconds: dict[str, float]
    tuning: dict[str, Any]  # the part of the record on --tune


def from_samples(
    signals: list[str], sampling: Sampling, fitting: Fitting, tuning: Tuning, uncertainty: bool, common: Batch
) -> None:
    """Reconstruct each signal from some of its samples."""
    work = partial(_reconstruct, sampling=sampling, fitting=fitting, tuning=tuning, uncertainty=uncertainty)
    mask = specs.mask_file(sampling.sample)
    each("reconstruct", work, signals, common, lambda _: [mask] if mask else [])


def _reconstruct(
    signal: str, common: Common, sampling: Sampling, fitting: Fitting, tuning: Tuning, uncertainty: bool
) -> report.Outcome:
    """Read, sample, fit, render, score, write."""
    asked, device = specs.parse_fitting(fitting), specs.choose_device(common.device)
    media = specs.read_part(signal, sampling, common)
    with results(common, "reconstruct", media.name) as (staging, final):
        report.try_format(media, staging, common)
        text, pattern = specs.parse_sample(media.grid, sampling, common)
        generator = torch.Generator().manual_seed(common.seed)
        with specs.naming("`sample`"):
            samples = sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)
        made = _fitted(samples, asked, fitting, tuning, generator, common, uncertainty=uncertainty)
        with common.stage("scoring"):
            scoring = Scoring(media.signal, samples)
            scores = scoring.scores(made.estimate)
        with common.stage("comparing with peers"):
            baselines, slow = scoring.peers(made.seconds["fit"])
        left_out = {
            name: "too many points" if math.isinf(s) else f"takes about {report.duration(s)}"
            for name, s in slow.items()
        }
        std, sure = report.uncertainty(made.model, scoring.span, scoring) if uncertainty and made.model else (None, {})
        record = {
            "signal": media.name,
            **report.origin("reconstruct", common),
            "shape": list(media.signal.shape),
            "sample": text,
            **report.describe(made.method, made.model),
            "device": made.fit_report.device or str(device),
            "seed": common.seed,
            **made.tuning,
            **scores,
            "range": scoring.span,
            **sure,
            "baselines": baselines,
            "left_out": left_out,
            "seconds": made.seconds,
            "report": made.fit_report.as_dict(),
            "versions": report.versions(),
        }
        figure = None
        if common.is_drawn:
            with common.stage("drawing"):
                figure = _figure(media, samples, made, _score(record))
        report.write_results(staging, replace(media, signal=made.estimate), made.model, figure, record, common, std)
    return report.Outcome(record, _table(record, made.fit_report, final), _score(record))


def _fitted(
    samples: Samples,
    asked: dict[str, Any],
    fitting: Fitting,
    tuning: Tuning,
    generator: torch.Generator,
    common: Common,
    *,
    uncertainty: bool,
) -> Fitted:
    """Fit samples by the method that is asked for, tuned with --tune, and render the fit."""
    method, choosing = once(partial(choose, samples, **asked, tunable=tuning.tune, progress=common.progress))
    _checks.choice("criterion", tuning.criterion, ("hold-out", "gcv"))
    record: report.Record = {}
    if tuning.tune:
        options: Any = {"criterion": tuning.criterion, "folds": tuning.folds, "seed": common.seed}
        method, found = tuned(method, samples, **options, progress=common.progress)
        record = {"tuning": {"criterion": found.criterion, "tried": found.table}}
    if uncertainty:
        specs.check_uncertainty(samples, method)
    work = partial(method.fit, generator=generator, epochs=fitting.epochs, lr=fitting.lr, progress=common.progress)
    largest = None if method.solver == "closed-form" else math.prod(samples.grid)
    (fit, found), seconds = once(lambda: fit_large(samples, work, largest=largest, progress=common.progress))
    if isinstance(fit, Tensor):
        return Fitted(method, None, fit, found, {"fit": choosing + seconds, "render": 0.0}, record)
    with common.stage("rendering"):
        estimate, rendering = once(lambda: fit.render().cpu())
    return Fitted(method, fit, estimate, found, {"fit": choosing + seconds, "render": rendering}, record)


def _figure(media: Media, samples: Samples, made: Fitted, score: str) -> Figure:
    """Draw a signal, its samples and the estimate; only their middle if the signal was cut into tiles."""
    signal, estimate, title = media.signal, made.estimate, media.name
    if made.model is None:
        part = Tiles(samples.grid).middle
        signal, estimate, samples, title = signal[part], estimate[part], crop(samples, part), f"{title}, its middle"
    return reconstruction_figure(signal, samples, estimate, title=title, score=score, rate=media.rate)


def _score(record: report.Record) -> str:
    """Return the PSNR of the held-out samples in words, or that of the fitted ones if none was held out."""
    held_out, fitted = record["psnr"]["held_out"], record["psnr"]["fitted"]
    if held_out is not None:
        return f"held-out PSNR {held_out:.2f} dB"
    return "fit exact" if fitted is None else f"fit PSNR {fitted:.2f} dB"


def _table(record: report.Record, fit: FitReport, folder: Path) -> list[str]:
    """The lines that ``coordnet reconstruct`` prints."""
    seconds, held_out = record["seconds"], record["psnr"]["held_out"]
    quality = "" if record["ssim"] is None else f"{record['ssim']:.3f}"
    epochs = f" ({fit.epochs:,} epochs)" if isinstance(fit, TrainingReport) else ""
    # Tiles are rendered as they are fitted.
    render = "–" if record["parameters"] is None else report.duration(seconds["render"])
    tiles = f"in {report.size(fit.tiles)} tiles" if isinstance(fit, TiledReport) else None
    extent = tiles or f"{record['parameters']:,} parameters"
    lines = [
        f"{record['signal']} {report.size(record['shape'])}, {record['sample']}",
        f"{record['encoding']} {record['encoder']}, {record['head']} head, {extent}, "
        f"{record['solver']}{epochs}, prior {record['prior']}{report.weight_words(fit)}",
        "",
        f"{'':24}{'held-out PSNR':>14}{'SSIM':>8}{'fit':>10}{'render':>10}",
        f"{'coordnet':24}{report.decibels(held_out):>14}{quality:>8}{report.duration(seconds['fit']):>10}{render:>10}",
    ]
    if held_out is None:
        return [*lines, "", f"nothing was held out; {_score(record)}", f"written to {folder}"]
    for name, value in record["baselines"].items():
        if value is not None or name in record["left_out"]:
            shown = f"{report.decibels(value):>14}" if value is not None else f"  left out: {record['left_out'][name]}"
            lines.append(f"{BASELINES[name]:24}{shown}")
    if record["range"] != 1:
        lines += ["", f"PSNR is against the signal's own range of {record['range']:.4g}"]
    if "uncertainty" in record:
        lines += ["", report.sure_line(record["uncertainty"])]
    if "tuning" in record:
        tuning = record["tuning"]
        lines += ["", f"best of {len(tuning['tried'])} tried, by {tuning['criterion']}"]
        for row in sorted(tuning["tried"], key=lambda row: row["score"])[:TUNINGS]:
            numbers = ", ".join(f"{name} {value}" for name, value in row.items() if name != "score")
            lines.append(f"  {row['score']:.4e}  {numbers}")
    return [*lines, "", f"written to {folder}"]


def from_points(points: Path, place: Place, fitting: Fitting, uncertainty: bool, common: Common) -> None:
    """Read the points, fit, render, write."""
    shape, asked = specs.parse_shape(place.shape), specs.parse_fitting(fitting)
    refuse_large("`shape`", math.prod(shape), common.memory_bytes)
    if place.at is not None and not common.is_explained:
        raise MediaError(f"--at: expected --report FOLDER for its values, as --out {common.file} is written alone")
    device = specs.choose_device(common.device)
    common = report.reading(common, points, place.at)
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
        made = _fitted(samples, asked, fitting, Tuning(), generator, common, uncertainty=uncertainty)
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
    names, found = read_table(path)
    if values and not names and dims == 1 and found.shape[1] > 2:
        expected = "a position and a value a line, or a header such as x,value0,value1"
        raise MediaError(f"{path}: expected {expected}, as --shape has one length, found {found.shape[1]} columns")
    if asked is not None and not names:
        raise MediaError(f"{path}: expected a header with the names of --columns, found numbers")
    if names:
        order = _order(path, names, dims) if asked is None else _asked(path, names, asked, dims, values)
        names, found = [names[i] for i in order], found[:, order]
    if found.shape[1] < dims + values:
        expected = f"{dims} coordinates{' and a value' if values else ''} a line"
        raise MediaError(f"{path}: expected {expected}, found {found.shape[1]} columns")
    found = found if values else found[:, :dims]
    if not bool(torch.isfinite(found).all()):
        raise MediaError(f"{path}: expected finite numbers, found empty cells, NaN or infinity")
    return names, found


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
