"""Cells: one signal, one method, one seed; what a record is keyed by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from coordnet.bench.protocols.records import key_of
from coordnet.bench.protocols.signals import Signal

Group = Literal["baseline", "closed form", "gradient"]


@dataclass(frozen=True)
class Method:
    """One row of a table.

    Attributes
    ----------
    name : str
        As the table has it.
    group : str
        "baseline", "closed form" or "gradient".
    kind : str
        The function of ``methods.KINDS`` that carries it out.
    settings : mapping
        Its arguments, as JSON holds them.
    printed : tuple of str
        PSNR and seconds as the paper prints them, on its own data and its own GPU; not part of the configuration.
    cost : int
        Cells of a run go from low to high.
    draws : bool
        Whether a seed changes the method itself.
    """

    name: str
    group: Group
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    printed: tuple[str, str] = ("", "")
    cost: int = 0
    draws: bool = False


@dataclass(frozen=True)
class Task:
    """What is known of a signal.

    Attributes
    ----------
    name : str
        As the table has it.
    pattern : str
        A sampling pattern, as ``sample`` takes it.
    noise : float
        Standard deviation of white Gaussian noise on what is known.
    """

    name: str
    pattern: str
    noise: float = 0.0

    @property
    def draws(self) -> bool:
        """Whether a seed changes what is known."""
        return self.noise > 0 or self.pattern.startswith(("random", "entries"))


@dataclass(frozen=True)
class Cell:
    """One signal, one method, one seed.

    Attributes
    ----------
    epochs : int or None
        Of a gradient fit.
    device : str
        "cpu" or "cuda"; baselines run on the processor whatever is asked for.
    """

    experiment: str
    task: Task
    signal: Signal
    method: Method
    seed: int
    epochs: int | None
    device: str

    def configuration(self) -> dict[str, Any]:
        """What a record keeps, and is keyed by."""
        method = {"name": self.method.name, "group": self.method.group, "kind": self.method.kind}
        return {
            "experiment": self.experiment,
            "task": self.task.name,
            "pattern": self.task.pattern,
            "noise": self.task.noise,
            "signal": self.signal.configuration(),
            "method": {**method, **self.method.settings},
            "seed": self.seed,
            "epochs": self.epochs,
            "device": self.device,
        }

    @cached_property
    def key(self) -> str:
        """The hash of the configuration."""
        return key_of(self.configuration())
