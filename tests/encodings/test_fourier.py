"""The Fourier encoding of a padded lattice: its modes, its layer, against dense sums."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coordnet import plans
from coordnet.encodings import FourierEncoding
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork, FourierLinear
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.modes import FourierModes
from coordnet.sampling.axes import Axis, lattice_points, render_axes
from coordnet.sampling.grids import Lattice, MaskedLattice

SHAPES = [((7,), (7,)), ((7,), (10,)), ((4, 5), (6, 9)), ((3, 1, 4), (5, 1, 6)), ((2, 3, 2, 2), (4, 3, 2, 3))]


def encoding(lattice, padded):
    return FourierEncoding(tuple(Axis(n, 0.1, 0.3 / n) for n in lattice), padded)


def modes(lattice, padded):
    return FourierModes(encoding(lattice, padded), dtype=torch.float64)


@given(st.integers(1, 12), st.integers(0, 5), st.integers(1, 30), st.floats(-0.5, 0.5), st.floats(0.01, 0.3))
@settings(max_examples=60)
def test_the_chirp_transform_is_the_series(count, padding, onto, start, spacing):
    psi = encoding((count,), (count + padding,))
    layer = FourierLinear(torch.randn(2, count + padding, dtype=torch.float64))
    axes = (Axis(onto, start, spacing),)
    assert torch.allclose(layer.on_axes(psi, axes), layer(psi.factors(lattice_points(axes))), atol=1e-10)


@pytest.mark.parametrize(("lattice", "padded"), SHAPES)
def test_the_layer_holds_the_lattice_values(lattice, padded):
    psi = encoding(lattice, padded)
    weight = torch.randn(3, *padded, dtype=torch.float64)
    layer = FourierLinear(weight)
    expected = weight[(slice(None), *(slice(0, n) for n in lattice))].movedim(0, -1)
    assert torch.equal(layer.on_axes(psi, psi.axes), expected)
    assert torch.allclose(layer(psi.factors(lattice_points(psi.axes))), expected, atol=1e-10)


@pytest.mark.parametrize("onto", [(4, 5), (4, 8), (7, 5), (7, 8)], ids=str)
def test_a_render_leaves_the_weights_as_they_are(onto, generator):
    psi = FourierEncoding((Axis(4), Axis(5)), (6, 9))
    weight = torch.randn(2, 6, 9, dtype=torch.float64, generator=generator)
    network = CoordinateNetwork(psi, Linear(), 2, weight=weight.clone())
    fit = Reconstruction(network, torch.tensor([1.0, -2.0], dtype=torch.float64), (4, 5))
    first = fit.render(onto)
    assert torch.equal(fit.render(onto), first)
    assert torch.equal(network.first.weight, weight)


def test_a_wave_is_rendered_as_itself():
    """A sine of an integer frequency of the padded lattice, between its nodes."""
    psi = FourierEncoding((Axis(24),), (32,))
    positions = torch.arange(32, dtype=torch.float64) / 24
    layer = FourierLinear(torch.sin(2 * math.pi * 3 * positions * 24 / 32).unsqueeze(0))
    (fine,) = render_axes((50,), (24,))
    expected = torch.sin(2 * math.pi * 3 * fine.points() * 24 / 32)
    assert torch.allclose(layer.on_axes(psi, (fine,)).flatten(), expected, atol=1e-10)


@pytest.mark.parametrize(("lattice", "padded"), SHAPES)
def test_analysis_is_the_adjoint_and_norms_count_both_signs(lattice, padded, generator):
    m = modes(lattice, padded)
    f = torch.randn(2, 3, *lattice, dtype=torch.float64, generator=generator)
    g = torch.randn(2, 3, *lattice, dtype=torch.float64, generator=generator)
    z = m.adjoint(g)
    left = (m(z) * f).flatten(2).sum(-1)
    assert torch.allclose(m.inner(z, m.adjoint(f)).flatten(1).reshape(2, 3), left, atol=1e-10)
    assert torch.allclose(m(z), g, atol=1e-12)
    power = m.on_padded_grid()(z).square().flatten(2).sum(-1)
    assert torch.allclose(m.inner(z, z).reshape(2, 3), power, atol=1e-10)


@pytest.mark.parametrize(("lattice", "padded"), SHAPES)
def test_roughness_is_the_energy_of_periodic_differences(lattice, padded, generator):
    m = modes(lattice, padded)
    f = torch.randn(1, 1, *padded, dtype=torch.float64, generator=generator)
    weights = tuple(0.5 + j for j in range(len(lattice)))
    expected = sum(a * (f - f.roll(1, 2 + j)).square().sum() for j, a in enumerate(weights))
    z = m.on_padded_grid().adjoint(f)
    assert float(m.inner(z, m.roughness(weights) * z)) == pytest.approx(float(expected))


@pytest.mark.parametrize(("lattice", "padded"), SHAPES)
def test_smoothing_is_the_circular_mean_over_signed_frequencies(lattice, padded, generator):
    m = modes(lattice, padded)
    power = torch.fft.fftn(torch.randn(padded, dtype=torch.float64, generator=generator)).abs().square()
    half = power[..., : padded[-1] // 2 + 1].reshape(1, 1, *padded[:-1], -1)
    expected = power
    for j, n in enumerate(padded):
        k = torch.arange(n)
        kernel = torch.exp(-0.5 * (torch.minimum(k, n - k) / 1.3) ** 2).double()
        circulant = torch.stack([kernel.roll(i) for i in range(n)]) / kernel.sum()
        expected = torch.tensordot(circulant, expected, dims=([1], [j])).movedim(0, j)
    smoothed = m.smooth(half, 1.3)
    assert torch.allclose(smoothed[0, 0], expected[..., : padded[-1] // 2 + 1], atol=1e-8)


@pytest.mark.parametrize(("lattice", "padded"), SHAPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_filter_multiplies_the_spectrum_of_large_lattices_too(lattice, padded, channels, generator, monkeypatch):
    m = modes(lattice, padded)
    f = torch.randn(2, 3, *lattice, dtype=torch.float64, generator=generator)
    symbol = torch.rand(1, channels, *m.domain, dtype=torch.float64, generator=generator)
    expected = m(symbol * m.adjoint(f))
    for largest in (1, 10**9):
        monkeypatch.setattr(plans.modes, "LARGE_LATTICE", largest)
        assert torch.allclose(m.filter(f, symbol), expected, atol=1e-12)


def test_padding_reaches_beyond_gaps_that_are_open_to_a_border():
    known = torch.ones(96, 100, 1)
    known[30:70, 30:70] = 0
    assert FourierEncoding.like(MaskedLattice((96, 100), weights=known)).shape == (120, 120)
    known[:, 90:] = 0
    assert FourierEncoding.like(MaskedLattice((96, 100), weights=known)).shape == (144, 144)
    known[1:] = 0
    assert FourierEncoding.like(MaskedLattice((96, 100), weights=known)).shape == (192, 200)


def test_padding_reaches_a_fast_length():
    psi = FourierEncoding.like(Lattice((480, 1)), padding=16)
    assert psi.shape[0] >= 496
    assert psi.shape[1] == 1
    assert psi.axes == Lattice((480, 1)).axes
    assert psi.for_lattice((Axis(50),)).shape == FourierEncoding.on((Axis(50),)).shape


def test_bad_fourier_encodings_are_refused():
    with pytest.raises(ValueError, match="`shape`: expected an integer of at least 7, received 6"):
        FourierEncoding((Axis(7),), (6,))
    with pytest.raises(ValueError, match="`padding`"):
        FourierEncoding.like(Lattice((7,)), padding=-1)
    with pytest.raises(ValueError, match="`weight`: expected the solution of a closed-form fit"):
        CoordinateNetwork(FourierEncoding((Axis(7),), (7,)), Linear(), 1)
