"""How far a denoiser is trusted in gaps, by hidden samples and by what it changes elsewhere."""

import pytest
import torch

from coordnet.plans.hold_out import HeldOut
from coordnet.priors.denoiser.trust import BLOCK, MOST_STEP, blocks, weight_at_hidden, weight_at_unknown
from coordnet.priors.local.weights import least_squares_weight, share_deviation

SIDE = 6 * BLOCK


def held_out(hidden, truth, estimate):
    """An estimate of hidden entries where all others are shown."""
    return HeldOut((slice(0, SIDE), slice(0, SIDE)), truth, ~hidden, hidden, estimate)


def in_blocks(generator):
    """A field that is constant in blocks."""
    return (
        torch.randn(1, SIDE // BLOCK, SIDE // BLOCK, generator=generator)
        .repeat_interleave(BLOCK, 1)
        .repeat_interleave(BLOCK, 2)
    )


@pytest.fixture
def hole():
    hidden = torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    hidden[:, :, : 2 * BLOCK] = True
    return hidden


def test_errors_that_are_alike_in_a_hole_count_once_a_block(hole, generator):
    """The steps have nothing to do with the errors, which 768 independent ones would show but for chance."""
    weights, counted = [], []
    for _ in range(100):
        error, step = in_blocks(generator), in_blocks(generator)
        known = held_out(hole, torch.zeros_like(error), error)
        weights.append(weight_at_hidden(known, error + step, has_noise=False))
        counted.append(least_squares_weight(known.errors(error), known.errors(error + step), 1))
    assert sum(counted) > 8
    assert sum(weights) < sum(counted) / 2


def test_a_hole_in_one_block_gives_no_weight_and_the_truth_has_all_of_it(hole, generator):
    truth, error = torch.zeros(1, SIDE, SIDE), torch.randn(1, SIDE, SIDE, generator=generator)
    assert weight_at_hidden(held_out(hole, truth, error), truth, has_noise=False) == 1
    small = torch.zeros_like(hole)
    small[:, :BLOCK, :BLOCK] = True
    assert weight_at_hidden(held_out(small, truth, error), truth, has_noise=False) == 0


def test_a_weight_in_holes_is_lowered_by_its_variance_and_that_at_single_samples_is_not(hole, generator):
    truth, error, step = torch.randn(3, 1, SIDE, SIDE, generator=generator)
    second = truth + 0.4 * error + 0.8 * step
    single = torch.rand(1, SIDE, SIDE, generator=generator) < 0.3
    for hidden, lowers in ((hole, True), (single, False)):
        known = held_out(hidden, truth, truth + error)
        errors = known.errors(known.estimate), known.errors(second)
        share, number = least_squares_weight(*errors, 1), blocks(hidden)
        variance = share_deviation(*errors, share, number) ** 2 * len(number.unique()) / (len(number.unique()) - 1)
        expected = share - variance / share if lowers else share
        assert weight_at_hidden(known, second, has_noise=False) == pytest.approx(expected, rel=1e-6)
        assert 0 < expected < 1


def test_channels_share_blocks_and_frames_do_not():
    hidden = torch.zeros(2, 3, 2 * BLOCK, BLOCK, dtype=torch.bool)
    hidden[:, 0, :BLOCK] = hidden[:, 2, 0, 0] = hidden[0, 2, BLOCK, 0] = True
    number = blocks(hidden)
    assert number.shape == (int(hidden.sum()),) and number.unique().tolist() == [0, 1, 2]
    assert (number == 0).sum() == 2 * BLOCK**2 and (number == 1).sum() == 2 and (number == 2).sum() == 1


def test_steps_far_larger_than_those_that_were_judged_lower_the_weight():
    hidden = torch.ones(10)
    assert weight_at_unknown(0.8, hidden, MOST_STEP**0.5 * torch.ones(4)) == pytest.approx(0.8)
    assert weight_at_unknown(0.8, hidden, (4 * MOST_STEP) ** 0.5 * torch.ones(4)) == pytest.approx(0.2)
    assert weight_at_unknown(0.8, 0 * hidden, torch.ones(4)) == 0
    assert weight_at_unknown(0.8, hidden, torch.zeros(4)) == 0.8
