"""Records, printed tables and output folders, which appear whole or not at all."""

import itertools
import json
import math
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from coordnet.cli.common import Common, Output
from coordnet.cli.folders import RECORD, exchange, move, refused, reserve, staging_folder
from coordnet.cli.specs import describe_encoder, describe_prior
from coordnet.encodings.registry import ENCODERS
from coordnet.fitting.methods import Method, head_label
from coordnet.linalg import progress
from coordnet.media import Media, MediaError, write_media
from coordnet.metrics.scoring import Scoring
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.reports import FitReport, LocalReport, TiledReport, TrainingReport

Record = dict[str, Any]
TUNINGS = 5  # number of the best candidates of --tune that are printed
SMALL_MODEL = 2**23  # parameters of the largest model that is written without --model


@dataclass(frozen=True)
class Outcome:
    """The outcome for one signal: its record, the lines to print, and one line that says how good it is."""

    record: Record
    lines: list[str]
    summary: str


@contextmanager
def results(output: Output, command: str, name: str) -> Iterator[tuple[Path, Path]]:
    """Give a hidden folder to write into, and the folder to which the files move when all are written.

    That is ``--out``, or a fresh ``results/COMMAND/NAME-1`` (or -2, …) if it is not given; see ``Output.check`` for
    what is refused. A folder that does not exist is made at once, so that no other run takes it, and is exchanged for
    the hidden one in a single step; a failure removes it again.
    """
    output.check()
    fresh = (Path("results", command, f"{name}-{number}") for number in itertools.count(1))
    final = output.out or next(path for path in fresh if not path.exists())
    made = reserve(final)
    while output.out is None and not made:  # another run was faster
        final = next(fresh)
        made = reserve(final)
    try:
        with staging_folder(final.parent if made else final) as staging, _naming_final(staging, final):
            yield staging, final
            publish = exchange if made else move
            publish(staging, final, output.force)
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _naming_final(staging: Path, final: Path) -> Iterator[None]:
    """Name the folder for the results, not the hidden one nor that above, in what is wrong with a file or the disk."""
    try:
        yield
    except (ValueError, OSError) as error:
        if str(staging) in str(error):
            raise MediaError(str(error).replace(str(staging), str(final))) from error
        if isinstance(error, OSError):
            raise refused(final, "a folder that can be written", error.strerror or error) from error
        raise


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the name of a file before what is wrong with its signal."""
    try:
        yield
    except MediaError:
        raise
    except ValueError as error:
        raise MediaError(f"{path}: {error}") from None


def peers(scoring: Scoring, seconds: float) -> Record:
    """Held-out PSNR of other libraries' interpolations, and the reasons for those left out; see ``Scoring.peers``."""
    found, left_out = scoring.peers(seconds)
    reasons = {n: f"takes about {duration(s)}" if math.isfinite(s) else "too many points" for n, s in left_out.items()}
    return {"baselines": found, "left_out": reasons}


