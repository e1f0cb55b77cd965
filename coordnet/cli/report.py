"""Records, printed tables and output folders, which appear whole or not at all."""

import itertools
import json
import mimetypes
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from coordnet.cli.common import Output
from coordnet.cli.specs import describe_encoder, describe_prior
from coordnet.encodings.registry import ENCODERS
from coordnet.fitting.methods import Method, head_label
from coordnet.media import Media, MediaError, write_media
from coordnet.metrics.baselines import cubic, linear
from coordnet.metrics.scoring import Scoring
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import Samples

Record = dict[str, Any]
KEPT_SUFFIX = ".zarr"  # a folder that is replaced as a whole


@contextmanager
def results(output: Output, command: str, name: str) -> Iterator[tuple[Path, Path]]:
    """Give a hidden folder to write into, and the folder that it becomes when all is written.

    Parameters
    ----------
    output : Output
        Its ``out`` is the folder; a fresh ``results/COMMAND/NAME-1`` (or -2, …) if not given. ``force`` replaces files
        of the same name.
    command, name : str
        Parts of the fresh folder's name.

    Raises
    ------
    ValueError
        If the folder already holds results, cannot be written, or has the name of a picture, a clip or a recording.
    """
    final = output.out or _fresh(Path("results") / command, name)
    kind = (mimetypes.guess_type(final.name)[0] or "").partition("/")[0]
    if kind in ("image", "video", "audio") and not final.exists():
        raise _refused(final, "a folder for the results", f"the name of a file ({kind})")
    if final.exists() and not final.is_dir():
        raise _refused(final, "a folder", "a file")
    if final.is_dir() and any(final.iterdir()) and not output.force:
        raise _refused(final, "a new or empty folder", "files in it (--force replaces)")
    try:
        staging = Path(tempfile.mkdtemp(prefix=".coordnet-", dir=_nearest_folder(final)))
    except OSError as error:
        raise _refused(final, "a folder that can be written", error.strerror) from None
    try:
        yield staging, final
        _publish(staging, final)
    except OSError as error:
        raise _refused(final, "a folder that can be written", error) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _refused(folder: Path, expected: str, found: object) -> ValueError:
    return ValueError(f"--out {folder}: expected {expected}, found {found}")


def _fresh(folder: Path, name: str) -> Path:
    paths = (folder / f"{name}-{number}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


def _publish(staging: Path, final: Path) -> None:
    final.mkdir(parents=True, exist_ok=True)
    for path in list(staging.iterdir()):
        if path.suffix == KEPT_SUFFIX:
            shutil.rmtree(final / path.name, ignore_errors=True)
            os.replace(path, final / path.name)
    for file in [path for path in staging.rglob("*") if path.is_file()]:
        target = final / file.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.chmod(0o644)
        os.replace(file, target)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the name of a file before what is wrong with its signal."""
    try:
        yield
    except MediaError:
        raise
    except ValueError as error:
        raise MediaError(f"{path}: {error}") from None


def baselines(samples: Samples, scoring: Scoring) -> Record:
    """Held-out PSNR of SciPy's interpolations; None where there is none."""
    found = {}
    for name, method in {"linear": linear, "cubic": cubic}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rendered = method(samples)
        found[name] = None if rendered is None else scoring.scores(rendered.cpu())["psnr"]["held_out"]
    return found


def describe(method: Method, fit: Reconstruction | None) -> Record:
    """A method as records have it, with the scales of the encoder where it was fitted."""
    encoder = method.encoder.label
    if fit is not None:
        encoder = describe_encoder(method.encoder.name, fit.network.encoding)
    return {
        "encoder": encoder,
        "encoding": method.encoding,
        "head": head_label(method.head),
        "solver": method.solver,
        "prior": describe_prior(method.prior),
    }


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on."""
    names = ("coordnet", "torch", "numpy", "scipy")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def write_results(folder: Path, media: Media, fit: Reconstruction, figure: Figure, made: Record) -> None:
    """Write a reconstruction with its figure, its model and its record into a folder."""
    write_media(media, folder / f"reconstruction{media.lossless_suffix}")
    figure.savefig(folder / "figure.png", dpi=110)
    fit.save(folder / "model.safetensors")
    write_record(folder, made)


def write_record(folder: Path, made: Record) -> None:
    """Write a record into a folder."""
    (folder / "record.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def show(made: Record, lines: list[str], output: Output) -> None:
    """Print a record as JSON, or lines about it, or nothing."""
    if output.json:
        print(json.dumps(made, ensure_ascii=False))
    elif not output.quiet:
        print("\n".join(lines))


def size(shape: list[int] | tuple[int, ...]) -> str:
    """A shape for the screen."""
    return "×".join(str(n) for n in shape)


def decibels(value: float | None) -> str:
    """A score for the screen."""
    return "–" if value is None else f"{value:.2f} dB"


def score_line(made: Record) -> str:
    """The score of a reconstruction: over what was held out, or over what was fitted if nothing was."""
    held_out = made["psnr"]["held_out"]
    return _fit_line(made) if held_out is None else f"held-out PSNR {held_out:.2f} dB"


def reconstruction_table(made: Record, folder: Path) -> list[str]:
    """The lines that ``coordnet reconstruct`` prints."""
    seconds, held_out = made["seconds"], made["psnr"]["held_out"]
    quality = "" if made["ssim"] is None else f"{made['ssim']:.3f}"
    lines = [
        f"{made['signal']} {size(made['shape'])}, {made['sample']}",
        f"{made['encoding']} {made['encoder']}, {made['head']} head, {made['parameters']:,} parameters, "
        f"{made['solver']}, prior {made['prior']}",
        "",
        f"{'':24}{'held-out PSNR':>14}{'SSIM':>8}{'fit':>10}{'render':>10}",
        f"{'coordnet':24}{decibels(held_out):>14}{quality:>8}{seconds['fit']:>8.3f} s{seconds['render']:>8.3f} s",
    ]
    if held_out is None:
        return [*lines, "", f"nothing was held out; {_fit_line(made)}", f"written to {folder}"]
    names = {"linear": "linear interpolation", "cubic": "cubic spline"}
    lines += [f"{names[name]:24}{decibels(value):>14}" for name, value in made["baselines"].items()]
    return [*lines, *_tuning_table(made), "", f"written to {folder}"]


def _fit_line(made: Record) -> str:
    fitted = made["psnr"]["fitted"]
    return "fit exact" if fitted is None else f"fit PSNR {fitted:.2f} dB"


def _tuning_table(made: Record, rows: int = 5) -> list[str]:
    """The best of the candidates, where free numbers were chosen."""
    tuning = made.get("tuning")
    if not tuning:
        return []
    best = sorted(tuning["tried"], key=lambda row: row["score"])[:rows]
    lines = ["", f"best of {len(tuning['tried'])} tried, by {tuning['criterion']}"]
    for row in best:
        names = ", ".join(f"{name} {value}" for name, value in row.items() if name != "score")
        lines.append(f"  {row['score']:.4e}  {names}")
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
