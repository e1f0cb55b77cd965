"""The command ``coordnet compare``: several methods and SciPy's interpolations on one signal."""

import torch

from coordnet import _checks
from coordnet.cli import page, report, specs
from coordnet.cli.common import Common, Compared, Sampled
from coordnet.fitting.choice import combinations
from coordnet.media import read_media
from coordnet.plots.comparison import Shown, comparison_figure
from coordnet.restore.compare import Attempt, compare
from coordnet.sampling.patterns import default_pattern, sample


def run(sampled: Sampled, compared: Compared, common: Common) -> None:
    """Read, sample, try every method, score, write."""
    encoders = [specs.parse_encoder(text) for text in compared.encoder or []]
    heads = [specs.parse_head(text) for text in compared.head or []]
    epochs = _checks.integer("epochs", compared.epochs, 1)
    device = specs.choose_device(common.device)
    media = read_media(sampled.signal, **sampled.part)
    with report.results(common, "compare", media.name) as (staging, final):
        generator = torch.Generator().manual_seed(common.seed)
        text = sampled.sample or default_pattern(media.grid)
        pattern = specs.parse_sample(text, media.grid, **sampled.masking)
        samples = sample(media.signal.to(device), pattern, dimensions=len(media.grid), generator=generator)
        methods, left_out = combinations(samples, encoders, heads, compared.solver or [])
        made = compare(media.signal, samples, methods, epochs=epochs, generator=generator, progress=common.progress)
        record = {
            "signal": media.name,
            "shape": list(media.signal.shape),
            "sample": text,
            "known": float(made.scoring.known.double().mean()),
            "ranked_by": made.scoring.ranked_by,
            "methods": [{"name": a.name, **_describe(a)} for a in made.attempts],
            "left_out": left_out,
            "epochs": epochs,
            "device": str(device),
            "seed": common.seed,
            "versions": report.versions(),
        }
        titles = {m["name"]: _score(m, record["ranked_by"]) for m in record["methods"] if m["status"] == "done"}
        shown = Shown(made.scoring.truth, samples, made.estimates)
        comparison_figure(shown, titles=titles, name=media.name).savefig(staging / "figure.png", dpi=110)
        if compared.html:
            (staging / "compare.html").write_text(page.compose(record, shown), encoding="utf-8")
        report.write_record(staging, record)
    report.show(record, [*_table(record), "", f"written to {final}"], common)


def _describe(attempt: Attempt) -> report.Record:
    """An attempt's part of the record."""
    described = {"baseline": attempt.name.removeprefix("baseline · ")}
    if attempt.method is not None:
        described = report.describe(attempt.method, attempt.fit)
    if attempt.estimate is None:
        return {**described, "status": "failed", "reason": attempt.reason}
    return {
        **described,
        "status": "done",
        "parameters": None if attempt.fit is None else attempt.fit.network.parameter_count,
        "seconds": attempt.seconds,
        "report": {} if attempt.fit is None else attempt.fit.report,
        **attempt.scores,
        "warnings": attempt.warnings,
    }


def _score(method: report.Record, by: str) -> str:
    """The PSNR that a method reached."""
    value = method["psnr"][by]
    return "exact" if value is None else report.decibels(value)


def _table(record: report.Record) -> list[str]:
    by, known = record["ranked_by"], f"{100 * record['known']:.3g} % known"
    width = max(len(m["name"]) for m in record["methods"]) + 2
    heading = f"{by.replace('_', '-')} PSNR"
    lines = [
        f"{record['signal']} {report.size(record['shape'])}, {record['sample']} ({known})",
        "",
        f"{'method':{width}}{heading:>14}{'SSIM':>8}{'fit':>10}{'render':>10}{'parameters':>12}",
    ]
    lines += [f"{m['name']:{width}}{_cells(m, by)}" for m in record["methods"]]
    notes = [f"{m['name']}: {w}" for m in record["methods"] for w in m.get("warnings", [])]
    notes += page.left_out(record)
    return [*lines, "", *notes] if notes else lines


def _cells(method: report.Record, by: str) -> str:
    if method["status"] == "failed":
        return f"{'failed':>14}  {method['reason']}"
    quality = "" if method["ssim"] is None else f"{method['ssim']:.3f}"
    parameters = "" if method["parameters"] is None else f"{method['parameters']:,}"
    times = "".join(("" if s is None else report.duration(s)).rjust(10) for s in method["seconds"].values())
    return f"{_score(method, by):>14}{quality:>8}{times}{parameters:>12}".rstrip()
