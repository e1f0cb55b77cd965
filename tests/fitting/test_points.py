"""Fits of points: against SciPy and dense twins, on circles, on grids, by blocks, and of degenerate clouds."""

import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.interpolate import RBFInterpolator
from scipy.spatial import Delaunay
from scipy.spatial.distance import cdist

import coordnet as cn
from coordnet.fitting.uncertainty.conformal import conformal_quantile
from coordnet.fitting.uncertainty.folds import SampleTable
from coordnet.fitting.uncertainty.point_blocks import block_score
from coordnet.plans.hidden_points import HiddenPoints
from coordnet.priors.plates import plate as plates
from coordnet.priors.plates import search, tiles
from coordnet.priors.plates.errors import FieldErrors
from coordnet.priors.plates.field import Field, plate_energy
from coordnet.priors.plates.plate import plate
from coordnet.priors.plates.solve import solve
from coordnet.priors.plates.tiles import _Strips, windows

RNG = np.random.default_rng(0)
PLACES, QUERY = RNG.random((600, 2)), RNG.random((400, 2))
PLATE = cn.ThinPlate(order=3, cutoff=2.8)


def smooth(x):
    return np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1])


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def at(fit, places):
    return fit(places)[:, 0]


@functools.cache
def of_plate():
    """The fit of the smooth function by a plate, once for all tests."""
    return cn.fit(cn.points(PLACES, smooth(PLACES)), prior=PLATE)


@pytest.mark.slow
def test_a_smooth_function_is_met_better_than_by_the_quintic_spline():
    fit = cn.fit(cn.points(PLACES, smooth(PLACES)))
    peer = RBFInterpolator(PLACES, smooth(PLACES), kernel="quintic")(QUERY) - smooth(QUERY)
    assert rms(at(fit, QUERY) - smooth(QUERY)) < 0.3 * rms(peer)


@pytest.mark.slow
def test_values_at_arrays_and_at_columns_of_a_frame_are_arrays():
    fit = of_plate()
    tensor, frame = torch.from_numpy(QUERY), pd.DataFrame(QUERY, columns=["lon", "lat"])
    for given in (QUERY, frame, QUERY.tolist()):
        for made, expected in (
            (fit(given), fit(tensor)),
            (fit.std(given), fit.std(tensor)),
            (fit.interval(0.9, given)[1], fit.interval(0.9, tensor)[1]),
        ):
            assert isinstance(made, np.ndarray) and np.array_equal(made, expected.numpy())
    assert fit(QUERY[0]).shape == (1,)
    row = cn.fit(cn.points(PLACES[:, 0], PLACES[:, 0] ** 2))
    assert row(QUERY[:, 0]).shape == (len(QUERY), 1)


def test_a_narrow_hill_is_met_closer_by_the_septic_blend_than_by_the_quintic_one():
    """The nodes are too far apart for a quintic, whose error is the larger part of the whole."""
    hill = np.exp(-np.square(np.vstack([PLACES, QUERY]) - 0.5).sum(1) / 0.05)
    samples, truth = cn.points(PLACES, hill[: len(PLACES)]), hill[len(PLACES) :]
    named = cn.Samples(replace(samples.geometry, blending="quintic"), samples.values)
    septic, quintic = (at(cn.fit(s, prior=cn.ThinPlate(6, math.inf)), QUERY) - truth for s in (samples, named))
    inside = np.abs(QUERY - 0.5).max(1) < 0.4
    assert rms(septic[inside]) < 0.5 * rms(quintic[inside])


@pytest.mark.slow
def test_noise_is_removed_as_well_as_by_the_best_thin_plate_spline():
    values = smooth(PLACES) + 0.05 * RNG.normal(size=600)
    peers = [RBFInterpolator(PLACES, values, smoothing=s)(QUERY) - smooth(QUERY) for s in (1e-3, 1e-2, 1e-1)]
    assert rms(at(cn.fit(cn.points(PLACES, values)), QUERY) - smooth(QUERY)) <= min(map(rms, peers))


def plate_at(queries, places, values, nodes):
    """Return the plate of order 2 through values at places; these and the queries are in spacings of nodes, (n, d)."""
    own, there = (torch.from_numpy(x / nodes) for x in (places, queries))
    geometry = cn.ScatteredPoints((nodes,) * places.shape[1], own, blending="quintic")
    samples = cn.Samples(geometry, torch.from_numpy(values)[:, None])
    fit = cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, cn.ThinPlate(2, math.inf, hold_out=0.0))
    return at(fit, there).numpy()


