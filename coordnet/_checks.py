"""The gate: argument checks that name the argument, what was expected and what came."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeVar

MOST_CHANNELS = 4  # length of a last axis up to which it is always that of channels, as in color with opacity
MOST_BANDS = 8  # length up to which it is where the two axes before it are longer, as in satellites' pictures
LONGER = 2  # times that these two must be as long as the bands: a cube is no picture

T = TypeVar("T")
MAX_INTEGER = 2**63 - 1  # the largest integer that PyTorch and NumPy hold


class CoordnetWarning(UserWarning):
    """The base of every warning this library gives."""


def wrong(name: str, expected: str, received: object) -> ValueError:
    return ValueError(f"`{name}`: expected {expected}, received {received}")


def _number(value: object) -> float:
    """Return a real number as a float; NaN for anything else, as a duration, and for a number beyond floats."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError):
        return math.nan


def positive(name: str, value: object) -> float:
    if not 0 < (number := _number(value)) < math.inf:
        raise wrong(name, "a positive finite number", repr(value))
    return number


def nonnegative(name: str, value: object) -> float:
    if not 0 <= (number := _number(value)) < math.inf:
        raise wrong(name, "a finite number of at least 0", repr(value))
    return number


def finite(name: str, value: object) -> float:
    if not math.isfinite(number := _number(value)):
        raise wrong(name, "a finite number", repr(value))
    return number


def integer(name: str, value: object, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise wrong(name, f"an integer of at least {minimum}", repr(value))
    if int(value) > MAX_INTEGER:
        raise wrong(name, f"an integer of at most {MAX_INTEGER}", repr(value))
    return int(value)


def between(name: str, value: object, low: float, high: float) -> float:
    if not low <= (number := _number(value)) <= high:
        raise wrong(name, f"a number from {low:g} to {high:g}", repr(value))
    return number


def instance(name: str, value: T, kind: Any, expected: str) -> T:
    if not isinstance(value, kind):
        raise wrong(name, expected, repr(value))
    return value


def lengths(name: str, value: object, fewest: int = 1) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable) or len(counts := tuple(value)) < fewest:
        expected = "lengths, one for each axis" if fewest < 2 else f"at least {fewest} lengths, one for each axis"
        raise wrong(name, expected, repr(value))
    if math.prod(integer(name, length, 1) for length in counts) > MAX_INTEGER:
        raise wrong(name, f"at most {MAX_INTEGER} points in all", repr(value))
    return tuple(int(length) for length in counts)


def coordinates(name: str, shape: Iterable[int], dimensions: int) -> None:
    last = list(shape)[-1:]
    if last != [dimensions]:
        found = f"{last[0]}, shape {tuple(shape)}" if last else "a single number"
        raise wrong(name, f"{dimensions} coordinate{'s' * (dimensions > 1)} along the last axis", found)


def choice(name: str, value: T, options: Iterable[T]) -> T:
    options = list(options)
    if value not in options:
        raise wrong(name, "one of " + ", ".join(map(str, options)), repr(value))
    return value


def ends_in_channels(shape: tuple[int, ...]) -> bool:
    """Return whether the last axis of an array of unknown meaning is short enough to be that of channels."""
    if len(shape) < 2:
        return False
    return shape[-1] <= MOST_CHANNELS or (
        len(shape) > 2 and shape[-1] <= MOST_BANDS and LONGER * shape[-1] <= min(shape[-3:-1])
    )
