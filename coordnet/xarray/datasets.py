"""Files of labeled arrays: NetCDF, Zarr and GeoTIFF, read as datasets and written whole or not at all."""

import importlib
import importlib.util
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import xarray

from coordnet.media.files import mismatch

NETCDF, ZARR, GEOTIFF = (".nc", ".nc4", ".netcdf"), (".zarr",), (".tif", ".tiff")
PACKAGES = {NETCDF: ("xarray", "netCDF4"), ZARR: ("zarr", "zarr"), GEOTIFF: ("geo", "rioxarray")}  # the extra for each
PLANE = ("y", "x")  # dimensions of a GeoTIFF's signal; its bands are channels
SUFFIXES = (*NETCDF, *ZARR, *GEOTIFF)


def open_dataset(path: Path) -> xarray.Dataset:
    """Open a file of labeled arrays, without reading their values.

    The variables of a GeoTIFF have the dimensions band, y and x, and its georeference beside them. An array of Zarr
    alone, without labels, is a variable named after the file. A ``MediaError`` is raised if the file is missing, of
    another kind or damaged, or a package is missing that reads it.
    """
    kind = kind_of(path)
    if not path.exists():
        raise mismatch(path, "a file of labeled arrays", "none")
    try:
        if kind is ZARR:
            return _open_zarr(path)
        if kind is GEOTIFF:
            read: Any = importlib.import_module("rioxarray").open_rasterio(path, masked=True)
            return read if isinstance(read, xarray.Dataset) else read.to_dataset(name=read.name or "band_data")
        return xarray.open_dataset(path)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise mismatch(path, "a file of labeled arrays", f"an error ({reason})") from None


def _open_zarr(path: Path) -> xarray.Dataset:
    """Open a group of arrays, or one array, of Zarr."""
    stored = importlib.import_module("zarr").open(str(path), mode="r")
    if hasattr(stored, "shape"):
        made = xarray.DataArray(importlib.import_module("dask.array").from_zarr(stored))
        made.encoding["chunks"] = stored.chunks
        return made.to_dataset(name=path.stem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a store without consolidated metadata takes longer to open
        return xarray.open_zarr(path)


def write_dataset(dataset: xarray.Dataset, path: Path) -> None:
    """Write a dataset to a file of the kind that its name says, in the place of an earlier one.

    ``check_kind`` says what a GeoTIFF holds. The file appears when it is whole. A ``MediaError`` is raised if it cannot
    be written.
    """
    kind = kind_of(path)
    folder = tempfile.mkdtemp(prefix=".coordnet-", dir=path.absolute().parent)
    made = Path(folder) / path.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that later versions of formats and of packages will differ
            if kind is GEOTIFF:
                importlib.import_module("rioxarray")
                next(iter(dataset.data_vars.values())).rio.to_raster(made)
            elif kind is ZARR:
                chunks = {name: a.encoding.get("chunks") for name, a in dataset.variables.items()}
                kept = {name: {"chunks": sizes} for name, sizes in chunks.items() if sizes}
                dataset.drop_encoding().to_zarr(made, encoding=kept)
            else:
                dataset.to_netcdf(made)
        if path.is_dir():
            shutil.rmtree(path)
        os.replace(made, path)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).replace(folder, str(path.parent)).split())
        raise mismatch(path, "a file that can be written", f"an error ({reason})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_kind(dataset: xarray.Dataset, path: Path) -> None:
    """Refuse a GeoTIFF, with a ``MediaError``, for a dataset that is not one variable along y and x, and bands."""
    if kind_of(path) is GEOTIFF:
        variables = [f"{name} along {', '.join(map(str, a.dims))}" for name, a in dataset.data_vars.items()]
        if len(variables) != 1 or next(iter(dataset.data_vars.values())).dims[-2:] != PLANE or len(dataset.sizes) > 3:
            raise mismatch(path, "a .nc or .zarr for all but one variable along y, x and bands", "; ".join(variables))


def kind_of(path: Path) -> tuple[str, ...]:
    """Return the suffixes of the kind of file that a name says, ``NETCDF``, ``ZARR`` or ``GEOTIFF``.

    A ``MediaError`` is raised if there is no such kind, or the package that reads it is missing.
    """
    for suffixes, (extra, package) in PACKAGES.items():
        if path.suffix.lower() in suffixes:
            if importlib.util.find_spec(package) is None:
                raise mismatch(path, f'the package {package} for it (pip install "coordnet[{extra}]")', "none")
            return suffixes
    raise mismatch(path, f"a name that ends in {', '.join(SUFFIXES)}", path.suffix or "none of them")
