"""``coordnet bench attention``: encodings of position in a small Transformer, on three tasks.

The 64 pixels of scikit-learn's 8×8 digits are tokens of one number each; the same by half of the pixels, tested by the
other half; and synthetic boxes with four coordinates. The encodings are those of Li et al. (NeurIPS 2021), and their
ablations. For every encoding the learning rate, the norm and, where there is one, γ are chosen one after another by
validation accuracy on a seed of their own, which is not reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from coordnet.bench import classification, token_sets
from coordnet.bench.classification import OPTIONS, Build, Choices, ClassificationStudy, Parts, Row, Task, by_axis
from coordnet.bench.record_tables import flat, markdown
from coordnet.bench.records import Cell, Options, Record
from coordnet.bench.token_sets import LINE, SQUARE
from coordnet.encodings import DenseEncoding, JointEncoding, ModulatedEncoding, SimpleEncoding
from coordnet.encodings.encoders import DFT, Identity, LearnableFourier, LearnedEmbedding, MultiSine, Sinusoidal
from coordnet.networks.attention import AttentionClassifier

TOKEN_FEATURES = 32  # features of a token
ABLATION_SEEDS = 3  # seeds of the ablations
GRID = 64  # rows of the embeddings of a box's coordinates, and positions of its sinusoids, in the unit interval
UNIT, HIDDEN = {"norm": 1.0}, {"hidden": 32}
NORMED: dict[str, Any] = {**HIDDEN, "layer_norm": True}
MODULATOR: dict[str, Any] = {"fourier": 64, **NORMED}
FULL = "learnable Fourier + MLP"


def learnable(**options: Any) -> Build:
    """Return the construction of learnable Fourier features of a pixel, with 64 features without the MLP."""
    options = {"fourier": MODULATOR["fourier"], "hidden": 0, **options}
    options |= {"features": TOKEN_FEATURES} if options["hidden"] else {}
    return lambda c, g: JointEncoding(LearnableFourier.like(SQUARE, gamma=c["gamma"], **options, generator=g))


def modulated(build: Build, **options: Any) -> Build:
    """Return the construction of an encoding with the MLP of learnable Fourier features after it."""

    def whole(choices: Choices, generator: torch.Generator) -> DenseEncoding:
        encoding = build(choices, generator)
        assert encoding is not None
        return ModulatedEncoding(encoding, TOKEN_FEATURES, **options, generator=generator)

    return whole


def coordinates(count: int) -> Build:
    """Return the construction of the identity of some coordinates."""
    return lambda c, g: SimpleEncoding([Identity()] * count)


def multi_sine(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return MD-sine of a pixel."""
    return JointEncoding(MultiSine.like(SQUARE, features=TOKEN_FEATURES))


def ablation(name: str, build: Build, options: tuple[str, ...], parameters: Mapping[str, Any], **more: Any) -> Row:
    """Return a row of few seeds."""
    return Row(name, build, options, parameters, seeds=ABLATION_SEEDS, **more)


