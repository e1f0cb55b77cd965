"""Clouds of points: what is given of them, the peers against planted answers, and the ratios of records."""

import numpy as np
import pytest

from coordnet.bench.point_clouds import CLOUDS, FIELDS_OF_POINTS, Given, of_field, of_photograph, of_row
from coordnet.bench.points_study import WANTED, PointsStudy, every_score, figure, peers, ratios, rms
from coordnet.bench.records import Options, read
from coordnet.bench.runner import report, run

STUDY = PointsStudy()


def plane(x):
    return 3 + x @ np.arange(1, x.shape[1] + 1)


def given(dims, count=120, noise=0.0):
    generator = np.random.default_rng(0)
    places, hidden = generator.random((count, dims)), 0.2 + 0.6 * generator.random((50, dims))
    return Given(places, plane(places), hidden, plane(hidden), noise)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_peers_that_reproduce_planes_find_a_plane(dims, noise):
    """The radial functions of an order above 1, and triangles; the best smoothing of a plane is any."""
    cloud = given(dims, noise=noise)
    errors = {name: rms(work() - cloud.truth) for name, work in peers(cloud, "smooth").items()}
    exact = [name for name in errors if "linear" not in name or "griddata" in name]
    assert len(exact) >= 3 and max(errors[name] for name in exact) < 1e-6


@pytest.mark.parametrize(
    ("package", "name"), [("pykrige", "PyKrige"), ("gstools", "GSTools"), ("verde", "verde SplineCV")]
)
def test_peers_of_other_packages_are_near_a_hill(package, name):
    pytest.importorskip(package)
    cloud = given(2, 200)
    hill = [np.exp(-4 * ((x - 0.5) ** 2).sum(1)) for x in (cloud.places, cloud.hidden)]
    cloud = Given(cloud.places * 100, hill[0], cloud.hidden * 100, hill[1])
    assert rms(peers(cloud, "terrain")[name]() - hill[1]) < 0.1 * np.ptp(hill[1])


@pytest.mark.parametrize("name", [name for name in CLOUDS if CLOUDS[name].is_there])
def test_every_cloud_hides_other_points_than_it_gives(name):
    cloud = CLOUDS[name].draw()
    assert len(cloud.places) == len(cloud.values) and len(cloud.hidden) == len(cloud.truth) >= 300
    assert not set(map(tuple, cloud.places)) & set(map(tuple, cloud.hidden))
    assert CLOUDS[name].kind in WANTED and cloud.span > 0


def test_values_between_nodes_and_at_pixels_are_those_of_the_field():
    pixels = FIELDS_OF_POINTS["camera"].load() / 255
    cloud = of_photograph("camera", 0.25)
    np.testing.assert_array_equal(cloud.truth, pixels[tuple(cloud.hidden.astype(int).T)])
    terrain = FIELDS_OF_POINTS["terrain"].load()
    cloud = of_field("terrain", 500)
    nearest = terrain[tuple(np.round(cloud.places).astype(int).T)]
    assert rms(cloud.values - nearest) < 0.1 * terrain.std()


def test_a_row_leaves_its_own_gaps_out(monkeypatch):
    values = np.where(np.arange(300) % 9 == 0, np.nan, np.arange(300.0))
    monkeypatch.setitem(FIELDS_OF_POINTS, "co2", type("Field", (), {"load": lambda: values}))
    cloud = of_row("co2", 0.5)
    np.testing.assert_array_equal(cloud.values, cloud.places[:, 0])
    assert len(cloud.values) + len(cloud.truth) == np.isfinite(values).sum()


@pytest.mark.slow
def test_a_run_is_recorded_and_reported(tmp_path):
    assert run(STUDY, Options(quick=True), tmp_path, progress=False) == (4, 0)
    records = list(read(tmp_path).values())
    cells = ratios(records)
    assert list(cells["points"]) == ["waves 500", "waves 500 noise"] and len(every_score(records)) == 14
    for _, row in cells.iterrows():
        found = next(r for r in records if r["cell"]["task"] == row["points"] and "coordnet" not in r["scores"])
        counted = [error for name, error in found["scores"].items() if name.startswith("RBF")]
        assert row["its error"] == min(counted) or row["best peer"] == "RBF quintic"
        assert row["ratio"] == row["coordnet"] / row["its error"]
    assert "2 clouds" in report("points", None, tmp_path)[0]
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", "points.md", "points.csv", "points.png"}
    assert figure(cells).axes and ratios(records[:1]).empty
