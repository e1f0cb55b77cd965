"""The plans made last, by what they were made of."""

import threading
import warnings
from collections.abc import Callable

from coordnet.fit.plan import Plan
from coordnet.linalg.cache import Cache, for_any_mode
from coordnet.linalg.scratch import clear_scratch

PLANS: Cache[Plan] = Cache()
MAKING = threading.RLock()  # one thread at a time, as all share Python's filters of warnings


def kept_plan(key: str, make: Callable[[], Plan]) -> Plan:
    """Return the plan of a key, made if it is not there; one whose making gives a warning is not kept."""
    plan = PLANS.find(key)
    if plan is not None:
        return plan
    with MAKING, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = for_any_mode(make)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=4)
    if not caught:
        PLANS.keep(key, plan)
    return plan


def clear_plans() -> None:
    """Forget what is kept for the next fits and renders.

    Plans of ``plan(…, cached=True)`` and ``fit_closed_form``, and this thread's scratch memory.
    """
    PLANS.clear()
    clear_scratch()
