"""Encodings of position in a small Transformer on scikit-learn's 8×8 digits, 64 tokens of one number each."""

import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import DenseEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import DFT, FeatureMap, LearnableFourier, LearnedEmbedding, MultiSine, Sinusoidal
from coordnet.networks.attention import AttentionClassifier
from coordnet.sampling.axes import Axis, lattice_points

SIDE, CLASSES, WIDTH, BATCH = 8, 10, 32, 16
DEPTH, HEADS = 1, 2
TEST, VALIDATION = 0.3, 0.2  # shares of the digits
CHOICE_SEED, TEST_SEED = 1000, 2026

LINE = Axis(SIDE * SIDE)
SQUARE = (Axis(SIDE), Axis(SIDE))


@dataclass(frozen=True)
class Choices:
    """What is chosen for each encoding.

    Attributes
    ----------
    rate : float
        The highest learning rate.
    norm : float
        Root mean square of the encodings' norms.
    gamma : str
        γ of learnable Fourier.
    """

    rate: float = 3e-3
    norm: float = 1.0
    gamma: str = "2px"


CANDIDATES: dict[str, tuple[Any, ...]] = {
    "rate": (1e-3, 3e-3, 1e-2),
    "norm": (0.5, 1.0, 2.0),
    "gamma": ("1px", "2px", "4px"),
}


def _learnable(choices: Choices, generator: torch.Generator, **options: Any) -> DenseEncoding:
    return JointEncoding(
        LearnableFourier.like(SQUARE, gamma=choices.gamma, fourier=64, generator=generator, **options)
    )


ENCODINGS: dict[str, Callable[[Choices, torch.Generator], DenseEncoding | None]] = {
    "none": lambda c, g: None,
    "learned embedding": lambda c, g: SimpleEncoding(
        [LearnedEmbedding.like(LINE, features=WIDTH, generator=g)]
    ),
    "sinusoidal, 1-D": lambda c, g: SimpleEncoding([Sinusoidal.like(LINE, features=WIDTH)]),
    "sinusoidal, 2-D": lambda c, g: SimpleEncoding(
        [Sinusoidal.like(axis, features=WIDTH // 2) for axis in SQUARE]
    ),
    "DFT, 1-D": lambda c, g: SimpleEncoding([DFT.like(LINE)]),
    "MD-sine": lambda c, g: JointEncoding(MultiSine.like(SQUARE, features=WIDTH)),
    "learnable Fourier": lambda c, g: _learnable(c, g, hidden=0),
    "learnable Fourier + MLP": lambda c, g: _learnable(c, g, hidden=32, features=WIDTH),
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
    choices : Choices
        What it was trained with.
    validation, test : float
        Accuracy in [0, 1] after the last epoch; no test accuracy where the run served a choice.
    seconds : float
        Of processor time.
    """

    encoding: str
    seed: int
    choices: Choices
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
    name: str, seed: int, choices: Choices, epochs: int, data: tuple[Tensor, Tensor], *, score: bool = True
) -> Run:
    """Train one network, and tell its accuracy: on the validation digits, and where ``score`` on the test's."""
    start = time.process_time()
    tokens, labels = data
    parts, generator = split(len(tokens), seed), torch.Generator().manual_seed(seed)
    encoding = ENCODINGS[name](choices, generator)
    where = points(2 if encoding is None else encoding.dimensions)
    if encoding is not None:
        _level(encoding, where, choices.norm)
    model = AttentionClassifier(
        encoding, 1, CLASSES, width=WIDTH, depth=DEPTH, heads=HEADS, generator=generator
    )
    _descend(model, tokens[parts.train], labels[parts.train], where, choices.rate, epochs, generator)
    model.eval()

    def accuracy(part: Tensor) -> float:
        with torch.no_grad():
            guesses = model(tokens[part], where.expand(len(part), -1, -1)).argmax(-1)
        return float((guesses == labels[part]).double().mean())

    validation, test = accuracy(parts.validation), accuracy(parts.test) if score else None
    return Run(name, seed, choices, validation, test, time.process_time() - start)


def _level(encoding: DenseEncoding, where: Tensor, norm: float) -> None:
    """Give an encoding a root mean square norm, so that no encoding wins by its scale."""
    with torch.no_grad():
        factor = norm * float(encoding(where).square().sum(-1).mean()) ** -0.5
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
    """Choose for each encoding on a seed of its own, then train it with every seed 0 … seeds - 1.

    Choices are made one after another, by validation accuracy (the first of the best), from ``Choices()`` on: the
    rate, the norm (not for "none"), γ (for learnable Fourier). Their runs have no test accuracy.

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
        tried: dict[Choices, float] = {}
        best = Choices()
        for option in _open(name):
            found = [replace(best, **{option: value}) for value in CANDIDATES[option]]
            for choices in found:
                if choices not in tried:
                    made = keep(train(name, CHOICE_SEED, choices, epochs, data, score=False))
                    tried[choices] = made.validation
            best = max(found, key=tried.__getitem__)
        for seed in range(seeds):
            keep(train(name, seed, best, epochs, data))
    return runs


def _open(name: str) -> list[str]:
    """What there is to choose for an encoding."""
    if name == "none":
        return ["rate"]
    return ["rate", "norm", *(["gamma"] if name.startswith("learnable") else [])]


def report(runs: list[Run]) -> str:
    """A table in Markdown: mean, standard deviation over seeds and range of the test accuracy, best first."""
    rows = []
    for name in dict.fromkeys(r.encoding for r in runs):
        tested = [r for r in runs if r.encoding == name and r.test is not None]
        scores = [100 * r.test for r in tested if r.test is not None]
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        chosen = [f"{getattr(tested[0].choices, option)}" for option in _open(name)]
        chosen += [""] * (len(CANDIDATES) - len(chosen))
        rows.append((statistics.mean(scores), spread, min(scores), max(scores), len(scores), name, chosen))
    lines = [
        "| encoding | test accuracy, % | lowest | highest | seeds | learning rate | norm | γ |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mean, spread, low, high, count, name, chosen in sorted(rows, reverse=True):
        figures = f"{mean:.2f} ± {spread:.2f} | {low:.2f} | {high:.2f} | {count}"
        lines.append(f"| {name} | {figures} | {' | '.join(chosen)} |")
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
        "candidates": CANDIDATES,
        "seed of the choices": CHOICE_SEED,
        "torch": torch.__version__,
    }
    record = {**settings, "seconds": seconds, "runs": [asdict(r) for r in runs]}
    (folder / "attention.json").write_text(json.dumps(record, indent=1) + "\n")
    tried = "; ".join(f"{name} of {', '.join(map(str, CANDIDATES[name]))}" for name in CANDIDATES)
    head = (
        f"Digits (8×8, 64 tokens), Transformer of {DEPTH} layer and width {WIDTH}, {epochs} epochs in batches of "
        f"{BATCH}, {seconds:.0f} s of processor time in all. 30 % of the digits test, the same for all; a fifth "
        f"validates. Each encoding's choices ({tried}) are the best by validation accuracy on seed {CHOICE_SEED}, "
        "which is not reported, one after another. Mean ± standard deviation over seeds.\n\n"
    )
    (folder / "attention.md").write_text(head + report(runs) + "\n")
    return folder
