"""Labeled arrays: gaps in time and space, land, labels and what is kept of them."""

import jaxtyping
import numpy as np
import pytest

import coordnet as cn
from coordnet.restore.fill import fill

xarray = pytest.importorskip("xarray")
pytest.importorskip("coordnet.xarray")
CHEAP = cn.Adaptive(rounds=1)


def truth(times=8, lats=18, lons=24):
    t, y, x = np.meshgrid(np.arange(times), np.linspace(0, 2, lats), np.linspace(0, 3, lons), indexing="ij")
    return 15 + np.sin(2 * y + 0.2 * t) + np.cos(2 * x - 0.1 * t)


def field(dtype=np.float32, seed=0):
    """A field in time with clouds, and land along its western border; latitudes decrease."""
    values = truth().astype(dtype)
    generator = np.random.default_rng(seed)
    for frame in values:
        i, j = generator.integers(0, 10), generator.integers(2, 14)
        frame[i : i + 7, j : j + 9] = np.nan
    values[:, :, :2] = np.nan
    labels = {
        "time": np.datetime64("2020-03-01") + np.array([0, 1, 2, 3, 5, 6, 7, 8]) * np.timedelta64(1, "D"),
        "lat": ("lat", np.linspace(45, 40, 18), {"units": "degrees_north"}),
        "lon": np.linspace(2, 9, 24),
        "mask": (("lat", "lon"), np.ones((18, 24))),
    }
    array = xarray.DataArray(values, labels, ("time", "lat", "lon"), "sst", {"units": "degC"})
    array.encoding = {"_FillValue": -999.0, "dtype": "int16", "scale_factor": 0.01}
    return array


def test_gaps_are_filled_and_all_else_is_kept():
    array = field()
    made = array.coordnet.fill(prior=CHEAP)
    known = array.notnull()
    assert made.dtype == np.float32 and made.dims == array.dims and made.name == "sst"
    assert made.attrs == array.attrs and made.encoding == array.encoding
    assert made.coords.identical(array.coords)
    assert np.array_equal(made.values[known.values], array.values[known.values])
    assert np.isnan(made[:, :, :2]).all() and np.isfinite(made[:, :, 2:]).all()
    assert float(np.abs(made - truth())[:, :, 2:].max()) < 0.3
    xarray.testing.assert_identical(cn.fill(array, prior=CHEAP).array, made)
    classic = field(">f4").coordnet.fill(prior=CHEAP)  # the byte order of classic NetCDF files
    assert classic.dtype == np.float32 and classic.equals(made)


def test_an_array_of_which_nothing_is_known_stays_missing_beside_others():
    array = field()
    both = xarray.concat([array.where(False), array], "member")
    made, alone = (cn.fill(given, prior=CHEAP, uncertainty=True) for given in (both, array))
    for found, expected in ((made.array, alone.array), (made.std, alone.std)):
        assert found[0].isnull().all() and np.array_equal(found[1], expected, equal_nan=True)


def test_the_order_of_dimensions_does_not_matter():
    array = field(np.float64)
    made = array.coordnet.fill(prior=CHEAP)
    for order in (("lon", "time", "lat"), ("lat", "lon", "time")):
        other = array.transpose(*order).coordnet.fill(prior=CHEAP)
        assert other.dims == order
    up = array.isel(lat=slice(None, None, -1)).coordnet.fill(prior=CHEAP)
    xarray.testing.assert_identical(up.isel(lat=slice(None, None, -1)), made)
    swapped = array.transpose("lat", "time", "lon").coordnet.fill(prior=CHEAP).transpose("time", "lat", "lon")
    xarray.testing.assert_identical(swapped, made)


def test_only_short_gaps_are_filled():
    """As pandas and xarray have it: the distance of the values before and after a gap, or to the end of the array."""
    values = truth(12, 4, 5)
    values[2:4, 0, 0] = np.nan  # from day 1 to day 4
    values[6:9, 1, 1] = np.nan  # from day 5 to day 9
    values[10:, 2, 2] = np.nan  # from day 9 to the last, day 11
    days = np.datetime64("2020-01-01") + np.arange(12) * np.timedelta64(1, "D")
    array = xarray.DataArray(values, {"time": days}, ("time", "lat", "lon"))
    for gap, filled in (("3D", 4), (np.timedelta64(4, "D"), 7), (2, 2), ("3", 4), ("47h", 0)):
        made = array.coordnet.fill(("time", "lat", "lon"), max_gap=gap, prior=CHEAP)
        assert int(made.notnull().sum() - array.notnull().sum()) == filled
    numbered = array.assign_coords(time=np.arange(12.0))
    for gap in (3, "3"):
        made = numbered.coordnet.fill(("time", "lat", "lon"), max_gap=gap, prior=CHEAP)
        assert int(made.notnull().sum() - array.notnull().sum()) == 4