# The largest difference from SciPy's thin-plate spline, by the number of nodes from a point to the next. The spline
# itself is 5e-4 from the function. With nodes h apart the kernel r² log r is wrong by h² (cos(4θ) / 24 - log(r) / 2),
# as the symbol is |ω|⁴ - h² |ω|² Σ ωⱼ⁴ / 6, and at r = 0 by h² (c - log(h) / 2), where c depends on the blend of nodes.
PLANE_CONVERGENCE = {8: 2.11e-5, 12: 1.142e-5, 16: 7.31e-6}
PLANE_LIMIT = 7e-7  # the largest difference without its terms of h² and h² log h, of which the border causes 2e-7


@pytest.mark.slow
def test_plates_converge_to_the_natural_thin_plate_spline_as_nodes_are_refined():
    """Points are a fourth of a spacing beyond nodes. Six are between the border and the four around the queries."""
    square, cell = (np.stack(np.meshgrid(x, x), -1).reshape(-1, 2) for x in (np.arange(14), np.arange(6, 7.1, 0.25)))
    places, queries = square + np.random.default_rng(0).integers(-1, 2, square.shape) / 4 + 0.5, cell + 0.5
    values = np.sin(0.43 * places[:, 0]) * np.cos(0.32 * places[:, 1])
    spline = RBFInterpolator(places, values)(queries)
    refined = [plate_at(queries * n + 0.25, places * n + 0.25, values, 14 * n + 2) for n in PLANE_CONVERGENCE]
    differences = [np.abs(found - spline).max() for found in refined]
    assert differences == pytest.approx(list(PLANE_CONVERGENCE.values()), rel=0.01)
    h = 1 / np.array(list(PLANE_CONVERGENCE))
    limit = np.linalg.solve(np.stack([np.ones(3), h**2, h**2 * np.log(h)], 1), refined)[0]
    assert np.abs(limit - spline).max() < PLANE_LIMIT


# The largest difference from SciPy's natural cubic spline, by the number of nodes: a fourth with twice as many, down to
# the rounding of so many nodes.
CONVERGENCE = {61: 2e-4, 121: 6e-5, 241: 1.5e-5, 481: 4e-6, 961: 1e-6}


@pytest.mark.parametrize(("nodes", "largest"), CONVERGENCE.items())
def test_plates_of_a_row_converge_to_the_natural_cubic_spline(nodes, largest):
    """The points are in the inner third of the nodes, and between them."""
    places = (np.arange(8) + np.random.default_rng(0).uniform(-0.3, 0.3, 8))[:, None] / 7
    values, within = np.sin(3 * places[:, 0]), np.linspace(places[0], places[-1], 301)
    spline = RBFInterpolator(places, values, kernel="cubic")(within)
    own, queries = ((x + 1) / 3 * (nodes - 1) for x in (places, within))
    assert largest / 2 < np.abs(plate_at(queries, own, values, nodes) - spline).max() < largest


@pytest.mark.slow
@pytest.mark.parametrize(("order", "periodic"), [(2, (False, True)), (2.5, (False, False)), (5, (True, False))])
def test_tiles_have_an_untiled_twin(order, periodic, monkeypatch):
    places = np.random.default_rng(1).random((1500, 2)) * [110, 90]
    geometry = cn.ScatteredPoints((110, 91), torch.from_numpy(places / [110, 91]), periodic=periodic)
    values = np.sin(places[:, 0] * 2 * np.pi / 110) * np.cos(places[:, 1] / 9)
    field = replace(Field.of(geometry, torch.from_numpy(values)[None]), laid=True)
    whole, _ = plate(field, order, 2.0)
    monkeypatch.setitem(plates.FACTORIZED_NODES, 2, 64)
    tiled, solution = plate(field, order, 2.0)
    assert solution.method == "tiles"
    exact = np.sin(np.arange(110) * 2 * np.pi / 110)[:, None] * np.cos(np.arange(91) / 9)
    whole, tiled = (f.reshape(110, 91)[8:-8, 8:-8] for f in (whole, tiled))
    error = rms(whole - exact[8:-8, 8:-8]) + 5e-7  # as large as what the tie to the coarse plate leaves
    assert rms(tiled - whole) < error and rms(tiled - exact[8:-8, 8:-8]) < 1.5 * error


