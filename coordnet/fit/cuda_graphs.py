"""CUDA graphs: a fixed sequence of kernels launched at once, without the time that Python takes for each."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.scratch import clear_scratch

T = TypeVar("T")
WARM_UP = 3  # runs before recording, in which libraries set up what they need


class CudaGraph(Generic[T]):
    """A function of one tensor, recorded for the shape of an example and replayed on others.

    Parameters
    ----------
    function : function
        Of a tensor; it may not wait for the GPU.
    example : tensor
        Of the shape and type to come, on a CUDA device.

    Raises
    ------
    ValueError
        If the example is not on a CUDA device.

    Notes
    -----
    The result's tensors belong to the graph, and the next call overwrites them: clone what is to stay.
    """

    def __init__(self, function: Callable[[Tensor], T], example: Tensor) -> None:
        if not example.is_cuda:
            raise _checks.wrong("values", "a tensor on a CUDA device, to record a graph", str(example.device))
        self._input = example.clone()
        with torch.cuda.device(example.device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    function(self._input)
            torch.cuda.current_stream().wait_stream(stream)
            clear_scratch()  # of the warm-up's stream, which nobody uses again
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._result = function(self._input)

    def __call__(self, values: Tensor) -> T:
        """Replay the function on values of the example's shape and type.

        Raises
        ------
        ValueError
            If they have another.
        """
        kind, found = (tuple(self._input.shape), self._input.dtype), (tuple(values.shape), values.dtype)
        if found != kind:
            raise _checks.wrong("values", f"shape {kind[0]} of {kind[1]}", f"{found[0]} of {found[1]}")
        self._input.copy_(values)
        self._graph.replay()
        return self._result
