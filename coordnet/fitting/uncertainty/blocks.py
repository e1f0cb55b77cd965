"""Blocks of scattered points: boxes of which whole ones are hidden."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from coordnet import _checks
from coordnet.sampling.samples import Geometry

BLOCKS = 6  # blocks along the points' extent on each axis, unless their size is given
SEED = 0


def folds_by_blocks(
    geometry: Geometry, size: float | Sequence[float] | None, folds: int
) -> tuple[Int[np.ndarray, " n"], int]:
    """Return the fold of each point, that of its block, and the number of blocks; see ``block_score`` for errors."""
    places = getattr(geometry, "places", None)
    block = _blocks((geometry.positions() if places is None else places).numpy(), size)
    count = int(block.max()) + 1
    if count < folds:
        expected = f"a size that gives at least {folds} blocks, one for each fold"
        raise _checks.wrong("blocks", expected, f"{count} blocks")
    return (np.random.default_rng(SEED).permutation(count) % folds)[block], count


def _blocks(places: np.ndarray, size: float | Sequence[float] | None) -> np.ndarray:
    """Return the number of the block of each point."""
    low, extent = places.min(0), np.ptp(places, axis=0)
    lengths = np.where(extent > 0, extent, 1.0) * (1 + 1e-9) / BLOCKS
    if size is not None:
        given = [size] * len(low) if np.ndim(size) == 0 else list(size)  # type: ignore[arg-type]
        if len(given) != len(low):
            raise _checks.wrong("blocks", f"a number, or {len(low)}, one for each axis", len(given))
        lengths = np.array([_checks.positive("blocks", length) for length in given])
    cells = np.floor((places - low) / lengths)
    return np.unique(cells, axis=0, return_inverse=True)[1].ravel()