@pytest.mark.parametrize("periodic", [False, True])
def test_the_weights_of_tiles_sum_to_one(periodic):
    total = np.zeros(200)
    for window in windows(200, 40, 12, periodic=periodic):
        np.add.at(total, (window.first + np.arange(window.size)) % 200, window.weights)
    np.testing.assert_allclose(total, 1)


@pytest.mark.slow
def test_points_on_both_sides_of_the_date_line_lie_beside_each_other():
    """The fit does not depend on where longitudes jump."""
    places = RNG.uniform((150, -30), (210, 20), (150, 2))
    values = np.sin(np.radians(4 * places[:, 0])) * np.cos(np.radians(3 * places[:, 1]))
    across = np.stack([(places[:, 0] + 180) % 360 - 180, places[:, 1]], 1)
    fits = [cn.fit(cn.points(x, values, period={0: 360.0}), prior=PLATE) for x in (places, across)]
    torch.testing.assert_close(fits[1](places), fits[0](places), atol=1e-5, rtol=0)


def test_the_energy_around_a_circle_has_a_rolled_twin():
    f = RNG.normal(size=(7, 5))
    rolled = np.roll(f, -1, 0) - f
    second = np.square(np.roll(rolled, -1, 0) - rolled).sum() + np.square(np.diff(f, 2, axis=1)).sum()
    energy = f.ravel() @ plate_energy((7, 5), 2, periodic=(True, False)) @ f.ravel()
    assert energy == pytest.approx(second + 2 * np.square(np.diff(rolled, axis=1)).sum())


def test_nothing_is_seen_at_the_seam_of_a_circle():
    places = RNG.random((500, 2)) * [360, 100] - [180, 50]

    def field(x):
        return np.sin(2 * np.radians(x[:, 0])) * np.cos(np.radians(x[:, 1]))

    fit = cn.fit(cn.points(places, field(places), period={0: 360.0}))
    seam = np.stack([np.linspace(170, 190, 41), np.zeros(41)], -1)
    assert np.abs(at(fit, seam) - field(seam)).max() < 1e-5
    np.testing.assert_allclose(at(fit, seam), at(fit, seam - [360, 0]), atol=1e-12)
    assert fit.grid(spacing=30.0).sizes["x"] == 12


def test_a_grid_has_the_users_coordinates_and_nan_far_from_points():
    samples = cn.points(PLACES * [40, 20], smooth(PLACES), units=("km", "km"))
    fit = cn.fit(samples, prior=PLATE)
    grid = fit.grid(spacing=2.0, max_distance=0.8)
    assert grid["x"].attrs["units"] == "km" and grid["x"].values[[0, -1]].tolist() == [0.0, 40.0]
    nodes = np.stack(np.meshgrid(grid["x"], grid["y"], indexing="ij"), -1).reshape(-1, 2)
    far = cdist(nodes, PLACES * [40, 20]).min(1) > 0.8
    assert far.any() and not far.all()
    np.testing.assert_array_equal(np.isnan(grid.values.ravel()), far)
    np.testing.assert_allclose(grid.values.ravel()[~far], at(fit, nodes)[~far], atol=1e-12)
    np.testing.assert_allclose(fit.grid(x=[3.0], y=[4.0, 5.0]), [at(fit, np.array([[3.0, 4.0], [3.0, 5.0]]))])
    with pytest.raises(ValueError, match="coordinates"):
        fit.grid(lon=[1.0])


def test_a_saved_fit_keeps_its_units(tmp_path):
    fit = cn.fit(cn.points(PLACES * 40, smooth(PLACES), period={"x": 40.0}), prior=PLATE)
    fit.save(tmp_path / "fit.safetensors")
    again = cn.Reconstruction.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(at(again, QUERY * [80, 40]), at(fit, QUERY * [80, 40]))
    assert again.grid(spacing=1.0).identical(fit.grid(spacing=1.0))
    with pytest.raises(ValueError, match="max_distance"):
        again.grid(max_distance=1.0)


