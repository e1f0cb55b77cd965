"""Points outside the known ones, against their definition node by node, and those that are hidden beside them."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.gap_copies import OUTSIDE, beside, outside


def has_an_empty_orthant(known, at):
    places = np.argwhere(known)
    signs = product((-1, 1), repeat=known.ndim)
    return any(not (((places - at) * sign >= 0).all(1)).any() for sign in signs)


def drawn(shape, low, high, seed):
    """Points of a box that are known at random, at every tenth place unknown."""
    known = np.zeros(shape, dtype=bool)
    box = tuple(slice(a, a + max(1, b)) for a, b in zip(low, high, strict=True))
    known[box] = np.random.default_rng(seed).random(known[box].shape) < 0.9
    return known


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_outside_is_where_an_orthant_is_empty(data):
    dims = data.draw(st.integers(2, 3))
    shape = tuple(data.draw(st.integers(1, 9 if dims == 2 else 5)) for _ in range(dims))
    low, high = ([data.draw(st.integers(0, n - 1)) for n in shape] for _ in range(2))
    known = drawn(shape, low, high, data.draw(st.integers(0, 99)))
    expected = np.array([has_an_empty_orthant(known, at) for at in np.ndindex(shape)]).reshape(shape)
    found = outside(torch.from_numpy(known)[None])
    if expected.sum() > OUTSIDE * (~known).sum():
        assert found is not None
        np.testing.assert_array_equal(found[0], expected)
    else:
        assert found is None


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_nothing_is_outside_of_random_points_or_around_holes(share):
    points = torch.rand(1, 64, 64, generator=torch.Generator().manual_seed(0)) < share
    holes = torch.ones(1, 64, 64, dtype=torch.bool)
    holes[:, :9, 20:30] = holes[:, 40:, 50:60] = False
    assert outside(points) is None
    assert outside(holes) is None
    assert outside(points[:, 0]) is None  # a row


def test_points_as_deep_as_those_outside_are_hidden_beside_them():
    known = torch.zeros(1, 80, 80, dtype=torch.bool)
    known[:, 8:72, 8:72] = True
    outer = outside(known)
    assert outer is not None
    depths = set()
    for seed in range(8):
        hidden = beside(outer, known, torch.Generator().manual_seed(seed))[0].numpy()
        assert not (hidden & ~known[0].numpy()).any()
        nearest = cdist(np.argwhere(known[0].numpy()), np.argwhere(outer[0].numpy())).min(1)
        deepest = nearest[hidden[8:72, 8:72].ravel()].max()
        assert 5 <= deepest <= 8
        np.testing.assert_array_equal(hidden[8:72, 8:72].ravel(), nearest <= deepest)
        depths.add(deepest)
    assert len(depths) > 1


def test_at_most_half_of_the_known_points_are_hidden_beside_those_outside():
    weights = torch.zeros(1, 1, 60, 60)
    weights[..., 20:40, 20:40] = 1.0
    model = ForwardModel.mask(weights)
    assert model.hides_in_shape
    hidden = model.hide(0.1, torch.Generator().manual_seed(0), torch.rand(1, 1, 60, 60))
    assert hidden is not None
    assert 0.3 * 400 <= hidden.sum() <= 0.5 * 400 + 4 * 20
