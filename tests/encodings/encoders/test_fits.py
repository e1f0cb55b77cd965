"""Every encoder in fits: simple and complex, fixed and learnable, closed form and gradient, saved and loaded."""

import warnings

import pytest
import torch
from scipy.interpolate import RegularGridInterpolator, make_lsq_spline

from coordnet.cli.specs import describe_encoder
from coordnet.encodings import ComplexEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import BSpline, Gaussian, JointEncoder, LearnableFourier, Rectangle, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.linalg.kronecker import RankWarning
from coordnet.media import load
from coordnet.metrics.baselines import BASELINES
from coordnet.metrics.scores import psnr
from coordnet.networks.heads import MLP, Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.least_squares import LeastSquares
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample
from tests.helpers import SMALL_ENCODERS


def kinds(encoder):
    return [SimpleEncoding] if issubclass(encoder, JointEncoder) else [SimpleEncoding, ComplexEncoding]


def closed(encoder, samples, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        return fit_closed_form(ComplexEncoding.like(encoder, samples, **options), samples)


def test_gradient_lowers_the_loss_and_the_fit_is_saved(encoder, photograph, tmp_path):
    samples = sample(photograph[:24, :20], "every:2")
    for kind in kinds(encoder):
        network = CoordinateNetwork(kind.like(encoder, samples, **SMALL_ENCODERS.get(encoder.name, {})), MLP(1, 8))
        first, fit = (fit_gradient(network, samples, epochs=n, lr=1e-2) for n in (1, 8))
        assert fit.report.loss < first.report.loss
        fit.save(tmp_path / "model.safetensors")
        assert torch.equal(Reconstruction.load(tmp_path / "model.safetensors").render(), fit.render())


def test_scales_train_in_every_encoding(scaled, photograph):
    samples = sample(photograph[:24, :20], "every:2")
    for kind in kinds(scaled):
        encoding = kind.like(scaled, samples, learnable=True, **SMALL_ENCODERS.get(scaled.name, {}))
        logs = tuple(f"log_{p.name}" for p in scaled.scales)
        start = {n: p.clone() for n, p in encoding.named_parameters() if n.endswith(logs)}
        assert start
        fit = fit_gradient(CoordinateNetwork(encoding, Linear()), samples, epochs=5, lr=1e-2, weight_decay=0.0)
        for name, before in start.items():
            after = dict(fit.network.encoding.named_parameters())[name]
            assert bool((after.double() != before).all()), name


def test_closed_form_takes_every_fixed_encoder(one_axis, photograph):
    """No gradient fit of the same network on the same samples has a lower error."""
    samples = sample(photograph[:20, :16].double(), "every:2")
    fit = closed(one_axis, samples)
    error = (fit.on_axes(samples.geometry.axes) - samples.values).square().mean()
    network = CoordinateNetwork(ComplexEncoding.like(one_axis, samples).requires_grad_(False), Linear())
    trained = fit_gradient(network, samples, epochs=30, lr=1e-2)
    assert float(error) <= float((trained.on_axes(samples.geometry.axes) - samples.values).square().mean()) + 1e-12
    assert not fit.render().requires_grad


def test_a_lattice_trains_as_its_points_do(photograph):
    """Designs evaluated at each step on the lattice against the same network point by point."""
    samples = sample(photograph[:12, :10].double(), "full")
    mask = sample(photograph[:12, :10].double(), torch.ones(12, 10))
    for learnable in (False, True):
        encoding = ComplexEncoding.like(Gaussian, samples, learnable=learnable)
        network = CoordinateNetwork(encoding, MLP(1, 6))
        lattice = fit_gradient(network, samples, epochs=4)
        rows = fit_gradient(network, mask, epochs=4)
        point = torch.tensor([[0.31, 0.77]], dtype=torch.float64)
        assert torch.allclose(lattice(point), rows(point), atol=1e-10)
        assert lattice.network.encoding.encoders[0].learnable is learnable


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_spline_is_make_lsq_spline(degree):
    """The same knots, in closed form: to 1e-8."""
    k, n = 12, 60
    encoder = BSpline(k, 1 / k, degree, padding=2)
    nodes = encoder.nodes.points().numpy()
    knots = (nodes[0] - (degree + 1) / 2 / k) + torch.arange(len(nodes) + degree + 1).numpy() / k
    low, high = knots[degree], knots[len(nodes)]
    axis = Axis(n, low + 1e-3, (high - low - 2e-3) / n)
    x = axis.points()
    y = torch.sin(7 * x) + 0.3 * torch.cos(40 * x)
    theirs = make_lsq_spline(x.numpy(), y.numpy(), knots, k=degree)
    weights = torch.linalg.lstsq(encoder(x), y.unsqueeze(-1)).solution
    fine = torch.linspace(float(low), float(high) - 1e-9, 999, dtype=torch.float64)
    assert torch.allclose((encoder(fine) @ weights)[:, 0], torch.from_numpy(theirs(fine.numpy())), atol=1e-8)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_spline_fit_is_make_lsq_spline(degree, photograph):
    """Through fit_closed_form, a row of a photograph: the same splines where knots surround the samples."""
    row = photograph[20].double()[:, :1]
    samples = sample(row, "full")
    outer = degree // 2
    encoder = BSpline(17, 1 / 16, degree, stop=17 / 16, padding=outer)
    fit = fit_closed_form(ComplexEncoding([encoder]), samples, LeastSquares(rcond=1e-13), center=False)
    x = samples.geometry.axes[0].points().numpy()
    knots = torch.arange(-degree, 18 + degree - 1).double().numpy() / 16
    theirs = make_lsq_spline(x, row[:, 0].numpy(), knots[: 17 + 2 * outer + degree + 1], k=degree)
    fine = torch.linspace(0, float(x[-1]), 501, dtype=torch.float64).unsqueeze(-1)
    assert torch.allclose(fit(fine)[:, 0], torch.from_numpy(theirs(fine[:, 0].numpy())), atol=1e-8)


@pytest.mark.parametrize(("basis", "method"), [(Triangle, "linear"), (Rectangle, "nearest")])
@pytest.mark.parametrize("grid", [(16, 12), (25, 31), (300, 7)])
def test_interpolation(basis, method, grid, generator):
    """Triangle with K = N is linear interpolation, rectangle nearest neighbour, lower of two."""
    signal = torch.rand(*grid, 2, dtype=torch.float32, generator=generator)
    fit = closed(basis, sample(signal, "full"))
    axes = [axis.points().numpy() for axis in Lattice(grid).axes]
    theirs = RegularGridInterpolator(axes, signal.double().numpy(), method)
    points = torch.rand(500, 2, dtype=torch.float64, generator=generator)
    points = points * torch.tensor([(n - 1) / n for n in grid])
    ties = ((points * torch.tensor(grid)) % 1 - 0.5).abs() < 2e-3
    points = points[~ties.any(-1)]
    assert torch.allclose(fit(points.float()).double(), torch.from_numpy(theirs(points.numpy())), atol=2e-5)


@pytest.mark.parametrize("length", [16, 25, 299, 480, 1023])
def test_rectangles_leave_no_gap_and_no_overlap(length):
    """Halfway between nodes rounding would give none or two of them."""
    for dtype in (torch.float32, torch.float64):
        for axis in (Axis(length), Axis.every(2 * length, 2)):
            halfway = Axis.every(2 * length, 1).points(dtype)
            for name in ("rectangle", "impulse"):
                rows = ENCODERS[name].like(axis)(halfway)
                assert torch.equal(rows.sum(-1), torch.ones(len(halfway), dtype=dtype))


def test_learning_sigma_recovers_from_a_bad_start():
    """Four times too wide: the same training with σ learnable gains at least 1 dB on held-out pixels."""
    image = load("astronaut")[60:156, 160:256]
    samples = sample(image, "every:2")
    held_out = torch.ones(96, 96, dtype=torch.bool)
    held_out[::2, ::2] = False
    quality = {}
    for learnable in (False, True):
        encoding = ComplexEncoding.like(Gaussian, samples, sigma="2.56px", learnable=learnable)
        fit = fit_gradient(CoordinateNetwork(encoding, Linear()), samples, epochs=200, lr=1e-1)
        quality[learnable] = psnr(fit.render(), image, held_out)
    assert quality[True] > quality[False] + 1


def test_held_out_samples_limit_an_overfitting_sigma():
    """From a good start a trained σ shrinks until it interpolates; a tenth of the samples held out stops it early."""
    image = load("astronaut")[60:108, 160:208]
    lattice = sample(image, "every:2").geometry.known(3).any(-1)
    hidden = lattice & (torch.rand(48, 48, generator=torch.Generator().manual_seed(0)) < 0.1)
    known, held_out = sample(image, (lattice & ~hidden).float()), sample(image, hidden.float())
    encoding = ComplexEncoding.like(Gaussian, sample(image, "every:2"), sigma="0.64px", learnable=True)
    network = CoordinateNetwork(encoding, Linear())
    fits = [
        fit_gradient(network, known, epochs=150, lr=1e-1, **options)
        for options in ({}, {"held_out": held_out, "patience": 30})
    ]
    free, stopped = (psnr(fit.render(), image, ~lattice) for fit in fits)
    assert stopped > free + 1


def test_the_penalty_acts(photograph):
    """Pulling W towards N(0, σ̄²) leaves a smaller divergence than fitting alone."""
    samples = sample(photograph[:12, :12], "every:2")
    encoder = LearnableFourier.like(samples.geometry.axes, **SMALL_ENCODERS["learnable-fourier"])
    encoder.frequencies.data += 0.5
    network = CoordinateNetwork(JointEncoding(encoder), Linear())
    free = fit_gradient(network, samples, epochs=60)
    held = fit_gradient(network, samples, epochs=60, penalty=lambda n: n.encoding.encoder.divergence())
    after = [float(fit.network.encoding.encoder.divergence()) for fit in (free, held)]
    assert after[1] < after[0] / 2


def test_joint_encoders_are_not_complex(joint):
    with pytest.raises(ValueError, match="`encoder`: expected one of a single axis"):
        ComplexEncoding.like(joint, Lattice((4, 4)))


def test_the_record_tells_the_trained_scale(photograph):
    samples = sample(photograph[:12, :12], "every:2")
    encoding = ComplexEncoding.like(Gaussian, samples, sigma=0.1, learnable=True)
    fit = fit_gradient(CoordinateNetwork(encoding, Linear()), samples, epochs=3, lr=1e-1)
    sigmas = [e.scale("sigma") for e in fit.network.encoding.axis_encoders]
    told = describe_encoder("gaussian:learnable", fit.network.encoding)
    assert told == f"gaussian:sigma={sigmas[0]:.6g}x{sigmas[1]:.6g},features=6,learnable"
    assert sigmas[0] != pytest.approx(0.1)


@pytest.mark.parametrize("family", [Gaussian, Triangle, BSpline])
@pytest.mark.parametrize("count", [40, 300], ids=["dense", "banded"])
def test_the_last_sample_is_held_to_the_border(family, count):
    """On every second sample of an even length the last position is beyond the last node, where bumps decay."""
    row = 2 + torch.sin(torch.linspace(0, 3, count, dtype=torch.float64)).unsqueeze(1)
    samples = sample(row, "every:2")
    fit = fit_closed_form(ComplexEncoding.like(family, samples), samples, None)
    render = fit.render()
    assert float((render[-1] - row[-2]).abs()) < 1e-9
    assert float((fit(torch.tensor([[-0.5 / count], [0.0]]).double()) - row[0]).abs().max()) < 1e-9
    if family is Triangle:
        assert torch.allclose(render, BASELINES["linear"](samples), atol=1e-9)
