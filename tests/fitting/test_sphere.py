"""Points on a sphere: against spherical harmonics, turned spheres, and closed formulas of its maps."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

import coordnet as cn
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.search import deciding_parts
from coordnet.sampling.sphere import EqualAreaMap, nearest_angles, over_poles, spread, vectors

PLATE = cn.ThinPlate(order=4, cutoff=4.0)


def harmonics(places):
    """A sum of spherical harmonics at longitudes and latitudes."""
    pole, around = np.radians(90 - places[:, 1]), np.radians(places[:, 0])
    return sum(sph_harm_y(n, m, pole, around).real for n, m in ((2, 1), (3, 2), (4, 3), (4, 0)))


def drawn(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([360 * rng.random(count) - 180, np.degrees(np.arcsin(2 * rng.random(count) - 1))], -1)


def fitted(places, values, prior=PLATE):
    return cn.fit(cn.points(places, values, names=("lon", "lat"), sphere=("lon", "lat")), prior=prior)


def at(fit, places):
    return fit(torch.from_numpy(places))[:, 0].numpy()


@pytest.fixture(scope="module")
def fit():
    places = drawn(200)
    return fitted(places, harmonics(places))


@pytest.mark.parametrize("spacing", [None, 7.0])
def test_the_latitudes_of_a_grid_are_between_the_poles(fit, spacing):
    assert float(abs(fit.grid(spacing=spacing).lat).max()) <= 90


def test_spherical_harmonics_are_met_at_the_poles_and_the_date_line_as_elsewhere(fit):
    query = drawn(2000, 1)
    error = np.abs(at(fit, query) - harmonics(query))
    near_pole, near_seam = np.abs(query[:, 1]) > 70, np.abs(query[:, 0]) > 170
    for there in (near_pole, near_seam, ~near_pole & ~near_seam):
        assert np.sqrt(np.square(error[there]).mean()) < 2e-3
    poles = np.stack([np.linspace(0, 360, 24), np.full(24, 90.0)], -1)
    assert np.ptp(at(fit, poles)) < 2e-3  # one value at the pole, whatever the longitude
    np.testing.assert_allclose(at(fit, query - [360, 0]), at(fit, query), atol=1e-12)


@pytest.mark.slow
def test_noise_on_a_sphere_is_removed_unasked():
    """The numbers of the plate are chosen by noisy values; most of the noise at the points themselves is gone."""
    places = drawn(100)
    noise = 0.2 * np.random.default_rng(1).normal(size=100)
    fit = fitted(places, harmonics(places) + noise, cn.ThinPlate())
    left = at(fit, places) - harmonics(places)
    assert np.square(left).mean() < 0.75 * np.square(noise).mean()


@pytest.mark.slow
def test_all_orders_are_tried_where_no_interpolation_beats_the_mean():
    """Noise of ten times the signal's deviation: what its interpolation has for an order says nothing of the signal."""
    rng = np.random.default_rng(5)
    places = np.stack([rng.uniform(-120, -70, 300), rng.uniform(25, 60, 300)], 1)

    def truth(at):
        return np.sin(np.radians(3 * at[:, 0])) * np.cos(np.radians(4 * at[:, 1]))

    fit = fitted(places, truth(places) + rng.normal(0, 3, 300), cn.ThinPlate())
    assert fit.report.order < 4
    assert np.square(at(fit, places + 0.3) - truth(places + 0.3)).mean() < 3**2 / 100


def test_a_turned_sphere_has_the_same_fit():
    """Latitude and longitude are as good as those around another axis."""
    places, query = drawn(200), drawn(200, 1)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]

    def turned(x):
        east, north, up = (vectors(*x.T) @ turn).T
        return np.stack([np.degrees(np.arctan2(north, east)), np.degrees(np.arcsin(up))], -1)

    values = harmonics(places)
    first, again = at(fitted(places, values), query), at(fitted(turned(places), values), turned(query))
    assert np.sqrt(np.square(first - again).mean()) < 2e-3


def test_a_map_keeps_areas_and_is_undone():
    center, x = spread(7)[2], np.random.default_rng(0).uniform(-1, 1, (50, 2))
    onto = EqualAreaMap(center)
    np.testing.assert_allclose(onto.onto_plane(onto.from_plane(x)), x, atol=1e-12)
    step = 1e-6
    along, across = (onto.from_plane(x + step * axis) - onto.from_plane(x) for axis in np.eye(2))
    np.testing.assert_allclose(np.linalg.norm(np.cross(along, across), axis=1) / step**2, 1, rtol=1e-5)


