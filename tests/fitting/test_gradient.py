import pytest
import torch

from coordnet.encodings import ComplexEncoding, SimpleEncoding
from coordnet.encodings.blending import Blending
from coordnet.encodings.encoders import Gaussian, LogFourier, RandomFourier, Triangle
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.media import load
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr
from coordnet.networks.heads import MLP, Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.axes import lattice_points, render_axes
from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import kron

COMBINATIONS = [
    (SimpleEncoding, Linear()),
    (SimpleEncoding, MLP(2, 32)),
    (ComplexEncoding, Linear()),
    (ComplexEncoding, MLP(1, 16)),
]


def network(kind, head, samples, encoder=Gaussian, seed=0):
    g = torch.Generator().manual_seed(seed)
    return CoordinateNetwork(kind.like(encoder, samples, generator=g), head, samples.channels, generator=g)


@pytest.mark.parametrize("pattern", ["every:2", "random:0.5", "entries:0.5", "scattered"])
@pytest.mark.parametrize(("kind", "head"), COMBINATIONS)
def test_training_lowers_the_error(kind, head, pattern, photograph, generator):
    signal = photograph[:24, :20]
    if pattern == "scattered":
        points = torch.rand(120, 2, generator=generator)
        samples = Samples(ScatteredPoints((24, 20), points), points.cos().sum(-1, keepdim=True).expand(-1, 3))
    else:
        samples = sample(signal, pattern)
    net, losses = network(kind, head, samples), []
    made = fit_gradient(net, samples, epochs=40, lr=2e-2, callback=lambda e, loss, q: losses.append(loss))
    assert len(losses) == made.report.epochs == 40
    assert losses[-1] < 0.7 * losses[0]
    assert made.render().shape == (24, 20, 3)


def test_a_convex_fit_reaches_the_closed_form(generator):
    """Complex and linear by gradient descends to the least-squares residual.

    The condition is about 12 and the arithmetic float64: Adam arrives within 400 epochs, to about 1e-10.
    """
    signal = torch.rand(10, 10, 1, generator=generator, dtype=torch.float64)
    samples = sample(signal, "full")
    encoding = ComplexEncoding.like(Gaussian, samples, features=4, sigma=0.1)
    best = (fit_closed_form(encoding, samples).render() - signal).square().mean()
    made = fit_gradient(CoordinateNetwork(encoding, Linear(), 1), samples, epochs=400, lr=5e-2, weight_decay=0.0)
    assert made.report.loss == pytest.approx(float(best), rel=1e-6)


def test_the_network_given_is_left_alone(photograph):
    samples = sample(photograph[:10, :10], "full")
    net = network(SimpleEncoding, MLP(1, 8), samples)
    before = net.state_dict()["first.weight"].clone()
    made = fit_gradient(net, samples, epochs=3)
    assert torch.equal(net.state_dict()["first.weight"], before)
    assert not any(p.requires_grad for p in made.network.parameters())


