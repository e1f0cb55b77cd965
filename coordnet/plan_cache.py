"""The plans made last, by what they were made of."""

import hashlib
import json
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from coordnet.encodings import Encoding
from coordnet.plans import Plan
from coordnet.samples import Geometry
from coordnet.scratch import clear_scratch

MOST_PLANS = 16
MOST_BYTES = 2**28  # of all their tensors; a larger plan is made, but not kept


class PlanCache:
    """At most ``MOST_PLANS`` plans of ``MOST_BYTES`` in all; the one used longest ago is dropped first.

    Attributes
    ----------
    hits, misses : int
        How often a plan was there, and how often it had to be made.
    """

    def __init__(self) -> None:
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: str, make: Callable[[], Plan]) -> Plan:
        """Return the plan of a key, made if it is not there; one whose making gives a warning is not kept."""
        with self._lock:
            if key in self._plans:
                self.hits += 1
                self._plans.move_to_end(key)
                return self._plans[key]
            self.misses += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = make()
        for warning in caught:
            warnings.warn(warning.message, stacklevel=4)
        if not caught:
            self._keep(key, plan)
        return plan

    def _keep(self, key: str, plan: Plan) -> None:
        """Keep a plan; all are counted anew, as some of what they hold is made when it is first wanted."""
        if tensor_bytes(plan) > MOST_BYTES:
            return
        with self._lock:
            self._plans[key] = plan
            sizes = [tensor_bytes(kept) for kept in self._plans.values()]
            while len(sizes) > MOST_PLANS or sum(sizes) > MOST_BYTES:
                self._plans.popitem(last=False)
                sizes.pop(0)

    def clear(self) -> None:
        """Forget every plan, and the counts."""
        with self._lock:
            self._plans.clear()
            self.hits = self.misses = 0


PLANS = PlanCache()


def clear_plans() -> None:
    """Forget the plans that ``plan(…, cached=True)`` and ``fit_closed_form`` keep, and this thread's scratch memory."""
    PLANS.clear()
    clear_scratch()


def plan_key(encoding: Encoding, geometry: Geometry, options: dict[str, Any]) -> str:
    """A digest of all that a plan depends on: the values of its tensors, not which objects they are."""
    digest = hashlib.blake2b(digest_size=32)
    configuration = encoding.configuration()
    digest.update(json.dumps([type(encoding).__name__, configuration], default=str).encode())
    for name, tensor in encoding.state_dict().items():
        _add(digest, name, tensor)
    _add(digest, "geometry", geometry)
    for name in sorted(options):
        _add(digest, name, options[name])
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:
    digest.update(f"\0{name}={type(value).__name__}:".encode())
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _add(digest, field.name, getattr(value, field.name))
    else:
        digest.update(repr(value).encode())


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
