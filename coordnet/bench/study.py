"""Studies: the interface that every ``coordnet bench`` command runs, and the options of a run."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Literal

from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench.cells import Cell
from coordnet.bench.data import CROP, Finder
from coordnet.bench.estimation import Estimation, Measure, Method, Task
from coordnet.bench.records import NAME, Record, read
from coordnet.media import atomic_path

QUICK_IMAGES = 1


@dataclass(frozen=True)
class Options:
    """The part of a study that is run, and where; a study ignores the options that do not concern it.

    Attributes
    ----------
    data : Path, optional
        The data folder.
    quick : bool
        Run a small part: one signal, few samples, few epochs.
    images, epochs, seeds : int, optional
        The number of files, of epochs and of seeds, instead of the study's.
    methods : tuple of str
        Groups or patterns of names in the shell's syntax; all methods if empty.
    only : tuple of str
        The parts of the study to run; the usual ones if empty.
    sizes : tuple of int
        Samples along a side instead of the study's.
    device : str
        "cpu" or "cuda".
    workers : int
        The number of local processes.
    dask : str, optional
        The address of a Dask scheduler that runs the cells instead.
    retry : bool
        Carry failed cells out again.
    """

    data: Path | None = None
    quick: bool = False
    images: int | None = None
    epochs: int | None = None
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    device: str = "cpu"
    workers: int = 1
    dask: str | None = None
    retry: bool = False

    def __post_init__(self) -> None:
        for name in ("images", "epochs", "seeds", "workers"):
            if getattr(self, name) is not None:
                _checks.integer(name, getattr(self, name), 1)


class Study(ABC):
    """A collection of cells, and the tables and figures of their records.

    Attributes
    ----------
    name : str
        The name of the command, of the folder and of the files.
    experiments : tuple of str
        The experiments whose records the tables show; the study's own name if empty.
    always : bool
        Carry cells out again although they are recorded, because timings belong to one run.
    """

    name: str
    experiments: ClassVar[tuple[str, ...]] = ()
    always: ClassVar[bool] = False

    @abstractmethod
    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of a run, in stages that may depend on the records by key of earlier stages.

        Raises
        ------
        ValueError
            If an option does not fit the study.
        """

    @abstractmethod
    def tables(self, records: list[Record]) -> dict[str, str]:
        """Return the contents of the files to write by suffix, the Markdown file first."""

    def figure(self, records: list[Record]) -> Figure | None:
        """Draw the records."""
        return None

    def records(self, folder: Path) -> list[Record]:
        """Read the study's records.

        Raises
        ------
        ValueError
            If there are none.
        """
        names = self.experiments or (self.name,)
        found = [r for r in read(folder).values() if r["cell"]["experiment"] in names]
        if not found:
            expected = f"expected records of {self.name}, found none; run coordnet bench {self.name} first"
            raise ValueError(f"{folder / NAME}: {expected}")
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write the tables and the figure beside the records, and return their paths."""
        records, written = self.records(folder), []
        for suffix, content in self.tables(records).items():
            written.append(folder / f"{self.name}{suffix}")
            with atomic_path(written[-1], force=True) as path:
                path.write_text(content, encoding="utf-8")
        figure = self.figure(records)
        if figure is not None:
            written.append(folder / f"{self.name}.png")
            with atomic_path(written[-1], force=True) as path:
                figure.savefig(path, dpi=110)
        return written


@dataclass(frozen=True)
class Experiment(Study):
    """A declarative table: signals, tasks, and the methods that are applied to each task.

    Attributes
    ----------
    name, title : str
        The name that records keep, and the heading of the table.
    blocks : tuple of (Task, methods)
        What is known of the signals, and the methods that are applied to it.
    finder : Finder
        The signals.
    size, quick_size : int
        The largest number of samples along an axis.
    epochs, quick_epochs : int
        The epochs of trained methods.
    seeds : int
        The number of seeds of whatever is drawn.
    abscissa : str
        The quantity against which the figure shows decibels.
    """

    name: str
    title: str
    blocks: tuple[tuple[Task, tuple[Method, ...]], ...]
    finder: Finder = Finder()
    size: int = CROP
    quick_size: int = 128
    epochs: int = 2000
    quick_epochs: int = 5
    seeds: int = 1
    abscissa: Literal["seconds", "noise", "fraction", "scale"] = "seconds"

    @property
    def measure(self) -> Measure:
        """The score by which rows are sorted."""
        return self.blocks[0][0].measure

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield all cells at once, cheap methods first and the cells of a signal together."""
        if options.data is None:
            raise _checks.wrong("data", "a folder with pictures and clips (--data DIR)", "none")
        images = QUICK_IMAGES if options.quick and options.images is None else options.images
        signals = self.finder.find(options.data, self.quick_size if options.quick else self.size, images)
        epochs = options.epochs or (self.quick_epochs if options.quick else self.epochs)
        seeds = options.seeds or (1 if options.quick else self.seeds)
        chosen = self._chosen(options.methods)
        cells = [
            Estimation(
                experiment=self.name,
                task=task,
                signal=signal,
                method=method,
                seed=seed,
                epochs=epochs if method.group == "gradient" else None,
                device="cpu" if method.group == "baseline" else options.device,
            )
            for task, methods in self.blocks
            for method in methods
            if method.name in chosen
            for number, signal in enumerate(signals)
            for seed in ((number,) if task.mask else range(seeds if task.draws or method.draws else 1))
        ]
        yield sorted(cells, key=lambda cell: (cell.method.cost, cell.signal.path, cell.signal.kind))

    def _chosen(self, patterns: tuple[str, ...]) -> set[str]:
        """Return the names of the methods that have a pattern's name or group; of all methods without a pattern."""
        methods = {method.name: method for _, block in self.blocks for method in block}
        chosen: set[str] = set() if patterns else set(methods)
        for pattern in patterns:
            matched = {n for n, m in methods.items() if fnmatchcase(n, pattern) or m.group == pattern}
            if not matched:
                expected = "a group (baseline, closed form, gradient) or a name among " + "; ".join(methods)
                raise _checks.wrong("methods", expected, repr(pattern))
            chosen |= matched
        return chosen

    def tables(self, records: list[Record]) -> dict[str, str]:
        """Return the report in Markdown, and every number as comma-separated values."""
        from coordnet.bench import tables  # pandas takes a second

        return {".md": tables.report(self, records), ".csv": tables.values(self, records)}

    def figure(self, records: list[Record]) -> Figure:
        """Draw decibels against the abscissa."""
        from coordnet.bench import charts

        return charts.draw(self, records)
