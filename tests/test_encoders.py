"""Every encoder of the registry inherits these tests."""

import math

import pytest
import torch

from coordnet.coordinates import Axis
from coordnet.encoders import ENCODERS, Gaussian, LinearFourier, LogFourier, RandomFourier, Triangle

every_encoder = pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)


def stable_rank(a):
    return float(a.square().sum() / torch.linalg.matrix_norm(a, 2) ** 2)


@every_encoder
@pytest.mark.parametrize("axis", [Axis(12), Axis.every(25, 2, 1), Axis(1), Axis(7, -0.5, 0.2)])
def test_defaults_suit_an_axis(encoder, axis):
    psi = encoder.like(axis)
    a = psi(axis.points())
    assert a.shape == (axis.count, psi.columns)
    assert a.dtype == torch.float64
    assert bool(torch.isfinite(a).all())


@every_encoder
def test_dtype_and_shape_follow_the_positions(encoder):
    psi = encoder.like(Axis(10))
    x = torch.rand(3, 4)
    assert psi(x).shape == (3, 4, psi.columns)
    assert psi(x).dtype == torch.float32
    assert torch.allclose(psi(x.double()).float(), psi(x), atol=1e-4)
    assert torch.equal(psi(x)[1, 2], psi(x[1, 2]))


@every_encoder
def test_normalizing_divides_by_the_largest_row_norm(encoder):
    axis = Axis(20)
    plain, normal = encoder.like(axis), encoder.like(axis, normalize=True)
    a = plain(axis.points())
    assert torch.allclose(normal(axis.points()), a / a.norm(dim=-1).max())


@every_encoder
def test_configuration_rebuilds_it(encoder):
    psi = encoder.like(Axis(9), features=8, normalize=True)
    again = encoder(**psi.configuration())
    again.load_state_dict(psi.state_dict())
    x = torch.rand(5, dtype=torch.float64)
    assert torch.equal(again(x), psi(x))


@every_encoder
def test_positions_carry_gradients(encoder):
    psi = encoder.like(Axis(6))
    x = torch.tensor([0.11, 0.52, 0.87], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(psi, (x,))


@every_encoder
def test_similarity_is_the_normalized_inner_product(encoder):
    """D(δ) against ψ(x)·ψ(x + δ) / ψ(x)·ψ(x) in the interior, with many features."""
    scales = {p.name: 0.03 if p.unit == "length" else 12.0 for p in encoder.parameters}
    psi = encoder.like(Axis(50), features=20000, **scales)
    delta = torch.linspace(-0.1, 0.1, 21, dtype=torch.float64)
    base = psi(torch.tensor(0.5, dtype=torch.float64))
    products = psi(0.5 + delta) @ base / (base @ base)
    assert torch.allclose(psi.similarity(delta), products, atol=1e-6)
    assert float(psi.similarity(torch.zeros(1))) == pytest.approx(1)


@every_encoder
def test_theoretical_stable_rank(encoder):
    scales = {p.name: 0.01 if p.unit == "length" else 40.0 for p in encoder.parameters}
    psi = encoder.like(Axis(1000), features=2000, **scales)
    theory, measured = psi.stable_rank(1000), stable_rank(psi(Axis(1000).points()))
    if math.isnan(theory):
        assert measured >= 1
    elif encoder.random:
        assert 0.6 * theory < measured <= 1.01 * theory
    else:
        assert measured == pytest.approx(theory, rel=0.03)


@every_encoder
def test_bad_arguments_are_refused(encoder):
    first = encoder.parameters[0]
    other = "0.5/px" if first.unit == "length" else "2px"
    for value in (-1.0, 0.0, math.nan, math.inf, "wide", other, "-1px"):
        with pytest.raises(ValueError, match=f"`{first.name}`: expected"):
            encoder.like(Axis(8), **{first.name: value})
    with pytest.raises(ValueError, match="`features`"):
        encoder.like(Axis(8), features=-2)
    with pytest.raises(ValueError, match=f"`colour`: expected a parameter of the {encoder.name} encoder"):
        encoder.like(Axis(8), colour=1)


def test_spacings_are_units():
    axis = Axis.every(100, 2)
    assert Gaussian.like(axis, sigma="0.64px").sigma == pytest.approx(0.64 * 2 / 100)
    assert Gaussian.like(axis).sigma == pytest.approx(0.64 / 50)
    assert Gaussian.like(axis, sigma=0.3).sigma == 0.3
    assert Gaussian.like(axis, sigma="0.3").sigma == 0.3
    assert LinearFourier.like(axis, f_max="0.25/px").f_max == pytest.approx(12.5)


def test_gaussian_and_triangle_are_their_formulas():
    x = torch.tensor([0.31], dtype=torch.float64)
    nodes = torch.arange(-2, 12, dtype=torch.float64) / 10
    gaussian = Gaussian(10, 0.07, padding=2)(x)
    triangle = Triangle(10, 0.15, padding=2)(x)
    assert torch.allclose(gaussian[0], torch.exp(-((nodes - 0.31) ** 2) / (2 * 0.07**2)))
    assert torch.allclose(triangle[0], (1 - (nodes - 0.31).abs() / 0.15).clamp(min=0))


def test_frequencies_are_their_rows():
    assert torch.allclose(
        LinearFourier(8, 7.0).frequencies, torch.tensor([1.0, 3, 5, 7], dtype=torch.float64)
    )
    assert torch.allclose(LogFourier(8, 8.0).frequencies, torch.tensor([1.0, 2, 4, 8], dtype=torch.float64))
    b = RandomFourier(20000, 5.0, generator=torch.Generator().manual_seed(3)).frequencies
    assert float(b.std()) == pytest.approx(5, rel=0.02)
    x = torch.tensor([0.2], dtype=torch.float64)
    row = LinearFourier(4, 3.0)(x)[0]
    phases = 2 * math.pi * 0.2 * torch.tensor([1.0, 3], dtype=torch.float64)
    assert torch.allclose(row, torch.cat([phases.cos(), phases.sin()]))


def test_draws_follow_the_generator():
    draws = [RandomFourier(8, 1.0, generator=torch.Generator().manual_seed(s)).frequencies for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("encoder", [LinearFourier, LogFourier, RandomFourier])
def test_odd_numbers_of_features_are_refused(encoder):
    with pytest.raises(ValueError, match="`features`: expected an even number"):
        encoder(5, 3.0)


def test_frequencies_below_one_are_refused():
    with pytest.raises(ValueError, match="`f_max`: expected at least 1 cycle"):
        LinearFourier(4, 0.5)
