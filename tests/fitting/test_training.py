"""The steps of a training, called by loops of one's own."""

import inspect
import textwrap
from functools import partial

import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR

import coordnet as cn
from coordnet.encodings.encoders import RandomFourier
from coordnet.networks.heads import Linear


@pytest.fixture
def samples(photograph):
    return cn.sample(photograph[:20, :18], "random:0.5")


@pytest.fixture
def network(samples):
    encoding = cn.SimpleEncoding.like(RandomFourier, samples, features=16)
    return cn.CoordinateNetwork(encoding, cn.MLP(1, 16))


def test_the_loop_of_the_docstring_runs(samples, network, photograph):
    text = inspect.getdoc(cn.Training).split("::\n\n")[1].split("\n\n")[0]
    assert len(text.splitlines()) <= 13
    hidden = cn.sample(photograph[:20, :18], ~samples.geometry.known(1)[..., 0])
    names = {"cn": cn, "torch": torch, "network": network, "samples": samples, "hidden": hidden}
    exec(textwrap.dedent(text).replace("500", "30").replace("4096", "64"), names)
    fit = names["fit"]
    start = cn.Training(network, samples).reconstruction()
    assert error(fit, samples) < 0.5 * error(start, samples)
    assert not any(p.requires_grad for p in fit.parameters())


def error(fit, samples):
    known = samples.geometry.known(3)
    return float((fit.render() - samples.values)[known].square().mean())


@pytest.mark.parametrize("batch", [None, 50])
def test_a_loop_is_fit_gradient(samples, network, batch):
    torch.manual_seed(1)
    expected = cn.fit_gradient(network, samples, epochs=4, lr=0.01, batch=batch)
    torch.manual_seed(1)
    training = cn.Training(network, samples)
    optimizer = torch.optim.Adam(training.network.parameters(), lr=0.01, weight_decay=1e-8)
    for _ in range(4):
        for step in training.batches(batch):
            optimizer.zero_grad()
            training.backward(step)
            optimizer.step()
    assert torch.equal(training.reconstruction().render(), expected.render())


def test_parts_add_up_to_the_gradient_of_the_loss(samples, network):
    whole, parts = cn.Training(network, samples), cn.Training(network, samples, memory=2000)
    loss = whole.loss()
    loss.backward()
    assert len(parts._parts(slice(None))) > 3
    assert parts.backward() == pytest.approx(float(loss.detach()), rel=1e-6)
    for a, b in zip(whole.network.parameters(), parts.network.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.allclose(a.grad, b.grad, atol=1e-7)


def test_any_optimizer_and_scheduler_go(samples, network):
    rates = []

    def decayed(optimizer):
        rates.append(optimizer.param_groups[0])
        return ExponentialLR(optimizer, gamma=0.5)

    options = {"optimizer": partial(torch.optim.SGD, lr=0.3, momentum=0.9), "scheduler": decayed}
    fit = cn.fit_gradient(network, samples, epochs=3, **options)
    assert fit.report.method == "SGD"
    assert fit.report.learning_rate == 0.3
    assert rates[0]["lr"] == pytest.approx(0.3 / 8)


def test_a_callback_stops(samples, network):
    fit = cn.fit_gradient(network, samples, epochs=9, callback=lambda epoch, loss, quality: epoch == 4)
    assert fit.report.epochs == 4


def test_early_stopping_returns_to_the_best_state(samples, network, photograph):
    training = cn.Training(network, samples)
    hidden = cn.sample(photograph[:20, :18], ~samples.geometry.known(1)[..., 0])
    stopping = cn.EarlyStopping(training, hidden, patience=2)
    assert not stopping.after_epoch()
    best = training.reconstruction().render()
    for parameter in training.network.parameters():
        parameter.data.mul_(5)
    assert not stopping.after_epoch()
    assert stopping.after_epoch()
    assert torch.equal(training.reconstruction().render(), best)
    with pytest.raises(ValueError, match="`patience`"):
        cn.EarlyStopping(training, hidden, patience=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # PyTorch's own forward derivatives
def test_the_laplacian_of_a_network_can_be_trained():
    """A harmonic function from its values at the border, by a penalty of its Laplacian."""
    torch.manual_seed(0)
    side = torch.linspace(0, 1, 12)[:-1]
    border = torch.cat(
        [torch.stack([side, torch.full_like(side, c)], -1)[:, [i, 1 - i]] for c in (0.0, 0.95) for i in (0, 1)]
    )
    harmonic = cn.Samples(cn.ScatteredPoints((16, 16), border), (border[:, :1] ** 2 - border[:, 1:] ** 2))
    network = cn.CoordinateNetwork(cn.SimpleEncoding([cn.encoders.Identity()] * 2), cn.heads.Siren(2, 32, omega=4.0), 1)

    def laplacian(network):
        second = torch.func.vmap(torch.func.hessian(lambda x: network(x)[0]))(torch.rand(64, 2))
        return 1e-2 * second.diagonal(dim1=-2, dim2=-1).sum(-1).square().mean()

    inside = torch.rand(200, 2) * 0.9
    truth = inside[:, :1] ** 2 - inside[:, 1:] ** 2
    errors = []
    for penalty in (None, laplacian):
        fit = cn.fit_gradient(network, harmonic, epochs=100, lr=5e-3, penalty=penalty)
        errors.append(float((fit(inside) - truth).square().mean().sqrt()))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(("a", "b"), [(1e8, 3e8), (1e-8, -2.0)])
@pytest.mark.parametrize(("kind", "head"), [(cn.SimpleEncoding, cn.MLP(1, 8)), (cn.ComplexEncoding, Linear())])
def test_values_of_any_magnitude_are_learned_alike(kind, head, a, b, photograph, tmp_path):
    """The fit to a y + b is a times that to y, plus b, before and after it was saved."""
    y = photograph[:12, :10].double()
    known = torch.rand(12, 10, generator=torch.Generator().manual_seed(0)) < 0.6
    y = (y - y[known].min()) / (y[known].max() - y[known].min())
    samples, hidden, large, large_hidden = (cn.sample(v, m) for v in (y, a * y + b) for m in (known, ~known))
    encoding = kind.like(cn.Gaussian, samples, features=6)
    network = cn.CoordinateNetwork(encoding, head, generator=torch.Generator().manual_seed(0))
    expected = cn.fit_gradient(network, samples, epochs=20, lr=0.02, held_out=hidden)
    fit = cn.fit_gradient(network, large, epochs=20, lr=0.02, held_out=large_hidden)
    fit.save(tmp_path / "model.safetensors")
    for made in (fit, cn.Reconstruction.load(tmp_path / "model.safetensors")):
        assert torch.allclose((made.render() - b) / a, expected.render(), rtol=0, atol=1e-6)
    assert fit.report.loss == pytest.approx(a**2 * expected.report.loss, rel=1e-5)
    assert expected.report.loss < 0.8 * float((y - y.mean((0, 1)))[known].square().mean())