def test_meridians_go_on_over_the_pole():
    rows, step = 6, 30.0
    longitude, latitude = np.meshgrid(step * np.arange(12), step * (np.arange(12) + 0.5) - 90)
    x = vectors(longitude, latitude)  # beyond 90° these are the places on the opposite meridian
    np.testing.assert_allclose(over_poles(x[:rows]), x, atol=1e-12)


def test_places_on_a_sphere_are_apart_by_angles(fit):
    poles = vectors(np.array([0.0, 0.0]), np.array([90.0, -90.0]))
    np.testing.assert_allclose(
        nearest_angles(poles, vectors(np.array([12.0, 99.0]), np.array([80.0, -30.0]))), [10, 60]
    )
    places = fit.uncertainty.samples.geometry.places.numpy()
    apart = np.degrees(np.arccos(np.clip(vectors(*places.T) @ vectors(np.array([40.0]), np.array([70.0]))[0], -1, 1)))
    grids = [fit.grid(lon=[40.0], lat=[70.0], max_distance=apart.min() + step) for step in (1e-6, -1e-6)]
    assert [bool(np.isnan(grid).all()) for grid in grids] == [False, True]
    grid = fit.grid(spacing=30.0)
    assert grid.sizes == {"lon": 12, "lat": 7} and grid["lat"].attrs["units"] == "degrees_north"
    assert fit.report.beyond_samples == 0 and not fit.extrapolates(30.0).any()


def test_half_a_sphere_is_continued_calmly():
    places = drawn(200)
    east = places[places[:, 0] > 0]
    with warnings.catch_warnings(action="error"):
        fit = fitted(east, harmonics(east))
    found, beyond = fit.grid(spacing=15.0), fit.extrapolates(15.0)
    assert float(np.abs(found).max()) < 4 and 0.1 < float(beyond.mean()) < 0.6


def test_what_chooses_is_hidden_inside_of_the_maps():
    places = drawn(900)
    samples = cn.points(places, harmonics(places), sphere=(0, 1))
    for part in deciding_parts(Field.of(samples.geometry, samples.values.T)):
        assert 0 < part.inner.sum() < len(part.values)
        reach = np.abs(part.positions - (np.array(part.lattice) - 1) / 2).max(1)
        assert reach[part.inner].max() < reach[~part.inner].min()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sphere": ("x",)}, "sphere"),
        ({"sphere": True}, "sphere"),
        ({"sphere": ("x", "lat")}, "sphere"),
        ({"sphere": ("x", "y"), "period": {"x": 360}}, "sphere"),
        ({"sphere": ("y", "x")}, "coordinates"),
    ],
)
def test_what_is_no_sphere_is_refused_in_a_line(options, text):
    with pytest.raises(ValueError, match=f"^`{text}") as caught:
        cn.points([[120.0, 45.0], [-170.0, -20.0]], [1.0, 2.0], **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_deviations_on_a_sphere_are_those_of_its_errors_at_the_poles_too():
    rng = np.random.default_rng(4)
    places, query = drawn(200, 2), drawn(2000, 3)
    values, truth = (harmonics(x) + 0.1 * rng.normal(size=len(x)) for x in (places, query))
    fit = fitted(places, values, cn.ThinPlate(order=3, cutoff=0.7))
    error, std = at(fit, query) - truth, fit.std(torch.from_numpy(query))[:, 0].numpy()
    low, high = (end[:, 0].numpy() for end in fit.interval(0.9, torch.from_numpy(query)))
    for there in (np.abs(query[:, 1]) > 60, np.abs(query[:, 0]) > 150, np.full(2000, True)):
        assert std[there].mean() == pytest.approx(np.sqrt(np.square(error[there]).mean()), rel=0.2)
        assert 0.84 < np.mean((low <= truth) & (truth <= high), where=there) < 0.96


@pytest.mark.parametrize("prior", [cn.Smoothness(2.0), cn.Adaptive()])
def test_other_priors_than_plates_are_refused_on_a_sphere(prior):
    with pytest.raises(ValueError, match="`prior`: expected cn.ThinPlate.* on a sphere"):
        fitted(drawn(60), harmonics(drawn(60)), prior)
