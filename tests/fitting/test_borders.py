"""Borders without samples beside a random mask: known strips stand for them where errors are met."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.fitting.uncertainty.folds import SampleTable, strips_like_borders


def random(shape, share=0.5):
    return np.random.default_rng(0).random(shape) < share


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("gap", [slice(0, 12), slice(28, 40)])
def test_strips_are_as_wide_as_the_border_and_at_both_ends_of_what_is_known(axis, gap):
    known = random((40, 40))
    np.moveaxis(known, axis, 0)[gap] = False
    strips = [np.moveaxis(strip, axis, 0) for strip in strips_like_borders(known)]
    left = [slice(12, 24), slice(28, 40)] if gap.start == 0 else [slice(0, 12), slice(16, 28)]
    for strip, part in zip(strips, left, strict=True):
        expected = np.zeros((40, 40), bool)
        expected[part] = np.moveaxis(known, axis, 0)[part]
        np.testing.assert_array_equal(strip, expected)


def test_random_masks_have_no_border():
    assert strips_like_borders(random((30, 30), 0.1)) == strips_like_borders(random(300, 0.3)) == []


def test_folds_of_a_random_mask_with_a_border_hide_strips_beside_a_fifth():
    known = random((24, 40))
    known[:, 28:] = False
    samples = cn.sample(torch.zeros(24, 40, 1), torch.from_numpy(known).float())
    table = SampleTable(samples)
    folds = [fold.reshape(24, 40) for fold in table.folds()]
    assert table.is_in_shape and np.logical_or.reduce(folds)[known].all()
    for k, fold in enumerate(folds):
        part = slice(16, 28) if k % 2 else slice(0, 12)
        np.testing.assert_array_equal(fold[:, part], known[:, part])
        assert 0.05 < fold.sum() / known.sum() - known[:, part].sum() / known.sum() < 0.2


def test_intervals_cover_what_is_extrapolated_over_a_border():
    """A random walk along the rows leaves its last value by more and more."""
    walk = torch.from_numpy(np.random.default_rng(1).normal(size=(40, 40)).cumsum(1))[..., None]
    known = random((40, 40))
    known[:, 28:] = False
    fit = cn.fit(cn.sample(walk, torch.from_numpy(known).double()), prior=cn.ThinPlate(2, 1.0))
    lower, upper = fit.interval()
    inside = ((lower <= walk) & (walk <= upper))[:, 28:]
    assert float(inside.double().mean()) > 0.75