@pytest.mark.parametrize("kind", [SimpleEncoding, ComplexEncoding])
def test_minibatches_are_seeded(kind, photograph):
    samples = sample(photograph[:20, :20], "full")
    net = network(kind, MLP(1, 8), samples)
    runs = [
        fit_gradient(net, samples, epochs=3, batch=7, generator=torch.Generator().manual_seed(s)).render()
        for s in (1, 1, 2)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("batch", [None, 9])
@pytest.mark.parametrize("kind", [SimpleEncoding, ComplexEncoding])
def test_little_memory_makes_the_same_steps_in_parts(kind, batch, photograph, generator):
    samples = sample(photograph[:20, :20].double(), "full")
    weights = torch.rand(20, 20, 1, generator=generator, dtype=torch.float64)
    samples = Samples(MaskedLattice((20, 20), weights=weights), samples.values)
    net = network(kind, MLP(1, 8), samples).double()

    def trained(memory):
        torch.manual_seed(0)
        fit = fit_gradient(net, samples, epochs=5, batch=batch, memory=memory, penalty=size)
        return fit.report.loss, fit.render()

    def size(net):
        return 1e-3 * sum(p.square().sum() for p in net.parameters())

    (loss, whole), (same, parts) = trained(2**30), trained(2**12)
    assert same == pytest.approx(loss, rel=1e-9)
    assert torch.allclose(parts, whole, atol=1e-9)


def test_it_descends_where_gradients_are_off(photograph):
    samples = sample(photograph[:8, :8], "full")
    net = network(*COMBINATIONS[0], samples)
    expected = fit_gradient(net, samples, epochs=3).render()
    with torch.no_grad():
        assert torch.equal(fit_gradient(net, samples, epochs=3).render(), expected)


def test_held_out_samples_stop_it(generator):
    """A basis that can fit noise exactly is stopped before it does."""
    signal = torch.rand(200, 1, generator=generator) * 0.2 + torch.linspace(0, 3, 200).sin().unsqueeze(-1)
    known = sample(signal, "every:2")
    held_out = sample(signal, "every:2+1")
    net = network(SimpleEncoding, MLP(2, 64), known, LogFourier)
    stopped = fit_gradient(net, known, epochs=400, lr=1e-2, held_out=held_out, patience=20)
    full = fit_gradient(net, known, epochs=400, lr=1e-2)
    assert stopped.report.epochs < 400

    def score(made):
        return psnr(made.render()[1::2], signal[1::2], data_range=1.0)

    assert score(stopped) > score(full)


def test_divergence_is_said():
    samples = sample(torch.rand(8, 8, 1), "full")
    with pytest.raises(FloatingPointError, match="`lr`: expected a learning rate at which the loss stays finite"):
        fit_gradient(network(SimpleEncoding, MLP(3, 16), samples), samples, lr=1e30, epochs=50)


def test_misfits_are_refused():
    samples = sample(torch.rand(8, 8, 1), "full")
    with pytest.raises(ValueError, match="`network`: expected 1 channels, the samples', received 3"):
        fit_gradient(network(SimpleEncoding, Linear(), sample(torch.rand(8, 8, 3), "full")), samples)
    with pytest.raises(ValueError, match="`network`: expected 2 dimensions"):
        fit_gradient(network(SimpleEncoding, Linear(), sample(torch.rand(8, 1), "full")), samples)
    with pytest.raises(ValueError, match="`epochs`"):
        fit_gradient(network(SimpleEncoding, Linear(), samples), samples, epochs=0)


def test_an_rff_mlp_beats_nearest_neighbour_on_a_photograph(capsys):
    image = load("astronaut")[40:104, 180:244]
    samples = sample(image, "every:2")
    encoding = SimpleEncoding.like(RandomFourier, samples, sigma=7.0, features=256)
    net = CoordinateNetwork(encoding, MLP(4, 128), 3)
    made = fit_gradient(net, samples, epochs=100, lr=8e-3, progress=True)
    held_out = ~samples.geometry.known(3)
    assert psnr(made.render(), image, held_out) > psnr(baselines.nearest(samples), image, held_out)
    bar = capsys.readouterr().err
    assert "100/100" in bar
    assert "fit PSNR" in bar
    assert bar.count("\r") >= 2  # its first and its last state, whatever the clock


def test_a_virtual_grid_descends_to_the_least_squares_of_its_blended_features(generator):
    """The twin has the rows of the dense matrix S (A ⊗ A), S being the blending matrix, of condition 12."""
    points = torch.rand(60, 2, generator=generator, dtype=torch.float64) * 0.9
    values = torch.rand(60, 2, generator=generator, dtype=torch.float64)
    samples = Samples(ScatteredPoints((8, 8), points, blending="similarity"), values)
    encoding = ComplexEncoding.like(Gaussian, samples, features=4, sigma=0.1)
    operator = Blending("similarity", samples.axes).interpolation(points, encoding.axis_encoders, torch.float64)
    matrix = operator(kron(encoding.matrices(samples.geometry.axes)).T.reshape(16, 8, 8)).T
    centred = values - values.mean(0)
    best = (matrix @ torch.linalg.lstsq(matrix, centred).solution - centred).square().mean()
    made = fit_gradient(CoordinateNetwork(encoding, Linear(), 2), samples, epochs=400, lr=5e-2, weight_decay=0.0)
    assert made.report.loss == pytest.approx(float(best), rel=1e-6)


@pytest.mark.parametrize("head", [Linear(), MLP(1, 8)])
def test_a_virtual_grid_is_evaluated_as_it_was_fitted(head, generator, tmp_path):
    """The last loss is that of the parameters before the last step, which a learning rate of 1e-12 does not move."""
    points = torch.rand(60, 2, generator=generator, dtype=torch.float64) * 0.9
    samples = Samples(ScatteredPoints((8, 8), points, blending="similarity"), points.cos())
    encoding = ComplexEncoding.like(Triangle, samples)
    fit = fit_gradient(CoordinateNetwork(encoding, head, 2), samples, epochs=1, lr=1e-12)
    assert float((fit(points) - samples.values).square().mean()) == pytest.approx(fit.report.loss, rel=1e-7)
    assert not torch.allclose(fit(points, exact=True), fit(points), atol=1e-3)
    fit.save(tmp_path / "fit.safetensors")
    again = Reconstruction.load(tmp_path / "fit.safetensors")
    assert torch.equal(again(points), fit(points)) and torch.equal(again.render(11), fit.render(11))
    assert torch.allclose(fit.render(11), fit(lattice_points(render_axes(11, (8, 8)))), atol=1e-12)


def test_blending_needs_a_complex_encoding():
    points = ScatteredPoints((10, 10), torch.rand(9, 2) * 0.9, blending="linear")
    samples = Samples(points, torch.rand(9, 3))
    with pytest.raises(ValueError, match="`blending`"):
        fit_gradient(network(SimpleEncoding, Linear(), samples), samples, epochs=1)
