"""Müller et al. (SIGGRAPH 2022), equations 1 to 4."""

import itertools

import pytest
import torch

from coordnet.encodings.encoders import HashGrid
from coordnet.sampling.axes import Axis


def naive(psi, x):
    """One point, one corner at a time."""
    out = []
    for level, cells in enumerate(psi.resolutions):
        below = [min(max(int(u * cells // 1), 0), cells - 1) for u in x.tolist()]
        total = 0
        for bits in itertools.product((0, 1), repeat=psi.dimensions):
            corner = [b + o for b, o in zip(below, bits, strict=True)]
            if (cells + 1) ** psi.dimensions <= psi.table:
                row = sum(c * (cells + 1) ** j for j, c in enumerate(corner))
            else:
                row = 0
                for c, prime in zip(corner, (1, 2654435761, 805459861), strict=False):
                    row ^= c * prime
                row %= psi.table
            weight = 1.0
            for u, b, o in zip(x.tolist(), below, bits, strict=True):
                weight *= (u * cells - b) if o else 1 - (u * cells - b)
            total = total + weight * psi.rows[level, row]
        out.append(total)
    return torch.cat(out)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_it_is_the_naive_one(dimensions):
    psi = HashGrid(dimensions, 8, levels=4, table=50, coarsest=3, growth=1.7).double()
    for x in torch.rand(10, dimensions, dtype=torch.float64):
        assert torch.allclose(psi(x), naive(psi, x), atol=1e-15)


def test_levels_grow_geometrically():
    psi = HashGrid.like((Axis(256), Axis(128)), levels=5, coarsest=8)
    assert psi.resolutions == (8, 16, 32, 64, 128)
    assert psi.features == 10


def test_rows_start_near_zero():
    rows = HashGrid(2).rows.detach()
    assert rows.shape == (16, 2**14, 2)
    assert float(rows.abs().max()) <= 1e-4
    assert float(rows.std()) == pytest.approx(1e-4 / 3**0.5, rel=0.01)
