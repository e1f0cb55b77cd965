"""Regridding: labeled arrays with coordinates along each dimension, evaluated at other coordinates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from coordnet import _checks
from coordnet.fitting.fit import fit
from coordnet.priors.base import Prior
from coordnet.restore.labeled import Labeled
from coordnet.sampling.rectilinear import RectilinearLattice


def regrid(
    array: Any,
    coordinates: Mapping[str, Any] | None = None,
    *,
    dims: Sequence[str] | None = None,
    prior: Prior | Literal["auto"] | None = "auto",
    period: Mapping[str, float] | None = None,
) -> Any:
    """Fit an ``xarray.DataArray`` and evaluate it at other coordinates, or at its own.

    An array of Dask's is loaded, fitted as a whole and evaluated when the result is computed.

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
    period : mapping, optional
        The period of the coordinates of dimensions, such as {"lon": 360}. By default longitudes that go around are
        periodic, so that new ones may be between the last and the first; with an empty mapping nothing is.

    Returns
    -------
    xarray.DataArray
        With the name, the order of dimensions and the attributes of the array, those of its coordinates included, and
        all coordinates that do not depend on a changed dimension. Values of float32 stay so, others become float64.
        Points of a field in time whose nearest node no frame knows, as those of land, are NaN.

    Raises
    ------
    ValueError
        If the array has no numbers, infinite ones or no coordinates, or a dimension's are not finite, not monotonic, or
        outside the array's own.
    """
    labeled, new = Labeled.of(array, dims, counts=False), new_coordinates(coordinates)
    for name, labels in new.items():
        _checks.choice("coordinates", name, labeled.axes)
        own, row = labeled.own(name), np.asarray(labels)
        if row.ndim != 1 or (row.dtype.kind not in "iufO" and own.dtype.kind in "iuf"):
            raise _checks.wrong("coordinates", f"a row of numbers along {name}", repr(labels)[:60])
    onto = [labeled.numbers(d, new.get(d)) for d in labeled.axes]
    if array.chunks is not None:
        from dask import array as da
        from dask.delayed import delayed

        empty = labeled.labeled(da.empty((*map(len, onto), array.size // math.prod(labeled.lengths))), new)
        whole = delayed(lambda a: regrid(a, new, dims=dims, prior=prior, period=period).values)(array)
        return empty.copy(data=da.from_delayed(whole, empty.shape, empty.dtype))
    signal = labeled.signal()
    values, numbers, _ = labeled.wrapped(signal, period)
    lattice = RectilinearLattice(*numbers)
    for j, (name, x) in enumerate(zip(labeled.axes, onto, strict=True)):
        lattice.inside(j, x, f"along {name}")
    made = fit(lattice.sample(torch.from_numpy(values)), prior=prior)
    result = made.at(*onto).detach().numpy()
    if labeled.has_time and new:
        known = (~np.isnan(signal)).any(0)
        for j, d in enumerate(labeled.axes[1:]):
            own = labeled.numbers(d)
            known = np.take(known, np.abs(onto[j + 1][:, None] - own).argmin(1), j)
        result = np.where(known, result, np.nan)
    return labeled.labeled(result, new)


def new_coordinates(coordinates: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return new coordinates by the name of a dimension, none for None.

    A ``ValueError`` is raised for what is no mapping, and for a ``Dataset``, which is one from the names of variables.
    """
    if coordinates is not None and (hasattr(coordinates, "coords") or not isinstance(coordinates, Mapping)):
        expected = "a mapping from names of dimensions to numbers, such as dataset.coords"
        raise _checks.wrong("coordinates", expected, type(coordinates).__name__)
    return dict(coordinates or {})
