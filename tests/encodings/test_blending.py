import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

from coordnet.encodings.blending import Blending, cubic_weights, similarity_weights
from coordnet.encodings.encoders import Encoder, Gaussian, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis, lattice_points

KINDS = ["similarity", "printed", "linear", "cubic", "quintic", "septic"]

# The similarity of uneven splines is a quadrature for each point, which takes a second.
ONE_AXIS = [name for name, e in ENCODERS.items() if issubclass(e, Encoder) and name != "uneven-spline"]


def blending(grid, points, kind, encoder=Gaussian, **options):
    axes = tuple(Axis(n) for n in grid)
    return Blending(kind, axes).interpolation(points, [encoder.like(axis) for axis in axes], torch.float64, **options)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in (ONE_AXIS if kind == "similarity" else ["gaussian"])]
)
def test_it_is_the_identity_at_nodes(name, kind, generator):
    nodes = lattice_points((Axis(6), Axis(5))).flatten(0, 1)
    f = torch.randn(2, 6, 5, dtype=torch.float64, generator=generator)
    made = blending((6, 5), nodes, kind, ENCODERS[name])
    assert torch.allclose(made(f), f.flatten(1), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 999))
@settings(max_examples=15)
def test_forward_and_adjoint_pass_the_dot_test(kind, lengths, seed):
    g = torch.Generator().manual_seed(seed)
    points = torch.rand(9, len(lengths), dtype=torch.float64, generator=g)
    points[5] = points[2]
    made = blending(tuple(lengths), points, kind, Triangle)
    f = torch.randn(2, *lengths, dtype=torch.float64, generator=g)
    y = torch.randn(2, 9, dtype=torch.float64, generator=g)
    assert torch.allclose((made(f) * y).sum(), (f * made.adjoint(y)).sum(), atol=1e-10)


@pytest.mark.parametrize("name", [n for n in ONE_AXIS if n not in ("embedding", "identity")])
def test_the_weights_are_the_least_squares_ones(name):
    """Against ψ(x) ≈ α₁ψ(x₀) + α₂ψ(x₀ + d) solved by the dense normal equations."""
    encoder = ENCODERS[name]
    scales = {p.name: 0.02 if p.unit == "length" else 9.0 for p in encoder.scales}
    psi = encoder.like(Axis(100), features=20000, **scales)
    beta = torch.linspace(0, 1, 9, dtype=torch.float64)
    ours = similarity_weights(psi.similarity, 0.015, beta)
    nodes = psi(torch.tensor([0.5, 0.515], dtype=torch.float64))
    theirs = torch.linalg.lstsq(nodes.T, psi(0.5 + 0.015 * beta).T).solution.T
    jumps = name in ("rectangle", "square")  # a node more or less shows
    assert torch.allclose(ours, theirs, atol=1e-2 if jumps else 1e-4)


def test_the_printed_triangle_similarity_is_another():
    psi = Triangle(100, 0.05)
    at = torch.tensor([0.03], dtype=torch.float64)
    assert float(psi.printed_similarity(at)) == pytest.approx((0.1 - 0.03) ** 2 / 0.1**2)
    assert float(psi.similarity(at)) == pytest.approx(1 - 1.5 * 0.36 + 0.75 * 0.216)
    beta = torch.tensor([0.3], dtype=torch.float64)
    assert not torch.allclose(
        similarity_weights(psi.similarity, 0.02, beta), similarity_weights(psi.printed_similarity, 0.02, beta)
    )


def test_linear_interpolation_equals_scipy(generator):
    f = torch.randn(7, 6, dtype=torch.float64, generator=generator)
    points = torch.rand(40, 2, dtype=torch.float64, generator=generator) * torch.tensor([6 / 7, 5 / 6])
    peer = map_coordinates(f.numpy(), (points * torch.tensor([7.0, 6.0])).T.numpy(), order=1)
    ours = blending((7, 6), points, "linear")(f)
    assert torch.allclose(ours, torch.from_numpy(peer), atol=1e-12)


def test_cubic_weights_reproduce_parabolas():
    t = torch.linspace(0, 1, 7, dtype=torch.float64)
    nodes = torch.tensor([-1.0, 0, 1, 2], dtype=torch.float64)
    for power in range(3):
        assert torch.allclose(cubic_weights(t) @ nodes**power, t**power, atol=1e-12)


def test_equal_nodes_fall_back_to_linear():
    beta = torch.tensor([0.25], dtype=torch.float64)
    weights = similarity_weights(Gaussian(4, 1e6).similarity, 0.1, beta)
    assert torch.allclose(weights, torch.tensor([[0.75, 0.25]], dtype=torch.float64))


def test_points_outside_are_refused_or_clamped():
    outside = torch.tensor([[0.5, 1.2], [0.1, 0.1]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"`points`: expected coordinates within \[0, 1\) on axis 1 .*received 1.2"):
        blending((4, 4), outside, "linear", outside="error")
    clamped = blending((4, 4), outside, "linear", outside="clamp")
    f = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    assert float(clamped(f)[0]) == 11


def test_similarity_needs_encoders():
    blend = Blending("similarity", (Axis(3),))
    with pytest.raises(ValueError, match="`blending`: expected linear, cubic, quintic or septic for an"):
        blend.interpolation(torch.rand(2, 1), [], torch.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lattice_is_blended_as_its_points_are(kind, generator):
    blend, encoders = Blending(kind, (Axis(7), Axis(5), Axis(1))), [Gaussian.like(Axis(n)) for n in (7, 5, 1)]
    nodes = torch.randn(7, 5, 1, 2, dtype=torch.float64, generator=generator)
    axes = (Axis.render(9, 7), Axis(5), Axis.render(3, 1))
    points = lattice_points(axes)
    expected = blend.at_points(nodes, points, encoders)
    assert torch.allclose(blend.on_axes(nodes, axes, encoders), expected, atol=1e-12)


def test_gradients_flow_through_the_blend_at_nodes_and_between(generator):
    """The slope of a parabola, which cubic weights reproduce."""
    x = torch.tensor([[0.25], [0.4]], dtype=torch.float64, requires_grad=True)
    axes = (Axis(16),)
    values = Blending("cubic", axes).at_points(axes[0].points().square().unsqueeze(-1), x, [])
    (slope,) = torch.autograd.grad(values.sum(), x)
    assert torch.allclose(slope, 2 * x.detach(), atol=1e-9)
