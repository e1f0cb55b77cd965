"""``coordnet grid``: a table of points onto a grid in its own units, as the library has it; bad input in one line."""

import json
import sys

import numpy as np
import pytest
import xarray

import coordnet as cn
from coordnet.cli.grid import _chosen
from coordnet.cli.point_tables import read_drift
from coordnet.fitting.fit import choose
from coordnet.media import MediaError
from coordnet.media.columns import Table
from coordnet.plots.stations import GriddedPoints, stations_figure

RNG = np.random.default_rng(0)
PLACES = np.round(RNG.random((150, 2)) * [30, 20] + [-10, 40], 3)
FILES = {"figure.png", "grid.csv", "grid.nc", "model.safetensors", "record.json"}
PRIOR = ("--prior", "plates:order=3,cutoff=0.7")


def temperature(x):
    return 15 + 3 * np.sin(x[:, 0] / 5) * np.cos((x[:, 1] - 40) / 6)


@pytest.fixture
def table(tmp_path):
    values = temperature(PLACES) + 0.1 * RNG.normal(size=150)
    lines = [f"S{i};{x:.3f};{y:.3f};{v:.4f}" for i, ((x, y), v) in enumerate(zip(PLACES, values, strict=True))]
    text = "\n".join(["# stations", "name;lon;lat;t2m", *lines, "X;1.5;;3", "Y;1.5;45;-9999"])
    (tmp_path / "stations.csv").write_text(text + "\n")
    return tmp_path / "stations.csv"


@pytest.fixture
def grid(run, tmp_path):
    """Grid a table into tmp_path/out: (record, folder)."""

    def grid(*arguments):
        status, out, err = run("grid", *arguments, "--out", "out", "--json")
        assert (status, err) == (0, "")
        return json.loads(out), tmp_path / "out"

    return grid


@pytest.mark.slow
def test_the_files_hold_what_the_library_returns(grid, table):
    options = ("--value", "t2m", "--missing", "-9999", "--spacing", 1, "--max-distance", 4, *PRIOR)
    record, folder = grid(table, *options, "--unit", "t2m=degC", "--standard-name", "T2M=air_temperature")
    assert {path.name for path in folder.iterdir()} == FILES
    assert (record["points"], record["left_out"], record["merged"]) == (150, 2, 0)
    columns = Table(table).columns(["lat", "lon", "t2m"]).numbers[:150]
    prior = cn.ThinPlate(order=3, cutoff=0.7)
    fit = cn.fit(cn.points(columns[:, :2], columns[:, 2], names=("lat", "lon")), prior=prior)
    expected = fit.grid(spacing=1.0, max_distance=4.0)
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        np.testing.assert_array_equal(found["t2m"], expected)
        np.testing.assert_array_equal(found["lon"], expected["lon"])
        np.testing.assert_array_equal(found["t2m_std"], fit.grid(spacing=1.0, max_distance=4.0, std=True))
        np.testing.assert_array_equal(found["extrapolated"] > 0, fit.extrapolates(1.0))
        assert found["t2m"].attrs["standard_name"] == "air_temperature" and found["t2m"].attrs["units"] == "degC"
        assert found["t2m_std"].attrs["standard_name"] == "air_temperature standard_error"
    again = cn.Reconstruction.load(folder / "model.safetensors")
    np.testing.assert_array_equal(again.grid(spacing=1.0), fit.grid(spacing=1.0))
    rows = Table(folder / "grid.csv").columns(["lon", "lat", "t2m"]).numbers
    assert len(rows) == int(np.isfinite(expected).sum())
    first = expected.sel(lon=rows[7, 0], lat=rows[7, 1])
    assert float(first) == rows[7, 2]
    score = fit.score()
    assert record["score"] == {"rmse": score.rmse, "r2": score.r2, "folds": 5, "blocks": score.blocks}
    assert record["extrapolated"] == pytest.approx(float(fit.extrapolates(1.0).mean()))


def test_one_file_has_the_same_grid_alone(run, grid, table, tmp_path):
    options = (table, "--value", "t2m", "--missing", "-9999", "--spacing", 4, "--no-uncertainty", *PRIOR)
    _, folder = grid(*options)
    for file in ("field.nc", "field.csv"):
        assert run("grid", *options, "--out", file, "--quiet") == (0, "", "")
    assert {path.name for path in tmp_path.iterdir()} == {"stations.csv", "out", "field.nc", "field.csv"}
    assert (tmp_path / "field.csv").read_bytes() == (folder / "grid.csv").read_bytes()
    with xarray.open_dataset(tmp_path / "field.nc", engine="scipy") as alone:
        with xarray.open_dataset(folder / "grid.nc", engine="scipy") as whole:
            xarray.testing.assert_identical(alone, whole)
    assert run("grid", *options, "--out", "-", "--quiet")[1] == (folder / "grid.csv").read_text()


