"""Fields of every kind: what is given of them, the peers against known answers, and the margins of records."""

import json

import numpy as np
import pytest
import torch
from scipy.interpolate import RectBivariateSpline

import coordnet as cn
from coordnet.bench import kinds_study as kinds
from coordnet.bench.field_peers import PEER_DEGREES, between, by_kernel, decibels, peers, spline
from coordnet.bench.field_samplings import SAMPLINGS
from coordnet.bench.kinds_study import Kinds, grid_of, margins
from coordnet.bench.package_fields import FIELDS, Field
from coordnet.bench.records import Options, read
from coordnet.bench.runner import report, run

STUDY = Kinds()


def wave(*grid):
    axes = np.meshgrid(*(np.arange(n) / n for n in grid), indexing="ij")
    return 0.5 + 0.4 * np.sin(sum((3 + k) * x for k, x in enumerate(axes)))


def plane(*grid):
    axes = np.meshgrid(*(np.arange(n) / n for n in grid), indexing="ij")
    return sum(axes) / len(grid)


@pytest.fixture
def fields(monkeypatch):
    """Two small fields in the place of those of packages, one of a package that is not installed."""
    found = {
        "row": Field("numpy", 1, lambda: 7 - 30 * wave(60), "a wave", "none"),
        "square": Field("numpy", 2, lambda: wave(16, 14), "waves", "none"),
        "absent": Field("no_such_package", 2, lambda: wave(9, 9), "nothing", "none"),
    }
    monkeypatch.setattr(kinds, "FIELDS", found)
    kinds.values_of.cache_clear()
    yield found
    kinds.values_of.cache_clear()


