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
from coordnet.encodings.encoders import Gaussian, HashGrid, MultiSine, RandomFourier, Triangle
from coordnet.sampling.axes import Axis
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
    SimpleEncoding.like(RandomFourier, Lattice((5, 5)), features=6),
    FourierEncoding.like(Lattice((5, 6))),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.kind)
def test_it_is_a_layer_of_a_network(encoding):
    network = nn.Sequential(encoding, nn.Linear(encoding.features, 3))
    points = torch.rand(7, 2, encoding.dimensions, requires_grad=True)
    out = network(points)
    assert out.shape == (7, 2, 3)
    assert out.dtype == torch.float32
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


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.kind)
def test_its_configuration_and_its_state_are_the_whole(encoding):
    again = encoding_from(encoding.configuration())
    again.load_state_dict(encoding.state_dict())
    points = torch.rand(6, encoding.dimensions, dtype=torch.float64)
    assert torch.equal(again(points), encoding(points))


def test_random_fourier_is_joint_in_simple_form():
    encoding = SimpleEncoding.like(RandomFourier, Lattice((30, 40)), sigma=10.0, features=6000)
    assert isinstance(encoding, JointEncoding)
    assert encoding.shape == (6000,)
    x, y = torch.tensor([[0.3, 0.6]], dtype=torch.float64), torch.tensor([[0.31, 0.58]], dtype=torch.float64)
    mean = float(encoding(x) @ encoding(y).T) / 3000
    expected = torch.exp(torch.tensor(-2 * torch.pi**2 * 100 * (0.01**2 + 0.02**2)))
    assert mean == pytest.approx(float(expected), abs=0.03)


def test_four_directions():
    encoding = DirectionalEncoding([Triangle(8, 1 / 8)] * 4)
    assert encoding.shape == (32,)
    point = torch.tensor([0.25, 0.75], dtype=torch.float64)
    one = encoding.encoders[0]
    expected = torch.cat([one(t) for t in torch.tensor([0.25, 0.75, 0.5, 0.25], dtype=torch.float64)])
    assert torch.allclose(encoding(point), expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SimpleEncoding([]), "`encoders`: expected at least one"),
        (lambda: DirectionalEncoding([Gaussian(4, 0.1)]), "`encoders`: expected four"),
        (lambda: ENCODINGS[4].matrices((Axis(3),)), "`axes`: expected 3"),
        (lambda: encoding_from({"kind": "other"}), "`configuration`"),
        (lambda: encoding_from({"kind": "simple", "encoders": [{"name": "x"}]}), "`encoder`: expected one of"),
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
