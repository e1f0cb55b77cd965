"""Records of results, with their origin; the files that hold results, and the words for numbers on the screen."""

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.cli.common import STANDARD, Common, Output
from coordnet.cli.folders import RECORD
from coordnet.cli.specs import describe_encoder
from coordnet.comparison.stopwatch import once
from coordnet.fitting.fit import Method, head_label
from coordnet.media import Media, write_media
from coordnet.media.files import split_member
from coordnet.media.tags import Tags
from coordnet.metrics.scores import Scoring
from coordnet.networks.fit_reports import FitReport, LocalReport, StackReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import uncertainty_figure
from coordnet.priors.base import Prior

Record = dict[str, Any]
Options = TypeVar("Options", bound=Output)
SMALL_MODEL = 2**23  # parameters of the largest model that is written without --model
MOST_DECIBELS = 1000.0  # PSNR above which errors are nothing but rounding; without an error it would be infinite
FASTER = " (--prior adaptive is faster)"


@dataclass(frozen=True)
class Outcome:
    """The outcome for one signal: its record, the lines to print, and one line that says how good it is."""

    record: Record
    lines: list[str]
    summary: str


def reading(options: Options, *files: str | Path | None) -> Options:
    """Return the options of a command, completed by the present sizes and times of the files that it reads."""
    return replace(options, inputs=tuple(_described(file) for file in files if file is not None))


def origin(command: str, options: Output) -> dict[str, Any]:
    """Return the part of a record that identifies its results."""
    return {"command": command, "settings": options.settings, "inputs": list(options.inputs)}


def _described(file: str | Path) -> Record:
    """Return a file's or Zarr array's path, bytes and time of change; for a built-in picture, its name alone."""
    path = split_member(file)[0]
    try:
        parts = [p.stat() for p in (path, *path.rglob("*"))] if path.is_dir() else [path.stat()]
    except (OSError, ValueError):
        return {"path": str(file)}
    changed = max(part.st_mtime for part in parts)
    return {"path": os.path.abspath(file), "bytes": sum(part.st_size for part in parts), "changed": changed}


def describe(method: Method, fit: Reconstruction | None) -> Record:
    """Return the part of a record that describes a method; a fit adds the scales of its encoder."""
    choice = method.encoder
    return {
        "encoder": choice.label if fit is None else describe_encoder(choice.name, fit.network.encoding),
        "encoding": method.encoding,
        "head": head_label(method.head),
        "solver": method.solver,
        "prior": _assumed(method.prior, fit),
        "parameters": fit and fit.network.parameter_count,
    }


def _assumed(prior: Prior | None, fit: Reconstruction | None) -> str:
    """Return the text of a prior, or after the fit of what was used."""
    text = "none" if prior is None else prior.text
    return text if fit is None else fit.report.used(prior.start.text if prior else text)


def uncertainty(fit: Reconstruction, span: float, scoring: Scoring | None = None) -> tuple[Tensor, Record]:
    """Return the standard deviation of a fit's errors, by six more fits, and the part of a record on it.

    With ``scoring`` the share of the held-out samples within intervals of 90 % is in it.
    """
    (lower, upper), seconds = once(fit.interval)
    record: Record = {"expected_psnr": fit.expected_psnr(span), "seconds": seconds}
    if scoring is not None:
        record["coverage"] = scoring.coverage(lower.cpu(), upper.cpu())
    return fit.std(), {"uncertainty": record}


