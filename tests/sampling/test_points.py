"""Points in the user's units: what is kept of them, their nodes, the scales of the axes, and periods."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.cbook import get_sample_data
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import null_space
from scipy.spatial.distance import pdist, squareform
from scipy.stats import multivariate_normal

import coordnet as cn
from coordnet.encodings.blending import Blending
from coordnet.sampling import Axis
from coordnet.sampling.node_spacing import NUGGETS, log_likelihood, mean_distance, own_spacing, scales_of
from coordnet.sampling.point_lattice import lattice_of
from coordnet.sampling.scattered import MARGIN

RNG = np.random.default_rng(0)
PLACES = RNG.random((300, 2))
DATES = np.arange("2020-01-01", "2020-01-10", dtype="datetime64[D]")


def smooth(x):
    return np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1])


def test_points_without_a_place_or_a_value_are_left_out_and_counted():
    places, values = PLACES.copy(), np.stack([smooth(PLACES), smooth(PLACES) + 1], -1)
    places[0, 0], values[1], values[2, 1] = np.nan, np.nan, np.nan
    samples = cn.points(places, values)
    assert samples.geometry.left_out == 2
    assert cn.points(places, values, np.where(np.arange(300) % 10 == 9, np.nan, 1.0)).geometry.left_out == 32
    assert samples.values.shape == (298, 2)
    weights = samples.geometry.weights
    assert float(weights[0, 1]) == 0 and float((weights > 0).sum()) == 2 * 298 - 1


@pytest.mark.parametrize(
    ("west", "east", "options", "doubted"),
    [
        (-179, 175, {}, True),  # Fiji
        (3, 355, {}, True),  # Europe from 0° to 360°
        (-179, 175, {"period": {"lon": 360}}, False),
        (-179, 175, {"sphere": ("lon", "lat")}, False),
        (-120, 40, {}, False),
        (-1000, 1000, {}, False),  # no degrees
    ],
)
def test_longitudes_that_a_cut_puts_apart_are_doubted(west, east, options, doubted):
    lon = np.repeat([west, east], 10) + np.linspace(0, 2, 20)
    frame = pd.DataFrame({"lon": lon, "lat": np.sin(np.arange(20))})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cn.points(frame, np.cos(lon), **options)
    texts = [str(w.message) for w in caught if "more than half of the globe" in str(w.message)]
    assert len(texts) == doubted and all("--period lon=360" in text for text in texts)


@pytest.mark.parametrize("number", [-9999.0, 99.99, 999.0])
def test_a_number_that_may_be_a_missing_value_is_doubted(number, recwarn):
    values = np.linspace(10, 20, 30)
    cn.points(np.arange(30.0), np.where(np.arange(30) == 3, 99.9 / 9, values))
    cn.points(np.arange(30.0), np.linspace(0, 99.9, 30))
    assert not recwarn.list
    values[[4, 9]] = number
    with pytest.warns(cn.CoordnetWarning, match=f"2 of 30 values are {number:g}, far from all others.*--missing"):
        cn.points(np.arange(30.0), values)


def test_points_at_one_place_are_averaged_by_their_sigma():
    samples = cn.points([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1.0, 4.0, 0.0], sigma=[1.0, 2.0, 1.0])
    assert samples.geometry.merged == 1
    at = samples.geometry.places[:, 0] == 0
    assert float(samples.values[at]) == pytest.approx((1 + 4 / 4) / (1 + 1 / 4))
    weights = samples.geometry.weights
    assert float(weights[at] / weights[~at]) == pytest.approx(1.25)


def test_points_one_period_apart_are_at_one_place():
    samples = cn.points([[-180.0, 1.0], [180.0, 1.0], [0.0, 0.0]], [1.0, 3.0, 0.0], period={"x": 360.0})
    assert samples.geometry.merged == 1


def test_columns_name_the_axes_and_units_stay_with_them():
    frame = pd.DataFrame({"lon": PLACES[:, 0], "lat": PLACES[:, 1], "t": smooth(PLACES)})
    lattice = cn.points(frame[["lon", "lat"]], frame["t"], units={"lat": "degrees_north"}).geometry.lattice
    assert [(a.name, a.unit) for a in lattice.named] == [("lon", None), ("lat", "degrees_north")]
    assert lattice_of(lattice.configuration()).named == lattice.named


@pytest.mark.parametrize("name", ["values", "sigma", "drift"])
def test_rows_of_frames_in_another_order_are_refused(name):
    """They would be taken for each other's: pandas puts rows of one label together, whatever their order."""
    frame = pd.DataFrame({"lon": PLACES[:, 0], "lat": PLACES[:, 1], "t": smooth(PLACES), "s": 1 + PLACES[:, 0] ** 2})
    columns = {"values": frame["t"], "sigma": frame["s"], "drift": {"s": frame["s"]}}
    cn.points(frame[["lon", "lat"]], **columns)
    shuffled = frame.iloc[::-1]["s"]
    columns[name] = {"s": shuffled} if name == "drift" else shuffled
    with pytest.raises(ValueError, match=f"`{name}`: expected the labels of the rows of `coordinates`"):
        cn.points(frame[["lon", "lat"]], **columns)
    cn.points(frame[["lon", "lat"]].to_numpy(), **columns)


