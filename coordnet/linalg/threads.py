"""A pool of threads for batches of small matrices, which PyTorch processes one by one on a CPU."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

MAX_THREADS = 4  # each thread needs working memory of its own
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """Yield the result of a function for every item, in their order.

    On a CPU the items are spread over the number of threads that PyTorch uses, at most ``MAX_THREADS``. PyTorch itself
    is limited to one thread until the last result. Gradients are recorded if they are in the calling thread.
    """
    count = torch.get_num_threads()
    if count == 1 or device.type != "cpu":
        yield from map(function, items)
        return
    tracked = torch.is_grad_enabled()

    def work(item: Item) -> Result:
        with torch.set_grad_enabled(tracked):
            return function(item)

    torch.set_num_threads(1)  # threads that start later inherit this
    try:
        with ThreadPoolExecutor(min(count, MAX_THREADS)) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(count)
