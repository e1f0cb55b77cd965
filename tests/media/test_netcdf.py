"""NetCDF files: xarray reads what was written, with what CF says of it."""

import numpy as np
import pytest
import xarray

from coordnet.media import MediaError
from coordnet.media.netcdf import Variable, write_grid

AXES = {"lat": np.arange(3.0), "lon": np.arange(4.0) / 2}
VALUES = np.where(np.arange(12).reshape(3, 4) == 5, np.nan, np.arange(12).reshape(3, 4))


def written(path, **options):
    variable = Variable(VALUES, {"units": "°C", "standard_name": "air_temperature"})
    options = {"units": {}, "axis_names": {}, "attributes": {"title": "Küste"}, **options}
    write_grid(path, AXES, {"t 2m": variable}, **options)
    return xarray.open_dataset(path, engine="scipy")


def test_xarray_reads_the_values_the_coordinates_and_the_conventions(tmp_path):
    with written(tmp_path / "a.nc", units={"lon": "degree"}, axis_names={"lon": "grid_longitude"}) as found:
        np.testing.assert_array_equal(found["t_2m"], VALUES)
        assert found["t_2m"].dims == ("lat", "lon")
        for name, x in AXES.items():
            np.testing.assert_array_equal(found[name], x)
        assert found.attrs == {"Conventions": "CF-1.8", "title": "Küste"}
        assert found["t_2m"].attrs == {"units": "°C", "standard_name": "air_temperature"}
        assert found["lat"].attrs == {"standard_name": "latitude", "axis": "Y", "units": "degrees_north"}
        assert found["lon"].attrs == {"standard_name": "grid_longitude", "axis": "X", "units": "degree"}


def test_degrees_are_written_as_the_conventions_have_them(tmp_path):
    with written(tmp_path / "a.nc", units={"lon": "Grad", "lat": "°N"}) as found:
        assert (found["lon"].units, found["lat"].units) == ("degrees_east", "degrees_north")


def test_an_existing_file_stays(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"mine")
    with pytest.raises(MediaError, match="expected no file of this name"):
        written(tmp_path / "a.nc")
    assert (tmp_path / "a.nc").read_bytes() == b"mine"
