"""``coordnet bench attention``: encodings of position in a small Transformer, on three tasks.

The 64 pixels of scikit-learn's 8×8 digits are tokens of one number each; the same by half of the pixels, tested by the
other half; and synthetic boxes with four coordinates. For every encoding the learning rate, the norm and, where there
is one, γ are chosen one after another by validation accuracy on a seed of their own, which is not reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from coordnet.bench import token_sets
from coordnet.bench.classification import CHOICE_SEED, ClassificationStudy, Parts, Task, accuracy
from coordnet.bench.position_encodings import BOXES, DIGITS, UNSEEN, WIDTH
from coordnet.bench.record_tables import flat, markdown
from coordnet.bench.records import Cell, Record
from coordnet.bench.study import Options
from coordnet.networks.attention import AttentionClassifier

MODEL: dict[str, Any] = {"width": WIDTH, "depth": 1, "heads": 2}


def test_accuracies(net: AttentionClassifier, parts: Parts) -> dict[str, float]:
    """Return the accuracy on the test sets, and at unseen positions where there are any."""
    tested = {"test": parts.test} | ({} if parts.unseen is None else {"unseen": parts.unseen})
    return {name: accuracy(net, part) for name, part in tested.items()}


PIXELS: dict[str, Any] = {
    "classes": 10,
    "epochs": 18,
    "candidates": {"rate": (1e-3, 3e-3, 1e-2), "norm": (0.5, 1.0, 2.0), "gamma": ("1px", "2px", "4px")},
    "first": {"rate": 3e-3, "norm": 1.0, "gamma": "2px"},
    "model": MODEL,
    "batch": 16,
    "scores": test_accuracies,
}
HALF = "Digits by 32 of their 64 pixels, tested by the other 32, whose positions no training has"
TASKS = (
    Task("digits", DIGITS, token_sets.digit_parts, **PIXELS, title="Digits (8×8, 64 tokens)"),
    Task("half of the pixels", UNSEEN, token_sets.half_parts, **PIXELS, title=HALF, like="digits"),
    Task(
        "boxes",
        BOXES,
        token_sets.box_parts,
        classes=len(token_sets.RELATIONS),
        epochs=20,
        candidates={"rate": (3e-3, 1e-2), "gamma": (0.3, 1.0, 3.0)},
        first={"rate": 3e-3, "gamma": 1.0},
        model=MODEL,
        batch=32,
        scores=test_accuracies,
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
            f"on seed {CHOICE_SEED}, which is not reported; the ablations, on 3 seeds of the digits, have norm 1 and "
            "choose the rate alone, or take the choices of the row that they vary."
        ]
        for task in self.tasks:
            of_task = frame[frame["cell.task"] == task.name]
            if of_task["scores.test"].notna().any():
                parts += [f"## {task.title}", _settings(task), markdown(_table(of_task))]
        return {".md": "\n\n".join(parts) + "\n"}


def _settings(task: Task) -> str:
    tried = "; ".join(f"{name} of {', '.join(map(str, values))}" for name, values in task.candidates.items())
    chosen = f"The choices are those of {task.like}." if task.like else f"Chosen: {tried}."
    layers = f"{task.model['depth']} layer{'s' if task.model['depth'] > 1 else ''}"
    return f"Transformer of {layers} and width {task.model['width']}, batches of {task.batch}. {chosen}"


def _table(frame: Any) -> Any:
    """Return mean, standard deviation over seeds and range of the test accuracy, best first."""
    tested = frame[frame["scores.test"].notna()]
    score = "unseen" if "scores.unseen" in tested and tested["scores.unseen"].notna().all() else "test"
    groups = tested.groupby("line", sort=False)
    each = 100 * groups[f"scores.{score}"].agg(["mean", "std", "min", "max"])
    each = each.sort_values("mean", ascending=False, kind="stable")
    lines = groups.first().loc[each.index]
    table = pd.DataFrame({"encoding": lines["cell.method.name"]})
    head = "accuracy at unseen positions, %" if score == "unseen" else "test accuracy, %"
    table[head] = [f"{mean:.2f} ± {std:.2f}" for mean, std in each[["mean", "std"]].values]
    table["lowest"], table["highest"] = (each[name].map("{:.2f}".format) for name in ("min", "max"))
    if score == "unseen":
        table["at those of training"] = (100 * groups["scores.test"].mean()[each.index]).map("{:.2f}".format)
    table["seeds"], table["epochs"] = groups.size()[each.index], lines["cell.epochs"]
    for head, option in {"learning rate": "rate", "norm": "norm", "γ": "gamma"}.items():
        found = lines.get(f"cell.method.{option}", [None] * len(lines))
        table[head] = ["" if pd.isna(value) else value for value in found]
    return table