def test_values_are_wanted_where_they_are_valid():
    array = field()
    valid = xarray.ones_like(array[0], dtype=bool).drop_vars("time")
    valid[:, :1] = False
    for given in (valid, valid.values, valid.transpose("lon", "lat")):
        made = array.coordnet.fill(valid=given, prior=CHEAP)
        assert np.isnan(made[:, :, 0]).all() and np.isfinite(made[:, :, 1:]).all()


def test_what_is_filled_does_not_depend_on_land():
    """Values that are neither known nor wanted change nothing."""
    array = field()
    one = array.coordnet.fill(prior=CHEAP)
    other = array.coordnet.fill(prior=CHEAP, valid=np.ones(array.shape, bool))
    assert np.isfinite(other).all()
    assert np.array_equal(one[:, :, 2:], other[:, :, 2:])


def test_a_single_frame_in_time_is_filled_as_a_map_is():
    """As of a satellite's file of one day, whose missing values would all be land."""
    frame, wanted = field(np.float64).isel(time=[3]), truth()[3:4]
    made = frame.coordnet.fill(prior=CHEAP)
    assert made.dims == frame.dims and np.isfinite(made.values).all()
    assert float(np.square(made - wanted)[:, :, 2:].mean()) < 0.05 * float(wanted.var())
    blocks = frame.chunk({"lat": 9}).coordnet.fill(prior=CHEAP)
    assert np.isfinite(blocks.values).all()


def test_times_of_cftime_and_numbers_are_times():
    cftime = pytest.importorskip("cftime")
    array = field(np.float64)
    made = array.coordnet.fill(prior=CHEAP)
    days = [cftime.DatetimeNoLeap(2020, 3, day) for day in (1, 2, 3, 4, 6, 7, 8, 9)]
    other = array.assign_coords(time=days).coordnet.fill(prior=CHEAP)
    assert np.array_equal(other, made) or np.allclose(other, made, atol=1e-6, equal_nan=True)
    assert other.time.values[0] == days[0]
    number = array.assign_coords(time=("time", [0.0, 1, 2, 3, 5, 6, 7, 8], {"units": "days since 2020-03-01"}))
    assert np.allclose(number.coordnet.fill(prior=CHEAP), made, atol=1e-6, equal_nan=True)


def test_series_are_filled_at_their_times():
    generator = np.random.default_rng(0)
    days = np.sort(100 * generator.random(60))
    truth = np.sin(days / 6)
    times = np.datetime64("2021-03-01", "us") + (days * 86_400e6).astype("timedelta64[us]")
    known = generator.random(60) > 0.3
    series = xarray.DataArray(np.where(known, truth, np.nan), {"time": times}, ("time",))
    for given in (series, series.chunk(time=-1), series.assign_coords(time=times - times[0])):
        error = given.coordnet.fill(prior=cn.ThinPlate(order=3, cutoff=3.0)) - truth
        assert np.abs(error).max() < 0.05  # at equal distances it is 0.4


@pytest.mark.parametrize("name", ["depth", "time"])
def test_a_field_is_filled_by_its_coordinates_or_their_numbers_as_suits_it(name):
    depth, x = np.array([2.0, 6, 12, 20, 35, 60, 100, 170, 280, 450, 700, 1100, 1800, 2600]), np.arange(24.0)
    known = np.random.default_rng(0).random((14, 24)) > 0.4
    for along, at in ((np.arange(14) / 4, "numbers"), (depth / 300, "coordinates")):
        truth = np.sin(along)[:, None] + np.cos(x / 4)
        field = xarray.DataArray(np.where(known, truth, np.nan), {name: depth, "x": x}, (name, "x"))
        filled = fill(field, prior=cn.ThinPlate(order=3, cutoff=np.inf))
        assert filled.report.at == at
        assert np.sqrt(np.square(filled.array - truth).mean()) < 0.03  # the other choice has 13, or 0.043


def test_durations_are_times():
    array = field()
    leads = array.assign_coords(time=array.time - array.time[0])
    made = leads.coordnet.fill(prior=CHEAP)
    assert np.array_equal(made, array.coordnet.fill(prior=CHEAP), equal_nan=True)
    short = leads.coordnet.fill(prior=CHEAP, max_gap="2D")
    assert np.array_equal(short, array.coordnet.fill(prior=CHEAP, max_gap="2D"), equal_nan=True)
    hours = np.arange(8) * np.timedelta64(12, "h")
    between = made[:, :, 2:].coordnet.regrid({"time": hours}, prior=CHEAP)
    assert between.time.dtype.kind == "m" and (between.time == hours).all()