def test_nodes_extend_beyond_the_points_and_are_half_their_distance_apart():
    lattice = cn.points(PLACES * [40, 40], smooth(PLACES)).geometry.lattice
    for axis, low, high in zip(lattice.named, (PLACES * 40).min(0), (PLACES * 40).max(0), strict=True):
        assert axis.spacing == pytest.approx(40 / np.sqrt(300) / 2, rel=0.1)
        beyond = low - axis.first, axis.first + axis.spacing * (axis.count - 1) - high
        assert min(beyond) >= MARGIN[2] * axis.spacing * (1 - 1e-9)


def test_clusters_are_as_near_as_their_points_are():
    near = mean_distance(PLACES)
    both = np.concatenate([PLACES, PLACES + [50, 0]])
    assert mean_distance(both) < 3 * near


@pytest.mark.parametrize("away", [8.0, 1e6])
def test_a_point_far_from_all_others_leaves_their_nodes_as_they_are(away):
    alone = cn.points(PLACES, smooth(PLACES), scales=(1.0, 1.0)).geometry.lattice
    places = np.concatenate([PLACES, [[away, -away]]])
    with pytest.warns(cn.CoordnetWarning, match="^`coordinates`: 1 of 301 points far from"):
        geometry = cn.points(places, smooth(places), scales=(1.0, 1.0)).geometry
    assert geometry.lattice.named == alone.named
    assert (geometry.left_out, len(geometry.points)) == (1, 300)


def test_nodes_reach_a_far_point_that_makes_them_no_coarser():
    geometry = cn.points(np.append(PLACES[:, 0], 6), np.arange(301.0)).geometry
    assert (geometry.lattice.named[0].high, geometry.left_out) == (6, 0)


def test_a_few_percent_of_the_points_are_a_region_that_nodes_reach():
    places = np.concatenate([PLACES, PLACES[:5] + 80])
    assert cn.points(places, smooth(places)).geometry.lattice.named[0].high > 80


