"""Classifiers of sets of tokens: their data, their training, and the choices that validation makes for them."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from coordnet.bench.records import Cell, Options, Record, Result, Study
from coordnet.encodings import DenseEncoding, Encoding, SimpleEncoding
from coordnet.encodings.encoders import LearnableFourier
from coordnet.networks.attention import AttentionClassifier
from coordnet.sampling.axes import Axes

CHOICE_SEED = 1000  # seed of the trainings that choose, which are not reported
OPTIONS = ("rate", "norm", "gamma")  # the choices, in the order in which they are made
Choices = dict[str, Any]  # the highest learning rate, the root mean square norm, and γ
Build = Callable[[Choices, torch.Generator], DenseEncoding | None]


class Part(NamedTuple):
    """Some sets of tokens, each with its class."""

    tokens: Float[Tensor, "sets tokens inputs"]
    positions: Float[Tensor, "sets tokens d"]
    labels: Int[Tensor, " sets"]

    def to(self, device: str) -> "Part":
        """Return the sets on a device."""
        return Part(*(tensor.to(device) for tensor in self))


class Parts(NamedTuple):
    """The data of one seed; ``unseen`` has positions that no training set has, where there are any."""

    training: Part
    validation: Part
    test: Part
    unseen: Part | None = None

    def to(self, device: str) -> "Parts":
        """Return the data on a device."""
        training, validation, test = (part.to(device) for part in self[:3])
        return Parts(training, validation, test, self.unseen and self.unseen.to(device))


def by_axis(kind: Any, axes: Axes, **options: Any) -> Build:
    """Return the construction of an encoder of a kind on each of some axes, whose features are beside each other."""
    return lambda c, g: SimpleEncoding(
        [kind.like(axis, **options, **({"generator": g} if kind.random else {})) for axis in axes]
    )


@dataclass(frozen=True)
class Row:
    """One row of a table: an encoding with its fixed parameters, and the choices that validation makes for it."""

    name: str
    build: Build
    options: tuple[str, ...] = ("rate", "norm")
    parameters: Mapping[str, Any] = field(default_factory=dict)  # and the choices that are made beforehand
    alpha: float = 0.0  # the weight of the divergence of learnable Fourier features from their prior
    like: str = ""  # the row whose choices it takes, instead of its own
    seeds: int = 5  # the number of reported trainings, each with a seed of its own
    axes: Axes = ()  # axes of the tokens' positions, where they are not the task's own

    def method(self, choices: Choices) -> dict[str, Any]:
        """Describe the row with its choices, as records hold it."""
        chosen = {option: choices[option] for option in OPTIONS if option in choices}
        return {"name": self.name, **chosen, **self.parameters, **({"alpha": self.alpha} if self.alpha else {})}


@dataclass(frozen=True)
class Task:
    """One table: the rows that are compared, their data, and the values among which validation chooses."""

    name: str
    rows: Sequence[Row]
    parts: Callable[[int, Axes], Parts]  # takes a seed, and the axes of a row's positions
    classes: int
    epochs: int
    candidates: Mapping[str, tuple[Any, ...]]
    first: Choices  # the choices that hold until their own turn comes
    model: Mapping[str, Any]
    batch: int
    scores: Callable[[AttentionClassifier, Parts], dict[str, float]]
    title: str = ""
    like: str = ""  # the task whose choices it takes


class ClassificationStudy(Study):
    """A study whose cells are trainings; for every row the options are chosen one after another by validation."""

    tasks: ClassVar[Sequence[Task]]

    def _cell(self, task: Task, row: Row, seed: int, choices: Choices, options: Options) -> Cell:
        """Return the training of a network with one encoding."""
        subject = {"task": task.name, "model": {**task.model, "batch": task.batch}, "method": row.method(choices)}
        work = partial(trained, type(self), task.name, row.name, choices)
        run: dict[str, Any] = {"seed": seed, "epochs": options.epochs or task.epochs, "device": options.device}
        return Cell(experiment=self.name, subject=subject, work=work, **run)

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the trainings of each choice, then those with every seed 0 … seeds - 1."""
        pairs = [(task, row) for task in self.tasks for row in task.rows]
        best = {(task.name, row.name): {o: task.first[o] for o in row.options} for task, row in pairs}
        for option in OPTIONS:
            tried: dict[tuple[str, str], list[tuple[Choices, Cell]]] = {}
            for task, row in ((task, row) for task, row in pairs if option in row.options):
                choices = [best[task.name, row.name] | {option: value} for value in task.candidates[option]]
                tried[task.name, row.name] = [(c, self._cell(task, row, CHOICE_SEED, c, options)) for c in choices]
            yield [cell for trials in tried.values() for _, cell in trials]
            for key, trials in tried.items():  # the first of the best
                scores = [done[cell.key].get("scores", {"validation": -1.0})["validation"] for _, cell in trials]
                best[key] = trials[scores.index(max(scores))][0]
        yield [
            self._cell(task, row, seed, best[task.like or task.name, row.like or row.name], options)
            for seed in range(max(options.seeds or row.seeds for _, row in pairs))
            for task, row in pairs
            if seed < (options.seeds or row.seeds)
        ]


