"""Means of encoders over cells, against quadrature, and reflected borders."""

import pytest
import torch

from coordnet.encodings.designs import design
from coordnet.encodings.encoders import BSpline, Encoder, Gaussian, Rectangle, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis

INTEGRABLE = ("gaussian", "triangle", "bspline", "rectangle", "sine", "linf", "logf", "rff", "sinusoidal", "dft")
POINTS = 500  # points of the midpoint rule; a box's edge is off by at most one of them


@pytest.mark.parametrize("name", [*INTEGRABLE, "identity"])
def test_means_over_cells_are_integrals(name):
    psi = ENCODERS[name].like(Axis(24))
    x, width = torch.tensor([0.31, 0.5, 0.62], dtype=torch.float64), 0.07
    inside = x.unsqueeze(1) + width * ((torch.arange(POINTS) + 0.5) / POINTS - 0.5)
    expected = psi(inside).mean(1)
    assert torch.allclose(psi.cell_means(x, width), expected, atol=2 / POINTS if name == "rectangle" else 1e-5)


@pytest.mark.parametrize("bumps", [Gaussian, Triangle, BSpline, Rectangle])
def test_means_at_the_border_are_those_of_what_is_evaluated_there(bumps):
    samples, cells = Axis(150), Axis.cells(375, 150)  # some cells lie beyond the last sample
    psi = bumps.like(samples)
    ends = torch.cat([cells.points()[:6], cells.points()[-6:]])
    inside = ends.unsqueeze(1) + cells.width * ((torch.arange(POINTS) + 0.5) / POINTS - 0.5)
    found = psi.on_axis(cells)
    expected = psi(inside).mean(1)
    assert torch.allclose(torch.cat([found[:6], found[-6:]]), expected, atol=5e-3 if bumps is Rectangle else 1e-5)
    band = psi.banded(cells)
    assert band is not None and torch.allclose(band.dense(), found, atol=1e-12)


def test_encoders_without_an_integral_say_so():
    for name, encoder in ENCODERS.items():
        if issubclass(encoder, Encoder) and name not in (*INTEGRABLE, "identity"):
            with pytest.raises(ValueError, match=rf"`encoder`: expected one with an integral over cells .*{name}"):
                encoder.like(Axis(8)).on_axis(Axis.cells(8, 8))


def test_a_spline_over_cells_of_its_own_knots_is_the_next_spline():
    axis = Axis.cells(9, 9)
    u = 9 * (BSpline.like(axis, degree=2).nodes.points() - 0.5)
    made = BSpline.like(axis, degree=2, reflect=False).cell_means(torch.tensor([0.5], dtype=torch.float64), 1 / 9)
    cubic = (2 / 3 - u**2 + u.abs() ** 3 / 2) * (u.abs() < 1) + (2 - u.abs()).clamp(min=0) ** 3 / 6 * (u.abs() >= 1)
    assert torch.allclose(made[0], cubic)


@pytest.mark.parametrize("bumps", [Gaussian, Triangle, BSpline, Rectangle])
@pytest.mark.parametrize("features", [150, 301])
def test_bands_of_cells_are_the_dense_matrix(bumps, features):
    axis = Axis.cells(150, 450)
    psi = bumps.like(axis, features=features)
    band = psi.banded(axis)
    assert band is not None
    assert torch.allclose(band.dense(), psi.on_axis(axis), atol=1e-12)
    assert not isinstance(design(psi, axis), torch.Tensor)


@pytest.mark.parametrize("features", [10, 7, 20])
def test_bumps_on_cells_are_even_at_the_borders(features):
    axis = Axis.cells(10, 30)
    psi = Gaussian.like(axis, features=features)
    t = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 4
    for border in (-1 / 60, 1 - 1 / 60):
        assert torch.allclose(psi(border + t), psi(border - t), atol=1e-9)
