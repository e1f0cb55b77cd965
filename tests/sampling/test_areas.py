"""Cells of pixels, and the map to their means."""

import pytest
import torch

import coordnet as cn
from coordnet.sampling.grids import CellMeans


@pytest.mark.parametrize(("text", "cells"), [("area:2", (2, 2)), ("area:3x2", (3, 2)), ("area:1", (1, 1))])
def test_area_samples_are_means_over_cells(text, cells):
    signal = torch.rand(12, 8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples = cn.sample(signal, text)
    assert samples.geometry == cn.AreaLattice((12, 8), cells)
    for i, j in ((0, 0), (1, 3), (3, 2)):
        cell = signal[i * cells[0] : (i + 1) * cells[0], j * cells[1] : (j + 1) * cells[1]]
        assert torch.allclose(samples.values[i, j], cell.mean((0, 1)))


def test_cells_cover_the_pixels_cells():
    for cells, pixels in zip(cn.AreaLattice((12, 8), (3, 4)).axes, cn.AreaLattice((12, 8)).axes, strict=True):
        assert cells.start - cells.width / 2 == pytest.approx(pixels.start - pixels.width / 2)
        assert cells.stop - cells.width / 2 == pytest.approx(pixels.stop - pixels.width / 2)
        assert pixels.start == 0


@pytest.mark.parametrize(("lattice", "cells"), [((12,), (3,)), ((4, 6), (2, 1)), ((2, 4, 6), (2, 2, 3))])
def test_means_and_their_adjoint(lattice, cells):
    operator, generator = CellMeans(lattice, cells), torch.Generator().manual_seed(0)
    x = torch.rand(2, *operator.domain, dtype=torch.float64, generator=generator)
    y = torch.rand(2, *operator.codomain, dtype=torch.float64, generator=generator)
    assert float((operator(x) * y).sum()) == pytest.approx(float((x * operator.adjoint(y)).sum()))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("area:7", r"`cells`: expected lengths that divide the grid \(12, 8\), received \(7, 7\)"),
        ("area:2x2x2", "`cells`: expected 2 lengths"),
        ("area:0", "one of full"),
        ("area:1.5", "one of full"),
    ],
)
def test_cells_that_do_not_tile_are_refused(pattern, said):
    with pytest.raises(ValueError, match=said):
        cn.sample(torch.rand(12, 8, 1), pattern)


def test_a_cell_with_an_unknown_pixel_is_unknown():
    signal = torch.ones(4, 6, 1)
    signal[3, 1] = torch.nan
    samples = cn.sample(signal, "area:2")
    assert samples.weights[..., 0].tolist() == [[1, 1, 1], [0, 1, 1]]
    picture = torch.full((4, 6, 1), -1.0)
    samples.geometry.put(samples.values, picture)
    assert (picture[2:, :2] == -1).all() and (picture[:2] == 1).all()
    assert not samples.geometry.known(1).any()
    with pytest.raises(ValueError, match="`signal`: expected a value that is not NaN"):
        cn.sample(torch.full((4, 4), torch.nan), "area:2")
