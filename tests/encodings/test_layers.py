"""Every encoding is a layer, from points to one row of features each."""

import jaxtyping
import pytest
import torch
from torch import nn

from coordnet import fit_closed_form
from coordnet.encodings import (
    ComplexEncoding,
    DirectionalEncoding,
    FourierEncoding,
    JointEncoding,
    ModulatedEncoding,
    SimpleEncoding,
    encoding_from,
)
from coordnet.encodings.encoders import Gaussian, HashGrid, MultiSine, Triangle
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample
from tests.helpers import khatri_rao


def grid(dimensions):
    return HashGrid(dimensions, levels=2, table=32, features=4, coarsest=3)


ENCODINGS = [
    SimpleEncoding([Gaussian(5, 0.1), Triangle(4, 0.2)]),
    SimpleEncoding([grid(2)]),
    SimpleEncoding([Gaussian(5, 0.1), grid(2)]),
    DirectionalEncoding([Gaussian(4, 0.2)] * 4),
    ComplexEncoding([Gaussian(5, 0.1), Triangle(4, 0.2), Gaussian(3, 0.3)]),
    JointEncoding(MultiSine(2, 8, 0.1)),
    ModulatedEncoding(ComplexEncoding([Gaussian(5, 0.1), Triangle(4, 0.2)]), 6),
    FourierEncoding.like(Lattice((5, 6))),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.kind)
def test_it_is_a_layer_of_a_network(encoding):
    network = nn.Sequential(encoding, nn.Linear(encoding.features, 3))
    points = torch.rand(7, 2, encoding.dimensions, requires_grad=True)
    out = network(points)
    assert out.shape == (7, 2, 3)
    assert out.dtype == torch.float32
    assert encoding.out_features == encoding.features
    out.square().sum().backward()
    assert bool(points.grad.isfinite().all())
    assert network[1].weight.grad.abs().max() > 0


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.kind)
def test_its_features_are_the_products_of_its_factors(encoding):
    points = torch.rand(4, encoding.dimensions, dtype=torch.float64)
    factors = encoding.factors(points)
    assert [f.shape[-1] for f in factors] == list(encoding.shape)
    if not encoding.signed:
        assert torch.allclose(encoding(points), khatri_rao(factors), atol=1e-14)


@pytest.mark.parametrize("shape", [(5, 6), (4, 1)])
@pytest.mark.parametrize("kind", ["fourier", "complex"])
def test_a_linear_layer_with_the_weights_of_a_fit_is_the_fit(kind, shape):
    samples = sample(torch.rand(*shape, 3, dtype=torch.float64), "full", dimensions=2)
    made = FourierEncoding.like(samples) if kind == "fourier" else ComplexEncoding.like(Gaussian, samples)
    fit = fit_closed_form(made, samples)
    points = torch.rand(9, 2, dtype=torch.float64)
    features = fit.network.encoding(points)
    assert torch.allclose(features @ fit.network.first.weight.flatten(1).T + fit.offset, fit(points), atol=1e-10)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.kind)
def test_other_numbers_of_coordinates_are_refused(encoding):
    d = encoding.dimensions
    expected = f"`points`: expected {d} coordinates along the last axis, received"
    for call in (encoding, encoding.factors):
        with pytest.raises(ValueError, match=f"{expected} {d + 1}"):
            call(torch.rand(7, d + 1))
        with pytest.raises(ValueError, match=f"{expected} a single"):
            call(torch.tensor(0.5))


def test_joint_encoders_take_as_many_coordinates_as_they_have():
    gaussian, joint = Gaussian(5, 0.1), grid(2)
    encoding = SimpleEncoding([gaussian, joint])
    points = torch.rand(6, 3, dtype=torch.float64)
    assert torch.equal(encoding(points), torch.cat([gaussian(points[:, 0]), joint(points[:, 1:])], dim=-1))
    again = encoding_from(encoding.configuration())
    again.load_state_dict(encoding.state_dict())
    assert torch.equal(again(points), encoding(points))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ComplexEncoding([grid(2)]), "`encoders`: expected encoders of one axis for a complex encoding"),
        (lambda: DirectionalEncoding([grid(2)] * 4), "`encoders`: expected encoders of one axis for a directional"),
        (lambda: SimpleEncoding([nn.Linear(2, 3)]), "`encoders`: expected at least one.*received Linear"),
        (lambda: JointEncoding(Gaussian(5, 0.1)), "`encoder`: expected a joint one.*received gaussian"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(build, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # annotations would refuse them first
    with pytest.raises(ValueError, match=message):
        build()
