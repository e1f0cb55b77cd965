"""Scales and frequencies of encoders are tensors of the state."""

import copy

import pytest
import torch
from torch import nn

from coordnet import MLP, CoordinateNetwork, Reconstruction, fit_closed_form, sample
from coordnet.encodings import ComplexEncoding, DirectionalEncoding, SimpleEncoding
from coordnet.encodings.encoders import (
    BSpline,
    Gaussian,
    JointRandomFourier,
    LearnableFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Rectangle,
    Sine,
    Sinusoidal,
    Square,
    Triangle,
)
from coordnet.encodings.encoding import duplicate
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis

X = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
SCALED = {
    "sigma": lambda s: Gaussian(6, s),
    "half_width": lambda s: Triangle(6, s),
    "width": lambda s: Rectangle(6, s),
    "spacing": lambda s: BSpline(6, s),
    "frequency": lambda s: Sine(6, 10 * s),
    "f_max": lambda s: LogFourier(6, 20 * s),
    "step": lambda s: Sinusoidal(6, s),
}


def features(encoder, x=X):
    return encoder(x if not encoder.joint else torch.stack([x, x.flip(0)], -1))


@pytest.mark.parametrize("scaled", [kind for kind in ENCODERS.values() if kind.scales], ids=lambda e: e.name)
def test_scales_and_frequencies_are_in_the_state(scaled):
    a, b = (scaled.like((Axis(6), Axis(5))[: 1 + scaled.joint]) for _ in range(2))
    for parameter in scaled.scales:
        assert parameter.name in dict(a.named_buffers())
        getattr(a, parameter.name).mul_(1.5)
    assert not torch.equal(features(a), features(b))
    b.load_state_dict(a.state_dict())
    assert torch.equal(features(a), features(b))
    assert b.configuration() == a.configuration()


@pytest.mark.parametrize("name", SCALED)
def test_gradients_flow_to_a_scale_that_is_a_tensor(name):
    if name == "width":
        pytest.skip("a rectangle has a derivative of another function")
    factor = torch.tensor(0.17, dtype=torch.float64, requires_grad=True)
    x = X.clone()
    assert torch.autograd.gradcheck(lambda s: SCALED[name](s)(x), (factor,))
    assert torch.equal(SCALED[name](factor)(x), SCALED[name](0.17)(x))


def test_a_scale_that_suits_samples_may_be_a_tensor():
    sigma, axis = torch.tensor(0.1, requires_grad=True), Axis(6)
    x = torch.linspace(0.1, 0.8, 4)
    psi = Gaussian.like(axis, sigma=sigma)(x)
    torch.testing.assert_close(psi, Gaussian.like(axis, sigma=0.1)(x))
    psi.sum().backward()
    assert sigma.grad is not None and float(sigma.grad.abs()) > 0
    with pytest.raises(ValueError, match="sigma"):
        Gaussian.like(axis, sigma=torch.tensor(-0.1))


def test_a_parameter_is_trained_as_it_is():
    sigma = nn.Parameter(torch.tensor(0.1))
    encoder = Gaussian(6, sigma)
    assert dict(encoder.named_parameters()) == {"sigma": sigma}
    encoder(X).sum().backward()
    assert sigma.grad is not None
    joint = JointRandomFourier(2, 6, nn.Parameter(torch.tensor([1.0, 2.0])))
    assert joint.scale("sigma") == (1.0, 2.0)
    assert "sigma" in dict(joint.named_parameters())


@pytest.mark.parametrize("kind", [Rectangle, Square])
def test_the_derivative_of_an_edge_is_that_of_a_soft_one(kind):
    scale = torch.tensor(2.3 if kind is Square else 0.23, dtype=torch.float64, requires_grad=True)
    kind(6, scale)(X).square().sum().backward()
    assert float(scale.grad.abs()) > 0


def test_a_tensor_that_is_no_scale_is_refused():
    with pytest.raises(ValueError, match="`sigma`: expected a positive"):
        Gaussian(6, torch.tensor(-0.1))
    with pytest.raises(ValueError, match="`f_max`: expected at least 1"):
        LogFourier(6, torch.tensor(0.5))
    with pytest.raises(ValueError, match="`sigma`: expected a tensor of floating-point"):
        Gaussian(6, torch.tensor(1))
    with pytest.raises(ValueError, match="`step`: expected one number, or 2, one for each axis"):
        MultiSine(2, 8, torch.ones(3))
    with pytest.raises(ValueError, match="`sigma`: expected a tensor of one number"):
        Gaussian(6, torch.ones(2))


@pytest.mark.parametrize("kind", [RandomFourier, JointRandomFourier])
def test_learnable_random_features_train_their_frequencies(kind):
    arguments = (2,) * kind.joint
    encoder = kind(*arguments, 6, 3.0, learnable=True)
    assert set(dict(encoder.named_parameters())) == {"base", "log_sigma"}
    features(encoder).square().sum().backward()
    features(encoder).sum().backward()
    assert bool((encoder.base.grad != 0).all())
    assert "base" in dict(kind(*arguments, 6, 3.0).named_buffers())
    assert "base" in dict(LogFourier(6, 3.0, learnable=True).named_buffers())


def test_casts_keep_fixed_scales():
    encoder = Gaussian(6, 0.1)
    assert encoder.half().scale("sigma") == 0.1
    assert encoder(X.half()).dtype == torch.float16
    assert encoder.float().double().scale("sigma") == 0.1
    network = CoordinateNetwork(SimpleEncoding([Gaussian(6, 0.1)] * 2), MLP(1, 8)).float()
    assert network.encoding.axis_encoders[0].scale("sigma") == 0.1


@pytest.mark.parametrize(("kind", "count"), [(ComplexEncoding, 2), (DirectionalEncoding, 4)])
def test_a_saved_model_has_its_scales(kind, count, tmp_path):
    network = CoordinateNetwork(kind([Gaussian(6, 0.1)] * count), MLP(1, 4), 1)
    for encoder in network.encoding.axis_encoders:
        encoder.sigma.fill_(0.07)
    fit = Reconstruction(network, torch.zeros(1), (6, 6))
    fit.save(tmp_path / "model.safetensors")
    again = Reconstruction.load(tmp_path / "model.safetensors")
    assert again.network.encoding.axis_encoders[1].scale("sigma") == 0.07
    assert torch.equal(again.render(), fit.render())


def test_fits_of_a_plan_share_no_scales():
    samples = sample(torch.rand(6, 6, 1), "full")
    encoding = ComplexEncoding.like(Gaussian, samples)
    plan_of = fit_closed_form(encoding, samples)
    plan_of.network.encoding.axis_encoders[0].sigma.fill_(1.0)
    assert encoding.axis_encoders[0].scale("sigma") != 1.0


def test_a_duplicate_is_a_deep_copy_without_gradients():
    trained = SimpleEncoding([Gaussian(6, 0.1, learnable=True), RandomFourier(6, 2.0)])
    for module in (trained, LearnableFourier(2, 8, 0.1)):
        points = torch.rand(5, 2)
        ours, deep = duplicate(module), copy.deepcopy(module)
        assert list(ours.state_dict()) == list(deep.state_dict())
        assert torch.equal(ours(points), deep(points))
        assert not ours(points).requires_grad
        for tensor in ours.state_dict().values():
            tensor.zero_()
        assert torch.equal(module(points), deep(points))
