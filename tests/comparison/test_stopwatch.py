"""Timings: how often a call is repeated, with a clock that the test turns."""

import itertools

import pytest

from coordnet.comparison import stopwatch
from coordnet.comparison.stopwatch import measure  # before the tests replace it


@pytest.fixture
def clock(monkeypatch):
    """Let every reading of the clock be one second after the last one."""
    seconds = itertools.count()
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: float(next(seconds)))


@pytest.mark.parametrize(
    ("options", "repeats"),
    [({}, 9), ({"repeats": 3}, 3), ({"budget": 5.0}, 5), ({"repeats": 3, "least": 7.0}, 7), ({"budget": 0.5}, 1)],
)
def test_calls_are_repeated_within_a_budget_and_for_the_least_time(options, repeats, clock):
    calls = []
    timing = measure(lambda: calls.append(0), **options)
    assert timing == (1.0, 1.0, 1.0, repeats)
    assert len(calls) == (1 if options.get("budget") == 0.5 else repeats + 1)  # with the warm-up


def test_short_calls_are_not_repeated_without_end(clock, monkeypatch):
    monkeypatch.setattr(stopwatch, "MAX_REPEATS", 20)
    assert measure(lambda: None, least=1e9).repeats == 20
