"""``coordnet bench series``: sinusoidal against DFT positions in a small Transformer that classifies sensor windows.

Idé et al. (2024), table 1, compare precision, recall and F1 of the two encodings on data that are not public. Here the
windows are synthetic (see ``sensor_windows``). An encoding is added to the tokens as it is; its features, those
of a token and the steps of a window are equal in number. For each set its norm is chosen by validation accuracy.
"""

from functools import partial
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from coordnet.bench.classification import CHOICE_SEED, Choices, ClassificationStudy, Parts, Row, Task, guesses
from coordnet.bench.record_tables import flat, markdown
from coordnet.bench.records import Record
from coordnet.bench.sensor_windows import SETS, TIMES, windows
from coordnet.encodings import SimpleEncoding
from coordnet.encodings.encoders import DFT, LearnedEmbedding, Sinusoidal
from coordnet.networks.attention import AttentionClassifier
from coordnet.sampling.axes import Axes

SEEDS, BATCH, EPOCHS = 3, 16, 15
COUNTS, SEED_OF_REST = (400, 200, 400), 2026  # windows that train, validate and test
CANDIDATES, RATE = {"norm": (1.0, 4.0)}, {"rate": 3e-3}  # rows of the DFT have norm 1, sinusoids √(d / 2) = 4
SCORES = ("precision", "recall", "F1")


def embedding(choices: Choices, generator: torch.Generator) -> SimpleEncoding:
    """Return a learned embedding with a row for each step."""
    return SimpleEncoding([LearnedEmbedding.like(TIMES, generator=generator)])


ROWS = (
    Row("none", lambda c, g: None, (), RATE, seeds=SEEDS),
    Row("sinusoidal", lambda c, g: SimpleEncoding([Sinusoidal.like(TIMES)]), ("norm",), RATE, seeds=SEEDS),
    Row("DFT", lambda c, g: SimpleEncoding([DFT.like(TIMES)]), ("norm",), RATE, seeds=SEEDS),
    Row("learned embedding", embedding, ("norm",), RATE, seeds=SEEDS),
)


def parts_of(name: str, seed: int, axes: Axes) -> Parts:
    """Return the windows of a set: the seed draws those that train; the others are the same for all seeds."""
    return Parts(*map(partial(windows, name), COUNTS, (seed, SEED_OF_REST, SEED_OF_REST + 1)))


def anomaly_scores(net: AttentionClassifier, parts: Parts) -> dict[str, float]:
    """Return precision, recall and F1 of the anomalous class."""
    found, true = guesses(net, parts.test) == 1, parts.test.labels == 1
    return dict(zip(SCORES, precision_recall_f1(found, true), strict=True))


def precision_recall_f1(found: torch.Tensor, true: torch.Tensor) -> tuple[float, float, float]:
    """Return the share of the found that is true, that of the true that is found, and their harmonic mean."""
    hits = float((found & true).sum())
    precision, recall = (hits / max(1.0, float(part.sum())) for part in (found, true))
    return precision, recall, 2 * hits / max(1.0, float(found.sum() + true.sum()))


class Series(ClassificationStudy):
    """The command ``coordnet bench series``."""

    name = "series"
    tasks = tuple(
        Task(
            name,
            ROWS,
            partial(parts_of, name),
            classes=2,
            epochs=EPOCHS,
            candidates=CANDIDATES,
            first={"norm": 1.0},
            model={"width": TIMES.count, "depth": 1, "heads": 2, "combine": "unprojected"},
            batch=BATCH,
            scores=anomaly_scores,
        )
        for name in SETS
    )

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return precision, recall and F1 for each set and encoding, and the means over the sets."""
        frame = flat(records)
        tested = frame[frame["scores.F1"].notna()]
        preface = (
            f"Windows of {TIMES.count} steps of two sensors, {COUNTS[0]} for training, {COUNTS[1]} for validation, "
            f"{COUNTS[2]} for testing, half of each anomalous; one Transformer layer of width {TIMES.count}, {EPOCHS} "
            f"epochs in batches of {BATCH}; {frame['seconds.processor'].sum():.0f} s of processor time in all. The "
            f"norm is the better of {' and '.join(map(str, CANDIDATES['norm']))} by validation accuracy on seed "
            f"{CHOICE_SEED}, which is not reported. Scores are of the anomalous class in %, mean ± standard deviation "
            "over the seeds."
        )
        return {".md": f"{preface}\n\n{markdown(_over_sets(tested))}\n\n{markdown(_by_set(tested))}\n"}


def _over_sets(tested: Any) -> Any:
    """Return the mean scores over all sets, for each encoding."""
    columns = [f"scores.{name}" for name in SCORES]
    mean = 100 * tested.groupby(["cell.method.name", "cell.task"], sort=False)[columns].mean()
    table = mean.groupby("cell.method.name", sort=False).mean().map("{:.1f}".format)
    return table.set_axis(SCORES, axis=1).reset_index(names="encoding, mean over the sets")


def _by_set(tested: Any) -> Any:
    """Return the scores of each set and encoding, with the choices."""
    groups = tested.groupby(["cell.task", "cell.method.name"], sort=False)
    first = groups.first()
    table = pd.DataFrame({"set": first.index.get_level_values(0), "encoding": first.index.get_level_values(1)})
    for name in SCORES:
        score = 100 * groups[f"scores.{name}"].agg(["mean", "std"])
        table[name] = [f"{mean:.1f} ± {std:.1f}" for mean, std in score.values]
    table["seeds"] = groups.size().values
    table["norm"] = ["" if pd.isna(norm) else norm for norm in first["cell.method.norm"]]
    return table
