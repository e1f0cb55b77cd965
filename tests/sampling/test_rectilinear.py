"""Rectilinear lattices: their coordinates, units and missing values."""

import numpy as np
import pytest
import torch

import coordnet as cn


def test_coordinates_are_in_units_of_the_unit_interval():
    lattice = cn.RectilinearLattice([0.0, 1.0, 4.0, 8.0], [10.0, 20.0])
    assert torch.allclose(lattice.axes[0].points(), torch.tensor([0.0, 1 / 8, 1 / 2, 1.0]).double() * 3 / 4)
    assert lattice.axes[1] == cn.Lattice((2,)).axes[0]
    assert torch.allclose(lattice.to_unit(torch.tensor([[4.0, 15.0]])), torch.tensor([[0.375, 0.25]]).double())
    part = lattice.axes[0].part(1, 2)
    assert torch.equal(part.points(), lattice.axes[0].points()[1:3])


def test_missing_values_are_unknown():
    values = np.ones((3, 4, 2))
    values[1, 2] = np.nan
    samples = cn.RectilinearLattice([0, 1, 3], [0, 1, 3, 9]).sample(values)
    assert samples.weights.shape == (3, 4, 1) and samples.weights[1, 2] == 0 and samples.weights.sum() == 11
    assert len(samples.on_even_nodes().values) == 11
    values[0, 0, 1] = np.nan
    assert cn.RectilinearLattice([0, 1, 3], [0, 1, 3, 9]).sample(values).weights.shape == (3, 4, 2)


def test_lattices_are_equal_by_their_coordinates():
    one = cn.RectilinearLattice([0, 1, 3])
    assert one == cn.RectilinearLattice(torch.tensor([0.0, 1.0, 3.0]))
    assert one != cn.RectilinearLattice([0, 1, 4]) and one != cn.RectilinearLattice([0, 1, 3], weights=torch.ones(3, 1))


@pytest.mark.parametrize(
    ("coordinates", "said"),
    [
        (([3.0, 2.0, 1.0],), r"`coordinates\[0\]`: expected increasing numbers, each once, received 3, 2"),
        (([0.0, 1.0], [0.0, 1.0, 1.0]), r"`coordinates\[1\]`: expected increasing numbers, each once, received 1, 1"),
        (([0.0, float("nan"), 1.0],), r"`coordinates\[0\]`: expected finite numbers, received NaN or infinity"),
        (([[0.0, 1.0]],), r"`coordinates\[0\]`: expected at least one number, in one axis, received shape \(1, 2\)"),
        (([],), r"`coordinates\[0\]`: expected at least one number"),
        ((["a"],), r"`coordinates\[0\]`: expected numbers, received list"),
        ((np.array(["2020-01-01"], "M8[D]"),), r"`coordinates\[0\]`: expected numbers, such as days, \(dates"),
        ((), "`coordinates`: expected 1 to 7 arrays"),
    ],
)
def test_wrong_coordinates_are_refused(coordinates, said):
    with pytest.raises(ValueError, match=said):
        cn.RectilinearLattice(*coordinates)


def test_lengths_that_do_not_match_are_refused():
    lattice = cn.RectilinearLattice([0, 1, 3], [0, 1, 3, 9])
    with pytest.raises(ValueError, match=r"`values`: expected the lengths \(3, 4\) of the coordinates"):
        lattice.sample(torch.rand(4, 3))
    with pytest.raises(ValueError, match="`weights`: expected shape"):
        cn.RectilinearLattice([0, 1, 3], weights=torch.ones(4, 1))
    with pytest.raises(ValueError, match="`values`: expected shape"):
        cn.Samples(lattice, torch.rand(4, 3, 1))
    with pytest.raises(ValueError, match="`coordinates`: expected 2 arrays"):
        lattice.locate([0.0])


def test_longitudes_turned_by_the_circle_are_equally_spaced():
    lon = (np.arange(350, 420) * 0.1 + 324.7) % 360
    turned = np.sort((lon + 180) % 360 - 180)
    assert np.ptp(np.diff(turned)) > 0 and cn.RectilinearLattice(turned).is_even
    assert not cn.RectilinearLattice(turned + 1e-7 * np.arange(70) ** 2).is_even