@pytest.mark.parametrize(("options", "expected"), [
    (("--out", "field.png"), "--out field.png: expected a suffix that is written (.nc .csv), found '.png'"),
    (("--out", "field.csv", "--max-distance", 1e-6), "--max-distance: expected a distance within which there is"),
])  # fmt: skip
def test_a_file_that_cannot_hold_the_grid_is_refused(run, table, tmp_path, options, expected):
    status, _, err = run("grid", table, "--value", "t2m", "--missing", "-9999", "--spacing", 4, *PRIOR, *options)
    assert status == 2 and expected in err
    assert {path.name for path in tmp_path.iterdir()} == {"stations.csv"}


@pytest.mark.slow
def test_lines_say_what_was_found(run, table):
    status, out, _ = run("grid", table, "--value", "t2m", "--missing", "-9999", *PRIOR)
    assert status == 0
    for text in (
        "150 points of t2m at lon, lat (2 left out)",
        "error by cross-validation",
        "of it extrapolated (hatched",
    ):
        assert text in out


def test_columns_may_have_numbers_and_axes_may_wrap(grid, tmp_path):
    places = RNG.random((200, 2)) * [360, 80] - [180, 40]
    values = np.cos(np.radians(places[:, 0])) * np.cos(np.radians(places[:, 1]))
    np.savetxt(tmp_path / "a.txt", np.c_[places, values, values**2])
    asked = ("--x", 1, "--y", 2, "--value", 3, "--value", 4, "--period", "column1=360", "--spacing", "10,5")
    record, folder = grid(tmp_path / "a.txt", *asked, "--no-uncertainty", *PRIOR)
    assert record["values"] == ["column3", "column4"] and record["score"] is None
    assert record["axes"]["column1"]["period"] == 360 and record["grid"]["column1"][2] == 36
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        assert found["column4"].dims == ("column2", "column1") and "column4_std" not in found


def test_units_of_the_heading_are_those_of_the_grid(grid, tmp_path):
    header = "lon [degrees_east],lat [degrees_north],T (K)"
    np.savetxt(tmp_path / "a.csv", np.c_[PLACES, temperature(PLACES)], delimiter=",", header=header, comments="")
    _, folder = grid(tmp_path / "a.csv", "--spacing", 5, "--no-uncertainty", *PRIOR)
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        assert found["T"].dims == ("lat", "lon")
        assert [found[name].units for name in ("T", "lon", "lat")] == ["K", "degrees_east", "degrees_north"]


def test_a_sphere_has_poles(grid, tmp_path):
    places = np.stack([360 * RNG.random(100) - 180, np.degrees(np.arcsin(2 * RNG.random(100) - 1))], -1)
    np.savetxt(tmp_path / "a.txt", np.c_[places, np.sin(np.radians(places[:, 1]))])
    asked = ("--x", 1, "--y", 2, "--value", 3, "--sphere", "--spacing", 30)
    record, folder = grid(tmp_path / "a.txt", *asked, "--no-uncertainty", "--prior", "plates:order=3,cutoff=2")
    assert record["grid"]["column2"] == [-90.0, 90.0, 7]
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        np.testing.assert_allclose(found["column3"].sel(column2=90.0), 1, atol=0.05)


def test_standard_input_is_a_table(grid, table, monkeypatch):
    options = ("--value", "t2m", "--missing", "-9999", "--spacing", 4, *PRIOR, "--no-uncertainty")
    expected = grid(table, *options)[0]["grid"]
    with table.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert grid("-", *options, "--force")[0]["grid"] == expected


def test_robust_fits_refuse_a_sphere_and_a_drift(run, table):
    options = ("--x", "lon", "--y", "lat", "--value", "t2m", "--missing", "-9999", "--robust", "--sphere")
    status, _, err = run("grid", table, *options)
    assert status == 2
    assert err.startswith("coordnet: --robust: expected points with no drift, and not on a sphere")
    points = cn.points(PLACES, temperature(PLACES), drift={"elevation": PLACES[:, 0]})
    with pytest.raises(ValueError, match="^`robust`: expected points with no drift"):
        choose(points, robust=True)


def test_a_column_of_sigma_weighs_the_points(grid, tmp_path):
    x = np.linspace(0, 10, 60)
    sigma = np.where(np.arange(60) % 3, 0.01, 5.0)
    values = np.sin(x) + sigma * RNG.normal(size=60)
    sigma[7] = np.nan
    np.savetxt(tmp_path / "a.csv", np.c_[x, values, sigma], delimiter=",", header="day,level,error", comments="")
    options = ("--x", "day", "--value", "level", "--sigma", "error", "--spacing", 0.5, "--out", "out")
    record, folder = grid(tmp_path / "a.csv", *options[:-2], "--prior", "plates:order=2,cutoff=0.7", "--no-uncertainty")
    assert record["points"] == 59 and record["left_out"] == 1
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        assert float(np.abs(found["level"] - np.sin(found["day"])).max()) < 0.1