@pytest.mark.slow
def test_gradients_are_in_the_users_units():
    query = torch.tensor([[12.0, 9.0]], dtype=torch.float64, requires_grad=True)
    fit = cn.fit(cn.points(PLACES * [40, 20], smooth(PLACES)))
    fit(query).sum().backward()
    expected = [9 / 40 * np.cos(9 * 0.3) * np.cos(7 * 0.45), -7 / 20 * np.sin(9 * 0.3) * np.sin(7 * 0.45)]
    np.testing.assert_allclose(query.grad[0], expected, atol=1e-3)


def test_deviations_at_points_are_those_of_the_nodes_between_them():
    values = smooth(PLACES) + 0.05 * RNG.normal(size=600)
    fit = cn.fit(cn.points(PLACES, values), prior=cn.ThinPlate(order=3, cutoff=1.0))
    axes = fit.lattice.named
    node = torch.tensor([[axis.first + 30 * axis.spacing for axis in axes]], dtype=torch.float64)
    torch.testing.assert_close(fit.std(node)[0], fit.std()[30, 30])
    assert 0.5 < float(fit.std(QUERY).mean()) / 0.05 < 2


def test_the_score_has_a_twin_that_hides_single_blocks():
    values = torch.from_numpy(smooth(PLACES))[:, None]
    samples = cn.points(PLACES, values)

    def constant(shown):
        mean = float((shown.values * shown.weights).sum() / shown.weights.sum())
        return lambda places: torch.full((len(places), 1), mean, dtype=torch.float64)

    score = block_score(samples, constant, [0.5, 2.0], 2)
    left = PLACES[:, 0] - PLACES[:, 0].min() < 0.5
    twin = np.where(left, smooth(PLACES)[~left].mean(), smooth(PLACES)[left].mean()) - smooth(PLACES)
    assert score.blocks == 2 and score.rmse == pytest.approx(rms(twin))
    assert score.r2 == pytest.approx(1 - np.square(twin).sum() / (600 * smooth(PLACES).var()))
    assert of_plate().score(0.1).r2 > 0.99
    with pytest.raises(ValueError, match="blocks"):
        block_score(samples, constant, 9.0, 2)


def test_points_beyond_those_that_a_fit_of_a_row_sees_have_no_score():
    """Each is a block, of which there are thirty; the outermost ones are beyond the others."""
    x = np.arange(30.0)
    row = cn.points(np.stack([x, np.full(30, 2.0)], -1), 1e6 * ((x == 0) | (x == 29)))

    def nothing(shown):
        return lambda places: torch.zeros(len(places), 1, dtype=torch.float64)

    score = block_score(row, nothing, None, 5)
    assert (score.blocks, score.rmse) == (30, 0.0)
    around = cn.points(x, 1e6 * (x == 0), period={"x": 30})
    assert block_score(around, nothing, None, 5).rmse == pytest.approx(1e6 / 30**0.5)
    with pytest.raises(ValueError, match="^`blocks`: expected a size that gives some blocks between others"):
        block_score(row, nothing, 15.0, 2)


def test_refits_take_the_numbers_that_were_chosen_for_all_points():
    fit = cn.fit(cn.points(PLACES[:200], smooth(PLACES[:200]) + 0.05 * RNG.normal(size=200)))
    assert len(fit.report.candidates) == 2
    again = fit.uncertainty.refit(fit.uncertainty.samples)
    weights = sorted(candidate.weight for candidate in fit.report.candidates if candidate.weight)
    assert sorted(candidate.weight for candidate in again.report.candidates) == weights
    assert all(candidate.hold_out_psnr is None for candidate in again.report.candidates)  # none was hidden again
    np.testing.assert_allclose(at(again, QUERY), at(fit, QUERY), atol=1e-12)


LINE = RNG.random(100)
ANGLE = 2 * np.pi * RNG.random(100)
CLOUDS = {
    "one point": [[3.0, 4.0]],
    "two points": [[3.0, 4.0], [5.0, 8.0]],
    "three points": [[3.0, 4.0], [5.0, 8.0], [4.0, 0.0]],
    "a line along an axis": np.stack([LINE, 0 * LINE + 2], -1),
    "a slanted line": np.stack([LINE, 2 * LINE + 1], -1),
    "a circle": np.stack([np.cos(ANGLE), np.sin(ANGLE)], -1),
    "two clusters": np.concatenate([PLACES[:60] / 50, PLACES[60:120] / 50 + [10, 0]]),
    "one axis": LINE,
}


