"""Studies: the interface that every ``coordnet bench`` command runs, and the options of a run."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench.cells import Cell
from coordnet.bench.data import Finder
from coordnet.bench.estimation import Measure, Method, Task, estimation
from coordnet.bench.records import NAME, Record, read
from coordnet.media import atomic_path

QUICK_EPOCHS = 3


@dataclass(frozen=True)
class Options:
    """The part of a study that is run, and where; a study ignores the options that do not concern it."""

    data: Path | None = None  # the data folder
    quick: bool = False  # one signal, few samples, few epochs
    images: int | None = None  # the number of files, from the first on
    epochs: int | None = None  # of trained methods, instead of the study's
    seeds: int | None = None  # of whatever is drawn, instead of the study's
    methods: tuple[str, ...] = ()  # groups or patterns of names in the shell's syntax; all methods if empty
    only: tuple[str, ...] = ()  # parts of the study; the usual ones if empty
    sizes: tuple[int, ...] = ()  # samples along a side, instead of the study's
    device: str = "cpu"  # or "cuda", "cuda:1" …
    workers: int = 1  # local processes
    dask: str | None = None  # the address of a Dask scheduler that runs the cells instead
    retry: bool = False  # carry failed cells out again


class Study(ABC):
    """A collection of cells, and the tables and figures of their records."""

    name: str  # of the command, of the folder and of the files
    experiments: ClassVar[tuple[str, ...]] = ()  # whose records the tables show; the study's own if empty
    always: ClassVar[bool] = False  # carry recorded cells out again, because timings belong to one run

    @abstractmethod
    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of a run, in stages that may depend on the records by key of earlier stages."""

    @abstractmethod
    def tables(self, records: list[Record]) -> dict[str, str]:
        """Return the contents of the files to write by suffix, the Markdown file first."""

    def figure(self, records: list[Record]) -> Figure | None:
        """Draw the records."""
        return None

    def records(self, folder: Path) -> list[Record]:
        """Read the study's records, or raise ValueError if there are none."""
        names = self.experiments or (self.name,)
        found = [r for r in read(folder).values() if r["cell"]["experiment"] in names]
        if not found:
            expected = f"expected records of {self.name}, found none; run coordnet bench {self.name} first"
            raise ValueError(f"{folder / NAME}: {expected}")
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write the tables and the figure beside the records, and return their paths."""
        records = self.records(folder)
        contents: dict[str, Any] = {**self.tables(records), ".png": self.figure(records)}
        written = {folder / f"{self.name}{suffix}": content for suffix, content in contents.items() if content}
        for target, content in written.items():
            with atomic_path(target, force=True) as path:
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8")
                else:
                    content.savefig(path, dpi=110)
        return list(written)


@dataclass(frozen=True)
class Experiment(Study):
    """A declarative table: the tasks, the methods that are applied to each, and the signals."""

    name: str
    title: str
    blocks: Mapping[Task, Sequence[Method]]
    finder: Finder = Finder()
    epochs: int = 2000  # of trained methods
    seeds: int = 1  # of whatever is drawn
    # of the figure, against decibels
    abscissa: Literal["seconds", "noise", "fraction", "rank", "features", "epochs"] = "seconds"

    @property
    def measure(self) -> Measure:
        """The score by which rows are sorted."""
        return next(iter(self.blocks)).measure

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield all cells at once, those of trained methods last, and the cells of a signal together."""
        if options.data is None:
            raise _checks.wrong("data", "a folder with pictures and clips (--data DIR)", "none")
        quick = options.quick
        signals = self.finder.find(options.data, options.images or (1 if quick else None), quick=quick)
        epochs = options.epochs or (QUICK_EPOCHS if quick else self.epochs)
        seeds = options.seeds or (1 if quick else self.seeds)
        chosen = self._chosen(options.methods)
        cells = []
        for task, method in ((task, m) for task, methods in self.blocks.items() for m in methods if m.name in chosen):
            estimator = method.estimator
            if estimator.missing:
                text = f"{method.name} is left out: the package {estimator.missing} is not installed"
                warnings.warn(text, _checks.CoordnetWarning, stacklevel=2)
                continue
            run: dict[str, Any] = {"experiment": self.name}
            run["epochs"] = epochs if estimator.group == "gradient" else None
            run["device"] = "cpu" if estimator.on_cpu else options.device
            for number, signal in enumerate(signals):
                drawn = range(seeds if task.draws or estimator.draws else 1)
                cells += [estimation(task, signal, method, seed=s, **run) for s in ((number,) if task.mask else drawn)]
        yield sorted(cells, key=lambda c: (c.epochs is not None, *itemgetter("name", "kind")(c.subject["signal"])))

    def _chosen(self, patterns: tuple[str, ...]) -> set[str]:
        """Return the names of the methods that have a pattern's name or group; of all methods without a pattern."""
        methods = {method.name: method for block in self.blocks.values() for method in block}
        chosen: set[str] = set() if patterns else set(methods)
        for pattern in patterns:
            matched = {n for n, m in methods.items() if fnmatchcase(n, pattern) or m.estimator.group == pattern}
            if not matched:
                expected = "a group (baseline, closed form, gradient) or a name among " + "; ".join(methods)
                raise _checks.wrong("methods", expected, repr(pattern))
            chosen |= matched
        return chosen

    def tables(self, records: list[Record]) -> dict[str, str]:
        """Return the report in Markdown, and every number as comma-separated values."""
        from coordnet.bench import tables  # which imports this module

        return {".md": tables.report(self, records), ".csv": tables.values(self, records)}

    def figure(self, records: list[Record]) -> Figure:
        """Draw decibels against the abscissa."""
        from coordnet.bench import charts

        return charts.draw(self, records)
