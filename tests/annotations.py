"""Execute annotations in the first call of a function by each file of tests.

In all calls they take as long as the work, and in the first call by each test an eighth of it.
"""

from functools import wraps
from inspect import isfunction

import jaxtyping

called = set()  # the `id` of the code whose annotations the tests of the present file have executed
present = None  # the file of the present test


def begin(item):
    """Let annotations be executed anew where another file of tests begins."""
    global present
    if item.path != present:
        present = item.path
        called.clear()


def install():
    """Let jaxtyping's import hook, which looks its decorator up by name, check the first call in each file."""
    jaxtyped = jaxtyping.jaxtyped

    def sparing(*, typechecker):
        check = jaxtyped(typechecker=typechecker)
        return lambda decorated: _checked_once(decorated, check) if isfunction(decorated) else check(decorated)

    jaxtyping.jaxtyped = sparing


def _checked_once(function, check):
    """A function whose first call in each file of tests is checked."""
    code, checked = id(function.__code__), None  # code has no hash of its own: it is computed from all it holds

    @wraps(function)
    def call(*arguments, **options):
        nonlocal checked
        if code in called or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **options)
        called.add(code)
        checked = checked or check(function)  # here, since most functions are in few tests
        return checked(*arguments, **options)

    return call
