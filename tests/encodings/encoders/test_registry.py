"""What every encoder promises."""

import inspect
import json
import math

import numpy as np
import pytest
import torch

from coordnet.encodings.encoders import Encoder, FourierFeatures
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis, lattice_points
from tests.helpers import SMALL_ENCODERS

AXES = [(Axis(12), Axis(9)), (Axis.every(25, 2, 1), Axis(4)), (Axis(1), Axis(2)), (Axis(7, -0.5, 0.2), Axis(3))]


def make(encoder, axes=AXES[0], **options):
    """An encoder for the first axis, or for all of them, with the same draws each time."""
    options.setdefault("generator", torch.Generator().manual_seed(0))
    return encoder.like(axes[0] if issubclass(encoder, Encoder) else axes, **options)


def positions(encoder, axes):
    return axes[0].points() if issubclass(encoder, Encoder) else lattice_points(axes)


def scattered(encoder, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    d = () if issubclass(encoder, Encoder) else (2,)
    return torch.rand(*shape, *d, dtype=dtype, generator=generator)


def test_defaults_suit_their_axes(encoder):
    for axes in AXES:
        psi = make(encoder, axes)
        a = psi(positions(encoder, axes))
        lattice = (axes[0].count,) if issubclass(encoder, Encoder) else tuple(axis.count for axis in axes)
        assert a.shape == (*lattice, psi.columns) and a.dtype == torch.float64, axes
        assert bool(torch.isfinite(a).all()), axes


def test_dtype_and_shape_follow_the_positions(encoder):
    psi = make(encoder)
    x = scattered(encoder, 3, 4, dtype=torch.float32)
    assert psi(x).shape == (3, 4, psi.columns)
    assert psi(x).dtype == torch.float32
    assert torch.allclose(psi(x.double()).float(), psi(x), atol=1e-4)
    assert torch.allclose(psi(x)[1, 2], psi(x[1, 2]), atol=1e-5)


def test_normalizing_divides_by_the_largest_row_norm(encoder):
    axes = (Axis(12), Axis(5))
    plain, normal = make(encoder, axes), make(encoder, axes, normalize=True)
    a = plain(positions(encoder, axes))
    assert torch.allclose(normal(positions(encoder, axes)), a / a.norm(dim=-1).max())


def test_configuration_rebuilds_it(encoder):
    psi = make(encoder, normalize=True, generator=torch.Generator().manual_seed(3))
    again = encoder(**json.loads(json.dumps(psi.configuration())))
    again.load_state_dict(psi.state_dict())
    x = scattered(encoder, 5)
    assert torch.equal(again(x), psi(x))


def test_positions_carry_gradients(encoder):
    psi = make(encoder, **SMALL_ENCODERS.get(encoder.name, {})).double()
    x = scattered(encoder, 3).requires_grad_()
    assert torch.autograd.gradcheck(psi, (x,))


def test_listing_is_complete(encoder):
    assert ENCODERS[encoder.name] is encoder
    assert encoder.summary
    for parameter in encoder.scales:
        assert parameter.meaning
        assert parameter.suited(1 / 64) > 0
    for option in encoder.options():
        assert option in inspect.getdoc(encoder) or option in ("padding", "learnable", "reflect")


def test_bad_scales_are_refused(scaled):
    first = scaled.scales[0]
    other = "0.5/px" if first.unit == "length" else "2px"
    for value in (-1.0, 0.0, math.nan, math.inf, "wide", other, "-1px"):
        with pytest.raises(ValueError, match=f"`{first.name}`: expected"):
            make(scaled, **{first.name: value})


def test_scales_below_their_least_are_refused(scaled):
    """f_max below 1, and whatever else has a least value."""
    for parameter in scaled.scales:
        if parameter.least:
            value = 0.9 * parameter.least
            with pytest.raises(ValueError, match=f"`{parameter.name}`: expected at least .*received {value}"):
                make(scaled, **{parameter.name: value})


def test_odd_features_are_refused_where_pairs_are_needed(encoder):
    if issubclass(encoder, FourierFeatures):
        with pytest.raises(ValueError, match="`features`: expected an even number.*received 5"):
            make(encoder, features=5)
    elif encoder.name not in ("identity", "hash-grid", "learnable-fourier"):  # these ask for other numbers
        assert make(encoder, features=5).features == 5


def test_rescaled_is_built_with_the_other_scale(scaled):
    for learnable in (False, True):
        psi = make(scaled, learnable=learnable)
        other = psi.rescaled(2.5)
        for parameter in scaled.scales:
            value = psi.scale(parameter.name)
            values = tuple(2.5 * v for v in (value if isinstance(value, tuple) else (value,)))
            found = other.scale(parameter.name)
            assert (found if isinstance(found, tuple) else (found,)) == pytest.approx(values)
            changed = {parameter.name: values if isinstance(value, tuple) else values[0]}
            rebuilt = scaled(**{**psi.configuration(), **changed}, generator=torch.Generator().manual_seed(0))
        x = scattered(scaled, 6)
        assert torch.allclose(other(x), rebuilt(x), atol=1e-12)
        assert other.learnable is learnable
        assert not torch.allclose(other(x), psi(x))
        floor = psi.rescaled(1e-9)
        assert all(min(np.atleast_1d(floor.scale(p.name))) >= p.least for p in scaled.scales)
    with pytest.raises(ValueError, match="`factor`: expected a positive"):
        psi.rescaled(0.0)


def test_bad_arguments_are_refused(encoder):
    for features in (0, -2):
        with pytest.raises(ValueError, match="`features`: expected"):
            make(encoder, features=features)
    with pytest.raises(ValueError, match="`gain`: expected a positive"):
        encoder(**{**make(encoder).configuration(), "gain": 0.0})
    with pytest.raises(ValueError, match=f"`color`: expected a parameter of the {encoder.name} encoder"):
        make(encoder, color=1)


def test_learnable_starts_from_the_fixed_values(scaled):
    fixed, trained = make(scaled), make(scaled, learnable=True)
    x = scattered(scaled, 20)
    assert torch.allclose(fixed(x), trained(x), atol=1e-12)
    for parameter in scaled.scales:
        assert trained.scale(parameter.name) == pytest.approx(fixed.scale(parameter.name), rel=1e-12)
        assert getattr(trained, f"log_{parameter.name}").requires_grad
    features = trained(x + 0.013)
    weights = torch.randn(features.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (features * weights).sum().backward()
    for parameter in scaled.scales:
        gradient = getattr(trained, f"log_{parameter.name}").grad
        assert bool(torch.isfinite(gradient).all())
        assert float(gradient.abs().max()) > 0


def test_draws_follow_the_generator(encoder):
    if not encoder.random:
        pytest.skip("draws nothing")
    first, second, third = (make(encoder, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    x = scattered(encoder, 9)
    assert torch.equal(first(x), second(x))
    assert not torch.allclose(first(x), third(x), atol=1e-9)
