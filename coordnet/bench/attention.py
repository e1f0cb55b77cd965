"""``coordnet bench attention``: encodings of position in a small Transformer on scikit-learn's 8×8 digits.

The 64 pixels of a digit are tokens of one number each. For every encoding the learning rate, the norm and, where there
is one, γ are chosen one after another by validation accuracy on a seed of their own, which is not reported.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from coordnet.bench.cells import Cell, Result
from coordnet.bench.records import Record
from coordnet.bench.study import Options, Study
from coordnet.bench.tables import flat, markdown
from coordnet.encodings import DenseEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import DFT, FeatureMap, LearnableFourier, LearnedEmbedding, MultiSine, Sinusoidal
from coordnet.networks.attention import AttentionClassifier
from coordnet.sampling import Axis, lattice_points

SIDE, CLASSES = 8, 10
MODEL: dict[str, Any] = {"width": 32, "depth": 1, "heads": 2}
WIDTH, BATCH = MODEL["width"], 16
SEEDS, EPOCHS = 5, 18
TEST, VALIDATION = 0.3, 0.2  # shares of the digits
CHOICE_SEED, TEST_SEED = 1000, 2026
LINE = Axis(SIDE * SIDE)
SQUARE = (Axis(SIDE), Axis(SIDE))

MODULATOR: dict[str, Any] = {"fourier": 64, "hidden": 32, "layer_norm": True}

Choices = dict[str, Any]  # the highest learning rate, the root mean square norm, and γ
FIRST: Choices = {"rate": 3e-3, "norm": 1.0, "gamma": "2px"}
CANDIDATES = {"rate": (1e-3, 3e-3, 1e-2), "norm": (0.5, 1.0, 2.0), "gamma": ("1px", "2px", "4px")}


ENCODINGS: dict[str, Callable[[Choices, torch.Generator], DenseEncoding | None]] = {
    "none": lambda c, g: None,
    "learned embedding": lambda c, g: SimpleEncoding([LearnedEmbedding.like(LINE, features=WIDTH, generator=g)]),
    "sinusoidal, 1-D": lambda c, g: SimpleEncoding([Sinusoidal.like(LINE, features=WIDTH)]),
    "sinusoidal, 2-D": lambda c, g: SimpleEncoding([Sinusoidal.like(axis, features=WIDTH // 2) for axis in SQUARE]),
    "DFT, 1-D": lambda c, g: SimpleEncoding([DFT.like(LINE)]),
    "MD-sine": lambda c, g: JointEncoding(MultiSine.like(SQUARE, features=WIDTH)),
    "learnable Fourier": lambda c, g: JointEncoding(
        LearnableFourier.like(SQUARE, gamma=c["gamma"], fourier=64, hidden=0, generator=g)
    ),
    "learnable Fourier + MLP": lambda c, g: JointEncoding(
        LearnableFourier.like(SQUARE, gamma=c["gamma"], features=WIDTH, **MODULATOR, generator=g)
    ),
}


def concerns(name: str) -> tuple[str, ...]:
    """Return the choices that an encoding has."""
    return ("rate",) if name == "none" else ("rate", "norm", "gamma") if "learnable" in name else ("rate", "norm")


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Load the 1,797 digits as tokens (n, 64, 1) in [0, 1], and their classes.

    ValueError is raised if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]  (the extra "attention")
    except ImportError:
        raise ValueError("expected scikit-learn, found none: pip install 'coordnet[attention]'") from None
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float().unsqueeze(-1) / 16, torch.from_numpy(labels)


def split(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return which digits train, validate and test.

    The last 30 % of one fixed order test, for every seed. Of the others the seed draws 2/7 that validate.
    """
    fixed = torch.randperm(count, generator=torch.Generator().manual_seed(TEST_SEED))
    held, validating = round(TEST * count), round(VALIDATION * count)
    others, test = fixed.split([count - held, held])
    others = others[torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))]
    return others[validating:], others[:validating], test


