"""The command ``coordnet compare``: several methods and SciPy's interpolations on one signal."""

from dataclasses import replace
from typing import Any

import torch

from coordnet.cli import report, specs
from coordnet.cli.common import Common, Compared, Sampling
from coordnet.cli.folders import results
from coordnet.comparison.attempts import Attempt
from coordnet.comparison.stopwatch import versions
from coordnet.comparison.table import compare
from coordnet.priors.base import as_prior

FURTHER = "the name of a prior, beside those that are compared in any case"


def run(sampling: Sampling, compared: Compared, common: Common) -> None:
    """Read, compare, write."""
    methods = _named(compared)
    device = specs.choose_device(common.device)
    common = report.reading(common, compared.signal, specs.mask_file(sampling.sample))
    media = specs.read_part(compared.signal, sampling, common)
    with results(common, "compare", media.name) as (staging, final):
        text, pattern = specs.parse_sample(media.grid, sampling, common)
        table = compare(
            media.signal.to(device),
            pattern,
            **methods,
            epochs=compared.epochs,
            dimensions=len(media.grid),
            generator=torch.Generator().manual_seed(common.seed),
            progress=common.progress,
        )
        table = replace(table, name=media.name, pattern=text, rate=media.rate)
        record = {
            "signal": table.name,
            **report.origin("compare", common),
            "shape": list(media.signal.shape),
            "sample": table.pattern,
            "known": table.known,
            "ranked_by": table.scoring.ranked_by,
            "methods": [{"name": a.name, **_describe(a)} for a in table.attempts],
            "left_out": table.left_out,
            "epochs": table.epochs,
            "device": str(device),
            "seed": table.seed,
            "versions": versions(),
        }
        with common.stage("drawing"):
            table.figure().savefig(staging / "figure.png", dpi=110)
            if compared.html:
                table.save_html(staging / "compare.html")
        report.write_record(staging, record)
    report.show(record, [str(table), "", f"written to {final}"], common)


def _named(compared: Compared) -> dict[str, Any]:
    """Return the encoders, heads, solvers and further priors that options name."""
    return {
        "encoders": [specs.parse_encoder(text) for text in compared.encoder or []],
        "heads": [specs.parse_head(text) for text in compared.head or []],
        "solvers": compared.solver or [],
        "priors": [as_prior(specs.parse_prior(text), FURTHER) for text in compared.prior or []],
    }


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
        "parameters": attempt.parameters,
        "seconds": attempt.seconds,
        "report": {} if attempt.fit is None else attempt.fit.report.as_dict(),
        **attempt.scores,
        "warnings": attempt.warnings,
    }
