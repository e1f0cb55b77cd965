"""Regridding: labeled arrays with coordinates along each dimension, evaluated at other coordinates."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from coordnet import _checks
from coordnet.fitting.fit import fit
from coordnet.priors.base import Prior
from coordnet.sampling.rectilinear import RectilinearLattice

SECOND = np.timedelta64(1, "s")  # a fit measures times in seconds


def regrid(
    array: Any,
    coordinates: Mapping[str, Any] | None = None,
    *,
    dims: Sequence[str] | None = None,
    prior: Prior | Literal["auto"] | None = "auto",
) -> Any:
    """Fit an ``xarray.DataArray`` and evaluate it at other coordinates, or fill its missing values.

    Parameters
    ----------
    array : xarray.DataArray
        Numbers with coordinates along some dimensions, at equal or unequal distances, increasing or decreasing. Values
        that are NaN are unknown.
    coordinates : mapping, optional
        New coordinates by the name of a dimension, in its units; other dimensions keep theirs.
    dims : sequence of str, optional
        The dimensions of the signal: those with coordinates that are numbers or times, if not given. The others hold
        channels.
    prior : Smoothness, Adaptive, ThinPlate, "auto" or None
        The assumption about the signal; see ``fit``.

    Returns
    -------
    xarray.DataArray
        With the name, the order of dimensions and the attributes of the array, those of its coordinates included, and
        all coordinates that do not depend on a changed dimension. Values of float32 stay so, others become float64.

    Raises
    ------
    ValueError
        If the array has no numbers or no coordinates, or a dimension's are not finite, not monotonic, or outside the
        array's own.
    """
    if not all(hasattr(array, name) for name in ("dims", "coords", "attrs", "transpose", "dtype")):
        raise _checks.wrong("array", "an xarray.DataArray", type(array).__name__)
    if array.dtype.kind not in "biuf" or not array.size:
        raise _checks.wrong("array", "real numbers, at least one", f"shape {array.shape} of {array.dtype}")
    _checks.instance("coordinates", coordinates, Mapping | None, "a mapping from names of dimensions to numbers")
    _checks.instance("dims", dims, Sequence | None, "a sequence of names of dimensions")
    found = [d for d in array.dims if d in array.indexes and array[d].dtype.kind in "iufM"]  # numbers or times
    new, axes = dict(coordinates or {}), tuple(dict.fromkeys(found if dims is None else dims))
    for name in new if axes else ():
        _checks.choice("coordinates", name, axes)
    if not axes or not all(d in array.indexes for d in axes):
        expected = "a DataArray with coordinates along the dimensions that are fitted or changed"
        raise _checks.wrong("array", expected, f"dimensions {array.dims} with coordinates along {list(array.indexes)}")
    channels = tuple(d for d in array.dims if d not in axes)
    ordered = array.transpose(*axes, *channels)
    values = ordered.values if ordered.dtype == np.float32 else ordered.values.astype(np.float64)
    own = [ordered[d].values for d in axes]
    onto = [np.asarray(new.get(d, x), dtype=x.dtype if _is_time(x) else None) for d, x in zip(axes, own, strict=True)]
    numbers = [_increasing(_numbers(x, x)) for x in own]
    signal = _flipped(values, own).reshape(*(len(x) for x in own), -1)
    made = fit(RectilinearLattice(*numbers).sample(torch.from_numpy(signal.copy())), prior=prior)
    result = made.at(*(_increasing(_numbers(x, o)) for x, o in zip(onto, own, strict=True))).numpy()
    result = _flipped(result.reshape(*(len(x) for x in onto), *values.shape[len(axes) :]), onto)
    kept = {k: c for k, c in array.coords.items() if k not in axes and not set(c.dims) & set(new)}
    labels = {d: (d, x, array[d].attrs) for d, x in zip(axes, onto, strict=True)}
    return type(array)(result, {**labels, **kept}, (*axes, *channels), array.name, array.attrs).transpose(*array.dims)


def _is_time(x: np.ndarray) -> bool:
    return x.dtype.kind == "M"


def _numbers(x: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return coordinates as numbers; times in seconds after the first of an array's own."""
    return (x - own[0]) / SECOND if _is_time(own) else x


def _increasing(x: np.ndarray) -> np.ndarray:
    """Return coordinates from the last to the first if they decrease."""
    return x[::-1].copy() if _decreases(x) else x


def _flipped(values: np.ndarray, coordinates: Sequence[np.ndarray]) -> np.ndarray:
    """Return values in the other order along every axis whose coordinates decrease."""
    return np.flip(values, tuple(j for j, x in enumerate(coordinates) if _decreases(x)))


def _decreases(x: np.ndarray) -> bool:
    return x.ndim == 1 and len(x) > 1 and bool(x[0] > x[-1])