def test_longitudes_that_go_around_are_periodic():
    """A turned field has the turned result, as far as the ends are nothing special."""
    lon = np.arange(0, 360, 15.0)
    values = np.cos(np.radians(lon)) + np.cos(np.radians(3 * lon + 20)) + np.linspace(0, 1, 12)[:, None]
    values[:, -2:] = np.nan
    values[:, :1] = np.nan
    array = xarray.DataArray(values, {"lat": np.linspace(-40, 40, 12), "lon": lon}, ("lat", "lon"))
    prior = cn.ThinPlate(3, np.inf, 0.0)
    around, cut = array.coordnet.fill(prior=prior), array.coordnet.fill(prior=prior, period={})
    expected = np.cos(np.radians(lon)) + np.cos(np.radians(3 * lon + 20)) + np.linspace(0, 1, 12)[:, None]
    errors = [float(np.abs(made - expected).max()) for made in (around, cut)]
    assert errors[0] < 0.5 * errors[1]
    turned = array.roll(lon=7, roll_coords=True).coordnet.fill(prior=prior).roll(lon=-7)
    assert float(np.abs(turned - expected).max()) < 0.5 * errors[1]
    named = array.rename(lon="x").coordnet.fill(prior=prior, period={"x": 360.0})
    assert np.array_equal(named, around)
    assert np.isfinite(array.fillna(0.0).coordnet.regrid({"lon": np.array([352.5])}, prior=prior)).all()
    with pytest.raises(ValueError, match="`period`: expected x equally spaced over 300"):
        array.rename(lon="x").coordnet.fill(prior=prior, period={"x": 300.0})


@pytest.mark.parametrize("step", [1 / 12, 360 / 23])
def test_coordinates_are_equally_spaced_to_the_rounding_of_float32(step):
    """The second step goes around the circle."""
    exact = field()[0, :, :23].assign_coords(lon=np.arange(23) * step)
    array = exact.assign_coords(lon=exact.lon.astype(np.float32), lat=exact.lat.astype(np.float32))
    made = fill(array, prior=CHEAP)
    assert made.report.at is None and fill(exact, prior=CHEAP).report.at is None
    assert np.isfinite(made.array[:, 2:]).all()


@pytest.mark.parametrize("sense", [1, -1])
def test_longitudes_may_begin_anew_within_a_field(sense):
    array = field()[..., ::sense]
    inside = array.assign_coords(lon=array.lon - 4)  # from 2° west to 5° east
    across = inside.assign_coords(lon=inside.lon % 360)
    made, wanted = across.coordnet.fill(prior=CHEAP), inside.coordnet.fill(prior=CHEAP)
    np.testing.assert_array_equal(made, wanted)
    assert (made.lon == across.lon).all()
    lon = np.linspace(-1.5, 4.5, 10)[::sense]
    made = across[0].coordnet.regrid({"lon": lon % 360}, prior=cn.Smoothness())
    np.testing.assert_array_equal(made, inside[0].coordnet.regrid({"lon": lon}, prior=cn.Smoothness()))
    assert (made.lon == lon % 360).all()
    east = {"lon": np.array([1.0, 2.0, 4.0])}
    made, wanted = (a[0].coordnet.regrid(east, prior=cn.Smoothness()) for a in (across, inside))
    np.testing.assert_allclose(made, wanted, atol=1e-6)


