"""Geometries: what every way to sample says of its samples, and that a new one is a class."""

import math

import pytest
import torch

import coordnet as cn
from coordnet.encodings.blending import Blending
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.measurements import OperatorGeometry
from coordnet.sampling.samples import Geometry, Samples

GRID = (8, 6)
MASK = torch.rand(*GRID, 1, generator=torch.Generator().manual_seed(1)).round()
POINTS = torch.rand(20, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 0.8
ON_LATTICES = {
    "whole": cn.Lattice(GRID),
    "strided": cn.Lattice(GRID, (2, 3), (1, 0)),
    "masked": cn.MaskedLattice(GRID, weights=MASK),
    "cells": cn.AreaLattice(GRID, (2, 3)),
    "coordinates": cn.RectilinearLattice([0, 1, 2, 3, 5, 6, 7, 9], range(6)),
}
GEOMETRIES = {
    **ON_LATTICES,
    "points": cn.ScatteredPoints(GRID, POINTS),
    "operator": OperatorGeometry(cn.operators.Blur(torch.ones(3, 3) / 9, GRID)),
}


def signal(channels: int = 2) -> torch.Tensor:
    return torch.rand(*GRID, channels, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_hidden_samples_are_unknown_and_the_others_as_they_were(geometry):
    samples = geometry.sample(signal())
    hidden = torch.rand(samples.values.shape[:-1], generator=torch.Generator().manual_seed(3)) < 0.3
    shown = samples.without(hidden.unsqueeze(-1).expand_as(samples.values))
    before, after = geometry.full_weights[..., 0], shown.geometry.full_weights[..., 0]
    assert type(shown.geometry).__name__.removeprefix("Masked") == type(geometry).__name__.removeprefix("Masked")
    assert torch.equal(after, torch.where(hidden, 0.0, before))
    assert torch.equal(shown.values[~hidden], samples.values[~hidden])


@pytest.mark.parametrize("geometry", ON_LATTICES.values(), ids=ON_LATTICES)
def test_positions_and_nodes_are_those_of_the_axes(geometry):
    first, second = (axis.points() for axis in geometry.axes)
    expected = torch.stack([first.repeat_interleave(len(second)), second.repeat(len(first))], -1)
    assert torch.equal(geometry.positions(), expected)
    nearest = torch.cdist(expected, lattice_points(cn.Lattice(GRID).axes).flatten(0, -2), p=torch.inf)
    distance = nearest.gather(1, geometry.nodes.unsqueeze(1)).squeeze(1)
    assert bool((distance <= 0.5 / min(GRID) + 1e-12).all())


@pytest.mark.parametrize("geometry", [*GEOMETRIES.values()], ids=GEOMETRIES)
def test_the_forward_model_of_a_lattice_signal_has_the_samples(geometry):
    """The nodes are those of the grid, or of the lattice where that skips nodes; points are nodes here."""
    f = signal()
    if geometry.closed_form_blend:
        geometry = cn.ScatteredPoints(GRID, cn.Lattice(GRID, (2, 2)).positions(), blending="linear")
        expected = f[::2, ::2].flatten(0, 1)
    else:
        expected = geometry.sample(f).values * geometry.full_weights
    nodes = f[geometry.slices] if isinstance(geometry, cn.Lattice) else f
    blending = Blending("linear", geometry.axes)
    model = geometry.forward(
        geometry.fine_axes, lambda points: blending.interpolation(points, [], f.dtype), f.dtype, f.device
    )
    found = model.weights * model(nodes.movedim(-1, 0).unsqueeze(0))
    assert torch.allclose(found[0].movedim(0, -1), expected, atol=1e-6)


def test_windows_are_lattices_of_their_own():
    window = (slice(2, 6), slice(0, 3))
    part = ON_LATTICES["masked"].sample(signal()).part(window)
    assert part.geometry.grid == (4, 3) and torch.equal(part.weights, MASK[window])
    for name in ("points", "operator", "coordinates"):
        assert GEOMETRIES[name].part(window) is None


class RowMeans(LinearOperator):
    """The mean of every row of a picture."""

    is_portable = True

    def __init__(self, height: int, width: int) -> None:
        self.domain, self.codomain = (height, width), (height,)

    def __call__(self, x, out=None):
        return x.mean(-1)

    def adjoint(self, y, out=None):
        return (y / self.domain[1]).unsqueeze(-1).expand(*y.shape, self.domain[1])


class Rows(Geometry):
    """A new way to sample: the means of a picture's rows."""

    def __init__(self, grid, weights=None):
        self.grid, self.weights = grid, weights

    @property
    def shape(self):
        return self.grid[:1]

    @property
    def density(self):
        return math.prod(self.shape) / math.prod(self.grid)

    @property
    def axes(self):
        return tuple(Axis(n) for n in self.grid)

    def of_constant(self, like):
        return like.new_ones(self.shape)

    def forward(self, lattice, interpolate, dtype, device):
        return ForwardModel(RowMeans(*self.grid), self.stacked_weights(dtype, device), is_general=True)

    def reweighted(self, weights):
        return Rows(self.grid, weights)

    def sample(self, signal):
        return Samples(self, signal.mean(1))

    def known(self, channels):
        return torch.zeros(*self.grid, channels, dtype=torch.bool)

    def put(self, values, onto):
        """Write nothing."""


def test_a_new_way_to_sample_is_one_class():
    samples = Rows(GRID).sample(signal())
    prior = cn.Smoothness(power=1.0, strength=1e-4)
    fit = cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, prior)
    assert torch.allclose(fit.render().mean(1), samples.values, atol=0.01)
    same = cn.Measurements(RowMeans(*GRID), samples.values)
    assert torch.equal(fit.render(), cn.fit_closed_form(cn.FourierEncoding.like(same), same, prior).render())
    hidden = torch.zeros(8, 2, dtype=torch.bool)
    hidden[3] = True
    rest = samples.without(hidden)
    assert float(cn.fit_closed_form(cn.FourierEncoding.like(rest), rest, prior).render()[3].mean()) != 0
    with pytest.raises(ValueError, match="of which some can be hidden"):
        fit.interval()


@pytest.mark.parametrize(("steps", "offsets"), [((2, 1), (1, 0)), ((1, 3), (0, 2)), ((2, 2), (0, 0))])
def test_a_mask_of_every_kth_node_is_a_lattice_that_skips_the_others(steps, offsets):
    lattice = cn.Lattice((18, 24), steps, offsets)
    values = torch.rand(18, 24, 2, generator=torch.Generator().manual_seed(0))
    gaps = cn.MaskedLattice(lattice.grid, weights=lattice.known(1).double()).sample(values)
    found, expected = gaps.without_gaps(), lattice.sample(values)
    assert found.geometry == expected.geometry and torch.equal(found.values, expected.values)
    assert torch.equal(lattice.with_gaps.full_weights, lattice.known(1).float())


def test_other_gaps_than_those_of_every_kth_node_stay():
    known = torch.zeros(18, 24, 1)
    known[::2, ::3] = 1
    one_less, one_more, few = known.clone(), known.clone(), torch.zeros(18, 24, 1)
    one_less[4, 3], one_more[1, 1], few[::6] = 0, 1, 1
    by_channel = known.roll(1, 0) * torch.tensor([0.0, 1.0]) + known * torch.tensor([1.0, 0.0])
    for weights in (one_less, one_more, few, 2 * known, by_channel, torch.ones(18, 24, 1)):
        geometry = cn.MaskedLattice((18, 24), weights=weights)
        assert geometry.without_gaps is geometry
    points = GEOMETRIES["points"].sample(signal())
    assert points.without_gaps() is points


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_mask_of_every_kth_node_is_fitted_as_that_lattice(noise):
    x = torch.linspace(0, 9, 40, dtype=torch.float64)
    picture = torch.sin(x[:, None] + x**2 / 9) + noise * torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    skips = cn.sample(picture[..., None], "every:2")
    gaps = cn.sample(picture[..., None], skips.geometry.known(1)[..., 0])
    found, expected = cn.fit(gaps), cn.fit(skips)
    assert [c.prior for c in found.report.candidates] == [c.prior for c in expected.report.candidates]
    torch.testing.assert_close(found.render(alignment="sample"), expected.render(alignment="sample"))