def trained(study: type[ClassificationStudy], task_name: str, row_name: str, choices: Choices, cell: Cell) -> Result:
    """Train, and measure the processor's seconds; a training that serves a choice has no test scores."""
    task = next(task for task in study.tasks if task.name == task_name)
    row = next(row for row in task.rows if row.name == row_name)
    start, parts = time.process_time(), task.parts(cell.seed, row.axes).to(cell.device)
    net = train(task, row, choices, parts.training, seed=cell.seed, epochs=cell.epochs or task.epochs)
    scores = {"validation": accuracy(net, parts.validation)}
    scores |= {} if cell.seed == CHOICE_SEED else task.scores(net, parts)
    return Result(scores, {"processor": time.process_time() - start})


class Scaled(DenseEncoding):
    """c Ψ(x) with c such that the features of some points have a root mean square norm: no encoding wins by scale."""

    def __init__(self, encoding: DenseEncoding, points: Float[Tensor, "*points d"], norm: float) -> None:
        super().__init__()
        self.encoding, self.dimensions, self.shape = encoding, encoding.dimensions, encoding.shape
        with torch.no_grad():
            squares = encoding.eval()(points).square().sum(-1)  # without dropout, which draws from the global generator
        self.encoding.train()
        self.factor = norm * float(squares.mean()) ** -0.5

    def _features(self, points: Tensor) -> Tensor:
        return self.encoding(points) * self.factor

    def configuration(self) -> dict[str, Any]:
        return {"kind": "scaled", "encoding": self.encoding.configuration(), "factor": self.factor}


def divergence(encoding: Encoding | None) -> Tensor | float:
    """Return the sum of L_KL over the learnable Fourier features in an encoding (Li et al., NeurIPS 2021)."""
    parts = [] if encoding is None else encoding.modules()
    return sum((part.divergence() for part in parts if isinstance(part, LearnableFourier)), 0.0)


def train(task: Task, row: Row, choices: Choices, training: Part, *, seed: int, epochs: int) -> AttentionClassifier:
    """Train a Transformer with a row's encoding by Adam and one cycle of the learning rate; everything has one seed."""
    generator, choices = torch.Generator().manual_seed(seed), {**row.parameters, **choices}
    encoding = row.build(choices, generator)
    if encoding is not None:
        places = training.positions.flatten(0, 1).unique(dim=0)
        encoding = Scaled(encoding.to(places.device), places, choices["norm"])
    inputs, batch = training.tokens.shape[-1], task.batch
    net = AttentionClassifier(encoding, inputs, task.classes, **task.model, generator=generator)
    device = training.tokens.device
    net = net.to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=choices["rate"])
    count = len(training.labels)
    batches = (b for _ in range(epochs) for b in torch.randperm(count, generator=generator).split(batch))
    steps = epochs * math.ceil(count / batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, choices["rate"], total_steps=steps)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout alone draws from the global generator
        for index in batches:
            optimizer.zero_grad(set_to_none=True)
            logits = net(training.tokens[index], training.positions[index])
            loss = nn.functional.cross_entropy(logits, training.labels[index])
            (loss + row.alpha * divergence(encoding) if row.alpha else loss).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


@torch.no_grad()
def guesses(net: AttentionClassifier, part: Part) -> Int[Tensor, " sets"]:
    """Return the most likely class of each set."""
    return net(part.tokens, part.positions).argmax(-1)


def accuracy(net: AttentionClassifier, part: Part) -> float:
    """Return the share of sets whose class is guessed."""
    return float((guesses(net, part) == part.labels).double().mean())
