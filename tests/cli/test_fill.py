"""The command ``coordnet fill``: files in, files out, with a figure and a record, and clear refusals."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from coordnet.sampling.axes import ByAxes

xarray = pytest.importorskip("xarray")
pytest.importorskip("netCDF4")
files = pytest.importorskip("coordnet.xarray.datasets")
stores = pytest.importorskip("coordnet.xarray.stores")


@pytest.fixture
def cube(tmp_path, monkeypatch):
    """A field of six days with clouds and land."""
    monkeypatch.chdir(tmp_path)
    t, y, x = np.meshgrid(np.arange(6), np.linspace(0, 2, 14), np.linspace(0, 3, 16), indexing="ij")
    values = (15 + np.sin(2 * y + 0.2 * t) + np.cos(2 * x)).astype(np.float32)
    truth = values.copy()
    for k, frame in enumerate(values):
        frame[2 + k : 7 + k, 3 + k : 8 + k] = np.nan
    values[:, :, :2] = np.nan
    days = np.datetime64("2020-01-01", "ns") + np.arange(6) * np.timedelta64(1, "D")
    labels = {"time": days, "lat": np.linspace(40, 45, 14), "lon": np.linspace(0, 5, 16)}
    sst = xarray.DataArray(values, labels, ("time", "lat", "lon"), attrs={"units": "degC"})
    sst.encoding["_FillValue"] = -99.0
    xarray.Dataset({"sst": sst, "flag": ("time", np.arange(6))}).to_netcdf("cube.nc")
    return truth


write = stores._write


def killed(task, mark):
    """Write a block, unless it is one that kills its process."""
    if Path("deadly").exists() and mark.name.endswith(".1.1"):
        signal.raise_signal(signal.SIGKILL)
    write(task, mark)


FILL = ("fill", "cube.nc", "--prior", "adaptive")


def test_a_file_is_filled_beside_a_figure_and_a_record(cube, run, coarse):
    status, out, err = run(*FILL, "--out", "filled.nc")
    assert status == 0 and "filled.png and filled.json" in out
    with xarray.open_dataset("filled.nc") as made, xarray.open_dataset("cube.nc") as given:
        assert (
            made.sst.dtype == np.float32
            and made.sst.encoding["_FillValue"] == -99
            and made.sst.attrs == given.sst.attrs
        )
        assert np.isnan(made.sst[:, :, :2]).all() and np.isfinite(made.sst[:, :, 2:]).all()
        assert float(np.abs(made.sst.values - cube)[:, :, 2:].max()) < 0.5
        assert made.flag.identical(given.flag)
    record = json.loads(Path("filled.json").read_text())
    assert record["variables"]["sst"]["left"] == 6 * 14 * 2 and record["settings"]["prior"] == "adaptive"
    assert record["inputs"][0]["path"].endswith("cube.nc") and record["variables"]["sst"]["report"]["fit"]["method"]


@pytest.mark.slow
def test_short_gaps_and_deviations(cube, run, coarse):
    status, *_ = run(*FILL, "--out", "filled.zarr", "--max-gap", "3D", "--var", "sst", "--uncertainty", "--quiet")
    assert status == 0
    with xarray.open_zarr("filled.zarr") as made:
        assert {"sst", "sst_std", "flag"} == set(made.data_vars)
        inside = made.sst[:, :, 2:].isnull().sum()
        assert 0 < int(inside) < 6 * 25


def test_an_array_of_zarr_without_labels_keeps_its_chunks(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "z.zarr", shape=(6, 10), chunks=(3, 5), dtype="f4")[:] = 1
    files.write_dataset(files.open_dataset(tmp_path / "z.zarr").load(), tmp_path / "copy.zarr")
    assert zarr.open(tmp_path / "copy.zarr", mode="r")["z"].chunks == (3, 5)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # a package below rioxarray gives it
def test_a_georeference_is_kept(cube, run, coarse):
    pytest.importorskip("rioxarray")
    with xarray.open_dataset("cube.nc") as given:
        bands = given.sst[:2].rename(time="band", lat="y", lon="x").assign_coords(band=[1, 2]).drop_encoding()
        bands.rio.write_crs("EPSG:4326").rio.write_nodata(-99).rio.to_raster("map.tif")
    status, out, err = run("fill", "map.tif", "--out", "filled.tif", "--prior", "adaptive:rounds=1", "--uncertainty")
    assert status == 0 and "with filled_std.tif, filled.png and" in out, err
    import rioxarray

    given, made, std = (rioxarray.open_rasterio(f, masked=True) for f in ("map.tif", "filled.tif", "filled_std.tif"))
    for raster in (made, std):
        assert raster.rio.crs == given.rio.crs and raster.rio.transform() == given.rio.transform()
        assert raster.shape == (2, 14, 16) and np.isfinite(raster).all()
    assert np.array_equal(made.where(given.notnull()), given, equal_nan=True)
    assert np.array_equal(std == 0, given.notnull())


@pytest.mark.slow
def test_a_lost_worker_is_told_and_the_same_command_goes_on(cube, run, forked, coarse, monkeypatch, tmp_path):
    """Files of a killed run are hidden, and the next run writes the other blocks alone."""
    pytest.importorskip("dask")
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 500)
    monkeypatch.setattr("coordnet.restore.blocks.HALO", ByAxes({1: 4, 2: 2, 3: 2, 4: 2}))
    monkeypatch.setattr("coordnet.xarray.stores._write", killed)
    deadly = tmp_path / "deadly"
    deadly.touch()
    blocks = (*FILL, "--out", "filled.zarr", "--workers", "2", "--quiet")
    status, out, err = run(*blocks)
    assert status == 2 and err.count("\n") == 1 and not out and "block 0.1.1 of sst" in err
    assert "its process died" in err and "goes on from there" in err and not Path("filled.zarr").exists()
    done = {path.name: path.stat().st_mtime_ns for path in Path(".filled.zarr.part/done").iterdir()}
    deadly.unlink()
    status, _, err = run(*blocks)
    assert status == 0, err
    assert done and not Path(".filled.zarr.part").exists()
    with xarray.open_zarr("filled.zarr", consolidated=False) as made:
        assert np.isnan(made.sst[:, :, :2]).all() and np.isfinite(made.sst[:, :, 2:]).all()
        assert float(np.abs(made.sst.values - cube)[:, :, 2:].max()) < 0.7
    record = json.loads(Path("filled.json").read_text())
    assert record["variables"]["sst"]["report"]["blocks"]["counts"][0] == 1


def test_the_variables_that_are_filled_decide_the_memory_and_tiles_take_less(cube, run, coarse, monkeypatch):
    with xarray.open_dataset("cube.nc") as given:
        dataset = given.load()
    dataset.assign(other=("place", np.zeros(10**6, np.float32))).to_netcdf("cube.nc")
    monkeypatch.setattr("coordnet.cli.large.available_memory", lambda: 2 * 10**6)
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 600)
    status, _, err = run(*FILL, "--out", "filled.nc", "--var", "sst", "--quiet")
    assert status == 0, err


def test_blocks_of_another_seed_or_version_are_not_kept(cube, run, monkeypatch):
    pytest.importorskip("dask")
    told = []

    def store(out, made, origin):
        told.append(origin)
        raise ValueError("no more is needed")

    monkeypatch.setattr("coordnet.cli.fill_files.BlockStore", store)
    for seed in ("0", "1", "0"):
        run(*FILL, "--out", "filled.zarr", "--workers", "2", "--seed", seed, "--quiet")
    assert told[0] == told[2] != told[1] and "versions" in told[0]


def test_a_file_without_chunks_is_read_in_chunks(cube, run, monkeypatch):
    pytest.importorskip("dask")
    found = []

    def filled(dataset, *_):
        found.append(dataset.sst.chunksizes)
        raise ValueError("no more is needed")

    monkeypatch.setattr("coordnet.cli.fill_files._filled", filled)
    monkeypatch.setattr("coordnet.cli.fill_files.READ_BYTES", 2000)
    run(*FILL, "--out", "filled.zarr", "--workers", "2", "--quiet")
    assert max(len(sizes) for sizes in found[0].values()) > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fill", "none.nc", "--out", "a.nc"), "none.nc: expected a file of labeled arrays, found none"),
        (("fill", "cube.nc", "--out", "a.txt"), "a.txt: expected a name that ends in .nc"),
        (("fill", "cube.nc", "--out", "cube.nc"), "--out: expected another file than the input"),
        (("fill", "cube.nc", "--out", "a.tif"), "a.tif: expected a .nc or .zarr for all but one variable along y, x"),
        (("fill", "cube.nc", "--out", "no/a.nc"), "--out: expected a file in a folder that exists"),
        (("fill", "cube.nc", "--out", "a.nc", "--var", "depth"), "--var: expected one of"),
        (
            ("fill", "cube.nc", "--out", "a.nc", "--var", "flag"),
            "cube.nc: expected a variable with missing values, found flag",
        ),
        (("fill", "cube.nc", "--out", "a.nc", "--max-gap", "soon"), "expected a duration such as '5D'"),
        (("fill", "cube.nc", "--out", "a.nc", "--prior", "none"), "--prior: expected auto or the name of a prior"),
        (
            ("fill", "cube.nc", "--out", "a.nc", "--workers", "2"),
            "--out: expected a .zarr for what is filled in blocks",
        ),
        (("fill", "cube.nc", "--out", "a.zarr", "--memory", "1kB"), "cube.nc, sst: --memory: expected at least"),
        (("fill", "empty.nc", "--out", "a.zarr", "--workers", "2"), "expected a value that is not NaN"),
        (("fill", "broken.nc", "--out", "a.nc"), "broken.nc: expected a file of labeled arrays, found an error"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(arguments, said, cube, run, tmp_path):
    (tmp_path / "broken.nc").write_bytes(b"no NetCDF")
    with xarray.open_dataset("cube.nc") as given:
        given.sst.where(False).to_netcdf("empty.nc")
    before = sorted(path.name for path in tmp_path.iterdir())
    status, out, err = run(*arguments)
    assert status == 2 and said in err and err.count("\n") == 1 and not out
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_results_are_replaced_by_force_alone(cube, run, coarse):
    assert run(*FILL, "--out", "filled.nc", "--quiet")[0] == 0
    status, _, err = run(*FILL, "--out", "filled.nc")
    assert status == 2 and "filled.nc, which exists (--force replaces)" in err
    assert run(*FILL, "--out", "filled.nc", "--force", "--quiet")[0] == 0


def test_the_line_says_where_values_at_unequal_coordinates_were_taken_to_lie(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    depth, x = np.geomspace(2, 500, 12), np.arange(16.0)
    for along, words in ((np.arange(12) / 4, "as if at equal distances"), (depth / 60, "at its coordinates")):
        values = np.sin(along)[:, None] + np.cos(x / 4)
        values[np.random.default_rng(0).random(values.shape) < 0.4] = np.nan
        xarray.DataArray(values, {"depth": depth, "x": x}, ("depth", "x"), "t").to_netcdf("levels.nc")
        _, out, _ = run("fill", "levels.nc", "--prior", "plates:order=3", "--out", "filled.nc", "--force")
        assert f"plates {words}" in out
