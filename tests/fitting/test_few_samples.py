"""Few samples are fitted by plain plates in the plane, and by kriging in rows."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.priors.stack.hidden_errors import stacked_weights


def filled(signal, known):
    """Return the fit of some values of an array, on all of it."""
    samples = cn.sample(torch.from_numpy(signal)[..., None], torch.from_numpy(known), dimensions=signal.ndim)
    return cn.fit(samples).render(alignment="sample").numpy()[..., 0]


def some(shape, count):
    known = np.zeros(shape)
    known.flat[np.random.default_rng(count).permutation(known.size)[:count]] = 1.0
    return known


@pytest.mark.parametrize("count", [2, 5, 17, 25])
def test_a_ramp_of_few_samples_is_a_ramp(count):
    ramp = np.linspace(-1, 1, 60)
    np.testing.assert_allclose(filled(ramp, some(60, count)), ramp, atol=1e-10)


@pytest.mark.parametrize("count", [6, 12])
def test_a_parabola_of_few_samples_is_a_parabola(count):
    """Every second of its samples is met by the plate of order 3, of which it has no energy, through the others."""
    parabola = np.square(np.linspace(-1, 1, 60))
    np.testing.assert_allclose(filled(parabola, some(60, count)), parabola, atol=1e-9)


def test_a_plane_of_few_samples_is_a_plane():
    plane = np.add.outer(np.linspace(-1, 1, 20), np.linspace(0, 3, 20))
    np.testing.assert_allclose(filled(plane, some((20, 20), 8)), plane, atol=1e-9)


def test_one_sample_is_a_constant():
    np.testing.assert_array_equal(filled(np.arange(9.0), some(9, 1)), np.full(9, some(9, 1) @ np.arange(9.0)))


def test_a_step_of_few_samples_has_no_swings():
    """A natural cubic spline leaves the range of the samples by a fifth."""
    at = np.array([2, 9, 11, 20, 23, 30, 31, 40, 44, 52, 57])
    step, known = (np.arange(60) > 30.0).astype(float), np.isin(np.arange(60), at).astype(float)
    found = filled(step, known)
    assert -0.05 < found.min() and found.max() < 1.05


def test_hidden_samples_that_one_candidate_meets_to_rounding_give_it_all_weight():
    errors = np.array([1e-17 * np.ones(8), np.arange(8.0), np.arange(8.0) + 1e-9]).T
    np.testing.assert_array_equal(stacked_weights(errors.T @ errors / 8, 8), [1, 0, 0])
