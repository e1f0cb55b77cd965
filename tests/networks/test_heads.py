"""Activations and initialisations as their papers state them."""

import math

import pytest
import torch

from coordnet.cli.specs import parse_head
from coordnet.encodings import ComplexEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import Gaussian, HashGrid, Identity, RandomFourier
from coordnet.fitting.gradient import fit_gradient
from coordnet.media import load
from coordnet.metrics.scores import psnr
from coordnet.networks.heads import HEADS, MLP, Finer, GaussianMLP, Linear, Siren, Wire, head_configuration, head_from
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample

CHOICES = [Linear(), MLP(2, 8), Siren(2, 8), Finer(2, 8), GaussianMLP(2, 8), Wire(2, 8)]


def identity(dimensions=2):
    return SimpleEncoding([Identity(gain=2.0) for _ in range(dimensions)])


def preactivations(network, points):
    """The inputs of every activation."""
    seen = []
    for layer in network.rest[::2]:
        layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach()))
    network(points)
    return seen


def test_formulas():
    x = torch.linspace(-1, 1, 21, dtype=torch.float64)
    assert torch.allclose(Siren(omega=7.0).activation(x), torch.sin(7 * x))
    assert torch.allclose(Finer(omega=7.0).activation(x), torch.sin(7 * (x.abs() + 1) * x))
    assert torch.allclose(GaussianMLP(scale=0.2).activation(x), torch.exp(-(x**2) / 0.08))
    z = torch.complex(x, x.flip(0) / 3)
    expected = torch.exp(5j * z) * torch.exp(-((3 * z.abs()) ** 2))
    assert torch.allclose(Wire(omega=5.0, scale=3.0).activation(z), expected)
    assert torch.allclose(Wire(omega=5.0, scale=3.0).activation(x), torch.exp(5j * x) * torch.exp(-9 * x**2))


def test_siren_keeps_its_variance():
    """Theorem 1.8: ω₀ W x, the biases left out, is standard normal in every hidden layer, whatever the depth."""
    network = CoordinateNetwork(identity(), Siren(depth=6, width=512))
    points = torch.rand(2000, 2, generator=torch.Generator().manual_seed(1))
    for layer, inputs in zip(network.rest[1::2], preactivations(network, points)[1:], strict=False):
        assert 30 * float((inputs - layer.bias.detach()).std()) == pytest.approx(1, abs=0.1)
    first = network.first.weight.detach()
    assert float(first.abs().max()) <= 0.5
    assert float(first.std()) == pytest.approx(0.5 / math.sqrt(3), rel=0.05)
    hidden = network.rest[1].weight.detach()
    assert float(hidden.std()) == pytest.approx(math.sqrt(2 / 512) / 30, rel=0.02)


def test_finer_biases_are_as_wide_as_asked():
    network = CoordinateNetwork(identity(), Finer(depth=2, width=2000, bias=5.0))
    assert float(network.first.bias.detach().std()) == pytest.approx(5 / math.sqrt(3), rel=0.05)
    assert float(network.first.weight.detach().abs().max()) <= 0.5


def test_finer_holds_its_factor_in_the_derivative():
    """As the authors' code has it: ω₀ (|x| + 1) cos(ω₀ (|x| + 1) x), not the derivative of the whole."""
    x = torch.linspace(-1, 1, 21, dtype=torch.float64, requires_grad=True)
    Finer(omega=7.0).activation(x).sum().backward()
    pace = 7 * (x.detach().abs() + 1)
    assert torch.allclose(x.grad, pace * torch.cos(pace * x.detach()))


def test_finer_hidden_layers_start_as_sirens():
    """Weights within √(6/n)/ω₀ in every layer but the first, the last one too; only the first biases are wide."""
    for layer in CoordinateNetwork(identity(), Finer(depth=3, width=512, bias=5.0)).rest[1::2]:
        assert float(layer.weight.detach().abs().max()) == pytest.approx(math.sqrt(6 / 512) / 30, rel=0.01)
        assert float(layer.bias.detach().abs().max()) <= 1 / math.sqrt(512)


