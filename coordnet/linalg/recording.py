"""CUDA graphs: the kernels of a call, recorded once and launched together, without Python's time for each."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from coordnet.linalg.machine import clear_scratch

T = TypeVar("T")
STATE = ("x", "r", "p", "rs", "least")  # tensors of an iteration that a step of conjugate gradients reads or writes
MAX_RECORDED = 2**24  # numbers of a solution up to which launches, not kernels, bound the time of a step: estimated


def record(function: Callable[[], T], device: torch.device, runs: int) -> tuple[Any, T]:
    """Return a function that does not wait for the GPU as a CUDA graph, and the result that each replay overwrites.

    Some ``runs`` come before the recording, in which libraries allocate their workspaces.
    """
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(runs):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        clear_scratch()  # the warm-up's stream is not used again
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function()
    return graph, result


class StepRecorder:
    """Steps of conjugate gradients as a graph, for solves that differ in the numbers of their tensors alone.

    The first solve on a GPU takes its steps one by one. The second records one of them on tensors of its own, which
    later solves fill with theirs, unless their operator or the shape of a tensor differs. Converged systems are not
    dropped, which would change shapes: no step changes them.
    """

    def __init__(self) -> None:
        self._kind: Any = None  # that of the latest solve
        self._run: Any = None  # an iteration whose step was recorded
        self._graph: Any = None

    def advance(self, run: Any) -> Callable[[], None]:
        """Return the function that takes one step of an iteration, which has a tensor for each name in ``STATE``."""
        if not run.x.is_cuda or run.x.numel() > MAX_RECORDED:
            return run.advance
        tensors = [*(getattr(run, name) for name in STATE), *run.system.tensors()]
        kind = (run.system.operation, [(t.shape, t.dtype) for t in tensors])
        if kind != self._kind:
            self._kind, self._graph = kind, None
            return run.advance
        if self._graph is None:
            self._run = copy.copy(run)
            self._run.system = run.system.duplicate()
            for name in STATE:
                setattr(self._run, name, getattr(run, name).clone())
            self._graph, _ = record(self._step, run.x.device, 1)
        own = [*(getattr(self._run, name) for name in STATE), *self._run.system.tensors()]
        for mine, given in zip(own, tensors, strict=True):
            mine.copy_(given)
        vars(run).update({name: getattr(self._run, name) for name in STATE}, separate=False)
        return self._graph.replay

    def _step(self) -> None:
        """Take a step that leaves the state in the same tensors."""
        run = self._run
        p, rs = run.p, run.rs
        run.advance()
        run.p, run.rs = p.copy_(run.p), rs.copy_(run.rs)
