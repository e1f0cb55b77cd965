"""Encodings of position in a small Transformer on scikit-learn's 8×8 digits, 64 tokens of one number each."""

import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coordnet import _checks
from coordnet.attention import AttentionClassifier
from coordnet.coordinates import Axis, lattice_points
from coordnet.encoders import (
    DFT,
    FeatureMap,
    LearnableFourier,
    LearnedEmbedding,
    MultiSine,
    Sinusoidal,
)
from coordnet.encodings import DenseEncoding, JointEncoding, SimpleEncoding

SIDE, CLASSES, WIDTH, BATCH = 8, 10, 32, 16
DEPTH, HEADS = 1, 2
TEST, VALIDATION = 0.3, 0.2  # shares of the digits
RATES = (1e-3, 3e-3, 1e-2)  # tried on a seed that is not reported
CHOICE_SEED, TEST_SEED = 1000, 2026

LINE = Axis(SIDE * SIDE)
SQUARE = (Axis(SIDE), Axis(SIDE))


def _learnable(generator: torch.Generator, **options: Any) -> DenseEncoding:
    return JointEncoding(
        LearnableFourier.like(SQUARE, gamma="2px", fourier=64, generator=generator, **options)
    )


ENCODINGS: dict[str, Callable[[torch.Generator], DenseEncoding | None]] = {
    "none": lambda g: None,
    "learned embedding": lambda g: SimpleEncoding([LearnedEmbedding.like(LINE, features=WIDTH, generator=g)]),
    "sinusoidal, 1-D": lambda g: SimpleEncoding([Sinusoidal.like(LINE, features=WIDTH)]),
    "sinusoidal, 2-D": lambda g: SimpleEncoding(
        [Sinusoidal.like(axis, features=WIDTH // 2) for axis in SQUARE]
    ),
    "DFT, 1-D": lambda g: SimpleEncoding([DFT.like(LINE)]),
    "MD-sine": lambda g: JointEncoding(MultiSine.like(SQUARE, features=WIDTH)),
    "learnable Fourier": lambda g: _learnable(g, hidden=0),
    "learnable Fourier + MLP": lambda g: _learnable(g, hidden=32, features=WIDTH),
}


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes
    ----------
    encoding : str
        Its name.
    seed : int
        Of the weights, the order of the digits, and which of those not set aside for the test train and validate.
    rate : float
        The highest learning rate.
    validation, test : float
        Accuracy in [0, 1] after the last epoch; no test accuracy where the run chose the rate.
    seconds : float
        Of processor time.
    """

    encoding: str
    seed: int
    rate: float
    validation: float
    test: float | None
    seconds: float


@dataclass(frozen=True)
class Split:
    """Which digits train, validate and test."""

    train: Tensor
    validation: Tensor
    test: Tensor


def digits() -> tuple[Tensor, Tensor]:
    """The 1,797 digits as tokens (n, 64, 1) in [0, 1], and their classes.

    Raises
    ------
    ValueError
        If scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]  (the extra "attention")
    except ImportError:
        raise ValueError("expected scikit-learn, found none: pip install 'coordnet[attention]'") from None
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float().unsqueeze(-1) / 16, torch.from_numpy(labels)


def points(dimensions: int) -> Tensor:
    """The positions of the 64 tokens: along the raster line, or in the square."""
    axes = (LINE,) if dimensions == 1 else SQUARE
    return lattice_points(axes, torch.float32).reshape(SIDE * SIDE, dimensions)


def split(count: int, seed: int) -> Split:
    """The last 30 % of one fixed order test, for every seed; of the others the seed draws 2/7 that validate."""
    fixed = torch.randperm(count, generator=torch.Generator().manual_seed(TEST_SEED))
    held = round(TEST * count)
    others, test = fixed.split([count - held, held])
    others = others[torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))]
    validation, training = others.split([round(VALIDATION * count), len(others) - round(VALIDATION * count)])
    return Split(training, validation, test)


def train(
    name: str, seed: int, rate: float, epochs: int, data: tuple[Tensor, Tensor], *, score: bool = True
) -> Run:
    """Train one network, and tell its accuracy: on the validation digits, and where ``score`` on the test's."""
    start = time.process_time()
    tokens, labels = data
    parts, generator = split(len(tokens), seed), torch.Generator().manual_seed(seed)
    encoding = ENCODINGS[name](generator)
    where = points(2 if encoding is None else encoding.dimensions)
    if encoding is not None:
        _level(encoding, where)
    model = AttentionClassifier(
        encoding, 1, CLASSES, width=WIDTH, depth=DEPTH, heads=HEADS, generator=generator
    )
    _descend(model, tokens[parts.train], labels[parts.train], where, rate, epochs, generator)
    model.eval()

    def accuracy(part: Tensor) -> float:
        with torch.no_grad():
            guesses = model(tokens[part], where.expand(len(part), -1, -1)).argmax(-1)
        return float((guesses == labels[part]).double().mean())

    validation, test = accuracy(parts.validation), accuracy(parts.test) if score else None
    return Run(name, seed, rate, validation, test, time.process_time() - start)


