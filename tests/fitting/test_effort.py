"""How long training takes is estimated from the work, and is said before it starts where it is long."""

import math

import pytest
import torch

import coordnet as cn
from coordnet._checks import CoordnetWarning
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.fit import choose
from coordnet.fitting.gradient import EPOCHS, LONGEST_TRAINING, default_epochs, epoch_seconds
from coordnet.networks.heads import Linear, Siren, Wire
from coordnet.priors.local import Local, parameters
from coordnet.priors.local.parameters import GPU
from tests.helpers import synthetic_photograph


def local_seconds(*arguments):
    return parameters.local_seconds(Local(), *arguments)


def network(samples, head, encoding=None):
    method = choose(samples, Gaussian, head=head, encoding=encoding, solver="gradient")
    return cn.CoordinateNetwork(method.encode(samples), head, samples.channels)


def sampled(side, pattern="random:0.25"):
    return cn.sample(torch.rand(side, side, 3), pattern)


def test_the_work_of_a_wide_layer_is_that_of_its_products():
    """Two hidden layers of 1,000 units: 10⁶ products a point between them, at 10⁻¹⁰ s each."""
    samples = sampled(32)
    more, less = (epoch_seconds(network(samples, cn.MLP(depth, 1000)), samples) for depth in (3, 2))
    assert more - less == pytest.approx(256 * (1e6 * 1e-10 + 1000 * 1e-8))
    assert epoch_seconds(network(samples, Wire()), samples) > 2.9 * epoch_seconds(network(samples, Siren()), samples)


def test_on_a_processor_the_epochs_fit_into_ten_minutes():
    small, large = sampled(32), sampled(256)
    assert default_epochs(network(small, Siren()), small) == EPOCHS
    slow = network(large, Siren())
    epochs = default_epochs(slow, large)
    assert epochs < EPOCHS
    assert 0.9 * LONGEST_TRAINING < epochs * epoch_seconds(slow, large) <= LONGEST_TRAINING
    linear = network(large, Linear(), "complex")
    assert default_epochs(linear, large) == EPOCHS  # mode products: the points are never visited one by one


def test_a_long_training_is_announced(monkeypatch):
    class Begun(Exception):
        pass

    def begin(*arguments, epochs, **options):
        raise Begun(epochs)

    monkeypatch.setattr("coordnet.fitting.fit.fit_gradient", begin)
    samples = sampled(64)
    announced = r"training takes about [\d.]+ hours on a processor"
    with pytest.warns(CoordnetWarning, match=announced), pytest.raises(Begun, match="1000000"):
        cn.fit(samples, head=Siren(), epochs=1_000_000)
    with pytest.raises(Begun, match="5"):
        cn.fit(samples, head=Siren(), epochs=5)


def test_a_comparison_announces_the_training_of_all_its_methods_before_the_first(monkeypatch):
    class Begun(Exception):
        pass

    def begin(*arguments, **options):
        raise Begun

    monkeypatch.setattr("coordnet.comparison.attempts._attempt", begin)
    image = synthetic_photograph(64, 64)[..., :1]
    each = epoch_seconds(network(sampled(64), Siren()), sampled(64))
    epochs = math.ceil(0.7 * LONGEST_TRAINING / each)  # one method alone stays below the bound
    options = {"heads": [Siren()], "epochs": epochs}
    with pytest.raises(Begun):
        cn.compare(image, "random:0.25", encoders=[Gaussian], **options)
    with pytest.warns(CoordnetWarning, match=r"training takes about 1[0-9] minutes"), pytest.raises(Begun):
        cn.compare(image, "random:0.25", encoders=[Gaussian, cn.Triangle], **options)


def test_the_seconds_of_a_local_prior_grow_with_the_points_and_with_the_square_of_what_a_patch_knows():
    """A solve with 32 of 64 known entries is 32²·64 products; at stride 2 there is a patch for each 4 points."""
    weights = torch.zeros(32, 64, 1)
    weights[:, ::2] = 1
    half, whole = (local_seconds(cn.MaskedLattice((32, 64), weights=w), 1) for w in (weights, torch.ones(32, 64, 1)))
    assert half - whole == pytest.approx(512 * 32**2 * 64 * 2e-9)
    assert whole == pytest.approx(2048 * 26e-6)
    assert local_seconds(cn.MaskedLattice((32, 64), weights=weights), 3) - half == pytest.approx(2 * 2048 * 12e-6)
    assert local_seconds(cn.MaskedLattice((32, 64), weights=weights), 1, "cuda") == pytest.approx(half / GPU)
    assert local_seconds(cn.Lattice((32, 64), (2, 2)), 3) == pytest.approx(2048e-5)