SINUSOIDS = by_axis(Sinusoidal, SQUARE, features=TOKEN_FEATURES // 2)  # sinusoids of the row and of the column
DIGITS = (
    Row("none", lambda c, g: None, ("rate",)),
    Row("learned embedding", by_axis(LearnedEmbedding, LINE, features=TOKEN_FEATURES), axes=LINE),
    Row("sinusoidal, 1-D", by_axis(Sinusoidal, LINE, features=TOKEN_FEATURES), axes=LINE),
    Row("sinusoidal, 2-D", SINUSOIDS),
    Row("DFT, 1-D", by_axis(DFT, LINE), axes=LINE),
    Row("MD-sine", multi_sine),
    Row("learnable Fourier", learnable(), OPTIONS),
    Row(FULL, learnable(**MODULATOR), OPTIONS, MODULATOR),
    ablation("fixed Fourier", learnable(fixed=True), (), {"fixed": True}, like="learnable Fourier"),
    ablation("fixed Fourier + MLP", learnable(**MODULATOR, fixed=True), (), MODULATOR | {"fixed": True}, like=FULL),
    ablation("MLP of the coordinates", modulated(coordinates(2), **HIDDEN), ("rate",), UNIT | HIDDEN),
    ablation(
        "learned embedding, 2-D", by_axis(LearnedEmbedding, SQUARE, features=TOKEN_FEATURES // 2), ("rate",), UNIT
    ),
    ablation("sinusoidal, 2-D + MLP", modulated(SINUSOIDS, **NORMED), ("rate",), UNIT | NORMED),
    ablation("MD-sine + MLP", modulated(multi_sine, **NORMED), ("rate",), UNIT | NORMED),
    ablation(
        f"{FULL}, W from U[0, 1]",
        learnable(**MODULATOR, uniform=True),
        ("gamma",),
        {"rate": 3e-3, **UNIT, **MODULATOR, "uniform": True},
    ),
    ablation(f"{FULL}, KL term", learnable(**MODULATOR), (), MODULATOR, alpha=1.0, like=FULL),
    ablation(f"{FULL}, dropout", learnable(**MODULATOR, dropout=0.1), (), MODULATOR | {"dropout": 0.1}, like=FULL),
)
ABLATED = ("none", "sinusoidal, 1-D", "MD-sine", "MD-sine + MLP", "fixed Fourier")  # on all pixels alone
UNSEEN = tuple(
    ablation(row.name, row.build, (), row.parameters, like=row.like or row.name, axes=row.axes)
    for row in DIGITS
    if row.name not in ABLATED and not row.name.startswith(f"{FULL},")
)


def groups(count: int, fourier: int) -> Row:
    """Return the row of boxes in groups of coordinates that share their weights: Li et al., table 6."""
    grouped = {"fourier": fourier, "groups": count}
    options = {**NORMED, **grouped}

    def build(c: Choices, g: torch.Generator) -> DenseEncoding:
        return JointEncoding(LearnableFourier(4, TOKEN_FEATURES, c["gamma"], **options, generator=g))

    return ablation(f"{FULL}, {count}/{4 // count}", build, ("rate", "gamma"), UNIT | NORMED | grouped)


BOXES = (
    ablation("none", lambda c, g: None, ("rate",), {}),
    ablation("MLP of the coordinates", modulated(coordinates(4), **HIDDEN), ("rate",), UNIT | HIDDEN),
    ablation(
        "learned embedding, 4 × 1-D",
        lambda c, g: SimpleEncoding([LearnedEmbedding(TOKEN_FEATURES // 4, GRID, generator=g) for _ in range(4)]),
        ("rate",),
        UNIT,
    ),
    ablation(
        "sinusoidal, 4 × 1-D",
        lambda c, g: SimpleEncoding([Sinusoidal(TOKEN_FEATURES // 4, 1 / GRID)] * 4),
        ("rate",),
        UNIT,
    ),
    ablation("MD-sine", lambda c, g: JointEncoding(MultiSine(4, TOKEN_FEATURES, 1 / GRID)), ("rate",), UNIT),
    groups(1, 128),
    groups(2, 64),
    groups(4, 32),
)


def test_accuracies(net: AttentionClassifier, parts: Parts) -> dict[str, float]:
    """Return the accuracy on the test sets, and at unseen positions where there are any."""
    tested = {"test": parts.test} | ({} if parts.unseen is None else {"unseen": parts.unseen})
    return {name: classification.accuracy(net, part) for name, part in tested.items()}


COMMON: dict[str, Any] = {"model": {"width": TOKEN_FEATURES, "depth": 1, "heads": 2}, "scores": test_accuracies}
PIXELS: dict[str, Any] = {
    **COMMON,
    "classes": 10,
    "epochs": 18,
    "candidates": {"rate": (1e-3, 3e-3, 1e-2), "norm": (0.5, 1.0, 2.0), "gamma": ("1px", "2px", "4px")},
    "first": {"rate": 3e-3, "norm": 1.0, "gamma": "2px"},
    "batch": 16,
}
HALF = "Digits by 32 of their 64 pixels, tested by the other 32, whose positions no training has"
TASKS = (
    Task("digits", DIGITS, token_sets.digit_parts, **PIXELS, title="Digits (8×8, 64 tokens)"),
    Task("half of the pixels", UNSEEN, token_sets.half_parts, **PIXELS, title=HALF, like="digits"),
    Task(
        "boxes",
        BOXES,
        token_sets.box_parts,
        **COMMON,
        classes=len(token_sets.RELATIONS),
        epochs=20,
        candidates={"rate": (3e-3, 1e-2), "gamma": (0.3, 1.0, 3.0)},
        first={"rate": 3e-3, "gamma": 1.0},
        batch=32,
        title="Relations of two marked boxes among six, four coordinates each",
    ),
)


class Attention(ClassificationStudy):
    """The command ``coordnet bench attention``."""

    name = "attention"
    tasks = TASKS

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the stages of every classification, if scikit-learn is there."""
        token_sets.digits()  # without scikit-learn nothing begins
        yield from super().stages(options, done)

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return a table of test accuracies for each task."""
        frame = flat(records)
        parts = [
            f"Test accuracies of a small Transformer, {frame['seconds.processor'].sum():.0f} s of processor time in "
            f"all; mean ± standard deviation over seeds. Validation chooses each encoding's options one after another, "
            f"on seed {classification.CHOICE_SEED}, which is not reported; the ablations, on 3 seeds of the digits, "
            "have norm 1 and choose the rate alone, or take the choices of the row that they vary."
        ]
        for task in self.tasks:
            tested = frame[(frame["cell.task"] == task.name) & frame["scores.test"].notna()]
            if len(tested):
                parts += [f"## {task.title}", _settings(task), markdown(_table(tested))]
        return {".md": "\n\n".join(parts) + "\n"}


def _settings(task: Task) -> str:
    tried = "; ".join(f"{name} of {', '.join(map(str, values))}" for name, values in task.candidates.items())
    chosen = f"The choices are those of {task.like}." if task.like else f"Chosen: {tried}."
    layers = f"{task.model['depth']} layer{'s' if task.model['depth'] > 1 else ''}"
    return f"Transformer of {layers} and width {task.model['width']}, batches of {task.batch}. {chosen}"


def _table(tested: Any) -> Any:
    """Return mean, standard deviation over seeds and range of the test accuracy, best first."""
    unseen = "scores.unseen" in tested and tested["scores.unseen"].notna().all()
    grouped = tested.groupby("line", sort=False)
    each = 100 * grouped["scores.unseen" if unseen else "scores.test"].agg(["mean", "std", "min", "max"])
    each = each.sort_values("mean", ascending=False, kind="stable")
    lines = grouped.first().loc[each.index]
    table = pd.DataFrame({"encoding": lines["cell.method.name"]})
    head = "accuracy at unseen positions, %" if unseen else "test accuracy, %"
    table[head] = [f"{mean:.2f} ± {std:.2f}" for mean, std in each[["mean", "std"]].values]
    table["lowest"], table["highest"] = (each[name].map("{:.2f}".format) for name in ("min", "max"))
    if unseen:
        table["at those of training"] = (100 * grouped["scores.test"].mean()[each.index]).map("{:.2f}".format)
    table["seeds"], table["epochs"] = grouped.size()[each.index], lines["cell.epochs"]
    for head, option in {"learning rate": "rate", "norm": "norm", "γ": "gamma"}.items():
        settings = lines.get(f"cell.method.{option}", [None] * len(lines))
        table[head] = ["" if pd.isna(value) else value for value in settings]
    return table
