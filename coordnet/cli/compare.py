"""The command ``coordnet compare``: several methods and SciPy's baselines on one signal."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.cli import page
from coordnet.cli.attempts import attempt_all, copied
from coordnet.cli.common import Common
from coordnet.cli.devices import choose_device
from coordnet.cli.methods import combinations
from coordnet.cli.outputs import staged_folder
from coordnet.cli.report import decibels, finish, versions
from coordnet.cli.scoring import Scoring
from coordnet.cli.specs import check_encoder, parse_head
from coordnet.media import Media, read_mask, read_media
from coordnet.plots.comparison import Shown, comparison_figure
from coordnet.sampling.patterns import Pattern, parse_pattern, sample


@dataclass(frozen=True)
class Options(Common):
    """The command's own options, in their order."""

    signal: str
    sample: str
    encoders: list[str]
    heads: list[str]
    solvers: list[str]
    epochs: int
    part: dict[str, Any]
    html: bool


def run(options: Options) -> None:
    """Read, sample, try every method, score, write."""
    pattern = None if options.sample.startswith("mask:") else parse_pattern(options.sample)
    for encoder in options.encoders:
        check_encoder(encoder)
    for head in options.heads:
        parse_head(head)
    _checks.integer("epochs", options.epochs, 1)
    device = choose_device(options.device)
    media = read_media(options.signal, **options.part, progress=options.progress)
    with staged_folder(options.out, command="compare", name=media.name, force=options.force) as (
        staging,
        final,
    ):
        mask = pattern or read_mask(options.sample.removeprefix("mask:"), media.grid)
        record, shown = compare(options, media, mask, device)
        comparison_figure(shown, titles=_titles(record), name=media.name).savefig(
            staging / "figure.png", dpi=110
        )
        if options.html:
            (staging / "compare.html").write_text(page.compose(record, shown), encoding="utf-8")
        finish(staging, record)
    if options.json:
        print(json.dumps(record, ensure_ascii=False))
    elif not options.quiet:
        print("\n".join([*_table(record), "", f"written to {final}"]))


def compare(
    options: Options, media: Media, mask: Pattern | Tensor, device: torch.device
) -> tuple[dict[str, Any], Shown]:
    """Sample a signal, try every method on it, and give the record and what there is to draw."""
    generator = torch.Generator().manual_seed(options.seed)
    samples = sample(media.signal.to(device), mask, generator=generator)
    chosen, left = combinations(options.encoders, options.heads, options.solvers, samples)
    for method in chosen:
        method.encode(samples, copied(generator))  # a wrong option is refused before anything is fitted
    scoring = Scoring(media, samples)
    attempts = attempt_all(
        chosen, samples, scoring, epochs=options.epochs, generator=generator, progress=options.progress
    )
    record = {
        "signal": media.name,
        "shape": list(media.signal.shape),
        "sample": options.sample,
        "known": float(scoring.known.double().mean()),
        "ranked_by": scoring.ranked_by,
        "methods": [{"name": a.name, **a.record} for a in attempts],
        "left_out": left,
        "epochs": options.epochs,
        "device": str(device),
        "seed": options.seed,
        "versions": versions(),
    }
    estimates = {a.name: a.estimate for a in attempts if a.estimate is not None}
    return record, Shown(scoring.truth, samples, estimates)


def score(method: dict[str, Any], ranked_by: str) -> str:
    """What a method reached, or that it failed."""
    if method["status"] == "failed":
        return "failed"
    value = method["psnr"][ranked_by]
    return "exact" if value is None else decibels(value)


def _titles(record: dict[str, Any]) -> dict[str, str]:
    return {m["name"]: score(m, record["ranked_by"]) for m in record["methods"]}


def _table(record: dict[str, Any]) -> list[str]:
    shape = "×".join(str(n) for n in record["shape"])
    by = record["ranked_by"]
    known = f"{100 * record['known']:.3g} % known"
    width = max(len(m["name"]) for m in record["methods"]) + 2
    heading = f"{by.replace('_', '-')} PSNR"
    lines = [
        f"{record['signal']} {shape}, {record['sample']} ({known})",
        "",
        f"{'method':{width}}{heading:>14}{'SSIM':>8}{'fit':>10}{'render':>10}{'parameters':>12}",
    ]
    lines += [f"{m['name']:{width}}{_cells(m, by)}" for m in record["methods"]]
    lines += ["", *(f"{m['name']}: {w}" for m in record["methods"] for w in m.get("warnings", []))]
    lines += page.left_out(record)
    return lines if lines[-1] else lines[:-1]


def _cells(method: dict[str, Any], by: str) -> str:
    if method["status"] == "failed":
        return f"{'failed':>14}  {method['reason']}"
    quality = "" if method["ssim"] is None else f"{method['ssim']:.3f}"
    parameters = "" if method["parameters"] is None else f"{method['parameters']:,}"
    times = "".join(("" if s is None else f"{s:.4f} s").rjust(10) for s in method["seconds"].values())
    return f"{score(method, by):>14}{quality:>8}{times}{parameters:>12}".rstrip()
