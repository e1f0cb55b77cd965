"""What was made last, by what it was made of."""

import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")
MAKING = threading.RLock()  # one thread at a time, as all share Python's filters of warnings
EVERY_MODULE = frozenset(vars(nn.Module()))  # attributes that a module has before it has its own


class Cache(Generic[T]):
    """At most so many things, of so many bytes in all; the one used longest ago is dropped first.

    Parameters
    ----------
    most : int
        How many.
    most_bytes : int
        Of all their tensors; a larger thing is made, but not kept.

    Attributes
    ----------
    hits, misses : int
        How often a thing was there, and how often it had to be made.
    """

    def __init__(self, most: int = 16, most_bytes: int = 2**28) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the thing of a key, made if it is not there; one whose making gives a warning is not kept."""
        with self._lock:
            if key in self._kept:
                self.hits += 1
                self._kept.move_to_end(key)
                return self._kept[key]
            self.misses += 1
        with MAKING, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with torch.inference_mode(False), torch.no_grad():  # fit for whatever mode asks for it next
                thing = make()
        for warning in caught:
            warnings.warn(warning.message, stacklevel=4)
        if not caught:
            self._keep(key, thing)
        return thing

    def _keep(self, key: str, thing: T) -> None:
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


def digest(*things: object) -> str:
    """A digest of things: of the values of their tensors and attributes, not of which objects they are.

    A module's class counts as the object that it is, for as long as something of it is kept: two of one name differ.
    """
    made = hashlib.blake2b(digest_size=32)
    for thing in things:
        _add(made, thing)
    return made.hexdigest()


def _add(made: Any, thing: object) -> None:
    made.update(f"\0{type(thing).__name__}:".encode())
    if isinstance(thing, Tensor):
        made.update(f"{thing.dtype}{tuple(thing.shape)}".encode())
        made.update(thing.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(thing, np.ndarray):
        _add(made, torch.from_numpy(thing))
    elif isinstance(thing, nn.Module):
        for module in thing.modules():
            made.update(f"\0{id(type(module))}".encode())
            _add(made, {name: value for name, value in vars(module).items() if name not in EVERY_MODULE})
        _add(made, thing.state_dict())
    elif isinstance(thing, dict):
        for name in sorted(thing):
            made.update(f"\0{name}=".encode())
            _add(made, thing[name])
    elif is_dataclass(thing) and not isinstance(thing, type):
        _add(made, {field.name: getattr(thing, field.name) for field in fields(thing)})
    else:
        made.update(repr(thing).encode())


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
            for part in value.values():
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
