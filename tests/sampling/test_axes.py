import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coordnet.sampling.axes import Axis, lattice_points, render_axes


def test_samples_sit_at_i_over_n():
    assert torch.allclose(Axis(4).points(), torch.tensor([0, 0.25, 0.5, 0.75], dtype=torch.float64))
    assert Axis(4).stop == 1


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 39))
def test_every_is_the_slice(count, step, offset):
    offset %= count
    axis = Axis.every(count, step, offset)
    assert torch.allclose(axis.points(), Axis(count).points()[offset::step])


@given(st.integers(1, 50), st.integers(1, 6))
def test_pixel_alignment_keeps_the_centre_of_mass(samples, factor):
    """An enlarged picture is not shifted: each cell's outputs are centred on its sample."""
    outputs = Axis.render(samples * factor, samples).points().reshape(samples, factor)
    assert torch.allclose(outputs.mean(1), Axis(samples).points(), atol=1e-12)


def test_alignments_of_the_own_grid_agree():
    assert torch.allclose(Axis.render(7, 7).points(), Axis(7).points())
    assert torch.allclose(Axis.render(14, 7, "sample").points(), Axis(14).points())


def test_lattice_points_are_row_major():
    points = lattice_points((Axis(2), Axis(3)))
    assert points.shape == (2, 3, 2)
    assert points[1, 2].tolist() == [0.5, pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Axis(0), "`count`: expected an integer of at least 1, received 0"),
        (lambda: Axis(3, float("nan")), "`start`"),
        (lambda: Axis(3, 0.0, -1.0), "`spacing`: expected a positive finite number, received -1.0"),
        (lambda: render_axes((3,), (3, 3)), "`shape`: expected 2 lengths"),
    ],
)
def test_bad_axes_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