def _level(encoding: DenseEncoding, where: Tensor) -> None:
    """Give every encoding a mean squared norm of 1, so that no scale wins by itself."""
    with torch.no_grad():
        factor = float(encoding(where).square().sum(-1).mean()) ** -0.5
    for part in encoding.modules():
        if isinstance(part, FeatureMap):
            part.gain *= factor


def _descend(
    model: nn.Module,
    tokens: Tensor,
    labels: Tensor,
    where: Tensor,
    rate: float,
    epochs: int,
    generator: torch.Generator,
) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    batches = math.ceil(len(tokens) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=epochs * batches)
    for _ in range(epochs):
        for index in torch.randperm(len(tokens), generator=generator).split(BATCH):
            optimiser.zero_grad(set_to_none=True)
            estimate = model(tokens[index], where.expand(len(index), -1, -1))
            nn.functional.cross_entropy(estimate, labels[index]).backward()
            optimiser.step()
            schedule.step()


def run(seeds: int = 5, epochs: int = 18, progress: Callable[[Run], None] | None = None) -> list[Run]:
    """Choose each encoding's learning rate on a seed of its own, then train it with every seed 0 … seeds - 1.

    The rate is the one of best validation accuracy, the lower of two; its runs have no test accuracy.

    Raises
    ------
    ValueError
        If there is no seed or no epoch, or scikit-learn is not installed.
    """
    _checks.integer("seeds", seeds, 1)
    _checks.integer("epochs", epochs, 1)
    data, runs = digits(), []

    def keep(made: Run) -> Run:
        runs.append(made)
        if progress is not None:
            progress(made)
        return made

    for name in ENCODINGS:
        tried = [keep(train(name, CHOICE_SEED, rate, epochs, data, score=False)) for rate in RATES]
        best = max(tried, key=lambda made: made.validation).rate
        for seed in range(seeds):
            keep(train(name, seed, best, epochs, data))
    return runs


def report(runs: list[Run]) -> str:
    """A table in Markdown: mean, standard deviation over seeds and range of the test accuracy, best first."""
    rows = []
    for name in dict.fromkeys(r.encoding for r in runs):
        tested = [(100 * r.test, r.rate) for r in runs if r.encoding == name and r.test is not None]
        scores = [score for score, _ in tested]
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        rows.append(
            (statistics.mean(scores), spread, min(scores), max(scores), len(scores), tested[0][1], name)
        )
    lines = [
        "| encoding | test accuracy, % | lowest | highest | seeds | learning rate |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for mean, spread, low, high, count, rate, name in sorted(rows, reverse=True):
        lines.append(f"| {name} | {mean:.2f} ± {spread:.2f} | {low:.2f} | {high:.2f} | {count} | {rate:g} |")
    return "\n".join(lines)


def write(runs: list[Run], epochs: int, folder: Path) -> Path:
    """Write attention.json and attention.md into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = sum(r.seconds for r in runs)
    settings = {
        "epochs": epochs,
        "batch": BATCH,
        "width": WIDTH,
        "depth": DEPTH,
        "heads": HEADS,
        "validation": VALIDATION,
        "test": TEST,
        "rates": RATES,
        "seed of the choice": CHOICE_SEED,
        "torch": torch.__version__,
    }
    record = {**settings, "seconds": seconds, "runs": [r.__dict__ for r in runs]}
    (folder / "attention.json").write_text(json.dumps(record, indent=1) + "\n")
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    head = (
        f"Digits (8×8, 64 tokens), Transformer of {DEPTH} layer and width {WIDTH}, {epochs} epochs in batches of "
        f"{BATCH}, {seconds:.0f} s of processor time in all. 30 % of the digits test, the same for all; a fifth "
        f"validates. The learning rate of each encoding is the best of {rates} by validation accuracy on seed "
        f"{CHOICE_SEED}, which is not reported. Mean ± standard deviation over seeds.\n\n"
    )
    (folder / "attention.md").write_text(head + report(runs) + "\n")
    return folder
