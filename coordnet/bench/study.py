"""Studies: the interface that every ``coordnet bench`` command runs, and the options of a run."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from matplotlib.figure import Figure

from coordnet.bench.records import NAME, Cell, Record, read
from coordnet.media import atomic_path


@dataclass(frozen=True)
class Options:
    """The part of a study that is run, and where; a study ignores the options that do not concern it."""

    data: Path | None = None  # the data folder
    quick: bool = False  # one signal, few samples, few epochs
    images: int | None = None  # the number of files, from the first on
    epochs: int | None = None  # the length of trainings, instead of the study's
    seeds: int | None = None  # the number of draws, instead of the study's
    methods: tuple[str, ...] = ()  # groups or patterns of names in the shell's syntax; all methods if empty
    only: tuple[str, ...] = ()  # parts of the study; the usual ones if empty
    sizes: tuple[int, ...] = ()  # samples along a side, instead of the study's
    device: str = "cpu"  # or "cuda", "cuda:1" …
    workers: int = 1  # local processes
    dask: str | None = None  # the address of a Dask scheduler that runs the cells instead
    retry: bool = False  # carry failed cells out again
    resume: bool = False  # carry no recorded cell out again, not even a timing
    until: float = math.inf  # the time of ``time.monotonic`` from which no more cells are begun


class Study(ABC):
    """A collection of cells, and the tables and figures of their records."""

    name: str  # names the command, the folder and the files
    experiments: ClassVar[tuple[str, ...]] = ()  # experiments in the tables; the study's own if empty
    always: ClassVar[bool] = False  # carry recorded cells out again, because timings belong to one run

    @abstractmethod
    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of a run, in stages that may depend on the records by key of earlier stages."""

    @abstractmethod
    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the tables and figures of records by the suffixes of their files, the report in Markdown first."""

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
        contents = self.contents(self.records(folder))
        written = {folder / f"{self.name}{suffix}": content for suffix, content in contents.items()}
        for target, content in written.items():
            with atomic_path(target, force=True) as path:
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8")
                else:
                    content.savefig(path, dpi=110)
        return list(written)