def test_wire_starts_as_complex_linear_layers_do():
    """Real and imaginary parts as ``nn.Linear`` draws them in complex numbers, the authors' layers."""
    torch.manual_seed(0)
    theirs = torch.nn.Linear(300, 400, dtype=torch.cfloat)
    ours = CoordinateNetwork(identity(), Wire(depth=2, width=300)).rest[1]
    for part, real in enumerate((torch.real, torch.imag)):
        for name in ("weight", "bias"):
            drawn, reference = getattr(ours, name)[part].detach(), real(getattr(theirs, name)).detach()
            assert float(drawn.std()) == pytest.approx(float(reference.std()), rel=0.1)
            assert float(drawn.abs().max()) <= 1 / math.sqrt(300)


def test_wire_is_complex_within_and_real_without():
    network = CoordinateNetwork(identity(), Wire(depth=2, width=6)).double()
    seen = preactivations(network, torch.rand(5, 2, dtype=torch.float64))
    assert [p.is_complex() for p in seen] == [False, True]
    assert network(torch.rand(5, 2, dtype=torch.float64)).dtype == torch.float64
    assert network.parameter_count == (2 * 6 + 6) + 2 * (36 + 6) + 2 * (18 + 3)


@pytest.mark.parametrize("head", CHOICES, ids=lambda h: h.name)
@pytest.mark.parametrize("dimensions", [1, 3])
def test_every_head_trains_and_is_saved(head, dimensions, generator, tmp_path):
    grid = (12, 6, 4)[:dimensions]
    samples = sample(torch.rand(*grid, 2, generator=generator), "full")
    kinds = [SimpleEncoding, ComplexEncoding]
    encodings = [kind.like(RandomFourier, Lattice(grid), features=8) for kind in kinds]
    grid_ = HashGrid(dimensions, 4, levels=2, table=32, coarsest=3)
    for encoding in (*encodings, identity(dimensions), JointEncoding(grid_)):
        network = CoordinateNetwork(encoding, head, 2)
        early, late = (fit_gradient(network, samples, epochs=n, lr=1e-3) for n in (1, 8))
        assert late.report.loss < early.report.loss
        late.save(tmp_path / "model.safetensors")
        assert torch.equal(Reconstruction.load(tmp_path / "model.safetensors").render(), late.render())


@pytest.mark.parametrize(
    ("head", "encoding", "lr"),
    [
        (Siren(3, 64), identity(), 1e-3),
        (Finer(3, 64), identity(), 1e-3),
        (GaussianMLP(3, 64), identity(), 1e-3),
        (Wire(2, 48), identity(), 3e-3),
        (MLP(1, 32), JointEncoding(HashGrid(2, 16, levels=8, table=2**10, coarsest=4, growth=1.35)), 1e-2),
    ],
    ids=["siren", "finer", "gaussian", "wire", "hash-grid"],
)
def test_they_fit_a_photograph_crop(head, encoding, lr):
    """A ReLU MLP of this size on bare coordinates reaches 25 dB, and in more epochs."""
    image = load("astronaut")[90:114, 200:224]
    fit = fit_gradient(CoordinateNetwork(encoding, head), sample(image, "full"), epochs=100, lr=lr)
    assert psnr(fit.render(), image) > 27


@pytest.mark.parametrize("head", CHOICES, ids=lambda h: h.name)
def test_configuration_and_command_line(head):
    assert HEADS[head.name] is type(head)
    assert head_from(head_configuration(head)) == head
    options = ",".join(f"{k}={v}" for k, v in head_configuration(head).items() if k != "kind")
    assert parse_head(f"{head.name}:{options}") == head


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Siren(omega=0.0), "`omega`: expected a positive"),
        (lambda: Finer(bias=-1.0), "`bias`: expected a positive"),
        (lambda: GaussianMLP(scale=0.0), "`scale`: expected a positive"),
        (lambda: Wire(depth=-1), "`depth`: expected an integer"),
        (lambda: parse_head("siren:color=1"), "`head`: expected siren with depth, width, omega"),
        (lambda: parse_head("linear:depth=1"), "`head`: expected linear with init"),
        (lambda: parse_head("tree"), "`head`: expected one of linear, mlp, siren"),
        (lambda: head_from({"kind": "tree"}), "`configuration`: expected that of a head"),
    ],
)
def test_bad_heads_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_linear_heads_start_within_the_bounds_that_they_name():
    encoding = ComplexEncoding([Gaussian(20, 0.1), Gaussian(30, 0.1)])
    for head, bound in ((Linear(), 600**-0.5), (Linear(init="uniform"), 3**-0.5)):
        weight = CoordinateNetwork(encoding, head, 3).first.weight.detach()
        assert 0.99 * bound < float(weight.abs().max()) <= bound
