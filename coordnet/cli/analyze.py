"""The command ``coordnet analyze``."""

import time
from pathlib import Path
from typing import Any

import torch

from coordnet import _checks
from coordnet.analysis.summary import describe
from coordnet.cli import report, specs
from coordnet.cli.common import Output
from coordnet.cli.folders import results
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.fitting.fit import head_label
from coordnet.media.files import mismatch
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.encodings import encoder_figure, encodings_of
from coordnet.plots.model import model_figure
from coordnet.plots.published import FIGURES
from coordnet.sampling.axes import Axes, Axis

AXIS_SAMPLES, JOINT_SAMPLES = 256, 32  # default samples along an axis, for encoders of one axis and of several jointly


def run(
    model: Path | None,
    encoder: list[str] | None,
    figure: str | None,
    samples: int | None,
    at: list[str] | None,
    output: Output,
) -> None:
    """Look into a model, draw a figure of the papers, or measure encoders, and print what was found."""
    output = report.reading(output, model)
    start, table = time.perf_counter(), []
    if model is not None and (encoder or figure is not None):
        raise _checks.wrong("model", "no --encoder and no --figure beside it", encoder or figure)
    if figure is not None and encoder:
        raise _checks.wrong("figure", "no --encoder beside it: a figure names its own", encoder)
    record: dict[str, Any] = {}
    if model is not None:
        name = f"model-{model.stem}"
        loaded = Reconstruction.load(model)
        try:
            drawn, numbers = model_figure(loaded)
        except ValueError as error:
            raise mismatch(model, "a model of finite values", str(error)) from None
        table = _described(loaded, numbers)
    elif figure is not None:
        name = f"figure-{_checks.choice('figure', figure, FIGURES)}"
        drawn, numbers = FIGURES[figure]()
    else:
        name, record["seed"] = "encoders", output.seed
        nodes = [specs.parse_node(text) for text in at or []]
        pages = dict(_encoder(text, samples, output.seed) for text in encoder or ["gaussian"])
        drawn, numbers = encoder_figure(pages, nodes)
        table = [f"{label}\n    {describe(measures)}" for label, measures in numbers.items()]
    record |= {
        **report.origin("analyze", output),
        "analysis": name,
        "numbers": numbers,
        "seconds": time.perf_counter() - start,
    }
    if output.out is not None or not output.json:
        with results(output, "analyze", name) as (staging, final):
            drawn.savefig(staging / "figure.png", dpi=130)
            report.write_record(staging, record)
        table.append(f"written to {final}")
    report.show(record, table, output)


def _described(model: Reconstruction, numbers: dict[str, Any]) -> list[str]:
    """Describe a model and its fit, in lines for the screen."""
    network = model.network
    encoders = dict.fromkeys(getattr(m, "name", "") for m in network.encoding.modules())
    kind = type(network.encoding).__name__.removesuffix("Encoding").lower()
    features = report.size(network.encoding.shape)
    lines = [
        f"a signal of {report.size((*model.lengths, model.channels))}",
        " ".join([kind, *filter(None, encoders), f"encoding of {features} features, {head_label(network.head)} head,"])
        + f" {network.parameter_count:,} parameters",
        *([f"fitted by {model.report.method}"] if model.report.method else []),
    ]
    if "rank of each channel" in numbers:
        lines.append(f"rank of each channel: {', '.join(map(str, numbers['rank of each channel']))}")
    if "variance_db" in numbers:
        least, most = numbers["variance_db"].values()
        lines.append(f"learned variance of a mode: {least:.1f} to {most:.1f} dB against the noise")
    for j, measures in enumerate(numbers.get("matrices", []), 1):
        condition = "infinite" if measures["condition"] is None else f"{measures['condition']:.3g}"
        lines.append(f"matrix {j}: stable rank {measures['stable_rank']:.1f}, condition number {condition}")
    return lines


def _encoder(text: str, samples: int | None, seed: int) -> tuple[str, tuple[Encoder | JointEncoder, Axes]]:
    """Return the label of the encoder that a text names, the encoder itself, and its axes."""
    choice = specs.parse_encoder(text)
    family: Any = choice.family
    if choice.is_fourier:
        raise _checks.wrong("encoder", "another than fourier, which has no matrix and no scale", repr(text))
    axis = Axis(_checks.integer("samples", samples or (JOINT_SAMPLES if family.joint else AXIS_SAMPLES), 2))
    axes = (axis,) * (2 if family.joint else 1)
    encoder = family.like(axes, generator=torch.Generator().manual_seed(seed), **choice.options)
    encoding = next(iter(encodings_of(encoder).values()))
    return specs.describe_encoder(text, encoding), (encoder, axes)