def test_outliers_move_a_robust_grid_little(grid, tmp_path):
    values = temperature(PLACES)
    values[::15] += 30
    np.savetxt(tmp_path / "a.csv", np.c_[PLACES, values], delimiter=",", header="lon,lat,t2m", comments="")
    _, folder = grid(tmp_path / "a.csv", "--spacing", 1, "--max-distance", 2, "--robust", "--no-uncertainty")
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        truth = temperature(np.stack(np.meshgrid(found["lon"], found["lat"]), axis=-1).reshape(-1, 2))
        error = found["t2m"] - truth.reshape(found["t2m"].shape)
        assert float(np.sqrt((error**2).mean())) < 0.3


def test_few_points_have_no_score(grid, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,v\n0,0,1\n1,0,2\n0,1,3\n")
    record, folder = grid(tmp_path / "a.csv")
    assert record["score"] is None and record["expected_error"] is None
    assert {path.name for path in folder.iterdir()} == FILES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--value: expected a column of values, found none, and"),
        (("--value", "t3m"), "expected a column 't3m', found the columns name, lon, lat, t2m"),
        (("--value", "name"), "line 3: expected a finite number, in name, found 'S0'"),
        (("--value", "lat"), "expected another column for each coordinate, value and drift, found lat, lon, lat"),
        (("--value", "t2m", "--spacing", "0.1,0.2,0.3"), "--spacing: expected a number, or 2, one for each axis"),
        (("--value", "t2m", "--spacing", "-1"), "--spacing: expected positive numbers such as 0.1"),
        (("--value", "t2m", "--spacing", "0,05"), "0.1,0.2 for two axes, received '0,05'"),
        (("--value", "t2m", "--spacing", "1e-7"), "--spacing: expected at most"),
        (("--value", "t2m", "--spacing", "wide"), "--spacing: expected numbers such as 0.1 or 0.1,0.2"),
        (("--value", "t2m", "--period", "lon"), "--period: expected COLUMN=… with one of lat, lon"),
        (("--value", "t2m", "--period", "lon=west"), "--period: expected lon= and a positive number"),
        (("--value", "t2m", "--unit", "depth=m"), "--unit: expected COLUMN=… with one of lat, lon, t2m"),
        (("--value", "t2m", *PRIOR, "--max-distance", "0"), "--max-distance: expected a positive finite number"),
        (("--value", "t2m", "--prior", "plates:order=99"), "order"),
        (("--x", "x", "--value", "t2m"), "expected a column 'x'"),
    ],
)
def test_what_cannot_be_gridded_is_refused_in_one_line(run, table, tmp_path, options, message):
    status, out, err = run("grid", table, *options, "--missing", "-9999", "--out", "out", "--quiet")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("shape", [(30,), (12, 20), (5, 12, 20), (3, 5, 12, 20)])
def test_the_figure_has_panels_for_any_number_of_axes(shape):
    names = ("t", "z", "lat", "lon")[-len(shape) :]
    axes = {name: np.linspace(0, 10, n) for name, n in zip(names, shape, strict=True)}
    field, beyond = np.random.default_rng(0).random(shape), np.zeros(shape, bool)
    beyond[..., :3] = True
    places = np.random.default_rng(1).random((40, len(shape))) * 10
    places[:, 0] /= 4 if len(shape) > 2 else 1  # the last slices have no points
    units = {"lon": "degrees_east", "v": "K"}
    figure = stations_figure([GriddedPoints(places, places[:, 0], axes, field, 0.1 * field, beyond, units, "v")])
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert len(panels) == {1: 1, 2: 3}.get(len(shape), 9)
    assert panels[-1].get_xlabel() == "lon (degrees_east)"


def elevation(x, y):
    return 300 + 100 * x + 40 * (y - 40)


