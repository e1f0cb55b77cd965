"""Drifts of points: against the dense partial spline, in tiles and on spheres, on grids, saved, and refused."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import coordnet as cn
from coordnet.priors.plates import plate as plates
from coordnet.priors.plates.field import Field, plate_blend
from coordnet.priors.plates.plate import energy_weight, plate
from coordnet.sampling.sphere import vectors

RNG = np.random.default_rng(0)
PLACES, QUERY = RNG.random((300, 2)), RNG.random((50, 2))
PLATE = cn.ThinPlate(order=3, cutoff=1.4)


def elevation(x, y):
    return 500 * np.exp(-((x - 0.5) ** 2 + (y - 0.4) ** 2) / 0.02) + 300 * np.sin(25 * x) * np.cos(31 * y)


HEIGHTS = elevation(*PLACES.T)
TRUTH = 10 + 3 * np.sin(3 * PLACES[:, 0]) - 0.0065 * HEIGHTS
SAMPLES = cn.points(PLACES, TRUTH, drift={"elevation": HEIGHTS})
FIT = cn.fit(SAMPLES, prior=PLATE)


@pytest.mark.parametrize(("order", "cutoff"), [(2, 0.7), (3, math.inf)])
def test_a_drift_has_the_dense_partial_spline_as_twin(order, cutoff):
    """All unknowns together: the nodes, whose energy counts, and the coefficients of two columns, of which none does.

    The misfit of an interpolation has the weight 1e8, so that the dense twin's rounding shows in the fifth digit.
    """
    places, columns = PLACES[:60], RNG.normal(size=(60, 2))
    values = np.sin(5 * places[:, :1]) + columns @ [[0.3], [-2.0]] + 0.1 * RNG.normal(size=(60, 1))
    samples = cn.points(places, values, RNG.uniform(0.5, 1, 60), drift=columns)
    fit = cn.fit(samples, prior=cn.ThinPlate(order=order, cutoff=cutoff))
    field = Field.of(samples.geometry.blended(plate_blend(samples.geometry)), samples.values.T)
    a = np.hstack([field.operator.toarray(), columns]) * np.sqrt(field.weights)[:, None]
    size = a.shape[1] - 2
    normal, right = a.T @ a, a.T @ (np.sqrt(field.weights)[:, None] * values)
    normal[:size, :size] += energy_weight(order, cutoff) * field.energy(order).toarray()
    twin = np.linalg.solve(normal, right)
    np.testing.assert_allclose(fit.learned["drift"][0], twin[size:], atol=1e-6)
    predicted = field.operator @ twin[:size] + columns @ twin[size:]
    np.testing.assert_allclose(samples.geometry.at_samples(fit), predicted, atol=1e-6)


@pytest.mark.parametrize("cutoff", [1.4, math.inf])
def test_tiles_find_the_coefficient_of_the_whole(cutoff, monkeypatch):
    field = Field.of(SAMPLES.geometry, SAMPLES.values.T)
    whole = field.drift_coefficients(plate(field, 3, cutoff)[0])
    monkeypatch.setitem(plates.FACTORIZED_NODES, 2, 64)
    f, solution = plate(field, 3, cutoff)
    assert solution.method == "tiles"
    np.testing.assert_allclose(field.drift_coefficients(f, solution.left), whole, rtol=0.01)
    np.testing.assert_allclose(whole[0] / HEIGHTS.std(), -0.0065, rtol=0.02)


def test_a_drift_on_a_sphere_is_found():
    places = np.stack([RNG.uniform(-180, 180, 300), np.degrees(np.arcsin(RNG.uniform(-1, 1, 300)))], -1)
    heights, smooth = RNG.gamma(1.0, 500.0, 300), 20 * vectors(*places.T)[:, 2] ** 2
    samples = cn.points(places, smooth - 0.0065 * heights, sphere=(0, 1), drift=pd.DataFrame({"height": heights}))
    fit = cn.fit(samples, prior=cn.ThinPlate(order=2, cutoff=math.inf))
    assert fit.report.drift["height"] == pytest.approx([-0.0065], rel=1e-3)


def test_hidden_points_choose_with_the_drift_and_predict_with_it():
    fit = cn.fit(SAMPLES)
    assert fit.report.drift["elevation"] == pytest.approx([-0.0065], rel=1e-3)
    expected = 10 + 3 * np.sin(3 * QUERY[:, 0]) - 0.0065 * elevation(*QUERY.T)
    np.testing.assert_allclose(fit(torch.from_numpy(QUERY), drift=elevation(*QUERY.T))[:, 0], expected, atol=3e-3)
    assert fit.score().rmse < 0.1


def test_grids_take_a_drift_as_a_function_an_array_or_one_with_coordinates(tmp_path):
    fit = cn.fit(SAMPLES, prior=PLATE)
    grid = fit.grid(0.1, drift=elevation)
    nodes = np.meshgrid(grid["x"], grid["y"], indexing="ij")
    expected = fit(torch.from_numpy(np.stack(nodes, -1)), drift=elevation(*nodes))[..., 0]
    np.testing.assert_allclose(grid, expected, atol=1e-12)
    finer = np.linspace(0, 1, 41)
    labelled = xr.DataArray(elevation(finer, finer[:, None]), {"y": finer, "x": finer}, ("y", "x"))
    for drift in (elevation(*nodes), {"elevation": elevation}, xr.Dataset({"elevation": labelled})):
        np.testing.assert_allclose(fit.grid(0.1, drift=drift), grid, atol=1e-9)
    rounded = labelled.assign_coords(x=finer * (1 - 1e-7), y=finer + 1e-9)  # one row and one column lie beyond
    np.testing.assert_allclose(fit.grid(0.1, drift=rounded), grid, atol=1e-3)
    holes = labelled.where(labelled.x < 0.95)
    some, deviations = (fit.grid(0.1, drift=holes, std=std) for std in (False, True))
    assert np.isnan(some.isel(x=-1)).all() and np.array_equal(some.isnull(), deviations.isnull())
    fit.save(tmp_path / "fit.safetensors")
    again = cn.Reconstruction.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(again.grid(0.1, drift=elevation), grid)


def test_points_without_their_drift_are_left_out_and_repeated_ones_averaged():
    heights = HEIGHTS.copy()
    heights[7] = np.nan
    geometry = cn.points(np.vstack([PLACES, PLACES[:2]]), np.r_[TRUTH, TRUTH[:2]], drift=np.r_[heights, HEIGHTS[:2]])
    assert (geometry.geometry.left_out, geometry.geometry.merged) == (1, 2)
    np.testing.assert_allclose(np.sort(geometry.geometry.drift.columns[:, 0]), np.sort(np.delete(HEIGHTS, 7)))


def test_what_the_coordinates_tell_has_no_coefficient():
    """A plate of order 2 has a slope without energy, so that nothing tells it from a column that is one."""
    fit = cn.fit(cn.points(PLACES, TRUTH, drift=PLACES @ [2.0, 1.0]), prior=cn.ThinPlate(order=2, cutoff=1.4))
    assert fit.report.drift["drift1"] == [0.0]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda fit: fit(torch.from_numpy(QUERY)), "`drift`: expected elevation where .* none"),
        (lambda fit: fit.grid(0.1), "`drift`: expected elevation where .* none"),
        (lambda fit: fit.grid(0.1, drift={"height": elevation}), "no elevation"),
        (lambda fit: fit.grid(0.1, drift=np.ones((3, 3))), "shape"),
        (lambda fit: fit.render(), "drift"),
        (lambda fit: fit.interval(), "drift"),
        (lambda fit: cn.fit(SAMPLES, prior=cn.Smoothness(2.0)), "`prior`: .* drift"),
        (lambda fit: cn.fit(SAMPLES, solver="gradient", epochs=1), "`solver`"),
        (lambda fit: cn.points(PLACES, TRUTH, drift=np.ones(300)), "different numbers in drift1"),
        (lambda fit: cn.points(PLACES, TRUTH, drift=HEIGHTS[:5]), "each of 300 points"),
        (lambda fit: cn.fit(cn.points(PLACES, TRUTH), prior=PLATE).grid(0.1, drift=elevation), "without one"),
    ],
)
def test_a_drift_that_is_missing_or_wrong_is_refused_in_one_line(work, message):
    with pytest.raises(ValueError, match=message) as found:
        work(FIT)
    assert "\n" not in str(found.value)


def test_channels_have_coefficients_of_their_own():
    values = np.stack([TRUTH, 2 * TRUTH, TRUTH], -1)
    values[:50, 2] = np.nan
    fit = cn.fit(cn.points(PLACES, values, drift={"elevation": HEIGHTS}), prior=PLATE)
    whole = cn.fit(SAMPLES, prior=PLATE).report.drift["elevation"][0]
    rest = cn.fit(cn.points(PLACES[50:], TRUTH[50:], drift={"elevation": HEIGHTS[50:]}), prior=PLATE)
    first, second, third = (part.drift["elevation"][0] for part in fit.report.signals)
    np.testing.assert_allclose([first, second], [whole, 2 * whole], rtol=1e-9)
    assert third == pytest.approx(rest.report.drift["elevation"][0], rel=0.01)
