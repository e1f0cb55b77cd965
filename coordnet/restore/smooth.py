"""Smoothing: the noise of labeled arrays is removed, where values are missing too."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coordnet.priors.adaptive import Adaptive
from coordnet.restore.denoise import denoise
from coordnet.restore.fill import fill
from coordnet.restore.labeled import Labeled


def smooth(
    array: Any,
    sigma: float | None = None,
    dim: str | Sequence[str] | None = None,
    *,
    prior: str = "auto",
    seed: int = 0,
    progress: bool = False,
) -> Any:
    """Remove white noise from an ``xarray.DataArray``; missing values stay missing.

    They are filled, by the adaptive prior, before the noise is removed, and left out of the result.

    Parameters
    ----------
    array : xarray.DataArray
        Real numbers, see ``fill``.
    sigma : float, optional
        The standard deviation of the noise, which is estimated if not given.
    dim : str or sequence of str, optional
        The dimensions of the signal; see ``fill``.
    prior, seed, progress
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
    missing = np.isnan(signal)
    if missing.any():
        whole = np.ones(array.shape, dtype=bool)
        filled = fill(array, dim, valid=whole, prior=Adaptive(seed=seed), progress=progress).array
        signal = Labeled.of(filled, dim).signal()
    options: Any = {"prior": prior, "seed": seed, "dimensions": len(labeled.axes), "progress": progress}
    made = denoise(np.ascontiguousarray(signal), sigma, alpha=False, **options).signal
    return labeled.labeled(np.where(missing, np.nan, made))
