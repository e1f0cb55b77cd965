"""Priors of pictures for points between nodes: twins on the lattice, planes, and the weights against plates."""

import math

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.networks.fit_reports import PlateReport, StackReport
from coordnet.priors.snapped import NearestNodes, Snapped

RNG = np.random.default_rng(2)
PLATES, CUBIC = cn.ThinPlate(2, math.inf, 0.1), cn.ThinPlate(2.5, math.inf, 0.0)
KNOWN = RNG.random((24, 20)) < 0.3
KNOWN[[0, -1], [0, -1]] = True
PICTURE = np.where(np.add.outer(np.arange(24), np.arange(20)) % 15 > 7, 1.0, 0.0) + 0.01 * RNG.random((24, 20))
PIXELS = np.stack(np.nonzero(KNOWN), -1).astype(float)


def test_points_at_nodes_have_the_fit_of_the_lattice():
    fit = cn.fit(cn.points(PIXELS, PICTURE[KNOWN], scales=[1.0, 1.0]), prior=Snapped(CUBIC, PLATES, is_weighed=False))
    masked = torch.from_numpy(np.where(KNOWN, PICTURE, np.nan))[..., None]
    twin = cn.fit(cn.sample(masked, "full"), prior=CUBIC)
    pixels = torch.from_numpy(np.stack(np.meshgrid(np.arange(24.0), np.arange(20.0), indexing="ij"), -1))
    torch.testing.assert_close(fit(pixels), twin.render(alignment="sample"), atol=1e-6, rtol=0)


def test_values_are_moved_along_a_plane_to_the_nodes():
    places = RNG.random((300, 2)) * 16
    samples = cn.points(places, places @ [1.0, -2.0], scales=[1.0, 1.0])
    query = 3 + 10 * RNG.random((50, 2))
    found = cn.fit(samples, prior=Snapped(CUBIC, PLATES, is_weighed=False))(torch.from_numpy(query))[:, 0].numpy()
    np.testing.assert_allclose(found, query @ [1.0, -2.0], atol=1e-4)


def test_plates_take_what_the_nodes_leave_at_the_points():
    """The nodes' prior smooths, so that without those plates the values at the points would not come back."""
    places = PIXELS[:100] + 0.4 * RNG.random((100, 2))
    values = PICTURE[KNOWN][:100]
    fit = cn.fit(cn.points(places, values, scales=[1.0, 1.0]), prior=Snapped(cn.ThinPlate(2, 0.3), CUBIC, False))
    np.testing.assert_allclose(fit(torch.from_numpy(places))[:, 0], values, atol=1e-3)


def test_a_node_has_the_mean_of_its_points_that_are_known():
    samples = cn.points([[0.0, 0.0], [0.1, 0.0], [2.0, 3.0], [3.0, 1.0]], [1.0, 3.0, 5.0, np.nan])
    geometry = cn.sampling.ScatteredPoints((4, 5), torch.tensor([[0.0, 0.0], [0.02, 0.0], [0.5, 0.6], [0.75, 0.2]]))
    near = NearestNodes.of(geometry)
    found = near.samples(torch.tensor([[1.0], [3.0], [5.0], [7.0]]), torch.tensor([[1.0], [1.0], [1.0], [0.0]]))
    assert near.geometry.grid == (4, 4) and float(found.values[0, 0]) == 2 and float(found.values[2, 3]) == 5
    assert float(found.values[3, 1]) == 0 and samples.geometry.left_out == 1


def test_a_track_has_no_lattice_of_nearest_nodes():
    angle = np.linspace(0, 6, 200)
    track = cn.points(np.stack([np.cos(angle), np.sin(angle)], -1), angle, scales=[1.0, 1.0])
    assert NearestNodes.of(track.geometry) is None
    wrapped = cn.points(PIXELS, PICTURE[KNOWN], period={"x": 30.0})
    assert NearestNodes.of(wrapped.geometry) is None
    with pytest.raises(ValueError, match="ThinPlate"):
        cn.fit(wrapped, prior=Snapped(CUBIC, PLATES, is_weighed=False))


def test_the_few_points_that_are_left_in_a_fold_are_fitted_too():
    samples = cn.points(PIXELS, PICTURE[KNOWN], scales=[1.0, 1.0])
    few = samples.without(torch.arange(len(PIXELS))[:, None] % 4 > 0)
    assert NearestNodes.of(samples.geometry) is not None and NearestNodes.of(few.geometry) is None
    assert cn.fit(few, prior=Snapped(CUBIC, PLATES, is_weighed=False)).report.method


@pytest.mark.slow
def test_rough_points_are_weighed_by_the_middle_of_many_and_refits_keep_the_weights(monkeypatch):
    samples = cn.points(PIXELS, PICTURE[KNOWN], scales=[1.0, 1.0])
    fit = cn.fit(samples, prior=Snapped(CUBIC, PLATES))
    assert isinstance(fit.report, StackReport)
    weights = [candidate.weight for candidate in fit.report.candidates]
    settled = Snapped(CUBIC, PLATES).settled(fit.report)
    assert sum(weights) == pytest.approx(1) and settled.weights == tuple(w for w in weights if w)
    torch.testing.assert_close(cn.fit(samples, prior=settled)(samples.geometry.places), fit(samples.geometry.places))
    monkeypatch.setattr("coordnet.priors.snapped.DECIDING", 1200)
    monkeypatch.setattr("coordnet.priors.snapped.FEWEST_DECIDING", 20)
    report = cn.fit(samples, prior=Snapped(CUBIC, PLATES)).report
    assert report.hold_out_psnr and report.hold_out_psnr != fit.report.hold_out_psnr
    assert sum(candidate.weight for candidate in report.candidates) == pytest.approx(1)


def test_smooth_points_have_plates_and_kriging_alone():
    places = RNG.random((200, 2))
    fit = cn.fit(cn.points(places, np.sin(5 * places[:, 0]), scales=[1.0, 1.0]), prior=Snapped(CUBIC, PLATES))
    assert [candidate.prior for candidate in fit.report.candidates] == ["kriging", PLATES.text]


def test_gradients_flow_through_plates_alone():
    samples = cn.points(PIXELS, PICTURE[KNOWN], scales=[1.0, 1.0])
    values = samples.values.clone().requires_grad_()
    fit = cn.fit(cn.Samples(samples.geometry, values), prior=Snapped(CUBIC, PLATES))
    assert isinstance(fit.report, PlateReport) and fit.report.prior == repr(PLATES)


def test_points_of_a_window_are_at_the_same_places_of_the_same_nodes():
    samples = cn.points(places := RNG.random((400, 2)) * [8.0, 5.0], places @ [1.0, 2.0], scales=[1.0, 1.0])
    part = samples.geometry.within((slice(5, 45), slice(0, 38)), samples.values)
    inside = part.geometry.places @ torch.tensor([1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(part.values[:, 0], inside)
    first, step = part.geometry.lattice.named[0].first, samples.geometry.lattice.named[0].spacing
    assert first == pytest.approx(samples.geometry.lattice.named[0].first + 5 * step)
    nodes = part.geometry.points * torch.tensor(part.geometry.grid)
    torch.testing.assert_close(first + step * nodes[:, 0], part.geometry.places[:, 0])
    assert 50 < len(part.values) < 400 and float(nodes.min()) >= 10
