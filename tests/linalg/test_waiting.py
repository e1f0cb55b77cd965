"""The time for which OpenMP's threads spin is bounded by the import of coordnet alone, before that of torch."""

import os
import subprocess
import sys

import pytest

from coordnet.linalg.waiting import SPINS

SHOW = "import coordnet, os, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, str(SPINS)), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_waiting_threads_are_bounded_unless_the_user_says_how_they_wait(environment, expected):
    others = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    shown = subprocess.run(
        [sys.executable, "-c", SHOW], env=others | environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == [expected, "False"]