def test_deviations_are_a_second_variable(tmp_path):
    """They are stored as they are, however the values are packed into integers."""
    pytest.importorskip("netCDF4")
    array = field()
    array.encoding["add_offset"] = 400.0
    made = array.coordnet.fill(prior=CHEAP, uncertainty=True)
    made.to_netcdf(tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc") as read:
        assert np.array_equal(read.sst_std, made.sst_std, equal_nan=True)
    known = field().notnull().values
    assert list(made.data_vars) == ["sst", "sst_std"] and made.sst_std.attrs == {"units": "degC"}
    std = made.sst_std.values
    assert (std[known] == 0).all() and np.isnan(std[:, :, :2]).all()
    inside = np.isfinite(std) & ~known
    assert (std[inside] > 0).all() and made.sst_std.dtype == np.float32


def test_datasets_have_each_variable_with_gaps_filled():
    array = field()
    whole = array.fillna(0.0).rename("whole")
    dataset = xarray.Dataset({"sst": array, "whole": whole, "flag": ("time", np.arange(8))}, attrs={"title": "a"})
    made = dataset.coordnet.fill(prior=CHEAP, uncertainty=True)
    assert made.attrs == {"title": "a"} and set(made.data_vars) == {"sst", "whole", "flag", "sst_std"}
    xarray.testing.assert_identical(made[["whole", "flag"]], dataset[["whole", "flag"]])
    assert np.isfinite(made.sst[:, :, 2:]).all()
    fine = dataset.coordnet.regrid({"lat": np.array([44.0, 43.0, 42.0])}, prior=CHEAP)
    assert fine.sst.shape == (8, 3, 24) and list(fine.flag.values) == list(range(8))
    assert np.isnan(fine.sst[:, :, 0]).all()


@pytest.mark.slow
def test_noise_is_removed_and_missing_values_stay_so():
    generator = np.random.default_rng(0)
    array = field(np.float64)
    noisy = array + 0.2 * generator.standard_normal(array.shape)
    made = noisy[:, 6:, 4:].coordnet.smooth(0.2)
    noisy, array = (a[:, 6:, 4:] for a in (noisy, array))
    assert np.array_equal(made.isnull(), array.isnull()) and made.dims == array.dims
    before, after = (float(np.sqrt(((a - array) ** 2).mean())) for a in (noisy, made))
    assert after < 0.6 * before


def test_arrays_without_coordinates_are_filled_too():
    values = truth()[0]
    values[5:8, 5:8] = np.nan
    made = xarray.DataArray(values, dims=("y", "x")).coordnet.fill(prior=CHEAP)
    assert np.abs(made - truth()[0]).max() < 0.2 and not made.coords


def test_files_keep_their_fill_value(tmp_path):
    pytest.importorskip("netCDF4")
    field().to_netcdf(tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc") as read:
        read.coordnet.fill(prior=CHEAP).to_netcdf(tmp_path / "b.nc")
    with xarray.open_dataset(tmp_path / "b.nc") as written:
        assert written.sst.encoding["_FillValue"] == -999 and written.sst.encoding["dtype"] == np.int16
        assert np.isfinite(written.sst[:, :, 2:]).all() and np.isnan(written.sst[:, :, :2]).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: a.coordnet.fill("depth"), "`dims`: expected one of time, lat, lon"),
        (lambda a: a.where(False).coordnet.fill(), "`array`: expected a value that is not NaN, received NaN alone"),
        (lambda a: a.fillna(np.inf).coordnet.fill(), "`array`: expected finite numbers, or NaN .*, received infinity"),
        (lambda a: a.where(a < 1, -np.inf).coordnet.regrid({"lat": [43.0]}), "`array`: expected finite numbers"),
        (lambda a: a.coordnet.fill(valid=np.ones(3, bool)), "`valid`: expected a mask of the lengths"),
        (lambda a: a.coordnet.fill(max_gap="soon"), "`max_gap`: expected a duration such as '5D'"),
        (lambda a: a[0].coordnet.fill(max_gap=2), "`max_gap`: expected None, for an array without"),
        (lambda a: a.isel(time=[0, 2, 1]).coordnet.fill(), r"once \(array.sortby\('time'\)\)"),
        (lambda a: a.isel(time=[0, 1, 1]).coordnet.fill(), r"once \(array.drop_duplicates\('time'\)\)"),
        (lambda a: a.isel(lat=[1, 0, *range(2, 18)]).coordnet.fill(), "`lat`: expected coordinates in order"),
        (lambda a: a.assign_coords(lon=[*range(0, 12), 20, *range(12, 23)]).coordnet.fill(), "20 before 12"),
        (lambda a: a.assign_coords(x=a.lon).swap_dims(lon="x").isel(x=[0, 2, 1]).coordnet.fill(), "`x`: expected"),
        (lambda a: a.assign_coords(lat=[np.nan, *range(17)]).coordnet.fill(), "`lat`: expected coordinates in order"),
        (lambda a: a.coordnet.fill(prior=None), "`prior`: expected auto"),
        (lambda a: a.to_dataset().coordnet.fill("depth"), "`dim`: expected one of"),
        (lambda a: a.to_dataset().coordnet.regrid({"depth": [1.0]}), "`coordinates`: expected one of"),
        (lambda a: a.to_dataset().coordnet.regrid(a.coords.to_dataset()), "such as dataset.coords, received Dataset"),
    ],
)
def test_wrong_input_is_refused(call, said, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no annotations executed
    with pytest.raises(ValueError, match=said):
        call(field())