def describe(method: Method, fit: Reconstruction | None) -> Record:
    """Return the part of a record that describes a method; a fit adds the scales of its encoder."""
    choice = method.encoder
    return {
        "encoder": choice.label if fit is None else describe_encoder(choice.name, fit.network.encoding),
        "encoding": method.encoding,
        "head": head_label(method.head),
        "solver": method.solver,
        "prior": describe_prior(method.prior),
        "parameters": fit and fit.network.parameter_count,
    }


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on."""
    names = ("coordnet", "torch", "numpy", "scipy")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def write_results(
    folder: Path, media: Media, fit: Reconstruction | None, figure: Figure, made: Record, common: Common
) -> None:
    """Write a reconstruction with its figure, its model where that is small or asked for, and its record."""
    if fit is None and common.keep_model:
        raise ValueError("--model: expected a signal that is fitted as a whole, found one that is restored in tiles")
    if not bool(torch.isfinite(media.signal).all()):
        raise ValueError("`result`: expected finite values, found NaN or infinity")
    with stage("writing", common):
        write_media(media, folder / f"reconstruction{media.lossless_suffix}")
        figure.savefig(folder / "figure.png", dpi=110)
        if fit is not None and (common.keep_model or fit.network.parameter_count <= SMALL_MODEL):
            fit.save(folder / "model.safetensors")
        write_record(folder, made)


def write_record(folder: Path, made: Record) -> None:
    """Write a record into a folder; a ``ValueError`` is raised if one of its numbers is not finite."""
    (folder / RECORD).write_text(_json(made, indent=1) + "\n", encoding="utf-8")


def show(made: Record, lines: list[str], output: Output) -> None:
    """Print a record as JSON, or lines about it, or nothing."""
    if output.json or not output.quiet:
        print_after_writing(_json(made) if output.json else "\n".join(lines))


def print_after_writing(text: str) -> None:
    """Print a text about results that are written, which a full or closed standard output does not undo."""
    try:
        print(text, flush=True)
    except OSError as error:
        print(f"coordnet: standard output: {error.strerror}; the results are written", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python fails at its end, when it writes what is left


def _json(record: Record, indent: int | None = None) -> str:
    try:
        return json.dumps(record, indent=indent, allow_nan=False)
    except ValueError:
        raise ValueError("`record`: expected finite numbers alone, found NaN or infinity") from None


def stage(name: str, output: Output) -> AbstractContextManager[Any]:
    """Show the name of a stage that counts no steps, unless the command is quiet."""
    return progress.stage(name, shown=output.progress)


def size(shape: list[int] | tuple[int, ...]) -> str:
    """A shape for the screen."""
    return "×".join(str(n) for n in shape)


def decibels(value: float | None) -> str:
    """A score for the screen."""
    return "–" if value is None else f"{value:.2f} dB"


def duration(seconds: float) -> str:
    """A time for the screen."""
    for unit, count in (("s", 1.0), ("ms", 1e3)):
        if seconds * count >= 0.1:
            return f"{seconds * count:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def score_line(made: Record) -> str:
    """Return the PSNR of the held-out samples in words, or that of the fitted ones if none was held out."""
    held_out, fitted = made["psnr"]["held_out"], made["psnr"]["fitted"]
    if held_out is not None:
        return f"held-out PSNR {held_out:.2f} dB"
    return "fit exact" if fitted is None else f"fit PSNR {fitted:.2f} dB"


BASELINES = {"linear": "linear interpolation", "cubic": "cubic spline", "biharmonic": "biharmonic inpainting"}


def reconstruction_table(made: Record, fit: FitReport, folder: Path) -> list[str]:
    """The lines that ``coordnet reconstruct`` prints."""
    seconds, held_out = made["seconds"], made["psnr"]["held_out"]
    quality = "" if made["ssim"] is None else f"{made['ssim']:.3f}"
    epochs = f" ({fit.epochs:,} epochs)" if isinstance(fit, TrainingReport) else ""
    render = "–" if made["parameters"] is None else duration(seconds["render"])  # tiles are rendered as they are fitted
    weight = local_weight(fit) if made["prior"] == "local" else ""
    lines = [
        f"{made['signal']} {size(made['shape'])}, {made['sample']}",
        f"{made['encoding']} {made['encoder']}, {made['head']} head, {_extent(made, fit)}, "
        f"{made['solver']}{epochs}, prior {made['prior']}{weight}",
        "",
        f"{'':24}{'held-out PSNR':>14}{'SSIM':>8}{'fit':>10}{'render':>10}",
        f"{'coordnet':24}{decibels(held_out):>14}{quality:>8}{duration(seconds['fit']):>10}{render:>10}",
    ]
    if held_out is None:
        return [*lines, "", f"nothing was held out; {score_line(made)}", f"written to {folder}"]
    for name, value in made["baselines"].items():
        if value is not None or name in made["left_out"]:
            shown = f"{decibels(value):>14}" if value is not None else f"  left out: {made['left_out'][name]}"
            lines.append(f"{BASELINES[name]:24}{shown}")
    if made["range"] != 1:
        lines += ["", f"PSNR is against the signal's own range of {made['range']:.4g}"]
    if "uncertainty" in made:
        lines += ["", sure_line(made["uncertainty"])]
    if "tuning" in made:
        lines += _tuning(made["tuning"])
    return [*lines, "", f"written to {folder}"]


def sure_line(found: Record) -> str:
    """Return a line with the expected PSNR, and the share of held-out samples within their intervals."""
    covered = found.get("coverage")
    shown = "" if covered is None else f", intervals of 90 % cover {100 * covered:.1f} % of what was held out"
    return f"expected PSNR {decibels(found['expected_psnr'])}{shown} (in {duration(found['seconds'])})"


def local_weight(fit: FitReport) -> str:
    """Return the words on the weight α of a local prior, from the report of its fit, and on a faster prior."""
    faster = " (--prior adaptive is faster)"
    if not isinstance(fit, LocalReport) or fit.alpha_range is None:
        return faster
    low, high = fit.alpha_range
    if low == high == 0:
        return f", by which nothing was gained at hidden samples: {fit.against} was used"
    return f", α = {fit.alpha_mean:.2f} ({low:.2f} to {high:.2f}) against {fit.against}{faster}"


def _extent(made: Record, fit: FitReport) -> str:
    """Return the number of parameters of a model, or the tiles of a signal that has no model."""
    if isinstance(fit, TiledReport):
        return f"in {size(fit.tiles)} tiles"
    return f"{made['parameters']:,} parameters"


def _tuning(tuning: Record) -> list[str]:
    """Lines for the best candidates of ``--tune``."""
    lines = ["", f"best of {len(tuning['tried'])} tried, by {tuning['criterion']}"]
    for row in sorted(tuning["tried"], key=lambda row: row["score"])[:TUNINGS]:
        numbers = ", ".join(f"{name} {value}" for name, value in row.items() if name != "score")
        lines.append(f"  {row['score']:.4e}  {numbers}")
    return lines


def encoder_table() -> list[str]:
    """A line for each encoder, and below it one for each of its scale parameters and one for its options."""
    lines = [f"{'encoder':20}{'parameter':14}{'unit':12}{'default':12}meaning"]
    for name, encoder in ENCODERS.items():
        axes = "several axes jointly: " if encoder.joint else ""
        lines.append(f"{name:58}{axes}{encoder.summary}")
        lines += [f"{'':20}{p.name:14}{p.unit:12}{p.default!s:12}{p.meaning}" for p in encoder.scales]
        lines += [f"{'':20}also {', '.join(encoder.options())}"] if encoder.options() else []
    return [
        *lines,
        "",
        "lengths are in units of the unit interval or in sample spacings (0.64px); frequencies in cycles",
        "over it or a spacing (0.25/px); learnable trains them with the gradient solver; every encoder also",
        "takes features=K and normalize",
    ]
