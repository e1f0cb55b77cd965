"""Peers for fields in time: interpolation in space, in time, and DINEOF."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import griddata

from coordnet.bench.cube_fields import Cube, Given

VALIDATION = 0.03  # share of the values that DINEOF hides to choose the number of modes
MOST_MODES, MODES_PATIENCE = 40, 3  # modes of DINEOF at most, and further ones that are tried after the best
SWEEPS, TOLERANCE = 300, 1e-3  # iterations for a number of modes, and their last change in standard deviations

Matrix = Float[np.ndarray, "frames points"]
Known = Bool[np.ndarray, "frames points"]


def in_space(case: Given) -> Cube:
    """Interpolate every frame linearly over triangles, by the nearest value beyond them; the mean of an empty frame."""
    made = case.known.copy()
    for frame in made:
        known = np.isfinite(frame)
        sought = case.wanted & ~known
        if known.sum() < 4 or not sought.any():
            frame[sought] = np.nanmean(case.known)
            continue
        places, values = np.argwhere(known), frame[known]
        linear, near = (griddata(places, values, np.argwhere(sought), kind) for kind in ("linear", "nearest"))
        frame[sought] = np.where(np.isnan(linear), near, linear)
    return made


def in_time(case: Given) -> Cube:
    """Interpolate every point linearly in time, by the nearest value beyond the ends; the mean of an empty series."""
    made = np.full(case.known.shape, np.nanmean(case.known))
    for i, j in np.argwhere(case.wanted):
        series = case.known[:, i, j]
        known = np.isfinite(series)
        if known.any():
            made[:, i, j] = np.interp(case.times, case.times[known], series[known])
    return made


def mean_of_both(case: Given) -> Cube:
    """Return the mean of interpolation in space and in time; where a frame is empty, that in time."""
    space, time = in_space(case), in_time(case)
    has_values = np.isfinite(case.known).any((1, 2), keepdims=True)
    return np.where(has_values, (space + time) / 2, time)


def dineof(case: Given) -> Cube:
    """Fill by a truncated singular value decomposition that is iterated, whose modes clouds laid on others choose.

    Notes
    -----
    Beckers and Rixen, "EOF calculations and data filling from incomplete oceanographic datasets" (2003);
    Alvera-Azcárate et al., "Reconstruction of incomplete oceanographic data sets using empirical orthogonal functions"
    (2005).
    """
    wanted = case.wanted
    x = case.known[:, wanted]
    known, mean = np.isfinite(x), float(np.nanmean(x))
    centered = np.where(known, x - mean, 0.0)
    hidden = _validation(known)
    y, errors = np.where(known & ~hidden, centered, 0.0), []
    for modes in range(1, min(len(x) - 1, MOST_MODES) + 1):
        low_rank, y = _completed(centered, known & ~hidden, modes, y)
        errors.append(np.square((low_rank - centered)[hidden]).mean())
        if modes - 1 - int(np.argmin(errors)) >= MODES_PATIENCE:
            break
    y = low_rank = centered
    for modes in range(1, int(np.argmin(errors)) + 2):
        low_rank, y = _completed(centered, known, modes, y)
    made = np.full(case.known.shape, np.nan)
    made[:, wanted] = low_rank + mean
    return made


def _validation(known: Known) -> Known:
    """Return values under the gaps of other frames, about ``VALIDATION`` of all, or as many at random."""
    generator, hidden = np.random.default_rng(1), np.zeros(known.shape, bool)
    gaps = np.flatnonzero(~known.all(1))
    for frame in generator.permutation(len(known)) if len(gaps) else ():
        under = ~known[generator.choice(gaps)] & known[frame]
        if under.sum() < 0.9 * known[frame].sum():
            hidden[frame] = under
        if hidden.sum() > VALIDATION * known.sum():
            break
    return hidden if hidden.any() else known & (generator.random(known.shape) < VALIDATION)


def _completed(x: Matrix, known: Known, modes: int, y: Matrix) -> tuple[Matrix, Matrix]:
    """Return the matrix of a rank that the known values and itself elsewhere have, and the completed values."""
    scale, low_rank = float(y[known].std()), y
    for _ in range(SWEEPS):
        basis = np.linalg.eigh(y @ y.T)[1][:, -modes:]
        low_rank = basis @ (basis.T @ y)
        new = np.where(known, x, low_rank)
        change = np.sqrt(np.square(new - y)[~known].mean()) if not known.all() else 0.0
        y = new
        if change < TOLERANCE * scale:
            break
    return low_rank, y


CUBE_PEERS: dict[str, Callable[[Given], Cube]] = {
    "linear in space": in_space,
    "linear in time": in_time,
    "mean of these": mean_of_both,
    "DINEOF": dineof,
}
