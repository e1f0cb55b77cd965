"""Scratch memory: what products pass their results through on the way, kept from one call to the next.

A fit of one geometry after another would else fill new memory each time, which takes longer than the products.
"""

import math
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

from coordnet.linalg.allocation import empty

MOST = 2**28  # bytes of a piece that is kept; a larger one is given back after use
# Bytes of values and results together that are worked on at once: on a CPU as many as its cache holds. From 8 to 16 MiB
# there is no difference, at 64 MiB a batch of 64 pictures of 256² takes a quarter longer.
PART = {"cpu": 2**24}
PART_ELSEWHERE = 2**29  # as few launches as memory allows


class _Pieces(threading.local):
    """The pieces of a thread, by device and stream: what runs at once never shares one."""

    def __init__(self) -> None:
        self.of: dict[tuple[torch.device, int], list[Tensor]] = {}


_KEPT = _Pieces()


def scratch(like: Tensor, shape: tuple[int, ...], *beside: Tensor | None) -> Tensor:
    """A tensor of another's type and device, not filled, in a piece of scratch memory.

    It may be used until the piece is given out again: to a later call, of this thread, that does not name it among
    those that the new piece must lie ``beside``. What is returned to a caller may not lie in scratch memory.
    """
    size = math.prod(shape) * like.element_size()
    if size > MOST or (like.is_cuda and torch.cuda.is_current_stream_capturing()):
        return empty(like, shape)
    pieces = _KEPT.of.setdefault((like.device, _stream(like)), [])
    taken = {tensor.untyped_storage().data_ptr() for tensor in beside if tensor is not None}
    free = (i for i, piece in enumerate(pieces) if piece.untyped_storage().data_ptr() not in taken)
    i = next(free, len(pieces))
    if i == len(pieces) or pieces[i].numel() < size:
        pieces[i : i + 1] = [empty(like, (size,), torch.uint8)]
    return pieces[i][:size].view(like.dtype).view(shape)


def _stream(like: Tensor) -> int:
    return torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0


def clear_scratch() -> None:
    """Give back the scratch memory of this thread."""
    _KEPT.of.clear()


def parts(values: Tensor, results: Tensor) -> Iterator[tuple[slice, slice]]:
    """Which signals and channels to work on at once, of values and results (signals, channels, …)."""
    signals, channels = values.shape[:2]
    each = math.prod(values.shape[2:]) + math.prod(results.shape[2:])
    count = max(1, PART.get(values.device.type, PART_ELSEWHERE) // (each * values.element_size()))
    many, some = max(1, count // max(1, channels)), max(1, min(count, channels))
    for i in range(0, signals, many):
        for c in range(0, channels, some):
            yield slice(i, i + many), slice(c, c + some)
