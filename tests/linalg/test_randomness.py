"""Every public call that draws takes PyTorch's generators alone, and says so."""

import jaxtyping
import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.encodings.encoders import RandomFourier
from coordnet.linalg.machine import as_generator
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


def test_without_a_generator_the_seed_is_zero(generator):
    assert as_generator(generator) is generator
    first, second = (torch.rand(3, generator=as_generator(None)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(first, torch.rand(3, generator=torch.Generator().manual_seed(0)))
