"""What was made last, by what it was made of."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from coordnet.linalg.tracking import tracked, transforming

T = TypeVar("T")
EVERY_MODULE = frozenset(vars(nn.Module()))  # attributes that a module has before it has its own
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)  # told by their repr


class Cache(Generic[T]):
    """At most so many things, of so many bytes in all; the one used longest ago is dropped first.

    Parameters
    ----------
    most : int
        How many.
    most_bytes : int
        Of all their tensors; a larger thing is not kept.

    Attributes
    ----------
    hits, misses : int
        How often a thing was there, and how often it was not.
    """

    def __init__(self, most: int = 16, most_bytes: int = 2**28) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: str) -> T | None:
        """The thing of a key, if it is there."""
        with self._lock:
            if key not in self._kept:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            return self._kept[key]

    def keep(self, key: str, thing: T) -> None:
        """Keep a thing; all are counted anew, as some of what they hold is made when it is first wanted."""
        if tensor_bytes(thing) > self.most_bytes:
            return
        with self._lock:
            self._kept[key] = thing
            sizes = [tensor_bytes(kept) for kept in self._kept.values()]
            while len(sizes) > self.most or sum(sizes) > self.most_bytes:
                self._kept.popitem(last=False)
                sizes.pop(0)

    def clear(self) -> None:
        """Forget every thing, and the counts."""
        with self._lock:
            self._kept.clear()
            self.hits = self.misses = 0


def for_any_mode(make: Callable[[], T]) -> T:
    """Make what is to be kept, so that inference and training may use it alike."""
    with torch.inference_mode(False), torch.no_grad():
        return make()


class _UnknownError(Exception):
    """Something whose value cannot be told."""


def digest(*things: object) -> str | None:
    """A digest of what things hold, by value: numbers, texts, arrays, tensors, modules, and collections of these.

    A module's class counts as the object that it is, for as long as something of it is kept: two of one name differ.

    Returns
    -------
    str or None
        None where something else is among them, so that nobody knows whether it changes; where a module has hooks; and
        where PyTorch follows a tensor, or all that is made.
    """
    made = hashlib.blake2b(digest_size=32)
    try:
        for thing in things:
            _add(made, thing)
    except _UnknownError:
        return None
    return None if transforming() else made.hexdigest()


def _add(made: Any, thing: object) -> None:
    made.update(f"\0{type(thing).__name__}:".encode())
    if isinstance(thing, PLAIN):
        made.update(repr(thing).encode())
    elif isinstance(thing, Tensor):
        if tracked(thing):
            raise _UnknownError
        _add(
            made,
            thing.detach().resolve_conj().resolve_neg().cpu().contiguous().view(-1).view(torch.uint8).numpy(),
        )
        made.update(f"{thing.dtype}{tuple(thing.shape)}".encode())
    elif isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        made.update(f"{thing.dtype}{thing.shape}".encode() + np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, list | tuple):
        _add_all(made, enumerate(thing))
    elif isinstance(thing, dict):
        _add_all(made, thing.items())
    elif isinstance(thing, nn.Module):
        _add_module(made, thing)
    elif is_dataclass(thing) and not isinstance(thing, type):
        _add_all(made, ((field.name, getattr(thing, field.name)) for field in fields(thing)))
    else:
        raise _UnknownError


def _add_all(made: Any, pairs: Iterable[tuple[object, object]]) -> None:
    for name, value in pairs:
        _add(made, name)
        _add(made, value)
    made.update(b"\0end")


def _add_module(made: Any, thing: nn.Module) -> None:
    for name, module in thing.named_modules(remove_duplicate=False):
        if module._forward_hooks or module._forward_pre_hooks:
            raise _UnknownError
        made.update(f"\0{name} {id(type(module))}".encode())
        _add_all(made, ((key, value) for key, value in vars(module).items() if key not in EVERY_MODULE))
    _add_all(made, thing.named_parameters(remove_duplicate=False))
    _add_all(made, thing.named_buffers(remove_duplicate=False))


def tensor_bytes(thing: object) -> int:
    """The bytes of every tensor that an object holds, those shared counted once."""
    seen: dict[int, int] = {}
    visited: set[int] = set()

    def visit(value: object) -> None:
        if id(value) in visited:
            return
        visited.add(id(value))
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, nn.Module):
            for tensor in value.state_dict().values():
                visit(tensor)
        elif isinstance(value, dict):
            for part in list(value.values()):  # another thread may make a cached property meanwhile
                visit(part)
        elif isinstance(value, list | tuple):
            for part in value:
                visit(part)
        elif isinstance(value, FunctionType):
            for cell in value.__closure__ or ():
                visit(cell.cell_contents)
        elif hasattr(value, "__dict__") and type(value).__module__.startswith("coordnet"):
            visit(vars(value))

    visit(thing)
    return sum(seen.values())
