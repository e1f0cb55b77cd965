"""Smoothing: the noise of labeled arrays is removed, where values are missing too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior
from coordnet.restore.blocks import Block, Blocks
from coordnet.restore.denoise import BlockCleaner, denoise, learn
from coordnet.restore.fill import Gaps, check_divisible, fill, has_gaps, has_values, taught
from coordnet.restore.labeled import Labeled
from coordnet.sampling.arrays import is_divided


def smooth(
    array: Any,
    sigma: float | None = None,
    dim: str | Sequence[str] | None = None,
    *,
    prior: Prior | Literal["auto"] = "auto",
    seed: int = 0,
    memory: int | None = None,
    progress: bool = False,
) -> Any:
    """Remove white noise from an ``xarray.DataArray``; missing values stay missing.

    They are filled, by the adaptive prior, before the noise is removed, and left out of the result. A Dask array is
    smoothed when it is computed, in overlapping blocks of space; some of these decide now on the noise and the priors.

    Parameters
    ----------
    array : xarray.DataArray
        Real numbers, see ``fill``.
    sigma : float, optional
        The standard deviation of the noise, which is estimated if not given.
    dim : str or sequence of str, optional
        The dimensions of the signal; see ``fill``.
    prior, seed, memory, progress
        Those of ``denoise``.

    Returns
    -------
    xarray.DataArray
        With the name, dimensions, coordinates, attributes and encoding of the array.

    Raises
    ------
    ValueError
        See ``fill`` and ``denoise``.
    """
    labeled = Labeled.of(array, dim)
    signal = labeled.signal()
    if is_divided(signal):
        return labeled.labeled(_in_blocks(labeled, signal, sigma, prior, seed, memory))
    missing = np.isnan(signal)
    if missing.any():
        whole = np.ones(array.shape, dtype=bool)
        filled = fill(array, dim, valid=whole, prior=Adaptive(seed=seed), progress=progress).array
        signal = Labeled.of(filled, dim).signal()
    options: Any = {"prior": prior, "seed": seed, "dimensions": len(labeled.axes), "progress": progress}
    made = denoise(np.ascontiguousarray(signal), sigma, alpha=False, **options).signal
    return labeled.labeled(np.where(missing, np.nan, made))


@dataclass(frozen=True)
class _Smoother:
    """The way in which a block is smoothed: with its gaps filled, which are missing again in the result."""

    gaps: Gaps
    cleaner: BlockCleaner

    def __call__(self, block: Block) -> Block:
        if not has_values(block):
            return block
        filled = self.gaps.block(block, np.ones(block.shape, dtype=bool))
        return np.where(np.isnan(block), block, self.cleaner(filled))


def _in_blocks(
    labeled: Labeled, signal: Any, sigma: float | None, prior: Prior | Literal["auto"], seed: int, memory: int | None
) -> Any:
    """Return a Dask array without its noise, which is removed when it is computed."""
    around = [j for j, d in enumerate(labeled.axes) if labeled.period(d, None) is not None]
    blocks = Blocks.of(signal, range(int(labeled.has_time), signal.ndim - 1), around, memory)
    some = list(blocks.sample(has_values))
    if not some:
        raise _checks.wrong("array", "a value that is not NaN", "NaN alone")
    numbers = tuple(labeled.positions(d) for d in labeled.axes)
    gaps, filled = Gaps(numbers, labeled.has_time, None, Adaptive(seed=seed), None, False, False), some
    if gapped := [block for block in some if has_gaps(block)]:
        check_divisible(gaps)
        gaps = taught(gaps, gapped)[0]
        filled = [gaps.block(block, np.ones(block.shape, dtype=bool)) for block in some]
    whole = [torch.from_numpy(np.ascontiguousarray(block)) for block in filled]
    cleaner, _ = learn(whole, sigma, prior=prior, seed=seed, grid=blocks.grid)
    return blocks.map(_Smoother(gaps, cleaner))
