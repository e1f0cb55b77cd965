import pytest
import torch

from coordnet.encodings import ComplexEncoding, SimpleEncoding
from coordnet.encodings.encoders import Gaussian, RandomFourier
from coordnet.networks.heads import MLP, Linear
from coordnet.networks.network import CoordinateNetwork, KroneckerLinear
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.grids import Lattice

KINDS = [SimpleEncoding, ComplexEncoding]
HEADS = [Linear(), MLP(0, 8), MLP(1, 8), MLP(3, 5)]


def network(kind, head, grid=(5, 4), channels=3, **options):
    return CoordinateNetwork(kind.like(Gaussian, Lattice(grid)), head, channels, **options)


@pytest.mark.parametrize("grid", [(7,), (5, 4), (3, 4, 5)])
@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_lattice_is_its_points(kind, head, grid):
    net = network(kind, head, grid).double()
    axes = tuple(Axis(n + 1) for n in grid)
    on_lattice = net.on_lattice(axes, torch.float64, torch.device("cpu"))
    assert torch.allclose(on_lattice, net(lattice_points(axes)), atol=1e-12)


def test_kronecker_linear_is_the_dense_layer(generator):
    weight = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=generator)
    factors = [torch.randn(6, k, dtype=torch.float64, generator=generator) for k in (3, 4, 5)]
    features = torch.stack([torch.kron(torch.kron(a, b), c) for a, b, c in zip(*factors, strict=True)])
    assert torch.allclose(KroneckerLinear(weight)(factors), features @ weight.reshape(2, -1).T)


def test_parameters_are_counted_as_the_papers_count():
    rff = SimpleEncoding.like(RandomFourier, Lattice((256, 256)), features=512)
    assert CoordinateNetwork(rff, MLP(4, 256)).parameter_count == 329_475
    assert network(ComplexEncoding, Linear(), (256, 256)).parameter_count == 196_608


def test_weights_follow_the_generator():
    nets = [network(SimpleEncoding, MLP(2, 4), generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    first, second, third = (n.state_dict()["first.weight"] for n in nets)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