@pytest.mark.parametrize("places", CLOUDS.values(), ids=CLOUDS)
def test_degenerate_clouds_are_met_at_their_points(places):
    """Warnings are errors, so that there is none from below either."""
    places = np.asarray(places, dtype=float).reshape(len(places), -1)
    values = 1 + places.sum(1) / np.ptp(places.sum(1) if len(places) > 1 else [0, 1])
    fit = cn.fit(cn.points(places, values))
    assert np.abs(at(fit, places) - values).max() < 0.05
    assert np.isfinite(fit.grid()).all()


def test_plates_do_not_swing_between_far_clusters():
    places = np.concatenate([PLACES[:60] / 50, PLACES[60:120] / 50 + [10, 0]])
    fit = cn.fit(cn.points(places, smooth(places)))
    assert float(np.abs(fit.grid()).max()) < 3 and rms(at(fit, places) - smooth(places)) < 1e-5


def test_equal_values_give_a_constant():
    fit = cn.fit(cn.points(PLACES, np.full(600, 3.0)))
    np.testing.assert_allclose(fit.grid(), 3.0)


def test_tiles_find_the_nodes_of_a_point_next_to_a_seam():
    """Whatever the order in which a sparse product has left them."""
    points = torch.tensor([[0.5, 0.99], [0.5, 0.01], [0.5, 0.5]], dtype=torch.float64)
    values = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    field = Field.of(cn.ScatteredPoints((30, 20), points, periodic=(False, True)), values)
    field.operator.sort_indices()
    assert _Strips(field).corners[1].tolist() == [17, 18, 8]


def cover(fit, places, values, **options):
    """The share of values between the ends of intervals of 90 % at places."""
    low, high = (end[:, 0] for end in fit.interval(0.9, places, **options))
    return np.mean((low <= values) & (values <= high))


@pytest.mark.slow
def test_intervals_cover_random_points_and_those_in_hidden_blocks():
    rng = np.random.default_rng(3)
    places, query = rng.random((600, 2)), rng.random((3000, 2))
    values, truth = (smooth(x) + 0.02 * rng.normal(size=len(x)) for x in (places, query))
    fit = cn.fit(cn.points(places, values), prior=cn.ThinPlate(order=3, cutoff=0.7))
    assert 0.87 < cover(fit, query, truth) < 0.93
    gone = np.isin(np.floor(query * 6).astype(int) @ [6, 1], inner := [8, 13, 16, 27, 33])
    kept = ~np.isin(np.floor(places * 6).astype(int) @ [6, 1], inner)
    fit = cn.fit(cn.points(places[kept], smooth(places[kept])), prior=PLATE)
    truth = smooth(query)
    assert min(cover(fit, query[gone], truth[gone], blocks=size) for size in (None, 1 / 6)) > 0.86
    assert 0.88 < cover(fit, query[~gone], truth[~gone]) < 0.96


def test_blocks_are_hidden_whole_and_no_two_neighbors_together():
    samples = cn.points(PLACES, smooth(PLACES))
    folds = np.stack(SampleTable(samples, 0.125).folds())[:, :, 0]
    cells = np.floor((PLACES - PLACES.min(0)) / 0.125).astype(int)
    names, block = np.unique(cells, axis=0, return_inverse=True)
    hidden = np.array([[fold[block.ravel() == k].all() for k in range(len(names))] for fold in folds])
    assert 4 <= hidden.sum(1).min() and hidden.sum(1).max() <= 9  # a tenth of 64, with what is hidden whole by chance
    neighbors = cdist(names, names, "chebyshev") == 1
    assert (neighbors & (hidden.T.astype(int) @ hidden > 0)).sum() <= 4
    assert 0.15 < folds.mean() < 0.22
    with pytest.raises(ValueError, match="blocks"):
        SampleTable(cn.sample(torch.rand(12, 12, 1), "random:0.6"), 2.0)


def test_blocks_are_as_wide_as_the_gaps_of_points_and_random_points_have_none():
    """Tracks at a distance of 1/8 leave places 1/16 from any point; a disc has no gap within its hull."""
    along = np.linspace(0, 1, 60)
    tracks = np.stack(np.meshgrid(along, np.arange(9) / 8, indexing="ij"), -1).reshape(-1, 2)
    tracks += 0.002 * np.random.default_rng(1).normal(size=tracks.shape)
    disc = PLACES[((PLACES - 0.5) ** 2).sum(1) < 0.25]
    blocks = [SampleTable(cn.points(x, smooth(x), scales=[1.0, 1.0]))._cells for x in (tracks, PLACES, disc)]
    assert blocks[0] is not None and blocks[1] is None and blocks[2] is None
    assert 6 <= blocks[0].max() <= 10


