"""The command ``coordnet analyze``."""

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.analysis import summarise
from coordnet.cli.model_figure import model_figure
from coordnet.cli.outputs import staged_folder
from coordnet.cli.specs import describe_encoder, parse_encoder
from coordnet.coordinates import Axis
from coordnet.encoders import Encoder
from coordnet.encodings import SimpleEncoding
from coordnet.experiments.analysis_figures import FIGURES
from coordnet.plots_analysis import show_distance, show_singular_values, show_theory_in_legend
from coordnet.reconstruction import Reconstruction


def run(
    model: Path | None,
    encoders: list[str],
    figure: str | None,
    samples: int,
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
        drawn, numbers = measured(encoders or ["gaussian"], samples, seed)
    record = {
        "analysis": name,
        **({} if figure or model else {"samples": samples, "seed": seed}),
        "numbers": numbers,
    }
    record["seconds"] = time.perf_counter() - start
    if out is not None or not as_json:
        with staged_folder(out, command="analyze", name=name, force=force) as (staging, final):
            drawn.savefig(staging / "figure.png", dpi=130)
            (staging / "record.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if as_json:
        print(json.dumps(record, ensure_ascii=False))
    else:
        print("\n".join([*([] if figure or model else _table(numbers)), f"written to {final}"]))


def measured(texts: list[str], samples: int, seed: int) -> tuple[Figure, dict[str, Any]]:
    """Stable rank, condition, similarity and singular values of encoders on N samples of the unit interval."""
    axis = Axis(_checks.integer("samples", samples, 2))
    figure = Figure(figsize=(10, 3.6 * len(texts)), layout="constrained")
    numbers: dict[str, Any] = {}
    for line, text in zip(figure.subplots(len(texts), 2, squeeze=False), texts, strict=True):
        encoder = _one_axis(text, axis, seed)
        label = describe_encoder(text, SimpleEncoding([encoder]))
        found = summarise(encoder, axis)
        numbers[label] = found.record()
        spacings = [d / axis.spacing for d in found.distances]
        show_distance(line[0], spacings, found.measured, found.similarity, label="measured", colour="C0")
        line[0].set_xlabel("distance δ in sample spacings")
        line[0].set_title(label, fontsize=9)
        show_theory_in_legend(line[0])
        show_singular_values(line[1], found.singular_values)
        line[1].set_title(_ranks(found.record()), fontsize=9)
    return figure, numbers


def _one_axis(text: str, axis: Axis, seed: int) -> Encoder:
    family, options = parse_encoder(text)
    if not issubclass(family, Encoder):
        raise _checks.wrong(
            "encoder", "one of a single axis; --figure similarity has the joint ones", family.name
        )
    return family.like(axis, generator=torch.Generator().manual_seed(seed), **options)


def _ranks(found: dict[str, Any]) -> str:
    theory = "" if found["theory"] is None else f" (theory {found['theory']:.4g})"
    condition = math.inf if found["condition"] is None else found["condition"]
    return f"stable rank {found['stable_rank']:.4g}{theory}, rank {found['rank']}, condition {condition:.2g}"


def _table(numbers: dict[str, Any]) -> list[str]:
    return [f"{label}\n    {_ranks(found)}" for label, found in numbers.items()]
