"""CUDA graphs: a fixed sequence of kernels launched at once, without Python's overhead for each."""

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from coordnet import _checks
from coordnet.linalg.recording import record

T = TypeVar("T")
WARM_UP = 3  # runs before recording, in which libraries allocate their workspaces


class CudaGraph(Generic[T]):
    """A function of one tensor that does not wait for the GPU, recorded for an example and replayed on other values.

    The values have the shape and dtype of the example, which must be on a CUDA device, else a ``ValueError`` is raised.

    Notes
    -----
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
