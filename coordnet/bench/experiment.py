"""Experiments: declarations of the methods that are applied to each task, on which signals; and their cells."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any, Literal

from coordnet import _checks
from coordnet.bench.cells import Cell
from coordnet.bench.estimation import Measure, Method, Task, estimation
from coordnet.bench.signals import Finder
from coordnet.bench.study import Options

QUICK_EPOCHS = 3  # epochs of each training with --quick


@dataclass(frozen=True)
class Experiment:
    """A declarative table: the tasks, the methods that are applied to each, and the signals."""

    name: str
    title: str
    blocks: Mapping[Task, Sequence[Method]]
    finder: Finder = Finder()
    epochs: int = 2000  # the length of each training
    seeds: int = 1  # the number of draws of masks, noise, encoders and networks
    abscissa: Literal["seconds", "noise", "fraction", "rank", "features", "epochs"] = "seconds"  # axis of the figure

    @property
    def measure(self) -> Measure:
        """The score by which rows are sorted."""
        return next(iter(self.blocks)).measure

    def cells(self, options: Options) -> list[Cell]:
        """Return the cells of a run, those of trained methods last, and the cells of a signal together."""
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
        return sorted(cells, key=lambda c: (c.epochs is not None, *itemgetter("name", "kind")(c.subject["signal"])))

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
