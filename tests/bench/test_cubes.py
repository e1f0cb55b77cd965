"""Fields in time: what is hidden, the peers against known answers, and the report of records."""

import numpy as np
import pytest

from coordnet.bench import cube_fields
from coordnet.bench import cubes_study as cubes
from coordnet.bench.cube_fields import Given, clouds, clouds_of_other_days, frames, points, random, rmse
from coordnet.bench.cubes_study import CUBE_PEERS, Cubes, dineof, errors, ratios
from coordnet.bench.records import Options, read
from coordnet.bench.runner import report

pytest.importorskip("xarray")


def plane(times=(0.0, 1.0, 2.0, 4.0, 5.0, 7.0)):
    t, y, x = np.meshgrid(np.array(times), np.arange(12.0), np.arange(15.0), indexing="ij")
    return 3 + 0.2 * t + 0.1 * y - 0.05 * x, np.array(times)


def test_clouds_hide_between_three_and_six_tenths_of_a_frame_in_areas():
    hidden = clouds(np.zeros((6, 40, 50)), "any")
    shares = hidden.mean((1, 2))
    assert (shares > 0.28).all() and (shares < 0.62).all()
    assert (hidden[:, 1:] & hidden[:, :-1]).mean() > 0.85 * hidden.mean()
    assert not np.array_equal(hidden[0], hidden[1])
    assert np.array_equal(hidden, clouds(np.zeros((6, 40, 50)), "any"))


def test_clouds_of_other_days_hide_what_is_known_there():
    truth = np.random.default_rng(0).random((10, 8, 9))
    truth[8, :4] = np.nan
    hidden = Given.of(truth, np.arange(10.0), clouds_of_other_days(truth, "alboran", 0)).hidden
    assert hidden[0, :4].all() and not hidden[0, 4:].any() and not hidden[2].any()


def test_other_ways_to_hide():
    truth, _ = plane(tuple(range(20)))
    assert frames(truth, "a").all((1, 2)).sum() == 2 and not frames(truth, "a")[[0, -1]].any()
    assert 0.85 < random(truth, "a", 0.1).mean() < 0.95
    assert points(np.tile(truth, (1, 2, 2)), "a").sum() == cube_fields.POINTS


@pytest.mark.parametrize("name", ["linear in space", "linear in time", "mean of these"])
def test_linear_peers_are_exact_on_planes(name):
    truth, times = plane()
    hidden = np.zeros(truth.shape, bool)
    hidden[2:4, 4:8, 5:10] = True
    case = Given.of(truth, times, hidden)
    assert rmse(CUBE_PEERS[name](case), case) < 1e-12


def test_the_mean_is_that_in_time_where_a_frame_is_missing():
    truth, times = plane()
    hidden = np.zeros(truth.shape, bool)
    hidden[3] = True
    case = Given.of(truth, times, hidden)
    assert rmse(CUBE_PEERS["mean of these"](case), case) < 1e-12 < rmse(CUBE_PEERS["linear in space"](case), case)


def test_dineof_completes_a_matrix_of_low_rank():
    """Two modes with gaps are recovered, as no interpolation does; land stays unknown."""
    generator = np.random.default_rng(0)
    truth = np.einsum("kt,kyx->tyx", generator.standard_normal((2, 30)), generator.standard_normal((2, 12, 14)))
    truth[:, :, :2] = np.nan
    hidden = clouds(np.zeros(truth.shape), "any") & (generator.random((30, 1, 1)) < 0.7)
    case = Given.of(truth, np.arange(30.0), hidden)
    made = dineof(case)
    assert rmse(made, case) < 0.1 * truth[case.hidden].std()
    assert np.isnan(made[:, :, :2]).all() and np.isfinite(made[:, :, 2:]).all()


def test_a_run_records_every_method_and_the_report_has_the_ratio(tmp_path, monkeypatch):
    truth, times = plane()
    truth = truth + np.sin(truth)
    monkeypatch.setattr(cube_fields, "cube", lambda name, data: (truth, times))
    monkeypatch.setattr(cubes, "cube", lambda name, data: (truth, times))
    monkeypatch.setattr(cubes, "OURS", {"cn.fill": cubes.Adaptive(rounds=1)})
    text, failed = report("cubes", Options(only=("air",), quick=True), tmp_path, progress=False)
    assert not failed and "1 cases: the default's errors are" in text and "**" in text
    found = errors(list(read(tmp_path).values()))
    assert list(found.columns) == ["cn.fill", *CUBE_PEERS]
    expected = found["cn.fill"] / found[list(CUBE_PEERS)].min(axis=1)
    assert ratios(found).tolist() == pytest.approx(expected.tolist())
    assert (tmp_path / "cubes.png").stat().st_size > 1000


def test_data_that_are_missing_are_named(tmp_path):
    with pytest.raises(ValueError, match="`data`: expected a folder with sst/alboranSST_small.nc"):
        list(Cubes().stages(Options(only=("alboran",), data=tmp_path), {}))