@pytest.mark.parametrize("factor", [8.0, 1 / 16])
def test_a_planted_anisotropy_is_found(factor):
    first, second = scales_of(PLACES * [1, factor], smooth(PLACES)[:, None])
    assert second / first in (factor / 2, factor, 2 * factor)
    assert scales_of(PLACES, smooth(PLACES)[:, None]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_edges_that_most_points_do_not_see_and_noise_do_not_mislead_the_scales(seed):
    """The axes have one scale; at the points in the middle, one of the edges is not seen."""
    generator = np.random.default_rng(seed)
    places = generator.random((800, 2))
    edges = np.abs(places - [0.65, 0.9]).sum(1)
    noisy = smooth(places) + 0.1 * generator.standard_normal(800)
    assert scales_of(places, edges[:, None]).tolist() == [1.0, 1.0]
    first, second = scales_of(places * [1, 64], noisy[:, None])
    assert second / first in (32, 64, 128)


def test_the_likelier_end_of_both_searches_for_scales_is_taken():
    """Soundings of a coast along tracks: the search from the extents ends beside likelier scales."""
    chart = get_sample_data("topobathy.npz")
    axes = chart["latitude"], chart["longitude"]
    low, high = (np.array([end(axis) for axis in axes]) for end in (np.min, np.max))
    rng, low, high = np.random.default_rng(0), low + 0.3, high - 0.3
    ends, along = low + rng.random((12, 2, 2)) * (high - low), rng.random((12, 35, 1))
    tracks = (ends[:, :1] + along * (ends[:, 1:] - ends[:, :1])).reshape(-1, 2)
    places = np.concatenate([tracks, low + rng.random((250, 2)) * (high - low)])
    rng.random(4000)
    heights = RegularGridInterpolator(axes, chart["topo"], method="cubic")(places) + 20 * rng.normal(size=len(places))
    first, second = scales_of(places, heights[:, None])
    assert second / first == 2


@pytest.mark.parametrize("seed", [1, 16, 38])
def test_the_scales_of_a_signal_on_tracks_are_found(seed):
    """On five parallel tracks; a search by errors at points alone ends at a ratio of 2 in these draws."""
    generator = np.random.default_rng(seed)
    along, track = generator.random(150), generator.integers(0, 5, 150)
    places = np.stack([along, (track + 0.5) / 5 + 0.002 * generator.standard_normal(150)], 1)
    waves = generator.standard_normal((60, 2)) * 5
    values = np.cos(places @ waves.T + generator.random(60) * 6).sum(1)
    first, second = scales_of(places * [1, 8], values[:, None])
    assert second / first in (4, 8, 16)


@pytest.mark.parametrize("count", [60, 300])
@pytest.mark.parametrize("values", [lambda x, y: 5 * x + 0.2 * np.cos(25 * y), lambda x, y: np.sin(12 * y)])
def test_an_axis_along_which_values_are_linear_keeps_nodes_between_the_points(count, values):
    """Its likeliest scale is endless; with a scale of thousands of extents all points lie between two nodes."""
    places = np.random.default_rng(count).random((count, 2))
    first, second = scales_of(places, values(*places.T)[:, None])
    assert 2 <= first / second <= count / 4 * 1.1
    assert min(cn.points(places, values(*places.T)).geometry.grid) > 20


def test_the_likelihood_of_scales_has_a_dense_twin():
    """It is the density of contrasts under the likeliest noise and variance, but for a constant."""
    places, scales = PLACES[:40] * [1, 3], ([1.0, 1.0], [1.0, 4.0], [2.0, 0.5])
    values = smooth(PLACES[:40]) + places @ [1.0, 2.0]
    contrasts = null_space(np.column_stack([np.ones(40), places]).T)
    z = contrasts.T @ values

    def twin(lengths):
        densities = []
        r = squareform(pdist(places / lengths))
        for covariance in (-r, r**3):
            k = contrasts.T @ covariance @ contrasts
            for nugget in NUGGETS:
                noisy = k / k.trace() * len(k) + nugget * np.eye(len(k))
                variance = z @ np.linalg.solve(noisy, z) / len(z)
                densities.append(multivariate_normal(cov=variance * noisy).logpdf(z))
        return max(densities)

    differences = [log_likelihood(places, values, np.array(lengths)) - twin(lengths) for lengths in scales]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_all_columns_of_values_choose_the_scales_together():
    """Noise has none to choose, and a plane, which splines meet to rounding, does not matter."""
    places, noise = PLACES * [1, 8], RNG.normal(size=300)
    alone = scales_of(places, smooth(PLACES)[:, None])
    for other in (noise, places @ [1.0, 2.0], np.full(300, 3.0), np.where(np.arange(300) < 5, 1.0, np.nan)):
        for columns in ([smooth(PLACES), other], [other, smooth(PLACES)]):
            np.testing.assert_array_equal(scales_of(places, np.stack(columns, -1)), alone)
    assert scales_of(places, (places @ [1.0, 2.0])[:, None]).tolist() == [1.0, 1.0]


def test_units_change_nothing():
    """Powers of two change no bit; kilometres become metres with rounding."""
    query = torch.from_numpy(RNG.random((50, 2)))
    prior = cn.ThinPlate(order=3, cutoff=2.0)
    first = cn.fit(cn.points(PLACES, smooth(PLACES)), prior=prior)(query)
    again = cn.fit(cn.points(PLACES * 1024, smooth(PLACES)), prior=prior)(query * 1024)
    metres = cn.fit(cn.points(PLACES * 1000, smooth(PLACES)), prior=prior)(query * 1000)
    assert torch.equal(first, again)
    torch.testing.assert_close(first, metres, rtol=0, atol=1e-9)


def test_a_blend_on_a_circle_has_a_turned_twin():
    """Turning the nodes by some of them turns the blend at points near the seam."""
    nodes, x = torch.from_numpy(RNG.normal(size=(16, 1))), torch.tensor([[0.99], [0.01], [0.5]], dtype=torch.float64)
    for kind in ("linear", "cubic", "quintic", "septic"):
        blend = Blending(kind, (Axis(16, periodic=True),))
        turned = blend.at_points(nodes.roll(5, 0), (x + 5 / 16) % 1, [])
        torch.testing.assert_close(blend.at_points(nodes, x, []), turned)


def test_frames_are_read_by_column_and_evaluated_by_name():
    frame = pd.DataFrame({"lon": PLACES[:, 0], "lat": pd.array(PLACES[:, 1], dtype="Float64")})
    gapped = frame.assign(lat=frame["lat"].mask(frame.index == 3))
    samples = cn.points(gapped, smooth(PLACES))
    assert samples.geometry.left_out == 1
    fit = cn.fit(samples, prior=cn.ThinPlate(order=2, cutoff=1.0))
    expected = fit(PLACES)
    assert np.array_equal(fit(frame[["lat", "lon"]]), expected)
    assert np.array_equal(fit(PLACES[:, ::-1].copy()[:, ::-1]), expected)
    dated = frame.assign(lat=np.datetime64("2020-01-01", "s") + np.arange(300).astype("timedelta64[s]"))
    with pytest.raises(ValueError, match="^`coordinates`: expected numbers, such as days, .*, received datetime64"):
        cn.points(dated, smooth(PLACES))


def test_a_fit_refuses_dates_and_durations():
    fit = cn.fit(cn.points(np.arange(9.0), np.sin(np.arange(9.0))), prior=cn.ThinPlate(order=2, cutoff=1.0))
    with pytest.raises(ValueError, match="^`points`: expected numbers, such as days, .*, received datetime64"):
        fit(DATES)
    with pytest.raises(ValueError, match="^`x`: expected numbers, such as days, .*, received datetime64"):
        fit.grid(x=DATES)
    with pytest.raises(ValueError, match="^`spacing`: expected a positive finite number, received np.timedelta64"):
        fit.grid(np.timedelta64(1, "D"))


@pytest.mark.parametrize(
    ("places", "values", "options", "text"),
    [
        (PLACES, np.full(300, np.nan), {}, "values"),
        (PLACES, smooth(PLACES)[:, None] * [1.0, np.nan], {}, "values`: .* received none in column 1"),
        (PLACES, np.full(300, np.inf), {}, "values"),
        (PLACES, np.ones(3), {}, "values"),
        (
            PLACES,
            smooth(PLACES),
            {"sigma": 0.0},
            "sigma`: expected positive finite numbers, or NaN at some points, received 0",
        ),
        (PLACES, smooth(PLACES), {"sigma": np.nan}, "sigma`: .* received nan"),
        (PLACES, smooth(PLACES), {"sigma": np.r_[-1.0, np.ones(299)]}, "sigma`: .* received -1"),
        (PLACES, smooth(PLACES), {"sigma": np.r_[np.inf, np.ones(299)]}, "sigma`: .* received inf"),
        (PLACES, smooth(PLACES), {"sigma": [1.0, 2.0]}, "sigma"),
        (PLACES, smooth(PLACES), {"period": {"lon": 360}}, "period"),
        (PLACES, smooth(PLACES), {"scales": [1.0]}, "scales"),
        (np.zeros((0, 2)), np.zeros(0), {}, "coordinates"),
        ([["a", "b"]], [1.0], {}, "coordinates"),
        (DATES, np.ones(9), {}, "coordinates`: expected numbers, such as days, .*, received datetime64"),
        (DATES - DATES[0], np.ones(9), {}, "coordinates`: expected numbers, .*, received timedelta64"),
        (np.arange(9.0), DATES, {}, "values`: expected numbers, .*, received datetime64"),
        (np.arange(9.0), np.ones(9) * 1j, {}, "values`: expected numbers, received complex128"),
        (PLACES, np.ma.masked_less(smooth(PLACES), 0.5), {}, "values`: expected an array without a mask"),
        (np.ma.masked_less(PLACES, 0.5), smooth(PLACES), {}, "coordinates`: expected an array without a mask"),
        (PLACES, smooth(PLACES), {"drift": {"x": np.ma.masked_less(PLACES[:, 0], 0.5)}}, "drift`: expected an array"),
        (PLACES, torch.ones(300, device="meta"), {}, "values`: expected a dense tensor"),
    ],
)
def test_what_is_no_cloud_of_points_is_refused_in_a_line(places, values, options, text):
    with pytest.raises(ValueError, match=f"^`{text}") as caught:
        cn.points(places, values, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("share", "spacing"), [(0.25, 1.0), (0.45, 1.0), (0.9, 0.5)])
def test_nodes_are_those_of_the_points_own_lattice(share, spacing):
    places = np.argwhere(RNG.random((30, 40)) < share) + [7.3, -2.1]
    lattice = cn.points(places, smooth(places), scales=[1.0, 1.0]).geometry.lattice
    np.testing.assert_allclose(lattice.steps, spacing)
    nodes = (places - [axis.first for axis in lattice.named]) / spacing
    np.testing.assert_allclose(nodes, np.round(nodes), atol=1e-9)


def test_rounded_coordinates_are_no_lattice():
    places = np.round(RNG.random((300, 2)), 3)
    assert own_spacing(places, np.ones(2), 0.03) is None


def test_a_picture_whose_axes_have_other_scales_keeps_its_nodes():
    """Its pixels are nodes of their own lattice, whatever these scales are."""
    pixels = np.argwhere(np.random.default_rng(0).random((40, 40)) < 0.3).astype(float)
    spacings = own_spacing(pixels, np.array([1.0, 0.5]), 1.3)
    assert spacings is not None and spacings.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_pixels_have_one_scale_where_points_beside_them_have_two(seed):
    """The signal varies twice as fast along the second axis, which is no clear gain for so rough a one."""
    generator = np.random.default_rng(seed)
    pixels = np.argwhere(generator.random((40, 40)) < 0.25).astype(float)
    waves = generator.standard_t(1, (300, 2)) * [0.08, 0.16]
    values = np.cos(pixels @ waves.T + 6 * generator.random(300)).sum(1)
    beside = pixels + generator.uniform(-0.01, 0.01, pixels.shape)
    assert scales_of(pixels, values[:, None]).tolist() == [1.0, 1.0]
    assert scales_of(beside, values[:, None]).tolist() == [1.0, 0.5]
