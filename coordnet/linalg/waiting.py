"""Waiting threads of OpenMP: how long they spin."""

import os

SPINS = 10_000  # rounds in which a waiting thread keeps its core, which beside other work multiplies every run time


def bound_spinning() -> None:
    """Bound the rounds in which a waiting thread spins, unless the user has said how threads wait.

    OpenMP reads the variable once, when torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
