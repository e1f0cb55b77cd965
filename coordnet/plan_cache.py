"""The plans made last, by what they were made of."""

from coordnet.banded import OPERATORS
from coordnet.cache import Cache
from coordnet.plans import Plan
from coordnet.scratch import clear_scratch

PLANS: Cache[Plan] = Cache()


def clear_plans() -> None:
    """Forget what is kept for the next fits and renders.

    Plans of ``plan(…, cached=True)`` and ``fit_closed_form``, the designs of lattices that were rendered, and this
    thread's scratch memory.
    """
    PLANS.clear()
    OPERATORS.clear()
    clear_scratch()
