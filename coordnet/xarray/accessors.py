"""The accessors of labeled arrays and of datasets: ``fill``, ``regrid`` and ``smooth``."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray

from coordnet import _checks
from coordnet.restore.fill import fill
from coordnet.restore.regrid import new_coordinates, regrid
from coordnet.restore.smooth import smooth


@xarray.register_dataarray_accessor("coordnet")
class ArrayAccessor:
    """Methods of a ``DataArray``, as ``da.coordnet``."""

    def __init__(self, array: xarray.DataArray) -> None:
        self._array = array

    def fill(self, dim: str | Sequence[str] | None = None, *, uncertainty: bool = False, **options: Any) -> Any:
        """Return the array with its missing values filled; see ``cn.fill`` for the options and errors.

        With ``uncertainty`` it is a dataset of two variables: that of the array's name, "filled" if it has none, and
        the standard deviation of the errors, whose name ends in ``_std``.
        """
        filled = fill(self._array, dim, uncertainty=uncertainty, **options)
        if filled.std is None:
            return filled.array
        name = self._array.name or "filled"
        return xarray.Dataset({name: filled.array, f"{name}_std": filled.std})

    def regrid(self, coordinates: Mapping[str, Any] | None = None, **options: Any) -> xarray.DataArray:
        """Return the array at other coordinates; see ``cn.regrid``."""
        return regrid(self._array, coordinates, **options)

    def smooth(self, sigma: float | None = None, **options: Any) -> xarray.DataArray:
        """Return the array without noise; see ``cn.smooth``."""
        return smooth(self._array, sigma, **options)


@xarray.register_dataset_accessor("coordnet")
class DatasetAccessor:
    """Methods of the variables of a ``Dataset``, as ``ds.coordnet``."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def fill(self, dim: str | Sequence[str] | None = None, *, uncertainty: bool = False, **options: Any) -> Any:
        """Return the dataset with the missing values of its variables filled, beside their deviations if asked for.

        Variables without missing values, without the dimensions or with other values than real numbers stay as they
        are. See ``cn.fill``.
        """
        made = self._dataset.copy()
        for name, array in self._with(dim):
            if array.isnull().any():
                filled = fill(array, dim, uncertainty=uncertainty, **options)
                made[name] = filled.array
                if filled.std is not None:
                    made[f"{name}_std"] = filled.std
        return made

    def regrid(self, coordinates: Mapping[str, Any] | None = None, **options: Any) -> xarray.Dataset:
        """Return the dataset with the variables that depend on a changed dimension at other coordinates."""
        new, arrays = new_coordinates(coordinates), {}
        for name in new:
            _checks.choice("coordinates", name, list(self._dataset.dims))
        for name, array in self._dataset.data_vars.items():
            own = {d: x for d, x in new.items() if d in array.dims}
            arrays[name] = regrid(array, own, **options) if own or not new else array
        return xarray.Dataset(arrays, attrs=self._dataset.attrs)

    def smooth(self, sigma: float | None = None, **options: Any) -> xarray.Dataset:
        """Return the dataset with its variables of real numbers without noise; see ``cn.smooth``."""
        made = self._dataset.copy()
        for name, array in self._with(None):
            made[name] = smooth(array, sigma, **options)
        return made

    def _with(self, dim: str | Sequence[str] | None) -> list[tuple[Any, xarray.DataArray]]:
        """Return the variables of floating-point numbers that have all of some dimensions, or any."""
        asked = {dim} if isinstance(dim, str) else set(dim or ())
        for name in asked:
            _checks.choice("dim", name, list(self._dataset.dims))
        some = self._dataset.data_vars.items()
        return [(name, a) for name, a in some if a.dtype.kind == "f" and a.ndim and asked <= set(a.dims)]