def train(name: str, seed: int, choices: Choices, epochs: int, data: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Train a network with one encoding; return its accuracy on the validation and on the test digits."""
    tokens, labels = data
    training, validation, test = split(len(tokens), seed)
    generator = torch.Generator().manual_seed(seed)
    encoding = ENCODINGS[name](choices, generator)
    axes = (LINE,) if encoding is not None and encoding.dimensions == 1 else SQUARE
    where = lattice_points(axes, torch.float32).flatten(0, -2)
    if encoding is not None:  # no encoding wins by its scale
        with torch.no_grad():
            factor = choices["norm"] * float(encoding(where).square().sum(-1).mean()) ** -0.5
        for part in (part for part in encoding.modules() if isinstance(part, FeatureMap)):
            part.gain *= factor
    model = AttentionClassifier(encoding, 1, CLASSES, **MODEL, generator=generator)

    def logits(part: Tensor) -> Tensor:
        return model(tokens[part], where.expand(len(part), -1, -1))

    optimizer = torch.optim.Adam(model.parameters(), lr=choices["rate"])
    steps = epochs * math.ceil(len(training) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, choices["rate"], total_steps=steps)
    for _ in range(epochs):
        for index in torch.randperm(len(training), generator=generator).split(BATCH):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(logits(training[index]), labels[training[index]]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = [(logits(part).argmax(-1) == labels[part]).double().mean() for part in (validation, test)]
    return float(right[0]), float(right[1])


def trained(name: str, choices: Choices, cell: Cell) -> Result:
    """Train, and measure the processor's seconds; a training that serves a choice has no test accuracy."""
    start = time.process_time()
    validation, test = train(name, cell.seed, choices, cell.epochs or EPOCHS, digits())
    scores = {"validation": validation, "test": None if cell.seed == CHOICE_SEED else test}
    return Result(scores, {"processor": time.process_time() - start})


class Attention(Study):
    """The command ``coordnet bench attention``."""

    name = "attention"

    def cell(self, name: str, seed: int, choices: Choices, epochs: int) -> Cell:
        """Return the training of a network with one encoding."""
        method = {"name": name} | {option: choices[option] for option in concerns(name)}
        method |= MODULATOR if "MLP" in name else {}
        subject = {"task": "digits", "model": {**MODEL, "batch": BATCH}, "method": method}
        work = partial(trained, name, choices)
        return Cell(experiment=self.name, subject=subject, work=work, seed=seed, epochs=epochs)

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the trainings of each choice, then those with every seed 0 … seeds - 1."""
        digits()  # without scikit-learn nothing begins
        epochs, best = options.epochs or EPOCHS, {name: FIRST for name in ENCODINGS}
        for option, values in CANDIDATES.items():
            tried: dict[str, list[tuple[Choices, Cell]]] = {}
            for name in (name for name in ENCODINGS if option in concerns(name)):
                choices = [best[name] | {option: value} for value in values]
                tried[name] = [(c, self.cell(name, CHOICE_SEED, c, epochs)) for c in choices]
            yield [cell for pairs in tried.values() for _, cell in pairs]
            for name, pairs in tried.items():  # the first of the best
                scores = [done[cell.key].get("scores", {"validation": -1.0})["validation"] for _, cell in pairs]
                best[name] = pairs[scores.index(max(scores))][0]
        seeds = range(options.seeds or SEEDS)
        yield [self.cell(name, seed, best[name], epochs) for name in ENCODINGS for seed in seeds]

    def tables(self, records: list[Record]) -> dict[str, str]:
        """Return mean, standard deviation over seeds and range of the test accuracy, best first."""
        frame = flat(records)
        tested = frame[frame["scores.test"].notna()]
        each = (100 * tested["scores.test"]).groupby(tested["line"], sort=False)
        score = each.agg(["mean", "std", "min", "max", "count"]).sort_values("mean", ascending=False, kind="stable")
        lines = tested.groupby("line", sort=False).first().loc[score.index]
        table = pd.DataFrame({"encoding": lines["cell.method.name"]})
        table["test accuracy, %"] = [f"{m:.2f} ± {s:.2f}" for m, s in score[["mean", "std"]].values]
        table["lowest"], table["highest"] = (score["min"].map("{:.2f}".format), score["max"].map("{:.2f}".format))
        table["seeds"], table["epochs"] = score["count"], lines["cell.epochs"]
        for head, option in {"learning rate": "rate", "norm": "norm", "γ": "gamma"}.items():
            found = lines.get(f"cell.method.{option}", [None] * len(lines))
            table[head] = ["" if pd.isna(value) else value for value in found]
        tried = "; ".join(f"{name} of {', '.join(map(str, values))}" for name, values in CANDIDATES.items())
        preface = (
            f"Digits (8×8, 64 tokens), Transformer of {MODEL['depth']} layer and width {WIDTH}, batches of {BATCH}, "
            f"{frame['seconds.processor'].sum():.0f} s of processor time in all. 30 % of the digits test, the same for "
            f"all; a fifth validates. Each encoding's choices ({tried}) are the best by validation accuracy on seed "
            f"{CHOICE_SEED}, which is not reported, one after another. Mean ± standard deviation over seeds."
        )
        return {".md": f"{preface}\n\n{markdown(table)}\n"}
