"""Every public call that draws takes PyTorch's generators alone, and says so."""

import jaxtyping
import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.encodings import ModulatedEncoding
from coordnet.encodings.encoders import RandomFourier
from coordnet.linalg.machine import as_generator
from coordnet.plots.published import figure_3, figure_6, figure_similarity
from coordnet.sampling.operators.measuring import Blur

PICTURE = torch.linspace(0, 1, 12).expand(12, 12).unsqueeze(-1)
SAMPLES = cn.sample(PICTURE, "random:0.5")


def network(**options):
    return cn.CoordinateNetwork(cn.ComplexEncoding.like(cn.Gaussian, SAMPLES), cn.MLP(depth=1, width=4), 1, **options)


CALLS = {
    "sample at random": lambda g: cn.sample(PICTURE, "random:0.5", generator=g),
    "sample a lattice": lambda g: cn.sample(PICTURE, "every:2", generator=g),
    "encoder": lambda g: RandomFourier(8, 2.0, generator=g),
    "network": lambda g: network(generator=g),
    "fit_gradient": lambda g: cn.fit_gradient(network(), SAMPLES, epochs=1, generator=g),
    "compare": lambda g: cn.compare(PICTURE, "random:0.5", encoders=[cn.Gaussian], generator=g),
    "draw": lambda g: cn.fit(SAMPLES, prior=cn.Smoothness()).draw(1, generator=g),
    "measurements": lambda g: cn.Measurements.of(Blur(torch.ones(3, 3) / 9, (12, 12)), PICTURE, sigma=0.1, generator=g),
}


@pytest.mark.parametrize("given", [5, "x", np.random.default_rng(0)], ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_source_of_randomness_is_refused(call, given, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no annotations executed
    with pytest.raises(ValueError, match="^`generator`: expected a torch.Generator, received "):
        call(given)


def test_without_a_generator_torch_has_the_seed(generator):
    assert as_generator(generator) is generator
    assert as_generator(None) is torch.default_generator


DRAWN = {
    "sample": lambda: cn.sample(PICTURE, "random:0.5").values,
    "encoder": lambda: RandomFourier(8, 2.0).frequencies,
    "network": lambda: network().first.weight,
    "modulator": lambda: ModulatedEncoding(cn.SimpleEncoding([RandomFourier(8, 2.0)]), 6).modulator[0].weight,
    "minibatches": lambda: cn.fit_gradient(fixed, SAMPLES, epochs=2, batch=5).render(),
    "draw": lambda: cn.fit(SAMPLES, prior=cn.Smoothness()).draw(1),
}
fixed = network(generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_manual_seed_governs(draw):
    torch.manual_seed(3)
    first, second = draw(), draw()
    assert first.shape != second.shape or not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(draw(), first)


def test_figures_and_benches_have_seeds_of_their_own():
    numbers = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        numbers.append([figure_3(32)[1], figure_6()[1], figure_similarity(8, 2)[1]])
    assert repr(numbers[0]) == repr(numbers[1])


def test_the_command_has_its_own_seed(run):
    torch.manual_seed(5)
    options = ("reconstruct", "camera", "--size", "24x24", "--quiet", "--head", "mlp:depth=1,width=4", "--epochs", 2)
    made = []
    for _ in range(2):
        assert run(*options, "--encoder", "rff", "--encoding", "simple", "--out", str(len(made)))[0] == 0
        made.append(cn.Reconstruction.load(f"{len(made)}/model.safetensors").render())
    assert torch.equal(*made)
