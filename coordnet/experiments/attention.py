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

SIDE, CLASSES, TEST, WIDTH = 8, 10, 0.3, 32

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
    """One training: accuracy in [0, 1] on the test digits after the last epoch."""

    encoding: str
    seed: int
    accuracy: float
    seconds: float


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


def train(name: str, seed: int, epochs: int, data: tuple[Tensor, Tensor]) -> Run:
    """Train on 70 % of the digits, drawn by the seed as the weights are, and score on the others."""
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    tokens, labels = data
    order = torch.randperm(len(tokens), generator=generator)
    test, rest = order.split([round(TEST * len(order)), len(order) - round(TEST * len(order))])
    encoding = ENCODINGS[name](generator)
    where = points(2 if encoding is None else encoding.dimensions)
    if encoding is not None:
        _level(encoding, where)
    model = AttentionClassifier(encoding, 1, CLASSES, width=WIDTH, generator=generator)
    _descend(model, tokens[rest], labels[rest], where, epochs, generator)
    with torch.no_grad():
        guesses = model.eval()(tokens[test], where.expand(len(test), -1, -1)).argmax(-1)
    accuracy = float((guesses == labels[test]).float().mean())
    return Run(name, seed, accuracy, time.perf_counter() - start)


def _level(encoding: DenseEncoding, where: Tensor) -> None:
    """Give every encoding a mean squared norm of 1, so that no scale wins by itself."""
    with torch.no_grad():
        factor = float(encoding(where).square().sum(-1).mean()) ** -0.5
    for part in encoding.modules():
        if isinstance(part, FeatureMap):
            part.gain *= factor


def _descend(
    model: nn.Module, tokens: Tensor, labels: Tensor, where: Tensor, epochs: int, generator: torch.Generator
) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    batches = math.ceil(len(tokens) / 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=epochs * batches)
    for _ in range(epochs):
        for index in torch.randperm(len(tokens), generator=generator).split(32):
            optimiser.zero_grad(set_to_none=True)
            estimate = model(tokens[index], where.expand(len(index), -1, -1))
            nn.functional.cross_entropy(estimate, labels[index]).backward()
            optimiser.step()
            schedule.step()


def run(seeds: int = 5, epochs: int = 10, progress: Callable[[Run], None] | None = None) -> list[Run]:
    """Train every encoding with every seed, 0 … seeds - 1.

    Raises
    ------
    ValueError
        If there is no seed or no epoch, or scikit-learn is not installed.
    """
    _checks.integer("seeds", seeds, 1)
    _checks.integer("epochs", epochs, 1)
    data, runs = digits(), []
    for seed in range(seeds):
        for name in ENCODINGS:
            runs.append(train(name, seed, epochs, data))
            if progress is not None:
                progress(runs[-1])
    return runs


def report(runs: list[Run]) -> str:
    """A table in Markdown: mean, standard deviation over seeds and range of the test accuracy, best first."""
    rows = []
    for name in dict.fromkeys(r.encoding for r in runs):
        scores = [100 * r.accuracy for r in runs if r.encoding == name]
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        rows.append((statistics.mean(scores), spread, min(scores), max(scores), len(scores), name))
    lines = ["| encoding | test accuracy, % | lowest | highest | seeds |", "| --- | --- | --- | --- | --- |"]
    for mean, spread, low, high, count, name in sorted(rows, reverse=True):
        lines.append(f"| {name} | {mean:.2f} ± {spread:.2f} | {low:.2f} | {high:.2f} | {count} |")
    return "\n".join(lines)


def write(runs: list[Run], epochs: int, folder: Path) -> Path:
    """Write attention.json and attention.md into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "epochs": epochs,
        "width": WIDTH,
        "depth": 2,
        "heads": 4,
        "test": TEST,
        "torch": torch.__version__,
    }
    record = {**settings, "seconds": sum(r.seconds for r in runs), "runs": [r.__dict__ for r in runs]}
    (folder / "attention.json").write_text(json.dumps(record, indent=1) + "\n")
    head = (
        f"Digits (8×8, 64 tokens), Transformer of 2 layers and width {WIDTH}, {epochs} epochs, "
        f"{sum(r.seconds for r in runs):.0f} s in all; mean ± standard deviation over seeds.\n\n"
    )
    (folder / "attention.md").write_text(head + report(runs) + "\n")
    return folder
