"""Work in threads, for operations on stacks of small matrices, of which PyTorch takes one after another on a CPU."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

MOST = 4  # threads, for each of them needs memory of its own
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """Yield the result of a function for every item, in their order.

    On a CPU as many threads as PyTorch uses, but at most ``MOST``, take the items; each of them, and all of PyTorch
    until the last result, then works on one core. Gradients are recorded as they are in the calling thread.
    """
    count = torch.get_num_threads()
    if count == 1 or device.type != "cpu":
        yield from map(function, items)
        return
    tracked = torch.is_grad_enabled()

    def work(item: Item) -> Result:
        with torch.set_grad_enabled(tracked):
            return function(item)

    torch.set_num_threads(1)  # which threads that begin later take over
    try:
        with ThreadPoolExecutor(min(count, MOST)) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(count)
