import pytest
import torch

from coordnet.encodings import ComplexEncoding, DirectionalEncoding, JointEncoding, SimpleEncoding, encoding_from
from coordnet.encodings.encoders import Encoder, Gaussian, LogFourier, RandomFourier, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.grids import Lattice


def make(kind, encoder):
    return {"simple": SimpleEncoding, "complex": ComplexEncoding}[kind].like(encoder, Lattice((6, 8)))


@pytest.mark.parametrize("name", [n for n, e in ENCODERS.items() if issubclass(e, Encoder)])
def test_complex_designs_are_the_factors_on_axes(name):
    encoding = make("complex", ENCODERS[name])
    axes = (Axis(6), Axis(8))
    designs = encoding.matrices(axes)
    assert encoding.shape == tuple(a.shape[1] for a in designs)
    factors = encoding.factors(lattice_points(axes))
    torch.testing.assert_close(factors[0][:, 3], designs[0], rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(factors[1][2], designs[1], rtol=1e-14, atol=1e-14)


def test_simple_is_the_concatenation():
    a, b = Gaussian(5, 0.1), LogFourier(4, 3.0)
    points = torch.rand(3, 2, dtype=torch.float64)
    expected = torch.cat([a(points[:, 0]), b(points[:, 1])], dim=-1)
    assert torch.equal(SimpleEncoding([a, b])(points), expected)


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
    "encoding",
    [
        make("simple", Gaussian),
        make("complex", RandomFourier),
        SimpleEncoding.like(RandomFourier, Lattice((5, 5))),
        DirectionalEncoding([Gaussian(4, 0.2)] * 4),
        ComplexEncoding([Gaussian(4, 0.2), LogFourier(6, 2.0)]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_configuration_rebuilds_it(encoding):
    again = encoding_from(encoding.configuration())
    again.load_state_dict(encoding.state_dict())
    points = torch.rand(4, encoding.dimensions, dtype=torch.float64)
    ours, theirs = encoding(points), again(points)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SimpleEncoding([]), "`encoders`: expected at least one"),
        (lambda: DirectionalEncoding([Gaussian(4, 0.1)]), "`encoders`: expected four"),
        (lambda: make("complex", Gaussian).matrices((Axis(3),)), "`axes`: expected 2"),
        (lambda: encoding_from({"kind": "other"}), "`configuration`"),
        (lambda: encoding_from({"kind": "simple", "encoders": [{"name": "x"}]}), "`encoder`: expected one of"),
    ],
)
def test_bad_encodings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
