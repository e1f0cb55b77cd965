"""Labeled arrays at other coordinates: values, labels and attributes."""

import jaxtyping
import numpy as np
import pytest

import coordnet as cn

xarray = pytest.importorskip("xarray")


def field(lat, lon):
    return np.sin(lat / 30)[:, None] * np.cos(lon / 40)


def temperature(dtype=np.float64):
    lat = np.array([80.0, 61.0, 45.0, 33.0, 20.0, 8.0, -9.0, -26.0, -40.0, -59.0, -75.0])  # decreasing, as is usual
    lon = np.array([0.0, 10, 21, 28, 41, 50, 58, 71, 80, 92, 101, 110])
    attributes = {"units": "K", "long_name": "temperature"}
    coordinates = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": lon, "level": 850.0}
    return xarray.DataArray(field(lat, lon).astype(dtype), coordinates, ("lat", "lon"), "t", attributes)


SMOOTH = {"prior": cn.Smoothness(2.0, 1e-4)}


@pytest.mark.parametrize(("dtype", "options", "tolerance"), [(np.float32, {}, 0.01), (np.float64, SMOOTH, 0.05)])
def test_values_and_labels_at_other_coordinates(dtype, options, tolerance):
    array, lat, lon = temperature(dtype), np.linspace(70, -70, 15), np.linspace(5, 105, 9)
    made = cn.regrid(array, {"lat": lat, "lon": lon}, **options)
    assert made.dims == ("lat", "lon") and made.dtype == dtype and made.name == "t" and made.attrs == array.attrs
    assert made.lat.attrs == {"units": "degrees_north"} and float(made.level) == 850
    assert np.array_equal(made.lat, lat) and np.array_equal(made.lon, lon)
    assert np.allclose(made, field(lat, lon), atol=tolerance)


@pytest.mark.slow
def test_missing_values_are_filled_and_others_kept():
    array = temperature()
    array[4, 5] = np.nan
    made = cn.regrid(array)
    assert np.array_equal(made.lat, array.lat) and np.isfinite(made).all()
    assert np.allclose(made, temperature(), atol=0.02)


def test_arrays_of_dask_are_regridded_when_they_are_computed():
    """The result is that of the array in memory, whose latitudes decrease."""
    da = pytest.importorskip("dask.array")
    array, loaded = temperature().expand_dims(member=["a", "b"], axis=1), []
    lazy = array.copy(
        data=da.from_array(array.values, chunks=(4, 1, 12)).map_blocks(
            lambda x: loaded.append(1) or x, meta=np.empty((0, 0, 0))
        )
    )
    onto = {"lat": np.array([70.0, 50.0, -10.0])}
    made = cn.regrid(lazy, onto, **SMOOTH)
    assert not loaded and made.chunks is not None
    xarray.testing.assert_allclose(made.compute(scheduler="sync"), cn.regrid(array, onto, **SMOOTH))
    assert loaded and made.dims == array.dims and made.attrs == array.attrs


def test_times_and_channels():
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-04", "2020-01-05", "2020-01-08", "2020-01-09", "2020-01-11"])
    times = days.astype("datetime64[ns]")
    x = (times - times[0]) / np.timedelta64(1, "D")
    array = xarray.DataArray(np.stack([x, 2 - x]), {"time": times, "band": ["a", "b"]}, ("band", "time"))
    noon = np.array(["2020-01-03T12", "2020-01-07T00"], dtype="datetime64[ns]")
    made = cn.regrid(array, {"time": noon})
    assert made.dims == ("band", "time") and list(made.band.values) == ["a", "b"]
    assert np.allclose(made, [[2.5, 6], [-0.5, -4]], atol=0.1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: cn.regrid(a.values), "`array`: expected an xarray.DataArray, received ndarray"),
        (lambda a: cn.regrid(a.to_dataset(name="t")), "`array`: expected an xarray.DataArray, received Dataset"),
        (lambda a: cn.regrid(a + 0j), "`array`: expected real numbers, at least one, received .* of complex128"),
        (lambda a: cn.regrid(a[:0]), r"`array`: expected real numbers, at least one, received shape \(0, "),
        (lambda a: cn.regrid(a, [1.0]), "`coordinates`: expected a mapping from names of dimensions to numbers"),
        (lambda a: cn.regrid(a, a.coords.to_dataset()), "such as dataset.coords, received Da"),
        (lambda a: cn.regrid(a, dims=5), "`dims`: expected a sequence of names of dimensions, received 5"),
        (lambda a: cn.regrid(a.drop_vars(["lat", "lon"])), "`array`: expected a DataArray with coordinates along"),
        (lambda a: cn.regrid(a, {"latt": [1.0]}), "`coordinates`: expected one of"),
        (lambda a: cn.regrid(a, {"lat": None}), "`coordinates`: expected a row of numbers along lat, received None"),
        (lambda a: cn.regrid(a, {"lat": ["a"]}), r"`coordinates`: expected a row of numbers along lat, received \['a'"),
        (
            lambda a: cn.regrid(a, {"lat": [0.0, 95.0]}, prior=cn.Smoothness()),
            "`coordinates`: expected numbers within half a spacing",
        ),
        (lambda a: cn.regrid(a.assign_coords(lon=[*range(11), 10])), "`lon`: expected coordinates in order, each once"),
    ],
)
def test_wrong_arrays_are_refused(call, said, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no annotations executed
    with pytest.raises(ValueError, match=said):
        call(temperature())


def test_a_coordinate_beyond_the_array_is_refused_by_the_name_of_its_dimension():
    with pytest.raises(ValueError, match=r"within half a spacing of .* along lon, received 900"):
        cn.regrid(temperature(), {"lon": [50.0, 900.0]})
