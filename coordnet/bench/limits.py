"""Run work in a separate process, which ends at a time limit and with the process that started it."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONG = 3600.0  # default limit in seconds


def end_with(parent: int) -> None:
    """End this process within a second or two of its parent, the process of this number, however that one ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limited(work: Callable[[], T], limit: float = LONG) -> tuple[T, float]:
    """Return the result of picklable work, and its seconds without the start of the process.

    TimeoutError is raised if the process takes more than ``limit`` seconds, RuntimeError if the work raises.
    """
    command, task = [sys.executable, "-m", __name__], pickle.dumps((limit, os.getpid(), work))
    try:
        done = subprocess.run(command, input=task, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"exceeded its limit of {limit:g} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        raise RuntimeError(lines[-1])
    return pickle.loads(done.stdout)


def _serve() -> None:
    """Carry out the work on standard input, whose modules are imported as it is read."""
    limit, parent, work = pickle.load(sys.stdin.buffer)
    end_with(parent)
    signal.alarm(math.ceil(limit))
    start = time.perf_counter()
    result = work()
    pickle.dump((result, time.perf_counter() - start), sys.stdout.buffer)


if __name__ == "__main__":
    _serve()
