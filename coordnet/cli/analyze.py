"""The command ``coordnet analyze``."""

import time
from pathlib import Path
from typing import Any

from coordnet import _checks
from coordnet.bench.analysis_figures import FIGURES
from coordnet.cli import report, specs
from coordnet.cli.common import Output
from coordnet.cli.encoder_figure import encoder_figure, told
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.model import model_figure


def run(
    model: Path | None,
    encoders: list[str],
    figure: str | None,
    samples: int | None,
    at: list[str],
    output: Output,
) -> None:
    """Look into a model, draw a figure of the papers, or measure encoders, and print what was found."""
    start = time.perf_counter()
    measured: dict[str, Any] = {}
    if model is not None:
        if encoders or figure is not None:
            raise _checks.wrong("model", "no --encoder and no --figure beside it", encoders or figure)
        name = f"model-{model.stem}"
        drawn, numbers = model_figure(Reconstruction.load(model))
    elif figure is not None:
        if encoders:
            raise _checks.wrong("figure", "no --encoder beside it: a figure names its own", encoders)
        name = f"figure-{_checks.choice('figure', figure, FIGURES)}"
        drawn, numbers = FIGURES[figure]()
    else:
        name, nodes = "encoders", [specs.parse_node(text) for text in at]
        drawn, numbers = encoder_figure(encoders or ["gaussian"], samples, nodes, output.seed)
        measured = {"seed": output.seed}
    record = {"analysis": name, **measured, "numbers": numbers, "seconds": time.perf_counter() - start}
    table = [f"{label}\n    {told(found)}" for label, found in numbers.items()] if measured else []
    if output.out is not None or not output.json:
        with report.staged_folder(output.out, command="analyze", name=name, force=output.force) as (
            staging,
            final,
        ):
            drawn.savefig(staging / "figure.png", dpi=130)
            report.write_record(staging, record)
        table.append(f"written to {final}")
    report.show(record, table, output)