def test_intervals_of_a_plane_whose_gradient_is_constant_are_narrow():
    low, high = cn.fit(cn.points(PLACES[:60], PLACES[:60].sum(1)), prior=PLATE).interval(0.9)
    assert float((high - low).max()) < 1e-5


def test_errors_of_a_block_count_as_one():
    """Scores that are alike by fives have the quantile of a fifth as many, up to the step of one of these."""
    scores = np.arange(1.0, 100.0)
    assert conformal_quantile(np.repeat(scores, 5), 0.9, alike=5.0) == conformal_quantile(scores, 0.9) == 90.0
    with pytest.raises(ValueError, match=r"`level`: expected at most 0.95 for so few samples"):
        conformal_quantile(np.arange(95.0), 0.96, alike=5.0)


def test_where_a_fit_extrapolates_has_a_twin():
    """A corner without points, the outside of the hull, and on a circle neither seam nor hull."""
    there = ~((PLACES[:, 0] > 0.5) & (PLACES[:, 1] > 0.5))
    fit = cn.fit(cn.points(PLACES[there], smooth(PLACES[there])), prior=PLATE)
    found = fit.extrapolates(0.05)
    nodes = np.stack(np.meshgrid(found["x"], found["y"], indexing="ij"), -1).reshape(-1, 2)
    outside = Delaunay(PLACES[there]).find_simplex(nodes) < 0
    apart = cdist(nodes, PLACES[there]).min(1) / fit.lattice.steps[0]
    np.testing.assert_array_equal(found.values.ravel(), outside | (apart > 6))
    assert not found.sel(x=0.25, y=0.25) and found.sel(x=0.95, y=0.95)
    around = cn.fit(cn.points(PLACES, smooth(PLACES), period={"x": 1.0}), prior=PLATE)
    assert not around.extrapolates(0.05).any()
    assert 0.1 < fit.report.beyond_samples < 0.4 and around.report.beyond_samples == 0


def tracks(count=12, points=50, seed=0):
    rng = np.random.default_rng(seed)
    ends, along = rng.random((count, 2, 2)), rng.random((count, points, 1))
    return (ends[:, :1] + along * (ends[:, 1:] - ends[:, :1])).reshape(-1, 2)


def are_hidden_whole(positions, hidden, block):
    """Whether blocks are hidden but for points outside the hull of all others, which a fit would extrapolate to."""
    whole = np.isin(block, block[hidden])
    outside = Delaunay(positions[~whole]).find_simplex(positions[whole & ~hidden]) < 0
    return bool(outside.all()) and Delaunay(positions[~hidden]).find_simplex(positions[hidden]).min() >= 0


def test_points_with_gaps_are_weighed_by_blocks_as_wide_as_these():
    samples = cn.points(tracks(), smooth(tracks()))
    sets: list[HiddenPoints] = []
    for k in range(4):
        sets += filter(None, [HiddenPoints.draw(samples, 0.2, k, sets)])
    block = np.unique(samples.geometry.cells_like_gaps, axis=0, return_inverse=True)[1].ravel()
    for hidden in sets:
        rows = hidden.hidden[:, 0].numpy()
        assert hidden.is_clustered and 0.02 < rows.mean() < 0.4
        assert are_hidden_whole(samples.geometry.positions().numpy(), rows, block)
        np.testing.assert_array_equal(hidden.clusters, np.unique(block[rows], return_inverse=True)[1])
    assert len(sets) == 4 and int(sum(hidden.hidden.int() for hidden in sets).max()) == 1
    random = HiddenPoints.draw(cn.points(PLACES, smooth(PLACES)), 0.2, 0)
    assert random is not None and len(np.unique(random.clusters)) == len(random.clusters)


