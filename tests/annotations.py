"""Execute annotations in the first call of a function by each test function, whose parameters do not count.

In all calls they take as long as the work.
"""

from functools import wraps
from inspect import isfunction

import jaxtyping

called = set()  # the code whose annotations the present test has executed, with these or other parameters
present = None  # the function of the present test


def begin(item):
    """Let annotations be executed anew, unless the test is the present one with other parameters."""
    global present
    if item.function is not present:
        present = item.function
        called.clear()


def install():
    """Let jaxtyping's import hook, which looks its decorator up by name, check the first call in each test."""
    jaxtyped = jaxtyping.jaxtyped

    def sparing(*, typechecker):
        check = jaxtyped(typechecker=typechecker)
        return lambda decorated: _checked_once(decorated, check) if isfunction(decorated) else check(decorated)

    jaxtyping.jaxtyped = sparing


def _checked_once(function, check):
    """A function whose first call in each test is checked."""
    code, checked = function.__code__, None

    @wraps(function)
    def call(*arguments, **options):
        nonlocal checked
        if code in called or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **options)
        called.add(code)
        checked = checked or check(function)  # here, since most functions are in few tests
        return checked(*arguments, **options)

    return call
