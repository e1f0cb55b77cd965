"""The least of a function, by the parabola through three of its values."""

from collections.abc import Sequence

import numpy as np


def least_of_parabola(numbers: Sequence[float], values: Sequence[float]) -> float:
    """Return where the parabola through values over the logarithms of numbers is least, the middle one if nowhere.

    The middle one of three numbers has the least value. If there are fewer, the first is returned.
    """
    if len(numbers) < 3 or not np.isfinite(values).all():
        return numbers[0] if len(numbers) < 3 else numbers[1]
    a, b, _ = np.polyfit(np.log(numbers), values, 2)
    return float(f"{np.clip(np.exp(-b / (2 * a)), min(numbers), max(numbers)):.3g}") if a > 0 else numbers[1]
