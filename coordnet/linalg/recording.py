"""CUDA graphs: the kernels of a call, recorded once and launched together, without Python's time for each."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import clear_scratch

T = TypeVar("T")
WARM_UP = 3  # runs before recording, in which libraries allocate their workspaces


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


class CudaGraph(Generic[T]):
    """A function of one tensor that does not wait for the GPU, recorded for an example and replayed on other values.

    The values have the shape and dtype of the example, which must be on a CUDA device, else a ``ValueError`` is raised.

    The result's tensors belong to the graph, and the next call overwrites them: clone what must be kept.
    """

    def __init__(self, function: Callable[[Tensor], T], example: Tensor) -> None:
        if not example.is_cuda:
            raise _checks.wrong("values", "a tensor on a CUDA device, to record a graph", str(example.device))
        self._input = example.clone()
        self._graph, self._result = record(lambda: function(self._input), example.device, WARM_UP)

    def __call__(self, values: Tensor) -> T:
        """Replay the function on values of the example's shape and dtype; others raise a ``ValueError``."""
        expected, found = (tuple(self._input.shape), self._input.dtype), (tuple(values.shape), values.dtype)
        if found != expected:
            raise _checks.wrong("values", f"shape {expected[0]} of {expected[1]}", f"{found[0]} of {found[1]}")
        self._input.copy_(values)
        self._graph.replay()
        return self._result
