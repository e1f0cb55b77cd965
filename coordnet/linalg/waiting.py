"""Waiting: how long OpenMP's threads spin, and the name of the stage that a user waits for."""

import os
from typing import Any

SPINS = 10_000  # rounds in which a waiting thread keeps its core, which beside other work multiplies every run time


def bound_spinning() -> None:
    """Bound the rounds in which a waiting thread spins, unless the user has said how threads wait.

    OpenMP reads the variable once, when torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def stage(name: str, *, shown: bool) -> Any:
    """Return a context that shows the name of a stage, which counts no steps; beside a terminal it shows nothing."""
    from tqdm import tqdm  # here, because nothing but the standard library is imported before torch

    return tqdm(desc=name, bar_format="{desc} …", leave=False, disable=None if shown else True)
