"""Peers: other libraries' methods as rows of a table, in this process or within a limit of seconds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from torch import Tensor

from coordnet.bench.estimation import Case, Estimator, Method, Outcome
from coordnet.bench.limits import limited
from coordnet.comparison.stopwatch import timed


@dataclass(frozen=True)
class Peer(Estimator):
    """A function of a case; with a limit in seconds it runs once, in a process of its own."""

    group = "baseline"
    function: Callable[..., Tensor]
    limit: float | None = None
    package: str | None = None

    @property
    def missing(self) -> str | None:
        """The package of the function, if it is not installed."""
        return self.package if self.package and find_spec(self.package) is None else None

    def __call__(self, case: Case) -> Outcome:
        """Call the function."""
        if self.limit is None:
            return Outcome(*timed(partial(self.function, case)))
        return Outcome(*limited(partial(self.function, replace(case, score=None)), self.limit))


def baseline(
    name: str, function: Callable[..., Any], limit: float | None = None, package: str | None = None, **options: Any
) -> Method:
    """Return another library's method, which is stopped at a limit in seconds if one is given.

    A study leaves it out where its ``package`` is not installed.
    """
    return Method(name, Peer(partial(function, **options) if options else function, limit, package))


def best(case: Case, estimates: Iterable[Tensor]) -> Tensor:
    """Choose an estimate with hindsight."""
    assert case.score is not None
    return max(estimates, key=case.score)