def test_points_in_tracks_are_hidden_by_cells():
    """Next to others of a track, single hidden points would choose plates that swing between tracks."""
    for places, in_tracks in ((tracks(), True), (PLACES, False)):
        samples = cn.points(places, smooth(places))
        field = replace(Field.of(samples.geometry, samples.values.T), laid=True)
        folds = FieldErrors(field, cn.ThinPlate()).folds
        cells = np.unique(np.floor(field.positions / 2), axis=0, return_inverse=True)[1].ravel()
        whole = [not np.isin(cells[hidden], cells[~hidden]).any() for hidden in folds]
        assert all(whole) == in_tracks and all(0.03 < hidden.mean() < 0.3 for hidden in folds)


def test_the_plate_between_tiles_is_that_of_all_points_however_many_are_taken_at_a_time(monkeypatch):
    samples = cn.points(PLACES[:200], smooth(PLACES[:200]))
    field = Field.of(samples.geometry, samples.values.T)
    (whole, _), _ = tiles._bridge(field, 2), monkeypatch.setattr(tiles, "BLENDED_POINTS", 60)
    np.testing.assert_allclose(tiles._bridge(field, 2)[0], whole, atol=1e-10)


@pytest.mark.parametrize(("highest", "expected"), [(5e-12, 6), (2e-11, 5)])
def test_smooth_functions_take_the_highest_order_that_is_about_as_good(monkeypatch, highest, expected):
    samples = cn.points(PLACES[:120], smooth(PLACES[:120]))
    field = Field.of(samples.geometry, samples.values.T)
    planted = dict(zip((2, 3, 4, 5, 6), (1e-3, 1e-6, 1e-9, 1e-12, highest), strict=True))
    errors = FieldErrors(field, cn.ThinPlate())
    monkeypatch.setattr(errors, "of_plate", lambda order, cutoff: planted[order])
    monkeypatch.setattr(search, "errors_of", lambda *_: errors)
    assert search.choose_plate(field, cn.ThinPlate())[0].order == expected


@pytest.mark.parametrize(("wraps", "method"), [(False, "band factorization"), (True, "sparse factorization")])
def test_rows_are_solved_by_their_band_unless_they_wrap_around(wraps, method):
    a = plate_energy((300,), 2, periodic=(wraps,)) + sparse.eye_array(300)
    b = np.random.default_rng(0).normal(size=(300, 2))
    solution = solve(a, b, 1)
    assert solution.method == method
    np.testing.assert_allclose(solution.x, np.linalg.solve(a.toarray(), b), atol=1e-10)


def test_rough_surfaces_take_the_half_order_of_their_spectrum():
    """Amplitudes |ω|^(-3/2) are those of plates of order 3/2."""
    frequency = np.hypot(*np.meshgrid(*[np.fft.fftfreq(64)] * 2, indexing="ij"))
    frequency[0, 0] = np.inf
    noise = np.fft.fft2(np.random.default_rng(0).normal(size=(64, 64)))
    surface = np.fft.ifft2(noise * frequency**-1.5).real / 1e3
    known = np.random.default_rng(2).random((64, 64)) < 0.25
    places = np.argwhere(known).astype(float)
    fit = cn.fit(cn.points(places, surface[known], scales=[1.0, 1.0]), prior=cn.ThinPlate(cutoff=math.inf))
    assert fit.report.order == 1.5


@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2)])
def test_no_points_have_no_values(shape):
    samples = cn.sample(
        torch.from_numpy(smooth(np.indices((9, 8)).reshape(2, -1).T / 10)).reshape(9, 8, 1), "random:0.7"
    )
    fits = (of_plate(), cn.fit(samples, encoder=cn.Gaussian, prior=cn.Smoothness()))
    for fit in fits:
        assert fit(torch.zeros(shape).double()).shape == (*shape[:-1], 1)
    assert fits[0].std(np.zeros(shape)).shape == fits[0].interval(0.9, np.zeros(shape))[1].shape == (*shape[:-1], 1)


@pytest.mark.parametrize("gaps", [False, True])
def test_points_of_a_smooth_row_are_not_lost_to_rounding(gaps):
    """Plates that interpolate the points leave 9e-9, and 1e-7 with gaps."""
    x = np.random.default_rng(5).random(2500)
    x = x[np.abs(x % 0.1 - 0.05) > 0.004] if gaps else x
    places = np.linspace(x.min(), x.max(), 3000)
    fit = cn.fit(cn.points(x, np.exp(np.sin(9 * x))), prior=cn.ThinPlate())
    assert np.sqrt(np.square(fit(places[:, None])[:, 0] - np.exp(np.sin(9 * places))).mean()) < 3e-9
