"""The command ``coordnet analyze``."""

import json
import time
from pathlib import Path
from typing import Any

from coordnet import _checks
from coordnet.cli.encoder_figure import Node, encoder_figure, told
from coordnet.cli.outputs import staged_folder
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.model import model_figure
from coordnet.plots.papers import FIGURES


def run(
    model: Path | None,
    encoders: list[str],
    figure: str | None,
    samples: int | None,
    at: list[str],
    seed: int,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Look into a model, draw a figure of the papers, or measure encoders, and say what came out."""
    start = time.perf_counter()
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
        name = "encoders"
        drawn, numbers = encoder_figure(encoders or ["gaussian"], samples, [_node(text) for text in at], seed)
    measured = figure is None and model is None
    record: dict[str, Any] = {"analysis": name, **({"seed": seed} if measured else {}), "numbers": numbers}
    record["seconds"] = time.perf_counter() - start
    if out is not None or not as_json:
        with staged_folder(out, command="analyze", name=name, force=force) as (staging, final):
            drawn.savefig(staging / "figure.png", dpi=130)
            (staging / "record.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if as_json:
        print(json.dumps(record, ensure_ascii=False))
    else:
        table = [f"{label}\n    {told(found)}" for label, found in numbers.items()] if measured else []
        print("\n".join([*table, f"written to {final}"]))


def _node(text: str) -> Node:
    """The row and the column that a text such as ``16,48`` names."""
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError:
        raise _checks.wrong("at", "a row and a column, as in 16,48", repr(text)) from None
    return row, column
