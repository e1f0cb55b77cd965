"""``coordnet bench series``: sinusoidal against DFT positions in a small Transformer that classifies sensor windows.

Idé et al. (2024), table 1, compare precision, recall and F1 of the two encodings on data that are not public. Here the
windows are synthetic, normal or anomalous, and only the order of the values tells which. An encoding is added to the
tokens as it is; its features, those of a token and the steps of a window are equal in number. For each set its norm is
chosen by validation accuracy.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.bench.classification import CHOICE_SEED, ClassificationStudy, Part, Parts, Row, Task, by_axis, guesses
from coordnet.bench.record_tables import flat, markdown
from coordnet.bench.records import Record
from coordnet.encodings.encoders import DFT, LearnedEmbedding, Sinusoidal
from coordnet.networks.attention import AttentionClassifier
from coordnet.sampling import Axis
from coordnet.sampling.axes import Axes

SEEDS, BATCH, SERIES_EPOCHS = 3, 16, 15
COUNTS, SEED_OF_REST = (400, 200, 400), 2026  # windows that train, validate and test
CANDIDATES, RATE = {"norm": (1.0, 4.0)}, {"rate": 3e-3}  # rows of the DFT have norm 1, sinusoids √(d / 2) = 4
SCORES = ("precision", "recall", "F1")
TIMES = Axis(32)  # the time steps of a window
NOISE, LAG, SPIKES, SLOW, FAST = 0.3, 1, 6, 1.0, 4.0

ROWS = (
    Row("none", lambda c, g: None, (), RATE, seeds=SEEDS),
    Row("sinusoidal", by_axis(Sinusoidal, (TIMES,)), ("norm",), RATE, seeds=SEEDS),
    Row("DFT", by_axis(DFT, (TIMES,)), ("norm",), RATE, seeds=SEEDS),
    Row("learned embedding", by_axis(LearnedEmbedding, (TIMES,)), ("norm",), RATE, seeds=SEEDS),
)


def mean_shift(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a step from -1 to 1, or back, in the middle half; normal windows have its values in random order."""
    count = len(noise)
    step = torch.randint(TIMES.count // 4, 3 * TIMES.count // 4, (count, 1), generator=generator)
    levels = torch.where(torch.arange(TIMES.count) < step, -1.0, 1.0)
    levels *= 2 * torch.randint(2, (count, 1), generator=generator) - 1
    return torch.stack([noise[..., 0] + _mixed(levels, generator), noise[..., 1]], -1)


def spike_pattern(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a burst of six neighboring spikes of height 2; in normal windows they are at random steps."""
    start = torch.randint(TIMES.count - SPIKES, (len(noise), 1), generator=generator)
    spikes = torch.zeros(noise.shape[:2]).scatter_(1, start + torch.arange(SPIKES), 2.0)
    return torch.stack([noise[..., 0] + _mixed(spikes, generator), noise[..., 1]], -1)


def frequency_change(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a wave of one cycle in the first half and four in the second; normal windows have one rate throughout."""
    phase = torch.rand(len(noise), 1, generator=generator)
    rates = torch.where(torch.rand(len(noise), 1, generator=generator) < 0.5, SLOW, FAST)
    changing = torch.where(torch.arange(TIMES.count) < TIMES.count // 2, SLOW, FAST)
    speed = torch.where(_anomalous(noise), changing, rates) / (TIMES.count // 2)
    wave = torch.sin(2 * torch.pi * (speed.cumsum(1) + phase))
    return torch.stack([noise[..., 0] + wave, noise[..., 1]], -1)


def lagged_copy(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Let the second sensor repeat the first one step later, with noise; in normal windows in random order."""
    first = torch.randn(noise.shape[:2], generator=generator)
    return torch.stack([first, noise[..., 1] + _mixed(first.roll(LAG, 1), generator)], -1)


def drift(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a slope of ±1.5 over the window; normal windows have its values in random order."""
    slope = (torch.arange(TIMES.count) / (TIMES.count - 1) - 0.5) * 1.5
    signs = 2 * torch.randint(2, (len(noise), 1), generator=generator) - 1
    return torch.stack([noise[..., 0] + _mixed(signs * slope, generator), noise[..., 1]], -1)


def _mixed(values: Tensor, generator: torch.Generator) -> Tensor:
    """Put the values of every second window, the normal ones, in random order."""
    order = torch.rand(values.shape, generator=generator).argsort(1)
    return torch.where(_anomalous(values), values, values.gather(1, order))


def _anomalous(values: Tensor) -> Tensor:
    return (torch.arange(len(values)) % 2 == 1).unsqueeze(-1)


SETS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "mean shift": mean_shift,
    "spike pattern": spike_pattern,
    "frequency change": frequency_change,
    "lagged copy": lagged_copy,
    "drift": drift,
}


def windows(name: str, count: int, seed: int) -> Part:
    """Draw windows of 32 steps of two sensors: tokens (count, 32, 2) and positions (count, 32, 1) in [0, 1).

    Class 1, every second window, has the anomaly of the set ``name`` of ``SETS``, and class 0 the same values in random
    order, or the same wave without a change, so that a set of tokens without positions has nearly the same values in
    both. White noise of deviation 0.3 is on both sensors, but for the first of a lagged copy.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = NOISE * torch.randn(count, TIMES.count, 2, generator=generator)
    positions = TIMES.points(torch.float32).unsqueeze(-1).expand(count, -1, -1)
    return Part(SETS[name](noise, generator), positions, torch.arange(count) % 2)


def parts_of(name: str, seed: int, axes: Axes) -> Parts:
    """Return the windows of a set: the seed draws those that train; the others are the same for all seeds."""
    return Parts(*map(partial(windows, name), COUNTS, (seed, SEED_OF_REST, SEED_OF_REST + 1)))


def anomaly_scores(net: AttentionClassifier, parts: Parts) -> dict[str, float]:
    """Return precision, recall and F1 of the anomalous class."""
    guessed, true = guesses(net, parts.test) == 1, parts.test.labels == 1
    return dict(zip(SCORES, precision_recall_f1(guessed, true), strict=True))


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
            epochs=SERIES_EPOCHS,
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
            f"{COUNTS[2]} for testing, half of each anomalous; one Transformer layer of width {TIMES.count}, "
            f"{SERIES_EPOCHS} epochs in batches of {BATCH}; {frame['seconds.processor'].sum():.0f} s of processor "
            f"time in all. The norm is the better of {' and '.join(map(str, CANDIDATES['norm']))} by validation "
            f"accuracy on seed {CHOICE_SEED}, which is not reported. Scores are of the anomalous class in %, mean ± "
            "standard deviation over the seeds."
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