def write_results(
    folder: Path,
    media: Media,
    fit: Reconstruction | None,
    figure: Figure | None,
    record: Record,
    common: Common,
    std: Tensor | None = None,
    *,
    stem: str = "reconstruction",
) -> None:
    """Write a result with its figure, its record, and its model where that is small or asked for.

    It is written alone, in the format of its name, where ``--out`` is a file without a ``--report``. The standard
    deviation ``std`` of the expected errors is written as an array and as a picture.
    """
    if fit is None and common.keep_model:
        raise ValueError("--model: expected a signal that is fitted as a whole, found one that is restored in tiles")
    if not bool(torch.isfinite(media.signal).all()):
        raise ValueError("`result`: expected finite values, found NaN or infinity")
    with common.stage("writing"):
        write_media(media, folder / f"{stem}{result_suffix(media, common)}")
        if not common.is_explained:
            return
        if figure is not None:
            figure.savefig(folder / "figure.png", dpi=110)
        small = common.is_drawn and fit is not None and fit.network.parameter_count <= SMALL_MODEL
        if fit is not None and (common.keep_model or small):
            fit.save(folder / "model.safetensors")
        write_record(folder, record)
    if std is not None:
        write_media(std.detach().cpu().float(), folder / "uncertainty.npy")
        expected = record.get("uncertainty", record)["expected_psnr"]
        title = f"standard deviation of the errors\nexpected PSNR {decibels(expected)}"
        uncertainty_figure(std, title, rate=media.rate).savefig(folder / "uncertainty.png", dpi=110)


def result_suffix(media: Media, common: Common) -> str:
    """Return the suffix of a result: that of the one file it is written to, else one that holds the signal."""
    return (common.file and common.file.suffix.lower()) or media.lossless_suffix


def try_format(media: Media, folder: Path, common: Common, stem: str = "reconstruction") -> None:
    """Write the first row or frame of a signal in the format of its result, so that another one fails at once."""
    if common.file is not None:
        first = replace(media, signal=media.signal[:1].nan_to_num(), stored=None, known=None, texts={}, tags=Tags())
        tried = folder / f"{stem}{result_suffix(media, common)}"
        write_media(first, tried)
        tried.unlink()


def write_record(folder: Path, record: Record) -> None:
    """Write a record into a folder; a ``ValueError`` is raised if one of its numbers is not finite."""
    (folder / RECORD).write_text(_json(record, indent=1) + "\n", encoding="utf-8")


def show(record: Record, lines: list[str], output: Output) -> None:
    """Print a record as JSON, or lines about it, or nothing; a closed standard output does not undo the results."""
    if (output.quiet and not output.json) or str(output.file) == STANDARD:
        return
    try:
        print(_json(record) if output.json else "\n".join(lines), flush=True)
    except OSError as error:
        print(f"coordnet: standard output: {error.strerror}; the results are written", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python fails at its end, when it writes what is left


def _json(record: Record, indent: int | None = None) -> str:
    try:
        return json.dumps(record, indent=indent, allow_nan=False)
    except ValueError:
        raise ValueError("`record`: expected finite numbers alone, found NaN or infinity") from None


def size(shape: list[int] | tuple[int, ...]) -> str:
    """A shape for the screen."""
    return "×".join(str(n) for n in shape)


def decibels(value: float | None) -> str:
    """A score for the screen."""
    if value is not None and value > MOST_DECIBELS:
        return f"above {MOST_DECIBELS:g} dB"
    return "–" if value is None else f"{value:.2f} dB"


def duration(seconds: float) -> str:
    """A time for the screen."""
    for unit, count in (("s", 1.0), ("ms", 1e3)):
        if seconds * count >= 0.1:
            return f"{seconds * count:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def sure_line(found: Record) -> str:
    """Return a line with the expected PSNR, and the share of held-out samples within their intervals."""
    covered = found.get("coverage")
    shown = "" if covered is None else f", intervals of 90 % cover {100 * covered:.1f} % of what was held out"
    return f"expected PSNR {decibels(found['expected_psnr'])}{shown} (in {duration(found['seconds'])})"


def weight_words(fit: FitReport) -> str:
    """Return the words on the weights of a fit's candidates, or on those of a local prior, and on a faster prior."""
    if isinstance(fit, StackReport):
        return weight_words(fit.fits[0]) if len(fit.fits) == 1 else f", weighed at hidden samples{FASTER}"
    if not isinstance(fit, LocalReport):
        return ""
    if fit.against is None:
        return FASTER
    weighed = fit if fit.alpha else next(iter(fit.groups or ()), None)
    if weighed is None:
        return f": patches gained nothing over {fit.against} at hidden samples"
    return f", α = {weighed.alpha:.2f} against {weighed.against}{FASTER}"
