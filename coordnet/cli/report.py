"""What a command leaves: the record, the files, and the table on the screen."""

import json
import platform
import warnings
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from coordnet.cli.scoring import Scoring
from coordnet.media import Media, write_media
from coordnet.metrics.baselines import cubic, linear
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.reconstruction import reconstruction_figure
from coordnet.sampling.samples import Samples

Record = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A fit with what went into it and what came out."""

    media: Media
    samples: Samples
    fit: Reconstruction
    estimate: Tensor
    fit_seconds: float
    render_seconds: float

    @property
    def scoring(self) -> Scoring:
        """How estimates of the signal are scored."""
        return Scoring(self.media, self.samples)


def record(outcome: Outcome, settings: Record) -> Record:
    """Everything worth keeping about an outcome, as the design page names it."""
    media, estimate, scoring = outcome.media, outcome.estimate, outcome.scoring
    baselines = {}
    for name, method in {"linear": linear, "cubic": cubic}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rendered = method(outcome.samples)
        baselines[name] = None if rendered is None else scoring.psnr(rendered.cpu())["held_out"]
    return {
        "signal": media.name,
        "shape": list(media.signal.shape),
        **settings,
        "parameters": outcome.fit.network.parameter_count,
        "psnr": scoring.psnr(estimate),
        "snr": scoring.snr(estimate),
        "ssim": scoring.ssim(estimate),
        "baselines": baselines,
        "seconds": {"fit": outcome.fit_seconds, "render": outcome.render_seconds},
        "report": outcome.fit.report,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of what took part."""
    names = ("coordnet", "torch", "numpy", "scipy")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def write_outcome(folder: Path, outcome: Outcome, made: Record) -> None:
    """Write the reconstruction, the figure, the model and the record into a folder."""
    media, held_out = outcome.media, made["psnr"]["held_out"]
    score = f"held-out PSNR {held_out:.2f} dB" if held_out is not None else _fit_line(made)
    figure = reconstruction_figure(
        media.signal, outcome.samples, outcome.estimate, title=media.name, score=score
    )
    figure.savefig(folder / "figure.png", dpi=110)
    outcome.fit.save(folder / "model.safetensors")
    path = folder / f"reconstruction{media.lossless_suffix}"
    write_media(replace(media, signal=outcome.estimate), path)
    finish(folder, made)


def finish(folder: Path, made: Record) -> None:
    """Write the record into a folder."""
    (folder / "record.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def _fit_line(made: Record) -> str:
    fitted = made["psnr"]["fitted"]
    return "fit exact" if fitted is None else f"fit PSNR {fitted:.2f} dB"


def print_outcome(made: Record, folder: Path, *, json_only: bool, quiet: bool) -> None:
    """Print the record as JSON, or a short table of it, or nothing."""
    if json_only:
        print(json.dumps(made, ensure_ascii=False))
    elif not quiet:
        print("\n".join(_table(made, folder)))


def _table(made: Record, folder: Path) -> list[str]:
    shape = "×".join(str(n) for n in made["shape"])
    seconds, held_out = made["seconds"], made["psnr"]["held_out"]
    lines = [
        f"{made['signal']} {shape}, {made['sample']}",
        f"{made['encoding']} {made['encoder']}, {made['head']} head, {made['parameters']:,} parameters, "
        f"{made['solver']}, prior {made['prior']}",
        "",
        f"{'':24}{'held-out PSNR':>14}{'SSIM':>8}{'fit':>10}{'render':>10}",
    ]
    quality = "" if made["ssim"] is None else f"{made['ssim']:.3f}"
    ours = f"{'coordnet':24}{decibels(held_out):>14}{quality:>8}"
    lines.append(ours + f"{seconds['fit']:>8.3f} s{seconds['render']:>8.3f} s")
    if held_out is None:
        return [*lines, "", f"nothing was held out; {_fit_line(made)}", f"written to {folder}"]
    names = {"linear": "linear interpolation", "cubic": "cubic spline"}
    lines += [f"{names[name]:24}{decibels(value):>14}" for name, value in made["baselines"].items()]
    return [*lines, *tuning_table(made), "", f"written to {folder}"]


def tuning_table(made: Record, rows: int = 5) -> list[str]:
    """The best of what was tried, where free numbers were chosen."""
    tuning = made.get("tuning")
    if not tuning:
        return []
    best = sorted(tuning["tried"], key=lambda row: row["score"])[:rows]
    lines = ["", f"best of {len(tuning['tried'])} tried, by {tuning['criterion']}"]
    for row in best:
        names = ", ".join(f"{name} {value}" for name, value in row.items() if name != "score")
        lines.append(f"  {row['score']:.4e}  {names}")
    return lines


def decibels(value: float | None) -> str:
    """A score for the screen."""
    return "–" if value is None else f"{value:.2f} dB"
