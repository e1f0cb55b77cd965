import math

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline, RectBivariateSpline, griddata

from coordnet.metrics import baselines
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints


@pytest.mark.parametrize("degree", [1, 3])
def test_tensor_splines_equal_rect_bivariate_spline(degree, photograph):
    samples = sample(photograph.double(), "every:2")
    method = {1: baselines.linear, 3: baselines.cubic}[degree]
    x, y = (axis.points().numpy() for axis in samples.geometry.axes)
    u, v = (Axis(n).points().numpy() for n in samples.grid)
    for c in range(3):
        peer = RectBivariateSpline(x, y, samples.values[..., c].numpy(), kx=degree, ky=degree)(u, v)
        assert np.allclose(method(samples)[..., c].numpy(), peer, atol=1e-10)


def test_nearest_on_a_lattice_repeats():
    samples = sample(torch.arange(6.0).unsqueeze(-1), "every:2")
    assert baselines.nearest(samples).flatten().tolist()[::2] == [0, 2, 4]


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_masked_baselines_are_griddata(method, photograph, generator):
    samples = sample(photograph[:20, :20], "random:0.4", generator=generator)
    known = samples.geometry.weights[..., 0] > 0
    grid = lattice_points(samples.geometry.axes)
    peer = griddata(grid[known].numpy(), samples.values[known].double().numpy(), grid.numpy(), method=method)
    ours = getattr(baselines, method)(samples).numpy()
    inside = ~np.isnan(peer)
    assert inside.mean() > 0.7
    assert np.allclose(ours[inside], peer[inside], atol=1e-5)
    assert np.isfinite(ours).all()


def test_masks_by_channel(photograph, generator):
    samples = sample(photograph[:16, :16], "entries:0.5", generator=generator)
    known = samples.geometry.weights > 0
    for method in baselines.BASELINES.values():
        estimate = method(samples)
        assert torch.allclose(estimate[known], samples.values[known], atol=1e-5)


def test_rows(generator):
    row = torch.rand(50, 1, generator=generator, dtype=torch.float64)
    samples = sample(row, "random:0.5", generator=generator)
    at = torch.nonzero(samples.geometry.weights[:, 0]).flatten() / 50
    inside = (torch.arange(50) / 50 >= at.min()) & (torch.arange(50) / 50 <= at.max())
    x = (torch.arange(50) / 50).numpy()
    peer = CubicSpline(at.numpy(), row[samples.geometry.weights[:, 0] > 0].numpy())(x)
    assert np.allclose(baselines.cubic(samples).numpy()[inside], peer[inside], atol=1e-6)


@pytest.mark.parametrize("method", [baselines.linear, baselines.cubic])
def test_an_axis_of_one_node_changes_nothing(method, generator):
    signal = torch.rand(9, 12, 2, generator=generator, dtype=torch.float64)
    known = torch.rand(9, 12, generator=generator) < 0.5
    for values, mask in ((signal, known), (signal[0], known[0])):
        thin = method(sample(values.unsqueeze(1), mask.unsqueeze(1)))
        assert torch.allclose(thin.squeeze(1), method(sample(values, mask, dimensions=values.ndim - 1)))


def test_few_and_collinear_points_fall_back_to_the_nearest():
    points = torch.tensor([[0.1, 0.1], [0.5, 0.5], [0.9, 0.9]])
    samples = Samples(ScatteredPoints((8, 8), points), torch.tensor([[1.0], [2.0], [3.0]]))
    assert torch.equal(baselines.linear(samples), baselines.nearest(samples))
    one = Samples(ScatteredPoints((8,), points[:1, :1]), torch.tensor([[1.0]]))
    for method in baselines.BASELINES.values():
        assert torch.equal(method(one), torch.ones(8, 1))


def test_what_is_out_of_reach_is_none():
    samples = sample(torch.rand(6, 6, 6, 1), "random:0.5")
    assert baselines.cubic(samples) is None
    assert baselines.linear(samples) is not None
    assert baselines.linear(sample(torch.rand(3, 3, 3, 3, 1), "random:0.5")) is None


def test_patience_triangulates_however_many_points_there_are(generator, monkeypatch):
    samples = sample(torch.rand(8, 7, 6, 2, generator=generator), "random:0.5", generator=generator)
    expected = baselines.linear(samples)
    monkeypatch.setattr(baselines, "TRIANGULATION_LIMIT", {3: 10})
    assert baselines.linear(samples) is None
    assert torch.equal(baselines.linear(samples, patient=True), expected)


def test_biharmonic_inpainting_of_more_points_than_its_limit_is_left_out(generator, monkeypatch):
    samples = sample(torch.rand(8, 7, 3, generator=generator), "random:0.5", generator=generator)
    assert baselines.biharmonic(samples) is not None and baselines.expected_seconds(samples, "biharmonic") < 1
    monkeypatch.setattr(baselines, "BIHARMONIC_LIMIT", {2: 10})
    assert baselines.biharmonic(samples) is None and baselines.expected_seconds(samples, "biharmonic") == math.inf
