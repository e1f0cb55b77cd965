"""The coverage and the score of intervals."""

import numpy as np
import pytest

from coordnet.bench.intervals import score


def test_shares_and_scores_are_those_of_planted_errors():
    """Half of the errors are beyond the intervals by 0.5 where the slope is large, and none elsewhere."""
    error = np.zeros((100, 2))
    error[80:, 0] = 1.5
    unknown = np.ones((100, 2), dtype=bool)
    unknown[::2, 1] = False
    found = score(error, np.ones((100, 2)), unknown, np.arange(100.0))
    assert found["channels"] == [80.0, 100.0]
    assert found["coverage"] == pytest.approx(100 * 130 / 150)
    assert found["quintiles"] == pytest.approx([100, 100, 100, 100, 100 / 3])
    assert found["score"] == pytest.approx(2 + 20 / 150 * 2 / 0.1 * 0.5)