def test_a_drift_is_taken_from_a_netcdf_file_or_a_table_of_places(grid, run, tmp_path):
    """The elevation of the file is linear, so that it is exact between its nodes."""
    heights = elevation(*PLACES.T) + np.random.default_rng(0).normal(size=len(PLACES)) * 200
    rows = np.column_stack([PLACES, heights, temperature(PLACES) - 0.0065 * heights])
    np.savetxt(tmp_path / "s.csv", rows, delimiter=",", header="lon,lat,height,t2m", comments="")
    lon, lat = np.linspace(-12, 22, 18), np.linspace(38, 62, 13)
    model = xarray.Dataset({"height": (("lat", "lon"), elevation(lon, lat[:, None]))}, {"lat": lat, "lon": lon})
    model.to_netcdf(tmp_path / "dem.nc", engine="scipy")
    places = np.stack(np.meshgrid(lon, lat), -1).reshape(-1, 2)
    table = np.column_stack([places, elevation(*places.T)])
    np.savetxt(tmp_path / "dem.csv", table, delimiter=",", header="lon,lat,height", comments="")
    options = (tmp_path / "s.csv", "--drift", "height", "--spacing", 2, "--no-uncertainty", *PRIOR)
    record, folder = grid(*options, "--drift-at", tmp_path / "dem.nc")
    assert record["values"] == ["t2m"] and record["report"]["drift"]["height"] == pytest.approx([-0.0065], rel=0.01)
    with xarray.open_dataset(folder / "grid.nc", engine="scipy") as found:
        first = found["t2m"].load()
    where = np.stack(np.meshgrid(first["lon"], first["lat"]), -1).reshape(-1, 2)
    inside = (np.abs(where - [5, 50]) < [13, 8]).all(1)
    expected = temperature(where) - 0.0065 * elevation(*where.T)
    np.testing.assert_allclose(first.values.ravel()[inside], expected[inside], atol=0.3)
    between = read_drift(tmp_path / "dem.csv", ["height"], ["lat", "lon"])["height"]
    np.testing.assert_allclose(between(*where[:, ::-1].T), elevation(*where.T), atol=1e-9)
    status, _, err = run("grid", *options, "--out", "other")
    assert status == 2 and "--drift-at: expected a file with height" in err and err.count("\n") == 1
    status, _, err = run("grid", *options, "--drift-at", tmp_path / "s.csv", "--drift", "t2m", "--out", "other")
    assert status == 2 and err.count("\n") == 1 and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("file", "names", "axes", "message"),
    [
        ("missing.nc", ["height"], ["lat", "lon"], "--drift-at: expected a file with height .* no file"),
        ("dem.nc", [], ["lat", "lon"], r"--drift-at: expected a column .*--drift NAME"),
        ("dem.nc", ["height"], ["y", "x"], "a variable height along y, x, found it along lat, lon"),
        ("dem.nc", ["depth"], ["lat", "lon"], "a variable depth along lat, lon, found height"),
    ],
)
def test_a_file_that_has_no_drift_for_the_grid_is_named_in_one_line(tmp_path, file, names, axes, message):
    model = xarray.Dataset({"height": (("lat", "lon"), np.ones((2, 2)))}, {"lat": [0, 1], "lon": [0, 1]})
    model.to_netcdf(tmp_path / "dem.nc", engine="scipy")
    with pytest.raises(MediaError, match=message):
        read_drift(tmp_path / file, names, axes)


def test_a_drift_along_one_axis_reaches_nodes_that_only_rounding_puts_beyond_its_ends(tmp_path):
    (tmp_path / "dem.csv").write_text("x,height\n0.1,1\n0.2,2\n0.3,4\n")
    between = read_drift(tmp_path / "dem.csv", ["height"], ["x"])["height"]
    found = between(np.array([0.1 - 1e-9, 0.15, 0.1 + 0.2, 0.32]))
    np.testing.assert_allclose(found, [1, 1.5, 4, np.nan])


def test_the_chosen_numbers_of_plates_are_said_whatever_the_seed():
    """Both numbers stand in the text of a prior that has them."""
    found = {"order": 3, "cutoff": 1.4, "corner": 0.0}
    texts = ("plates", "plates:seed=1", "plates:order=3,cutoff=1.4", "local")
    said = [_chosen(text, found) for text in texts]
    assert said == ["order 3, cut-off 1.4, "] * 2 + ["", ""]
    assert _chosen("plates", found | {"corner": 0.25}) == "order 3, cut-off 1.4, corner 0.25, "


def test_a_height_that_is_not_asked_for_is_said_with_its_remedies(run, tmp_path):
    places = np.random.default_rng(0).random((40, 3))
    rows = "\n".join(f"{x},{y},{z},{x + y}" for x, y, z in places)
    (tmp_path / "cloud.csv").write_text(f"x,y,Z (m),v\n{rows}\n")
    said = "z is not used: --z z takes it for a coordinate, --drift z for a drift"
    for options in ((), ("--z", "z")):
        asked = ("--value", "v", *options, "--prior", "plates:order=2", "--no-uncertainty", "--out", "out", "--force")
        status, out, _ = run("grid", tmp_path / "cloud.csv", *asked)
        assert status == 0 and (said in out) == (not options)