@pytest.mark.parametrize("grid", [(90,), (24, 21), (12, 10, 9)], ids=len)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_what_is_given_is_the_field_there_and_the_rest_is_scored(sampling, grid):
    """In a plane, a value tells the sum of its coordinates."""
    truth = plane(*grid)
    given = SAMPLINGS[sampling](truth)
    sums = (given.points / given.truth.shape).mean(1)
    if given.noise:
        assert given.scored.all()
        assert np.std(given.values - sums) == pytest.approx(given.noise, rel=0.4)
        return
    if sampling == "points between":
        assert given.truth.shape == tuple(-(-n // 2) for n in grid)
        assert np.array_equal(given.truth, truth[(slice(None, None, 2),) * len(grid)])
        sums = (2 * given.points / grid).mean(1)  # nodes are twice as far apart
        assert given.scored.all() and (given.points % 1).any(1).all()
    else:
        unknown = np.ones(grid, bool)
        unknown[tuple(given.points.astype(int).T)] = False
        assert np.array_equal(given.scored, unknown)
    assert np.allclose(given.values, sums)
    assert given.samples.values.numel() >= len(given.values)


@pytest.mark.parametrize("grid", [(400,), (80, 60), (24, 24, 24)], ids=len)
def test_gaps_hide_about_a_fifth_in_boxes_of_two_or_more(grid):
    unknown = SAMPLINGS["gaps"](wave(*grid)).scored
    assert 0.2 <= unknown.mean() < 0.3
    for axis in range(len(grid)):  # no gap of a single node along an axis
        padded = np.pad(np.moveaxis(unknown, axis, 0), [(1, 1), *[(0, 0)] * (len(grid) - 1)])
        assert not (padded[1:-1] & ~padded[:-2] & ~padded[2:]).any()


@pytest.mark.parametrize("degree", PEER_DEGREES)
def test_splines_are_those_of_scipy(degree):
    truth = wave(30, 27)
    made = spline(SAMPLINGS["every second"](truth), degree)
    y, x = np.arange(0, 30, 2), np.arange(0, 27, 2)
    expected = RectBivariateSpline(y, x, truth[::2, ::2], kx=degree, ky=degree)(np.arange(30), np.arange(27))
    assert np.allclose(made, expected, atol=1e-12)


@pytest.mark.parametrize("grid", [(90,), (24, 21), (10, 10, 9)], ids=len)
@pytest.mark.parametrize("sampling", ["three tenths", "points between"])
def test_peers_keep_a_plane(sampling, grid):
    """Each kernel but the linear one has a plane beside it, and triangles keep it inside the hull."""
    given = SAMPLINGS[sampling](plane(*grid))
    inside = given.scored & (between(given, "linear") == between(given, "linear"))
    for name, work in peers(given).items():
        error = decibels(work(), given.truth, inside)
        assert error > (100 if name in ("RBF thin plate spline", "RBF cubic", "RBF quintic") else 20), name


def test_smoothing_beats_interpolation_where_there_is_noise():
    given = SAMPLINGS["three tenths, σ = 0.05"](wave(30, 28))
    smooth = max(decibels(work(), given.truth, given.scored) for work in peers(given).values())
    exact = decibels(by_kernel(given, "cubic", 0.0, given.scored), given.truth, given.scored)
    assert smooth > exact + 6


@pytest.mark.parametrize("grid", [(300,), (40, 36), (24, 20, 22)], ids=len)
def test_each_denoiser_removes_noise_of_a_wave(grid):
    given = SAMPLINGS["every node, σ = 0.05"](wave(*grid))
    noisy = decibels(given.samples.values[..., 0].numpy(), given.truth, given.scored)
    assert noisy == pytest.approx(-20 * np.log10(given.noise), abs=1)
    for name, work in peers(given).items():
        assert decibels(work(), given.truth, given.scored) > noisy + 2, name


@pytest.mark.slow
def test_the_default_is_that_of_fit_inpaint_and_denoise():
    truth = wave(20, 18)
    given = SAMPLINGS["gaps"](truth)
    made = kinds.ours(given, "cpu")
    expected = cn.inpaint(torch.from_numpy(truth).unsqueeze(-1), torch.from_numpy(given.mask)).signal[..., 0]
    assert np.array_equal(made, expected)
    given = SAMPLINGS["every node, σ = 0.05"](truth)
    assert np.array_equal(kinds.ours(given, "cpu"), cn.denoise(given.samples.values).signal[..., 0])
    given = SAMPLINGS["points between"](wave(29, 27))
    inside = np.pad(np.ones([n - 4 for n in given.truth.shape], bool), 2)
    assert decibels(kinds.ours(given, "cpu"), given.truth, inside) > 60  # less if it were moved by a hundredth


@pytest.mark.slow
def test_a_run_is_recorded_reported_and_gone_on_with(fields, tmp_path):
    with pytest.warns(cn.CoordnetWarning, match=r"not installed .*\['absent'\]"):
        assert run(STUDY, Options(quick=True), tmp_path, progress=False) == (28, 0)
    before = (tmp_path / "records.jsonl").read_bytes()
    with pytest.warns(cn.CoordnetWarning, match="absent"):
        text, broken = report("kinds", Options(quick=True), tmp_path, progress=False)
    assert broken == 0 and (tmp_path / "records.jsonl").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", "kinds.md", "kinds.csv", "kinds.png"}
    assert "| square, 16×14 |" in text and "14 cells" in text and "| row | numpy | a wave | none |" in text


def test_margins_are_over_the_best_peer(fields, tmp_path):
    run(STUDY, Options(only=("row",)), tmp_path, progress=False)
    records = list(read(tmp_path).values())
    scores = {(r["cell"]["task"], r["cell"]["method"]["name"]): r["scores"] for r in records}
    cells = margins(records)
    assert list(cells["sampling"]) == list(SAMPLINGS)
    for _, row in cells.iterrows():
        others = scores[row["sampling"], "peers"]
        assert others[row["best peer"]] == max(others.values()) == row["its dB"]
        assert row["margin"] == scores[row["sampling"], "coordnet"]["coordnet"] - max(others.values())
    assert grid_of(cells).shape == (1, len(SAMPLINGS))
    alone = [r for r in records if r["cell"]["method"]["name"] == "coordnet"]
    assert margins(alone).empty  # a cell without its peers has no margin
    assert json.dumps(records[0]["cell"]["signal"]["grid"]) == "[60]"


def test_names_of_fields_are_checked(fields, tmp_path):
    with pytest.raises(ValueError, match="`only`: expected one of row, square, absent, received 'sphere'"):
        run(STUDY, Options(only=("sphere",)), tmp_path)


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_read_as_they_are_declared(name):
    field = FIELDS[name]
    if not field.is_installed:
        pytest.skip(f"needs {field.package}")
    values = kinds.values_of(name, kinds.FIELD_SIDES[field.dimensions])
    assert values.ndim == field.dimensions and min(values.shape) >= 15
    assert values.min() == 0 and values.max() == 1
    assert field.content and field.licence
