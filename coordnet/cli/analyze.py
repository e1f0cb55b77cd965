"""The command ``coordnet analyze``."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from coordnet import _checks
from coordnet.analysis.summary import describe
from coordnet.bench.analysis_figures import FIGURES
from coordnet.cli.outputs import staged_folder
from coordnet.cli.specs import describe_encoder, parse_encoder
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.encodings import encoder_figure, encodings_of
from coordnet.plots.model import model_figure
from coordnet.sampling.axes import Axes, Axis

SAMPLES, LATTICE = 256, 32  # samples along an axis for encoders of one axis and for joint ones


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
        pages = dict(_encoder(text, samples, seed) for text in encoders or ["gaussian"])
        drawn, numbers = encoder_figure(pages, [_node(text) for text in at])
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
        table = [f"{label}\n    {describe(found)}" for label, found in numbers.items()] if measured else []
        print("\n".join([*table, f"written to {final}"]))


def _encoder(text: str, samples: int | None, seed: int) -> tuple[str, tuple[Encoder | JointEncoder, Axes]]:
    """The label of an encoder, the encoder that a text names, and the axes for which it is constructed."""
    family, options = parse_encoder(text)
    axis = Axis(_checks.integer("samples", samples or (LATTICE if family.joint else SAMPLES), 2))
    axes = (axis,) * 2 if family.joint else (axis,)
    encoder = family.like(axes, generator=torch.Generator().manual_seed(seed), **options)
    encoding = next(iter(encodings_of(encoder).values()))
    return describe_encoder(text, encoding), (encoder, axes)


def _node(text: str) -> tuple[int, int]:
    """The row and the column that a text such as ``16,48`` names."""
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError:
        raise _checks.wrong("at", "a row and a column, as in 16,48", repr(text)) from None
    return row, column
